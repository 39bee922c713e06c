package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

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
