package langfuse_test

import (
	"errors"
	"testing"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// FindObservation finds an observation by its id in every mode. An unknown id is ErrNotFound.
func TestFindObservation(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			d := deploy(t, mode, "")
			d.must(d.client.ExportSpans(t.Context(), langfuse.Scope{Name: "test"}, []langfuse.Span{
				{TraceID: traceID(7), SpanID: spanID(70), Name: "root", Start: d.start, End: d.start.Add(time.Second)},
				{TraceID: traceID(7), SpanID: spanID(71), ParentID: spanID(70), Name: "child", Start: d.start, End: d.start.Add(time.Second)},
			}))
			found, err := d.client.FindObservation(t.Context(), d.server.Capabilities, spanID(71))
			d.must(err)
			if found.ID != spanID(71) || found.TraceID != traceID(7) || found.Name != "child" || found.ParentID != spanID(70) {
				t.Errorf("%+v", found)
			}
			if found, err := d.client.FindObservation(t.Context(), d.server.Capabilities, spanID(99)); !errors.Is(err, langfuse.ErrNotFound) {
				t.Errorf("%+v, %v", found, err)
			}
			if _, err := d.client.FindObservation(t.Context(), d.server.Capabilities, ""); err == nil {
				t.Error("an empty id finds something")
			}
		})
	}
}
