package embedded

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// maxSpansBody bounds an OTLP request after decompression.
const maxSpansBody = 64 << 20

// exportSpans answers POST /otel/v1/traces: protobuf or JSON, gzipped or not,
// written in one transaction. One bad span rejects the whole request. The
// answer is a queue job, as Langfuse answers, not an OTLP response. Langfuse 3
// answers so even where it then drops the request because of a bad span.
func (s *Server) exportSpans(c *call) (reply, error) {
	if err := checkIngestionVersion(c.r.Header.Get("x-langfuse-ingestion-version")); err != nil {
		return reply{}, err
	}
	decode, err := spanDecoder(c.r.Header.Get("Content-Type"))
	if err != nil {
		return reply{}, err
	}
	body, err := readSpans(c, s.maxSpans)
	if err != nil {
		return reply{}, err
	}
	batches, err := decode(body)
	now := s.now()
	queued := object{"id": uuid.NewString(), "name": "otel-ingestion-job", "timestamp": iso(now),
		"data": object{"authCheck": object{"projectId": s.cfg.ProjectID}}}
	var bad *rejection
	if errors.As(err, &bad) && s.cfg.Mode == ModeV3 {
		return ok(queued) // and all of it is lost
	}
	if err != nil {
		return reply{}, spanFault(http.StatusBadRequest, err.Error())
	}
	if len(batches) == 0 {
		return ok(object{})
	}
	for i := range batches {
		batches[i].spans = slices.DeleteFunc(batches[i].spans, func(sp span) bool { return s.cfg.drops(DropSpan, sp.id) })
	}
	err = s.later(s.cfg.IngestionDelay, func(tx *transaction) error { return writeSpans(tx, s.cfg, batches, now) })
	if err != nil {
		return reply{}, err
	}
	return ok(queued)
}

// writeSpans stores the spans of a request, and what they say of their traces
// where traces are kept.
func writeSpans(tx *transaction, cfg Config, batches []batch, now int64) error {
	w, err := newSpanWriter(tx, cfg)
	if err != nil {
		return err
	}
	for _, b := range batches {
		for _, sp := range b.spans {
			o := observe(b, sp, now)
			if cfg.Mode.legacy() {
				o.legacyMetadata = legacyMetadata(b, sp.attributes, "langfuse.observation.metadata")
				if err := storeTrace(tx, traceOf(b, sp, o)); err != nil {
					return err
				}
			}
			if err := w.write(o); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkIngestionVersion(header string) error {
	if header == "" {
		return nil
	}
	n, err := strconv.ParseFloat(header, 64)
	if err != nil || n != n || n > 4 {
		return spanFault(http.StatusBadRequest, fmt.Sprintf("Unsupported x-langfuse-ingestion-version: %s", clip(header, 100)))
	}
	return nil
}

func spanDecoder(contentType string) (func([]byte) ([]batch, error), error) {
	switch {
	case strings.Contains(contentType, "application/x-protobuf"):
		return decodeProtobuf, nil
	case strings.Contains(contentType, "application/json"):
		return decodeSpansJSON, nil
	}
	return nil, spanFault(http.StatusBadRequest, "Invalid content type: use application/x-protobuf or application/json")
}

// readSpans reads and unpacks a body. Neither form may exceed the limit, so a
// small archive cannot unfold into more.
func readSpans(c *call, limit int64) ([]byte, error) {
	body, err := readLimited(c.r.Body, limit)
	if err != nil || !strings.EqualFold(c.r.Header.Get("Content-Encoding"), "gzip") {
		return body, err
	}
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, spanFault(http.StatusBadRequest, "Failed to decompress the request body: "+err.Error())
	}
	return readLimited(zr, limit)
}

func readLimited(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, spanFault(http.StatusBadRequest, "Failed to read the request body: "+err.Error())
	}
	if int64(len(body)) > limit {
		return nil, plain(http.StatusRequestEntityTooLarge, "Body exceeded 64mb limit")
	}
	return body, nil
}

// spanFault is an error of this route: JSON without the usual message.
func spanFault(status int, text string) *fault {
	return &fault{status: status, body: object{"error": text}}
}

// batch is the spans of one resource and scope.
type batch struct {
	resource                attributes
	scopeName, scopeVersion string
	spans                   []span
}

// span is one span as it was sent, in whichever encoding. Instants are
// nanoseconds; zero is an absent one.
type span struct {
	trace, id, parent, name string
	start, end              int64
	failed                  bool
	message                 string
	attributes              attributes
}

// attributes holds string, bool, json.Number, float64, int64, []any and
// map[string]any.
type attributes map[string]any

// rejection counts what is wrong with the spans of a request.
type rejection struct {
	total  int
	causes []string
	counts map[string]int
}

func (r *rejection) add(cause string) {
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	if r.counts[cause] == 0 {
		r.causes = append(r.causes, cause)
	}
	r.counts[cause]++
}

// err returns the rejection where there is something to reject.
func (r *rejection) err() error {
	if len(r.causes) == 0 {
		return nil
	}
	return r
}

// Error names the causes and how many spans each concerns.
func (r *rejection) Error() string {
	bad, parts := 0, make([]string, 0, len(r.causes))
	for _, cause := range r.causes {
		bad += r.counts[cause]
		parts = append(parts, fmt.Sprintf("%d with %s", r.counts[cause], cause))
	}
	return fmt.Sprintf("Rejected the export: %d of %d spans are invalid: %s", bad, r.total, strings.Join(parts, ", "))
}
