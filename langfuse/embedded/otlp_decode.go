package embedded

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// decodeProtobuf reads TracesData, which has the bytes of an export request.
func decodeProtobuf(body []byte) ([]batch, error) {
	var data tracev1.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		return nil, fmt.Errorf("Failed to parse OTel Protobuf Trace: %w", err)
	}
	var batches []batch
	var bad rejection
	for _, rs := range data.GetResourceSpans() {
		resource := protoAttributes(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			b := batch{resource: resource, scopeName: ss.GetScope().GetName(), scopeVersion: ss.GetScope().GetVersion()}
			for _, sp := range ss.GetSpans() {
				bad.total++
				if len(sp.GetTraceId()) == 0 || len(sp.GetSpanId()) == 0 {
					bad.add("missing or non-string ids")
					continue
				}
				b.spans = append(b.spans, span{
					trace: hex.EncodeToString(sp.GetTraceId()), id: hex.EncodeToString(sp.GetSpanId()),
					parent: hex.EncodeToString(sp.GetParentSpanId()), name: sp.GetName(),
					start: nanos(sp.GetStartTimeUnixNano()), end: nanos(sp.GetEndTimeUnixNano()),
					failed:  sp.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
					message: sp.GetStatus().GetMessage(), attributes: protoAttributes(sp.GetAttributes()),
				})
			}
			batches = append(batches, b)
		}
	}
	return batches, bad.err()
}

func nanos(n uint64) int64 {
	return int64(min(n, math.MaxInt64))
}

func protoAttributes(list []*commonv1.KeyValue) attributes {
	attrs := make(attributes, len(list))
	for _, kv := range list {
		attrs[kv.GetKey()] = protoValue(kv.GetValue())
	}
	return attrs
}

func protoValue(v *commonv1.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_BoolValue:
		return v.BoolValue
	case *commonv1.AnyValue_IntValue:
		return v.IntValue
	case *commonv1.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonv1.AnyValue_BytesValue:
		return base64.StdEncoding.EncodeToString(v.BytesValue)
	case *commonv1.AnyValue_ArrayValue:
		list := []any{}
		for _, element := range v.ArrayValue.GetValues() {
			list = append(list, protoValue(element))
		}
		return list
	case *commonv1.AnyValue_KvlistValue:
		return map[string]any(protoAttributes(v.KvlistValue.GetValues()))
	}
	return nil
}

// The JSON form of an export, as far as it is read. Ids stay raw, because a
// span whose id is no string has to be told from one that has none.
type (
	jsonExport struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes json.RawMessage `json:"attributes"`
			} `json:"resource"`
			ScopeSpans []struct {
				Scope struct {
					Name    string `json:"name"`
					Version string `json:"version"`
				} `json:"scope"`
				Spans []json.RawMessage `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	jsonSpan struct {
		TraceID      any             `json:"traceId"`
		SpanID       any             `json:"spanId"`
		ParentSpanID any             `json:"parentSpanId"`
		Name         string          `json:"name"`
		Start        any             `json:"startTimeUnixNano"`
		End          any             `json:"endTimeUnixNano"`
		Attributes   json.RawMessage `json:"attributes"`
		Status       struct {
			Code    any    `json:"code"`
			Message string `json:"message"`
		} `json:"status"`
	}
	jsonAttribute struct {
		Key   string    `json:"key"`
		Value jsonValue `json:"value"`
	}
	jsonValue struct {
		String *string         `json:"stringValue"`
		Bool   *bool           `json:"boolValue"`
		Int    any             `json:"intValue"`
		Double any             `json:"doubleValue"`
		Bytes  *string         `json:"bytesValue"`
		Array  *jsonArrayValue `json:"arrayValue"`
		Object *jsonListValue  `json:"kvlistValue"`
	}
	jsonArrayValue struct {
		Values []jsonValue `json:"values"`
	}
	jsonListValue struct {
		Values []jsonAttribute `json:"values"`
	}
)

func decodeSpansJSON(body []byte) ([]batch, error) {
	var data jsonExport
	if err := json.Unmarshal(body, &data); err != nil {
		return nil, fmt.Errorf("Failed to parse OTel JSON Trace: %w", err)
	}
	var batches []batch
	var bad rejection
	for _, rs := range data.ResourceSpans {
		resource, err := readAttributes(rs.Resource.Attributes)
		if err != nil {
			return nil, fmt.Errorf("Failed to parse resource attributes: %w", err)
		}
		for _, ss := range rs.ScopeSpans {
			b := batch{resource: resource, scopeName: ss.Scope.Name, scopeVersion: ss.Scope.Version}
			for _, raw := range ss.Spans {
				bad.total++
				sp, err := readSpan(raw)
				if err != nil {
					bad.add(err.Error())
					continue
				}
				b.spans = append(b.spans, sp)
			}
			batches = append(batches, b)
		}
	}
	return batches, bad.err()
}

func readSpan(raw json.RawMessage) (span, error) {
	var in jsonSpan
	if err := json.Unmarshal(raw, &in); err != nil {
		return span{}, errors.New("fields of a wrong type")
	}
	trace, isText := in.TraceID.(string)
	id, alsoText := in.SpanID.(string)
	if !isText || !alsoText || trace == "" || id == "" {
		return span{}, errors.New("missing or non-string ids")
	}
	attrs, err := readAttributes(in.Attributes)
	if err != nil {
		return span{}, errors.New("attributes that are not a list")
	}
	parent, _ := in.ParentSpanID.(string)
	failed := in.Status.Code == float64(2) || in.Status.Code == "STATUS_CODE_ERROR"
	return span{trace: trace, id: id, parent: parent, name: in.Name, start: readNanos(in.Start), end: readNanos(in.End),
		failed: failed, message: in.Status.Message, attributes: attrs}, nil
}

func readNanos(v any) int64 {
	switch v := v.(type) {
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil && n > 0 {
			return n
		}
	case float64:
		if v > 0 && v < math.MaxInt64 {
			return int64(v)
		}
	}
	return 0
}

func readAttributes(raw json.RawMessage) (attributes, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return attributes{}, nil
	}
	var list []jsonAttribute
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	return attributesOf(list), nil
}

func attributesOf(list []jsonAttribute) attributes {
	attrs := make(attributes, len(list))
	for _, kv := range list {
		attrs[kv.Key] = kv.Value.plain()
	}
	return attrs
}

// plain returns the value without its type tag. Whole numbers may come as
// numbers or as text.
func (v jsonValue) plain() any {
	switch {
	case v.String != nil:
		return *v.String
	case v.Bool != nil:
		return *v.Bool
	case v.Int != nil:
		n, err := strconv.ParseInt(fmt.Sprint(exactly(v.Int)), 10, 64)
		if err != nil {
			return nil
		}
		return n
	case v.Double != nil:
		return v.Double
	case v.Bytes != nil:
		return *v.Bytes
	case v.Array != nil:
		list := []any{}
		for _, element := range v.Array.Values {
			list = append(list, element.plain())
		}
		return list
	case v.Object != nil:
		return map[string]any(attributesOf(v.Object.Values))
	}
	return nil
}

// exactly writes a decoded number without exponent.
func exactly(v any) any {
	if n, isNumber := v.(float64); isNumber {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return v
}
