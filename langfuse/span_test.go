package langfuse

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func goodSpan() Span {
	return Span{
		TraceID: "0af7651916cd43dd8448eb211c80319c", SpanID: "b7ad6b7169203331", Name: "experiment-item-run",
		Start: time.Unix(1763694000, 123456789), End: time.Unix(1763694001, 5),
		Attributes: []Attribute{
			TextAttribute("langfuse.observation.input", `{"text":"x"}`),
			IntAttribute("langfuse.observation.prompt.version", 7),
		},
		Failed: true, StatusMessage: "timeout: 30 s",
	}
}

func TestSpanValidate(t *testing.T) {
	if err := goodSpan().Validate(); err != nil {
		t.Fatal(err)
	}
	zero := goodSpan()
	zero.End, zero.ParentID, zero.Attributes = zero.Start, "c7ad6b7169203332", nil
	if err := zero.Validate(); err != nil {
		t.Errorf("no duration and no attributes: %v", err)
	}
	for name, test := range map[string]struct {
		change func(*Span)
		want   string
	}{
		"a short trace id":       {func(s *Span) { s.TraceID = "abc" }, "trace id"},
		"an upper-case trace id": {func(s *Span) { s.TraceID = strings.ToUpper(s.TraceID) }, "trace id"},
		"a zero trace id":        {func(s *Span) { s.TraceID = strings.Repeat("0", 32) }, "trace id"},
		"no span id":             {func(s *Span) { s.SpanID = "" }, "span id"},
		"a span id of z":         {func(s *Span) { s.SpanID = strings.Repeat("z", 16) }, "span id"},
		"a bad parent":           {func(s *Span) { s.ParentID = "x" }, "parent id"},
		"its own parent":         {func(s *Span) { s.ParentID = s.SpanID }, "own parent"},
		"no name":                {func(s *Span) { s.Name = "" }, "name"},
		"a broken name":          {func(s *Span) { s.Name = "\xff" }, "name"},
		"a broken message":       {func(s *Span) { s.StatusMessage = "\xff" }, "status message"},
		"no start":               {func(s *Span) { s.Start = time.Time{} }, "1970"},
		"far future":             {func(s *Span) { s.End = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) }, "2262"},
		"end before start":       {func(s *Span) { s.End = s.Start.Add(-1) }, "ends before"},
		"an empty key":           {func(s *Span) { s.Attributes[0].Key = "" }, "key"},
		"a doubled key":          {func(s *Span) { s.Attributes[0].Key = s.Attributes[1].Key }, "twice"},
		"a broken value":         {func(s *Span) { s.Attributes[0] = TextAttribute("k", "a\xc3") }, "not UTF-8"},
		"too much":               {func(s *Span) { s.Attributes[0] = TextAttribute("k", strings.Repeat("x", MaxSpanBytes)) }, "too large"},
	} {
		span := goodSpan()
		test.change(&span)
		if err := span.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	several := goodSpan()
	several.TraceID, several.Name = "", ""
	if err := several.Validate(); !strings.Contains(err.Error(), "trace id") || !strings.Contains(err.Error(), "name") {
		t.Errorf("not all problems at once: %v", err)
	}
}

// unpack decompresses and parses an export request.
func unpack(t testingT, body []byte) *tracepb.TracesData {
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, plain)
}

func parsed(t testingT, plain []byte) *tracepb.TracesData {
	data := &tracepb.TracesData{}
	if err := proto.Unmarshal(plain, data); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestExportSpans_uncompressed checks that Config.Uncompressed disables compression.
func TestExportSpans_uncompressed(t *testing.T) {
	client, record := serve(t, answers(t, "health_v4.json"), func(c *Config) { c.Uncompressed = true })
	if err := client.ExportSpans(t.Context(), Scope{Name: "s"}, []Span{goodSpan()}); err != nil {
		t.Fatal(err)
	}
	request := record.seen()[0]
	if spans := parsed(t, request.body).GetResourceSpans(); len(spans) != 1 || request.header.Get("Content-Encoding") != "" {
		t.Errorf("%d resources, header %v", len(spans), request.header)
	}
}

func TestExportSpans(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"job-1","name":"otel-ingestion-job"}`)) // not an OTLP response
	})
	child := goodSpan()
	child.SpanID, child.ParentID = "c7ad6b7169203332", child.SpanID
	if err := client.ExportSpans(t.Context(), Scope{Name: "runner", Version: "0.1"}, []Span{goodSpan(), child}); err != nil {
		t.Fatal(err)
	}
	request := record.seen()[0]
	for name, want := range map[string]string{
		"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", "X-Langfuse-Ingestion-Version": "4",
	} {
		if got := request.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if request.method != "POST" || request.uri != "/api/public/otel/v1/traces" {
		t.Errorf("%s %s", request.method, request.uri)
	}
	resource := unpack(t, request.body).ResourceSpans[0]
	scope := resource.ScopeSpans[0]
	if got := resource.Resource.Attributes[0]; got.Key != "service.name" || got.Value.GetStringValue() != "runner" {
		t.Errorf("resource %v", got)
	}
	if scope.Scope.Name != "runner" || scope.Scope.Version != "0.1" || len(scope.Spans) != 2 {
		t.Fatalf("scope %v with %d spans", scope.Scope, len(scope.Spans))
	}
	root := scope.Spans[0]
	got := fmt.Sprintf("%x %x %x %s %d %d %v %s", root.TraceId, root.SpanId, root.ParentSpanId, root.Name,
		root.StartTimeUnixNano, root.EndTimeUnixNano, root.Status.Code, root.Status.Message)
	want := "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331  experiment-item-run 1763694000123456789 1763694001000000005 STATUS_CODE_ERROR timeout: 30 s"
	if got != want {
		t.Errorf("span\n%s, want\n%s", got, want)
	}
	if fmt.Sprintf("%x", scope.Spans[1].ParentSpanId) != "b7ad6b7169203331" {
		t.Errorf("parent %x", scope.Spans[1].ParentSpanId)
	}
	values := map[string]string{}
	for _, attribute := range root.Attributes {
		values[attribute.Key] = strings.ReplaceAll(fmt.Sprint(attribute.Value), "  ", " ")
	}
	if diff := cmp.Diff(map[string]string{
		"langfuse.observation.input":          `string_value:"{\"text\":\"x\"}"`,
		"langfuse.observation.prompt.version": "int_value:7",
	}, values); diff != "" {
		t.Error(diff)
	}
}

func TestOneBadSpanSendsNothing(t *testing.T) {
	client, record := serve(t, answers(t, "health_v4.json"))
	spans := []Span{goodSpan()}
	for range 20 {
		bad := goodSpan()
		bad.TraceID = ""
		spans = append(spans, bad)
	}
	err := client.ExportSpans(t.Context(), Scope{Name: "s"}, spans)
	if err == nil || strings.Count(err.Error(), "trace id") != 10 || len(record.seen()) != 0 {
		t.Errorf("%d requests, error %v", len(record.seen()), err)
	}
	if err := client.ExportSpans(t.Context(), Scope{Name: "s"}, nil); err != nil || len(record.seen()) != 0 {
		t.Errorf("no spans: %d requests, %v", len(record.seen()), err)
	}
}

func TestExportTooLargeForAProxy(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	if err := client.ExportSpans(t.Context(), Scope{Name: "s"}, []Span{goodSpan()}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

// drawSpan draws a valid span with attributes of every type.
func drawSpan(t *rapid.T) Span {
	text := rapid.StringN(0, 400, 1600)
	span := goodSpan()
	span.Name = "n" + text.Draw(t, "name")
	span.StatusMessage, span.Failed = text.Draw(t, "message"), rapid.Bool().Draw(t, "failed")
	if rapid.Bool().Draw(t, "child") {
		span.ParentID = "c7ad6b7169203332"
	}
	span.Attributes = nil
	for i := range rapid.IntRange(0, 8).Draw(t, "attributes") {
		key := fmt.Sprint(i, text.Draw(t, "key"))
		span.Attributes = append(span.Attributes, rapid.SampledFrom([]Attribute{
			TextAttribute(key, text.Draw(t, "text")), IntAttribute(key, rapid.Int64().Draw(t, "int")),
		}).Draw(t, "attribute"))
	}
	return span
}

// protoMarshal encodes spans with the protobuf library.
func protoMarshal(t *rapid.T, spans []Span) []byte {
	text := func(s string) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
	}
	scoped := &tracepb.ScopeSpans{Scope: &commonpb.InstrumentationScope{Name: "s"}}
	for _, s := range spans {
		traceID, _ := hex.DecodeString(s.TraceID)
		spanID, _ := hex.DecodeString(s.SpanID)
		parentID, _ := hex.DecodeString(s.ParentID)
		status := &tracepb.Status{Message: s.StatusMessage}
		if s.Failed {
			status.Code = tracepb.Status_STATUS_CODE_ERROR
		}
		span := &tracepb.Span{
			TraceId: traceID, SpanId: spanID, ParentSpanId: parentID, Name: s.Name, Kind: tracepb.Span_SPAN_KIND_INTERNAL,
			StartTimeUnixNano: uint64(s.Start.UnixNano()), EndTimeUnixNano: uint64(s.End.UnixNano()),
			Status: status,
		}
		for _, a := range s.Attributes {
			value := text(a.text)
			if a.isNumber {
				value = &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: a.number}}
			}
			span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: a.Key, Value: value})
		}
		scoped.Spans = append(scoped.Spans, span)
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{{Key: "service.name", Value: text("s")}}},
		ScopeSpans: []*tracepb.ScopeSpans{scoped},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestSplitSpansKeepsEverySpanWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := rapid.SliceOfN(rapid.Custom(drawSpan), 0, 12).Draw(t, "spans")
		maxBytes := rapid.IntRange(1, 20000).Draw(t, "bytes")
		maxSpans := rapid.IntRange(1, 6).Draw(t, "count")
		var joined []Span
		for batch := range splitSpans(spans, maxBytes, maxSpans) {
			if len(batch) == 0 || len(batch) > maxSpans {
				t.Fatalf("a batch of %d spans", len(batch))
			}
			body := encodeSpans(nil, Scope{Name: "s"}, batch)
			if again := encodeSpans([]byte("from before"), Scope{Name: "s"}, batch); !bytes.Equal(body, again) {
				t.Fatal("the same spans give other bytes")
			}
			if want := protoMarshal(t, batch); !bytes.Equal(body, want) {
				t.Fatalf("got %x, the library writes %x", body, want)
			}
			if size := len(body); size > maxBytes && len(batch) > 1 {
				t.Fatalf("%d spans take %d bytes, more than %d", len(batch), size, maxBytes)
			}
			joined = append(joined, batch...)
		}
		if diff := cmp.Diff(spans, joined, cmp.Comparer(func(a, b Attribute) bool { return a == b })); diff != "" && len(spans) > 0 {
			t.Fatal(diff)
		}
	})
}

func TestSplitSpansDefaultsAndEarlyStop(t *testing.T) {
	spans := make([]Span, DefaultBatchSpans+1)
	var sizes []int
	for batch := range splitSpans(spans, DefaultBatchBytes, DefaultBatchSpans) {
		sizes = append(sizes, len(batch))
	}
	if fmt.Sprint(sizes) != "[512 1]" {
		t.Errorf("batches %v", sizes)
	}
	for range splitSpans(spans, DefaultBatchBytes, 1) {
		break // must not panic
	}

	// Ten spans of a little more than 1000 bytes: three fit into 4000 bytes.
	sizes = nil
	span := goodSpan()
	span.Attributes = []Attribute{TextAttribute("k", strings.Repeat("x", 1000))}
	for batch := range splitSpans(slices.Repeat([]Span{span}, 10), 4000, DefaultBatchSpans) {
		sizes = append(sizes, len(batch))
	}
	if fmt.Sprint(sizes) != "[3 3 3 1]" {
		t.Errorf("batches %v", sizes)
	}
}
