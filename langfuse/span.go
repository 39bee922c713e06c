package langfuse

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"

	"extraction-experiment/internal/textutil"
)

// MaxSpanBytes is the maximum size of one span in bytes. Servers store spans of up to 10 MB
// completely and log a warning from 9.5 MB on.
const MaxSpanBytes = 9 << 20

// Limits for one request of ExportSpans. Common reverse proxies accept requests of this size.
const (
	DefaultBatchBytes = 4 << 20
	DefaultBatchSpans = 512
)

// Span is one completed step of a trace, which Langfuse calls an observation. If a span is sent
// again, it must be unchanged, especially its start time; otherwise the server stores two. New
// ids are 16 (trace) and 8 (span) bytes of crypto/rand, or of a hash, in encoding/hex.
type Span struct {
	TraceID  string // 32 lower-case hexadecimal digits, not all zero
	SpanID   string // 16 lower-case hexadecimal digits, not all zero
	ParentID string // like SpanID, or empty for the root
	Name     string
	Start    time.Time
	End      time.Time
	// Attributes contain the data of the observation. Keys must be unique.
	Attributes    []Attribute
	Failed        bool // sets the status to ERROR; otherwise there is no status
	StatusMessage string
}

// Attribute is a key with a value, created by TextAttribute or IntAttribute. These are the usual
// keys; https://langfuse.com/integrations/native/opentelemetry lists all under "property mapping":
//
//	langfuse.observation.type            span, generation, event, tool, …
//	langfuse.observation.input           JSON or text
//	langfuse.observation.output          JSON or text
//	langfuse.observation.metadata        a JSON object
//	langfuse.observation.model.name      of a generation
//	langfuse.observation.usage_details   tokens: {"input": 900, "output": 42}
//	langfuse.observation.cost_details    USD: {"total": 0.003}
//	langfuse.trace.name, user.id, session.id, langfuse.environment: on every span of the trace
type Attribute struct {
	Key      string
	text     string
	number   int64
	isNumber bool
}

// TextAttribute returns an attribute with a text value. Langfuse expects a text for nearly all
// keys, including those with JSON values.
func TextAttribute(key, value string) Attribute { return Attribute{Key: key, text: value} }

// IntAttribute returns an attribute with an integer value, for example the version of a prompt.
func IntAttribute(key string, value int64) Attribute {
	return Attribute{Key: key, number: value, isNumber: true}
}

// Validate returns all reasons why a server would reject the span, or accept the request and
// lose the span. v3 responds with 200 to a batch with one invalid span and stores none of its
// spans.
func (s Span) Validate() error {
	const hexadecimal = "%s id %q: %d lower-case hexadecimal digits are needed, not all zero"
	var found textutil.Problems
	found.Add(!isID(s.TraceID, 32), hexadecimal, "trace", textutil.Cut(s.TraceID, 80), 32)
	found.Add(!isID(s.SpanID, 16), hexadecimal, "span", textutil.Cut(s.SpanID, 80), 16)
	found.Add(s.ParentID != "" && !isID(s.ParentID, 16), hexadecimal+", or nothing", "parent", textutil.Cut(s.ParentID, 80), 16)
	found.Add(s.ParentID != "" && s.ParentID == s.SpanID, "it is its own parent")
	found.Add(s.Name == "" || !utf8.ValidString(s.Name), "a name in UTF-8 is needed")
	found.Add(!utf8.ValidString(s.StatusMessage), "the status message is not UTF-8")
	found.Add(!fitsNanoseconds(s.Start) || !fitsNanoseconds(s.End), "start and end must lie between 1970 and 2262")
	found.Add(s.End.Before(s.Start), "it ends before it starts")
	found.Add(s.size() > MaxSpanBytes, "its %d bytes are more than the %d a server keeps: %w", s.size(), MaxSpanBytes, ErrTooLarge)
	for i, attribute := range s.Attributes {
		if problem := attribute.problem(s.Attributes[:i]); problem != "" {
			found.Add(true, "attribute %q: %s", attribute.Key, problem)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("span %q (%s): %w", textutil.Cut(s.Name, 80), textutil.Cut(s.SpanID, 80), errors.Join(found...))
}

// problem describes what is wrong with an attribute that follows others, or returns "".
func (a Attribute) problem(before []Attribute) string {
	switch {
	case slices.ContainsFunc(before, func(other Attribute) bool { return other.Key == a.Key }):
		return "it appears twice"
	case a.Key == "" || !utf8.ValidString(a.Key):
		return "a key in UTF-8 is needed"
	case !utf8.ValidString(a.text):
		return "the text is not UTF-8"
	}
	return ""
}

// size returns an upper bound for the encoded length of the span in bytes: the length of the
// texts, plus a generous allowance for the tags, lengths and numbers of protobuf.
func (s Span) size() int {
	const perSpan, perPart = 128, 32
	total := perSpan + len(s.Name) + len(s.StatusMessage)
	for _, attribute := range s.Attributes {
		total += perPart + len(attribute.Key) + len(attribute.text)
	}
	return total
}

// splitSpans splits spans into batches for requests with at most the given number of bytes and
// spans.
func splitSpans(spans []Span, maxBytes, maxSpans int) iter.Seq[[]Span] {
	const envelope = 256 // bytes of a request in addition to its spans
	return batches(spans, maxBytes-envelope, maxSpans, Span.size)
}

// batches splits a list into batches with at most the given number of bytes and elements, in
// order. An element larger than maxBytes is a batch of its own. The batches share memory with the
// list.
func batches[T any](list []T, maxBytes, maxElements int, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		start, bytes := 0, 0
		for i, element := range list {
			n := size(element)
			if i > start && (bytes+n > maxBytes || i-start >= maxElements) {
				if !yield(list[start:i:i]) {
					return
				}
				start, bytes = i, 0
			}
			bytes += n
		}
		if start < len(list) {
			yield(list[start:])
		}
	}
}

// isID reports whether id is n lower-case hexadecimal digits, not all zero.
func isID(id string, n int) bool {
	return len(id) == n && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, "0") != ""
}

// fitsNanoseconds reports whether the time can be encoded as nanoseconds since 1970.
func fitsNanoseconds(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2262 }

// Scope identifies the program that created the spans.
type Scope struct {
	// Name is the name of the service and of the instrumentation scope. It should not begin
	// with "langfuse-sdk", which identifies the official SDKs.
	Name    string
	Version string
}

// maxInvalidSpans is the maximum number of invalid spans in one error.
const maxInvalidSpans = 10

// ExportSpans sends spans as compressed OTLP protobuf, marked for direct storage
// (x-langfuse-ingestion-version: 4). It splits them into sequential requests of at most
// DefaultBatchBytes and DefaultBatchSpans. If a span is invalid, it sends nothing, and the
// error lists up to ten invalid spans. Without spans it makes no request.
//
// A success means that the spans are queued. Retried with the same bytes, and safe to repeat.
// After a *ConnectionError the spans may or may not have arrived: send them again. Errors:
// those of Validate, *APIError (400: the server rejected a whole request; ErrTooLarge: send
// fewer spans at once), *ConnectionError.
//
// API: POST /api/public/otel/v1/traces
func (c *Client) ExportSpans(ctx context.Context, scope Scope, spans []Span) error {
	var invalid textutil.Problems
	for _, span := range spans {
		if err := span.Validate(); err != nil && len(invalid) < maxInvalidSpans {
			invalid = append(invalid, err)
		}
	}
	if len(invalid) > 0 {
		return usageError("nothing sent: %w", errors.Join(invalid...))
	}
	for batch := range splitSpans(spans, DefaultBatchBytes, DefaultBatchSpans) {
		if err := c.exportBatch(ctx, scope, batch); err != nil {
			return fmt.Errorf("exporting %s: %w", textutil.Counted(len(batch), "span"), err)
		}
	}
	return nil
}

// exportBatch sends spans in one request.
func (c *Client) exportBatch(ctx context.Context, scope Scope, spans []Span) error {
	r := post("otel/v1/traces")
	r.header = map[string]string{"Content-Type": "application/x-protobuf", "x-langfuse-ingestion-version": "4"}
	if c.config.Uncompressed {
		r.body = encodeSpans(nil, scope, spans)
	} else {
		r.header["Content-Encoding"] = "gzip"
		r.body = c.compressedSpans(scope, spans)
	}
	_, err := c.do(ctx, r, nil)
	return err
}

// encodeSpans encodes an OTLP export request as protobuf, reusing the memory of b. The same
// spans result in the same bytes. The field numbers are those of trace.proto: a request
// contains ResourceSpans (1) with a resource (1) and ScopeSpans (2) with a scope (1) and spans
// (2).
func encodeSpans(b []byte, scope Scope, spans []Span) []byte {
	resource := TextAttribute("service.name", scope.Name).proto(nil)
	encodedScope := appendBytes(nil, 1, appendText(appendText(nil, 1, scope.Name), 2, scope.Version))
	size := 0
	for _, span := range spans {
		size += span.size()
	}
	body := slices.Grow(b[:0], size+512)
	var encoded []byte
	for _, span := range spans {
		encoded = span.proto(encoded[:0])
		body = appendBytes(body, 2, encoded)
	}
	head := appendBytes(nil, 1, appendBytes(nil, 1, resource))
	head = append(appendLength(head, 2, len(encodedScope)+len(body)), encodedScope...)
	start := appendLength(nil, 1, len(head)+len(body))
	return slices.Insert(body, 0, append(start, head...)...)
}

// proto appends a valid span as an OTLP message Span.
func (s Span) proto(b []byte) []byte {
	const kindInternal, statusField, statusError = 1, 15, 2
	for i, id := range []string{s.TraceID, s.SpanID, s.ParentID} {
		if id != "" {
			b = appendLength(b, []protowire.Number{1, 2, 4}[i], len(id)/2)
			b, _ = hex.AppendDecode(b, []byte(id)) // Validate has checked the id
		}
	}
	b = appendText(b, 5, s.Name)
	b = protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), kindInternal)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 7, protowire.Fixed64Type), uint64(s.Start.UnixNano()))
	b = protowire.AppendFixed64(protowire.AppendTag(b, 8, protowire.Fixed64Type), uint64(s.End.UnixNano()))
	for _, attribute := range s.Attributes {
		b = attribute.proto(appendLength(b, 9, attribute.size()))
	}
	status := appendText(nil, 2, s.StatusMessage)
	if s.Failed {
		status = protowire.AppendVarint(protowire.AppendTag(status, 3, protowire.VarintType), statusError)
	}
	return appendBytes(b, statusField, status)
}

// proto appends an attribute as an OTLP message KeyValue with an AnyValue.
func (a Attribute) proto(b []byte) []byte {
	b = appendLength(appendText(b, 1, a.Key), 2, a.valueSize())
	if a.isNumber {
		return protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(a.number))
	}
	return protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), a.text)
}

// size returns the number of bytes that proto appends.
func (a Attribute) size() int {
	return protowire.SizeTag(1) + protowire.SizeBytes(len(a.Key)) + protowire.SizeTag(2) + protowire.SizeBytes(a.valueSize())
}

func (a Attribute) valueSize() int {
	if a.isNumber {
		return protowire.SizeTag(3) + protowire.SizeVarint(uint64(a.number))
	}
	return protowire.SizeTag(1) + protowire.SizeBytes(len(a.text))
}

// appendText appends a text field, or nothing if the text is empty.
func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

// appendLength appends the tag and the length of a field. The caller appends its bytes.
func appendLength(b []byte, number protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(length))
}

// appendBytes appends a message field.
func appendBytes(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}

// compressor compresses requests. It is reused because it takes 0.8 MB.
type compressor struct {
	gzip *gzip.Writer
	buf  []byte // the last uncompressed request
}

// compressedSpans returns the gzipped result of encodeSpans.
func (c *Client) compressedSpans(scope Scope, spans []Span) []byte {
	packer, ok := c.compressors.Get().(*compressor)
	if !ok {
		writer, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // fails only for an invalid level
		packer = &compressor{gzip: writer}
	}
	defer c.compressors.Put(packer)
	packer.buf = encodeSpans(packer.buf, scope, spans)
	out := bytes.NewBuffer(make([]byte, 0, len(packer.buf)/8))
	packer.gzip.Reset(out)
	_, _ = packer.gzip.Write(packer.buf) // neither fails, because out takes everything
	_ = packer.gzip.Close()
	return out.Bytes()
}
