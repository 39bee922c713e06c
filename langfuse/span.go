package langfuse

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// problem tells what is wrong with an attribute behind others; "" where nothing is.
func (a Attribute) problem(before []Attribute) string {
	for _, other := range before { // there are few
		if other.Key == a.Key {
			return "it is there twice"
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

// ingestionAnswer is the body of a 207.
type ingestionAnswer struct {
	Successes []struct {
		ID string `json:"id"`
	} `json:"successes"`
	Errors []struct {
		ID      string          `json:"id"`
		Status  Number          `json:"status"`
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
	} `json:"errors"`
}

// states returns what is wrong with each event by its envelope's id, nil where it was
// accepted. An event that is in both lists counts as failed; statuses that may pass with
// time (408, 429, 5xx) are no refusals.
func (a ingestionAnswer) states() map[string]*ScoreError {
	states := make(map[string]*ScoreError, len(a.Successes)+len(a.Errors))
	for _, success := range a.Successes {
		states[success.ID] = nil
	}
	for _, failure := range a.Errors {
		status := int(max(0, min(failure.Status, 999)))
		passing := status < 400 || status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
		text := jsonText(failure.Message)
		if detail := jsonText(failure.Error); detail != "" && detail != text && detail != "null" {
			text += ": " + detail
		}
		said := fmt.Errorf("%d: %s", status, textutil.Cut(text, maxMessage))
		states[failure.ID] = &ScoreError{Refused: !passing, Err: said}
	}
	return states
}

// Number is a finite number of an answer that servers write as a JSON number
// or, where a database column is wider than a double, as a string. Null is 0.
type Number float64

// UnmarshalJSON reads a number, a string that holds one, or null.
func (n *Number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*n = 0
		return nil
	}
	text := strings.Trim(string(raw), `"`)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%q is not a finite number", textutil.Cut(text, 40))
	}
	*n = Number(value)
	return nil
}
