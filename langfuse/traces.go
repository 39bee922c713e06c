package langfuse

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Scope names the program that made the spans.
type Scope struct {
	// Name is the service and the instrumentation scope. A name that begins
	// with "langfuse-sdk" would claim to be an official SDK.
	Name    string
	Version string
}

// maxReported is how many invalid spans one error lists.
const maxReported = 10

// ExportSpans sends spans in one request: OTLP as protobuf, compressed, marked
// for direct storage (x-langfuse-ingestion-version: 4). Nothing is sent when a
// span is invalid: the error lists up to ten of them. No spans are no request.
//
// A success means queued. Retried with the same bytes; the same spans may be
// sent again any time. After a *ConnectionError it is unknown whether they
// arrived: send them again. Errors: *APIError (400 refuses the whole request;
// ErrTooLarge: send less at once), *ConnectionError.
//
// API: POST /api/public/otel/v1/traces
func (c *Client) ExportSpans(ctx context.Context, scope Scope, spans []Span) error {
	if len(spans) == 0 {
		return nil
	}
	var problems []error
	for _, span := range spans {
		if err := span.Validate(); err != nil && len(problems) < maxReported {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("langfuse: nothing sent: %w", errors.Join(problems...))
	}
	body, err := encodeSpans(scope, spans)
	if err != nil {
		return fmt.Errorf("langfuse: encoding spans: %w", err)
	}
	_, err = c.do(ctx, request{
		method: http.MethodPost, path: "otel/v1/traces", body: body,
		header: map[string]string{
			"Content-Type":                 "application/x-protobuf",
			"Content-Encoding":             "gzip",
			"x-langfuse-ingestion-version": "4",
		},
	})
	if err != nil {
		return fmt.Errorf("exporting %d spans: %w", len(spans), err)
	}
	return nil
}

// encodeSpans returns the compressed TracesData; the same spans give the same
// bytes. TracesData is encoded as the export request is.
func encodeSpans(scope Scope, spans []Span) ([]byte, error) {
	encoded := make([]*tracepb.Span, len(spans))
	for i, span := range spans {
		var err error
		if encoded[i], err = span.proto(); err != nil {
			return nil, err
		}
	}
	data := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			TextAttribute("service.name", scope.Name).proto(),
		}},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: scope.Name, Version: scope.Version},
			Spans: encoded,
		}},
	}}}
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(data)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	compressor := gzip.NewWriter(&out)
	if _, err := compressor.Write(plain); err != nil {
		return nil, err
	}
	if err := compressor.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// proto returns the span as OTLP writes it.
func (s Span) proto() (*tracepb.Span, error) {
	traceID, err := hex.DecodeString(s.TraceID)
	if err != nil {
		return nil, fmt.Errorf("trace id: %w", err)
	}
	spanID, err := hex.DecodeString(s.SpanID)
	if err != nil {
		return nil, fmt.Errorf("span id: %w", err)
	}
	parentID, err := hex.DecodeString(s.ParentID)
	if err != nil {
		return nil, fmt.Errorf("parent id: %w", err)
	}
	attributes := make([]*commonpb.KeyValue, len(s.Attributes))
	for i, attribute := range s.Attributes {
		attributes[i] = attribute.proto()
	}
	return &tracepb.Span{
		TraceId: traceID, SpanId: spanID, ParentSpanId: parentID,
		Name: s.Name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: uint64(s.Start.UnixNano()), EndTimeUnixNano: uint64(s.End.UnixNano()),
		Attributes: attributes,
		Status:     &tracepb.Status{Code: tracepb.Status_StatusCode(s.Status), Message: s.StatusMessage},
	}, nil
}

// proto returns the attribute as OTLP writes it.
func (a Attribute) proto() *commonpb.KeyValue {
	value := &commonpb.AnyValue{}
	switch v := a.value.(type) {
	case string:
		value.Value = &commonpb.AnyValue_StringValue{StringValue: v}
	case int64:
		value.Value = &commonpb.AnyValue_IntValue{IntValue: v}
	case float64:
		value.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: v}
	case bool:
		value.Value = &commonpb.AnyValue_BoolValue{BoolValue: v}
	case []string:
		list := &commonpb.ArrayValue{}
		for _, text := range v {
			list.Values = append(list.Values, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: text}})
		}
		value.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: list}
	}
	return &commonpb.KeyValue{Key: a.Key, Value: value}
}
