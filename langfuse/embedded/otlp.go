package embedded

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxSpansBody bounds an OTLP request after decompression.
const maxSpansBody = 64 << 20

// exportSpans answers POST /otel/v1/traces: protobuf or JSON, gzipped or not. One bad
// span rejects the whole request. The answer is a queue job, as Langfuse answers, not an
// OTLP response. Langfuse 3 answers so even where it then drops the request because of a
// bad span.
func (s *Server) exportSpans(c *call) (any, error) {
	buffer, release := s.buffer(c.r.ContentLength)
	defer release()
	body, err := readSpans(c, buffer, s.maxSpans)
	if err != nil {
		return nil, err
	}
	kind, body, err := s.spansIn(c.r.Header.Get("Content-Type"), body)
	var check spanCheck
	if err == nil {
		err = check.read(body)
	}
	queued := object{"id": uuid.NewString(), "name": "otel-ingestion-job", "timestamp": iso(s.now()),
		"data": object{"authCheck": object{"projectId": DefaultProjectID}}}
	switch {
	case err != nil:
		return nil, spanFault(err.Error())
	case check.bad > 0 && s.cfg.Mode == ModeV3:
		return queued, nil // and all of it is lost
	case check.bad > 0:
		return nil, spanFault(fmt.Sprintf("Rejected the export: %d of %d spans are invalid: missing or non-string ids",
			check.bad, check.spans))
	case check.spans == 0:
		return object{}, nil
	}
	return queued, s.take(s.cfg.IngestionDelay, kind, body, check.reach)
}

// spanCheck checks the spans of a request before they are stored, and looks up which
// experiments they may change.
type spanCheck struct {
	spans, bad int // bad ones lack an id
	reach      reach

	hasTrace, hasID bool   // of the span that is looked at
	key, text       []byte // of the newest attribute
}

// read finds what proto.Unmarshal would find wrong with the spans of a request, without
// making messages of them, and their reach. Where a span is sent again for another
// experiment, only that one is named: the former loses it with whatever is stored next.
func (check *spanCheck) read(body []byte) error {
	kind := (*tracev1.TracesData)(nil).ProtoReflect().Descriptor()
	if err := check.message(kind, body, protowire.DefaultRecursionLimit); err != nil {
		return fmt.Errorf("Failed to parse OTel Protobuf Trace: %w", err)
	}
	return nil
}

// message checks a message of a kind, in which others may be so many levels deep.
func (check *spanCheck) message(kind protoreflect.MessageDescriptor, raw []byte, levels int) error {
	if levels == 0 {
		return errors.New("nested too deep")
	}
	isSpan := kind.Name() == "Span"
	for len(raw) > 0 {
		number, wire, n := protowire.ConsumeField(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number > protowire.MaxValidNumber {
			return fmt.Errorf("%d is not a number of a field", number)
		}
		_, _, tag := protowire.ConsumeTag(raw)
		field, value := kind.Fields().ByNumber(number), raw[tag:n]
		raw = raw[n:]
		if field == nil || wire != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		switch name := field.Name(); {
		case field.Kind() == protoreflect.MessageKind:
			if err := check.message(field.Message(), value, levels-1); err != nil {
				return err
			}
		case field.Kind() == protoreflect.StringKind && !utf8.Valid(value):
			return fmt.Errorf("%s is not UTF-8", field.FullName())
		case name == "key":
			check.key = value
		case name == "string_value":
			check.text = value
		case isSpan && name == "trace_id":
			check.hasTrace = len(value) > 0
		case isSpan && name == "span_id":
			check.hasID = len(value) > 0
		}
	}
	switch {
	case kind.Name() == "KeyValue":
		if string(check.key) == experimentKey+"id" {
			check.reach.add(string(check.text))
		}
		check.key, check.text = nil, nil
	case isSpan:
		if check.spans++; !check.hasTrace || !check.hasID {
			check.bad++
		}
		check.hasTrace, check.hasID = false, false
	}
	return nil
}

// storeSpans puts the spans of a request into the tables.
func storeSpans(tx *transaction, m message) error {
	data := new(tracev1.TracesData)
	if err := proto.Unmarshal(m.body, data); err != nil {
		return err
	}
	described := map[string]bool{}
	for o, a := range observationsOf(data, m) {
		if m.mode.legacy() {
			if err := traceOf(o, a).store(tx); err != nil {
				return err
			}
		}
		if err := o.write(tx, m.mode, described); err != nil {
			return err
		}
	}
	return nil
}

// readSpans reads and unpacks a body. Neither form may exceed the limit, so a
// small archive cannot unfold into more.
func readSpans(c *call, into *bytes.Buffer, limit int64) ([]byte, error) {
	body, err := readBody(into, c.r.Body, limit, c.r.ContentLength)
	if err != nil || !strings.EqualFold(c.r.Header.Get("Content-Encoding"), "gzip") {
		return body, err
	}
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, spanFault("Failed to decompress the request body: " + err.Error())
	}
	return readBody(new(bytes.Buffer), zr, limit, 0)
}

// spanFault is an error of this route: JSON without the usual message.
func spanFault(text string) *fault {
	return &fault{http.StatusBadRequest, object{"error": text}}
}

// The encodings of spans.
const (
	protobufSpans = "application/x-protobuf"
	jsonSpans     = "application/json"
)

// spansIn returns the encoding that a content type names, and what was sent as an export
// request in protobuf, without the spans that are to be lost.
func (s *Server) spansIn(contentType string, body []byte) (kind string, _ []byte, err error) {
	data, form := new(tracev1.TracesData), "Protobuf" // has the bytes of an export request
	switch {
	case strings.Contains(contentType, protobufSpans) && s.cfg.Drop == nil:
		return protobufSpans, body, nil
	case strings.Contains(contentType, protobufSpans):
		kind, err = protobufSpans, proto.Unmarshal(body, data)
	case strings.Contains(contentType, jsonSpans):
		kind, form, err = jsonSpans, "JSON", decodeJSONSpans(body, data)
	default:
		return "", nil, errors.New("Invalid content type: use application/x-protobuf or application/json")
	}
	for _, rs := range data.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			ss.Spans = slices.DeleteFunc(ss.Spans, func(sp *tracev1.Span) bool {
				return s.cfg.drops(DropSpan, idText(kind, sp.GetSpanId()))
			})
		}
	}
	if err == nil {
		body, err = proto.Marshal(data)
	}
	if err != nil {
		err = fmt.Errorf("Failed to parse OTel %s Trace: %w", form, err)
	}
	return kind, body, err
}

// idText is how an id is written: in protobuf it is bytes, which are written as
// hexadecimal digits; in JSON it is a text.
func idText(kind string, id []byte) string {
	if kind == jsonSpans {
		return string(id)
	}
	return hex.EncodeToString(id)
}

// observationsOf yields what the spans of a message are, with their attributes.
func observationsOf(data *tracev1.TracesData, m message) iter.Seq2[observation, attributes] {
	return func(yield func(observation, attributes) bool) {
		for _, rs := range data.GetResourceSpans() {
			from := origin{resource: attributesOf(rs.GetResource().GetAttributes())}
			for _, ss := range rs.GetScopeSpans() {
				from.scopeName, from.scopeVersion = ss.GetScope().GetName(), ss.GetScope().GetVersion()
				for _, sp := range ss.GetSpans() {
					a := attributesOf(sp.GetAttributes())
					if !yield(observe(from, sp, a, m), a) {
						return
					}
				}
			}
		}
	}
}

// decodeJSONSpans reads the JSON form. Its ids are hexadecimal digits, where the
// JSON of protobuf has base64: the digits become the bytes of the ids. An id that
// is no text is none.
func decodeJSONSpans(body []byte, data *tracev1.TracesData) error {
	decoded, err := decodeJSON(body)
	if err != nil {
		return err
	}
	text, err := json.Marshal(eachLeaf("", decoded, func(key string, leaf any) any {
		if key != "traceId" && key != "spanId" && key != "parentSpanId" {
			return leaf
		}
		digits, _ := leaf.(string)
		return base64.StdEncoding.EncodeToString([]byte(digits))
	}))
	if err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, data)
}

func millis(nanos uint64) int64 {
	return int64(min(nanos, math.MaxInt64)) / int64(time.Millisecond)
}
