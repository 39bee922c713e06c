package embedded

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"

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
