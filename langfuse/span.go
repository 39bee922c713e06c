package langfuse

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"

	"extraction-experiment/internal/textutil"
)

// MaxSpanBytes is the most that one span may hold. Servers store spans of 10 MB
// whole and complain in their log from 9.5 MB on.
const MaxSpanBytes = 9 << 20

// Bounds of one export request that reverse proxies in front of a server
// commonly let pass.
const (
	DefaultBatchBytes = 4 << 20
	DefaultBatchSpans = 512
)

// Span is one finished step of a trace: an observation of Langfuse. A span is
// sent once, whole; sending it again must repeat it unchanged, the start above
// all, else the server keeps two.
type Span struct {
	TraceID  string // 32 lower-case hexadecimal digits, not all zero
	SpanID   string // 16 of them
	ParentID string // 16 of them, or empty for the root
	Name     string
	Start    time.Time
	End      time.Time
	// Attributes carry the observation: langfuse.observation.input and so on.
	// Keys are unique.
	Attributes    []Attribute
	Failed        bool // has the status ERROR, else none
	StatusMessage string
}

// Attribute is a key with a value, made by TextAttribute or IntAttribute.
type Attribute struct {
	Key      string
	text     string
	number   int64
	isNumber bool
}

// TextAttribute returns an attribute with a text, the form Langfuse wants for
// nearly all keys, JSON included.
func TextAttribute(key, value string) Attribute { return Attribute{Key: key, text: value} }

// IntAttribute returns an attribute with a whole number, as the version of a
// prompt must be.
func IntAttribute(key string, value int64) Attribute {
	return Attribute{Key: key, number: value, isNumber: true}
}

// Validate returns all reasons why a server would refuse the span or, worse,
// accept the request and lose it: v3 answers 200 to a batch with one bad span
// and stores none of it.
func (s Span) Validate() error {
	const hexadecimal = "%s id %q: %d lower-case hexadecimal digits are needed, not all zero"
	var found problems
	found.add(!isID(s.TraceID, 32), hexadecimal, "trace", textutil.Cut(s.TraceID, 80), 32)
	found.add(!isID(s.SpanID, 16), hexadecimal, "span", textutil.Cut(s.SpanID, 80), 16)
	found.add(s.ParentID != "" && !isID(s.ParentID, 16), hexadecimal+", or nothing", "parent", textutil.Cut(s.ParentID, 80), 16)
	found.add(s.ParentID != "" && s.ParentID == s.SpanID, "it is its own parent")
	found.add(s.Name == "" || !utf8.ValidString(s.Name), "a name in UTF-8 is needed")
	found.add(!utf8.ValidString(s.StatusMessage), "the status message is not UTF-8")
	found.add(!inNanoseconds(s.Start) || !inNanoseconds(s.End), "start and end must lie between 1970 and 2262")
	found.add(s.End.Before(s.Start), "it ends before it starts")
	found.add(s.size() > MaxSpanBytes, "its %d bytes are more than the %d a server keeps: %w", s.size(), MaxSpanBytes, ErrTooLarge)
	for i, attribute := range s.Attributes {
		if problem := attribute.problem(s.Attributes[:i]); problem != "" {
			found.add(true, "attribute %q: %s", attribute.Key, problem)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("span %q (%s): %w", textutil.Cut(s.Name, 80), textutil.Cut(s.SpanID, 80), errors.Join(found...))
}

// problem tells what is wrong with an attribute after others; "" where nothing is.
func (a Attribute) problem(before []Attribute) string {
	for _, other := range before { // there are few
		if other.Key == a.Key {
			return "it appears twice"
		}
	}
	if a.Key == "" || !utf8.ValidString(a.Key) {
		return "a key in UTF-8 is needed"
	}
	if !utf8.ValidString(a.text) {
		return "the text is not UTF-8"
	}
	return ""
}

// size returns an upper bound of the span's encoded length: the texts, and for
// each part more than protobuf's tags, lengths and numbers can take.
func (s Span) size() int {
	const perSpan, perPart = 128, 32
	total := perSpan + len(s.Name) + len(s.StatusMessage)
	for _, attribute := range s.Attributes {
		total += perPart + len(attribute.Key) + len(attribute.text)
	}
	return total
}

// splitSpans cuts spans into batches of at most so many bytes and spans, in order. A span
// that is larger is a batch of its own. The batches share memory with spans.
func splitSpans(spans []Span, maxBytes, maxSpans int) iter.Seq[[]Span] {
	const envelope = 256 // of the request around the spans
	return func(yield func([]Span) bool) {
		start, bytes := 0, envelope
		for i, span := range spans {
			size := span.size()
			if i > start && (bytes+size > maxBytes || i-start >= maxSpans) {
				if !yield(spans[start:i:i]) {
					return
				}
				start, bytes = i, envelope
			}
			bytes += size
		}
		if start < len(spans) {
			yield(spans[start:])
		}
	}
}

// isID reports whether id is n lower-case hexadecimal digits, not all zero.
func isID(id string, n int) bool {
	return len(id) == n && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, "0") != ""
}

// inNanoseconds reports whether nanoseconds since 1970 can hold the time.
func inNanoseconds(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2262 }

// Scope names the program that made the spans.
type Scope struct {
	// Name is the service and the instrumentation scope. A name that begins
	// with "langfuse-sdk" would claim to be an official SDK.
	Name    string
	Version string
}

// maxReported is how many invalid spans one error lists.
const maxReported = 10

// ExportSpans sends spans: OTLP as protobuf, compressed, marked for direct storage
// (x-langfuse-ingestion-version: 4), in requests of DefaultBatchBytes and
// DefaultBatchSpans at most, one after the other. Nothing is sent when a span is
// invalid: the error lists up to ten of them. No spans are not a request.
//
// A success means queued. Retried with the same bytes; the same spans may be
// sent again any time. After a *ConnectionError it is unknown whether they
// arrived: send them again. Errors: *APIError (400 refuses the whole request;
// ErrTooLarge: send less at once), *ConnectionError.
//
// API: POST /api/public/otel/v1/traces
func (c *Client) ExportSpans(ctx context.Context, scope Scope, spans []Span) error {
	var invalid problems
	for _, span := range spans {
		if err := span.Validate(); err != nil && len(invalid) < maxReported {
			invalid = append(invalid, err)
		}
	}
	if len(invalid) > 0 {
		return fmt.Errorf("langfuse: nothing sent: %w", errors.Join(invalid...))
	}
	for batch := range splitSpans(spans, DefaultBatchBytes, DefaultBatchSpans) {
		if err := c.exportBatch(ctx, scope, batch); err != nil {
			return fmt.Errorf("exporting %d spans: %w", len(batch), err)
		}
	}
	return nil
}

// exportBatch sends spans in one request.
func (c *Client) exportBatch(ctx context.Context, scope Scope, spans []Span) (err error) {
	r := request{method: http.MethodPost, path: "otel/v1/traces"}
	r.header = map[string]string{"Content-Type": "application/x-protobuf", "x-langfuse-ingestion-version": "4"}
	if c.config.Uncompressed {
		r.body = encodeSpans(nil, scope, spans)
	} else {
		r.header["Content-Encoding"] = "gzip"
		if r.body, err = c.compressedSpans(scope, spans); err != nil {
			return err
		}
	}
	_, err = c.do(ctx, r, nil)
	return err
}

// encodeSpans writes an export request of OTLP in protobuf over b; the same spans give the same
// bytes. The numbers of the fields are those of trace.proto: a request holds ResourceSpans
// (1) with a resource (1) and ScopeSpans (2) with a scope (1) and spans (2).
func encodeSpans(b []byte, scope Scope, spans []Span) []byte {
	resource := TextAttribute("service.name", scope.Name).proto(nil)
	scoped := appendBytes(nil, 1, appendText(appendText(nil, 1, scope.Name), 2, scope.Version))
	size := 0
	for _, span := range spans {
		size += span.size()
	}
	body := slices.Grow(b[:0], size+512)
	var one []byte
	for _, span := range spans {
		one = span.proto(one[:0])
		body = appendBytes(body, 2, one)
	}
	head := appendBytes(nil, 1, appendBytes(nil, 1, resource))
	head = append(appendLength(head, 2, len(scoped)+len(body)), scoped...)
	whole := appendLength(nil, 1, len(head)+len(body))
	return slices.Insert(body, 0, append(whole, head...)...)
}

// proto appends a valid span as OTLP writes it: a message Span.
func (s Span) proto(b []byte) []byte {
	const internal, status, failed = 1, 15, 2
	for i, id := range []string{s.TraceID, s.SpanID, s.ParentID} {
		if id != "" {
			b = appendLength(b, []protowire.Number{1, 2, 4}[i], len(id)/2)
			b, _ = hex.AppendDecode(b, []byte(id)) // Validate looked at it
		}
	}
	b = appendText(b, 5, s.Name)
	b = protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), internal)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 7, protowire.Fixed64Type), uint64(s.Start.UnixNano()))
	b = protowire.AppendFixed64(protowire.AppendTag(b, 8, protowire.Fixed64Type), uint64(s.End.UnixNano()))
	for _, attribute := range s.Attributes {
		b = attribute.proto(appendLength(b, 9, attribute.size()))
	}
	ended := appendText(nil, 2, s.StatusMessage)
	if s.Failed {
		ended = protowire.AppendVarint(protowire.AppendTag(ended, 3, protowire.VarintType), failed)
	}
	return appendBytes(b, status, ended)
}

// proto appends an attribute as OTLP writes it: a message KeyValue with an AnyValue.
func (a Attribute) proto(b []byte) []byte {
	b = appendLength(appendText(b, 1, a.Key), 2, a.valueSize())
	if a.isNumber {
		return protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(a.number))
	}
	return protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), a.text)
}

// size is how many bytes proto appends.
func (a Attribute) size() int {
	return protowire.SizeTag(1) + protowire.SizeBytes(len(a.Key)) + protowire.SizeTag(2) + protowire.SizeBytes(a.valueSize())
}

func (a Attribute) valueSize() int {
	if a.isNumber {
		return protowire.SizeTag(3) + protowire.SizeVarint(uint64(a.number))
	}
	return protowire.SizeTag(1) + protowire.SizeBytes(len(a.text))
}

// appendText appends a field with a text, as protobuf does: an empty one is left out.
func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

// appendLength begins a field of so many bytes, which are to follow.
func appendLength(b []byte, number protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(length))
}

// appendBytes appends a field with a message.
func appendBytes(b []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), message)
}

// compressor packs requests, one after the other. It takes 0.8 MB, so that it is kept.
type compressor struct {
	gzip  *gzip.Writer
	plain []byte // the last request
}

// compressedSpans returns what unpacks to the request that encodeSpans makes.
func (c *Client) compressedSpans(scope Scope, spans []Span) ([]byte, error) {
	packer, kept := c.compressors.Get().(*compressor)
	if !kept {
		writer, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one that there is
		packer = &compressor{gzip: writer}
	}
	defer c.compressors.Put(packer)
	packer.plain = encodeSpans(packer.plain, scope, spans)
	out := bytes.NewBuffer(make([]byte, 0, len(packer.plain)/8))
	packer.gzip.Reset(out)
	if _, err := packer.gzip.Write(packer.plain); err != nil {
		return nil, err
	}
	err := packer.gzip.Close()
	return out.Bytes(), err
}
