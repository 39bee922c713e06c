package embedded

import (
	"bytes"
	"cmp"
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
	"strconv"
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

// maxSpansBody is the size limit of an OTLP request in bytes, before and after decompression.
const maxSpansBody = 64 << 20

// exportSpans answers POST /otel/v1/traces with protobuf or JSON, optionally gzipped. One invalid
// span rejects the whole request. Like Langfuse, it answers with a queue job and not with an OTLP
// response. In ModeV3 it gives that answer even if it drops the request because of a span without
// an id, as Langfuse 3 does.
func (s *Server) exportSpans(c *call) (any, error) {
	version, err := strconv.Atoi(cmp.Or(c.r.Header.Get("x-langfuse-ingestion-version"), "4"))
	if err != nil || version > 4 {
		return nil, spanError("Invalid x-langfuse-ingestion-version")
	}
	buffer, release := s.buffer(c.r.ContentLength)
	defer release()
	body, err := readSpans(c, buffer, s.maxSpansBody)
	if err != nil {
		return nil, err
	}
	kind, body, err := s.toProtobuf(c.r.Header.Get("Content-Type"), body)
	var check spanCheck
	if err == nil {
		err = check.read(body)
	}
	job := object{"id": uuid.NewString(), "name": "otel-ingestion-job", "timestamp": iso(s.now()),
		"data": object{"authCheck": object{"projectId": DefaultProjectID}}}
	switch {
	case err != nil:
		return nil, spanError(err.Error())
	case check.bad > 0 && s.cfg.Mode == ModeV3:
		return job, nil // the whole request is lost
	case check.bad > 0:
		return nil, spanError(fmt.Sprintf("Rejected the export: %d of %d spans are invalid: missing or non-string ids",
			check.bad, check.spans))
	case check.spans == 0:
		return object{}, nil
	}
	return job, s.enqueue(s.cfg.IngestionDelay, kind, body, check.experiments...)
}

// spanCheck validates the spans of a request before they are stored and collects the experiments
// that they may change.
type spanCheck struct {
	spans, bad  int // bad counts spans without an id
	experiments []string

	hasTrace, hasID bool   // of the current span
	key, text       []byte // of the current attribute
}

// read finds the errors that proto.Unmarshal would find, without building messages, and collects
// experiments. If a span is sent again for another experiment, it collects only the
// new one, because the old one loses the span with the next settle.
func (check *spanCheck) read(body []byte) error {
	descriptor := (*tracev1.TracesData)(nil).ProtoReflect().Descriptor()
	if err := check.message(descriptor, body, protowire.DefaultRecursionLimit); err != nil {
		return fmt.Errorf("Failed to parse OTel Protobuf Trace: %w", err)
	}
	return nil
}

// message checks a message of a type. maxLevels limits the nesting.
func (check *spanCheck) message(descriptor protoreflect.MessageDescriptor, raw []byte, maxLevels int) error {
	if maxLevels == 0 {
		return errors.New("nested too deep")
	}
	isSpan := descriptor.Name() == "Span"
	for len(raw) > 0 {
		number, wire, n := protowire.ConsumeField(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if number > protowire.MaxValidNumber {
			return fmt.Errorf("%d is not a number of a field", number)
		}
		_, _, tag := protowire.ConsumeTag(raw)
		field, value := descriptor.Fields().ByNumber(number), raw[tag:n]
		raw = raw[n:]
		if field == nil || wire != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		switch name := field.Name(); {
		case field.Kind() == protoreflect.MessageKind:
			if err := check.message(field.Message(), value, maxLevels-1); err != nil {
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
	case descriptor.Name() == "KeyValue":
		if string(check.key) == experimentKey+"id" {
			check.experiments = append(check.experiments, string(check.text))
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

// storeSpans stores the spans of a request in the tables.
func storeSpans(tx *transaction, m message) error {
	data := new(tracev1.TracesData)
	if err := proto.Unmarshal(m.body, data); err != nil {
		return err
	}
	for o, a := range observationsOf(data, m) {
		if m.mode.hasTraces() {
			traceOf(o, a).store(tx)
		}
		o.write(tx, m.mode)
	}
	return nil
}

// readSpans reads and decompresses a body. The limit applies to both forms, so that a small
// archive cannot expand beyond it.
func readSpans(c *call, buffer *bytes.Buffer, limit int64) ([]byte, error) {
	body, err := readBody(buffer, c.r.Body, limit, c.r.ContentLength)
	if err != nil || !strings.EqualFold(c.r.Header.Get("Content-Encoding"), "gzip") {
		return body, err
	}
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, spanError("Failed to decompress the request body: " + err.Error())
	}
	return readBody(new(bytes.Buffer), zr, limit, 0)
}

// spanError is a 400 error of this route: JSON with "error" instead of "message".
func spanError(text string) *apiError {
	return &apiError{http.StatusBadRequest, object{"error": text}}
}

// The encodings of spans.
const (
	protobufSpans = "application/x-protobuf"
	jsonSpans     = "application/json"
)

// toProtobuf returns the encoding that the content type names, and the body as an export request
// in protobuf, without the spans that Config.Drop selects.
func (s *Server) toProtobuf(contentType string, body []byte) (kind string, _ []byte, err error) {
	data, encoding := new(tracev1.TracesData), "Protobuf" // TracesData has the same encoding as an export request
	switch {
	case strings.Contains(contentType, protobufSpans) && s.cfg.Drop == nil:
		return protobufSpans, body, nil
	case strings.Contains(contentType, protobufSpans):
		kind, err = protobufSpans, proto.Unmarshal(body, data)
	case strings.Contains(contentType, jsonSpans):
		kind, encoding, err = jsonSpans, "JSON", decodeJSONSpans(body, data)
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
		err = fmt.Errorf("Failed to parse OTel %s Trace: %w", encoding, err)
	}
	return kind, body, err
}

// idText returns an id as a string. In protobuf an id is binary and becomes hexadecimal; in JSON
// it is a string.
func idText(kind string, id []byte) string {
	if kind == jsonSpans {
		return string(id)
	}
	return hex.EncodeToString(id)
}

// observationsOf yields the observations of the spans of a message, with the attributes of each
// span.
func observationsOf(data *tracev1.TracesData, m message) iter.Seq2[observation, attributes] {
	return func(yield func(observation, attributes) bool) {
		for _, rs := range data.GetResourceSpans() {
			scope := spanScope{resource: attributesOf(rs.GetResource().GetAttributes())}
			for _, ss := range rs.GetScopeSpans() {
				scope.scopeName, scope.scopeVersion = ss.GetScope().GetName(), ss.GetScope().GetVersion()
				for _, sp := range ss.GetSpans() {
					a := attributesOf(sp.GetAttributes())
					if !yield(newObservation(scope, sp, a, m), a) {
						return
					}
				}
			}
		}
	}
}

// decodeJSONSpans parses OTLP JSON. Its ids are hexadecimal strings, where protojson expects
// base64; the digits become the bytes of the ids. An id that is not a string becomes empty.
func decodeJSONSpans(body []byte, data *tracev1.TracesData) error {
	decoded, err := decodeJSON(body)
	if err != nil {
		return err
	}
	text, err := json.Marshal(mapLeaves("", decoded, func(key string, leaf any) any {
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
