package seed

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"extraction-experiment/langfuse/embedded"
)

// ingested sends a trace the older way: name, tags, input, output and metadata
// stand on the trace, and its span has nothing but a name.
func (s *server) ingested(n int, text string, output any) string {
	s.t.Helper()
	at := began.Add(time.Duration(n) * time.Minute).Format(time.RFC3339)
	event := func(kind string, body map[string]any) any {
		return map[string]any{"id": fmt.Sprintf("%s-%d", kind, n), "type": kind, "timestamp": at, "body": body}
	}
	answer := s.post("/api/public/ingestion", map[string]any{"batch": []any{
		event("trace-create", map[string]any{"id": traceID(n), "timestamp": at, "name": "old", "tags": []any{"checked"}, "metadata": map[string]any{"category": fmt.Sprint("c", n%2)},
			"environment": "staging", "input": map[string]any{"document_text": text}, "output": output}),
		event("span-create", map[string]any{"id": spanID(n, 0), "traceId": traceID(n), "name": "work", "startTime": at, "environment": "staging"}),
	}})
	if errs, _ := answer["errors"].([]any); len(errs) > 0 {
		s.t.Fatal(errs)
	}
	return traceID(n)
}

// On a server that is read both ways, traces that were sent the older way are
// selected, read and drawn like the others.
func TestFromTraces_older(t *testing.T) {
	for _, mode := range []embedded.Mode{embedded.ModeV3, embedded.ModeV4Dual} {
		t.Run(string(mode), func(t *testing.T) {
			s := newServerIn(t, mode)
			for n := range 4 {
				s.ingested(n, strings.Repeat(fmt.Sprintf("Ada lived in London, %d. ", n*104729), 3), gold("Ada", "London"))
			}
			s.traced(traceID(9), span{id: spanID(9, 0), name: "old", input: map[string]any{"document_text": "Ada lived in Rome."}, output: gold("Ada", "Rome"), at: 2*time.Minute + time.Second,
				attributes: map[string]string{"langfuse.trace.name": "old", "langfuse.trace.tags": `["checked"]`, "langfuse.environment": "staging"}})
			tagged := TraceConfig{Mapping: Mapping{Evidence: EvidenceRules{Tags: []string{"checked"}}}}
			for name, tt := range map[string]struct {
				selection Selection
				want      []int
			}{
				"by tag":         {Selection{Tags: []string{"checked"}}, []int{3, 9, 2, 1, 0}},
				"by name":        {Selection{Name: "old"}, []int{3, 9, 2, 1, 0}},
				"by environment": {Selection{Environment: "staging"}, []int{3, 9, 2, 1, 0}},
				"the newest":     {Selection{Tags: []string{"checked"}, Limit: 2}, []int{3, 9}},
				"by id":          {Selection{IDs: []string{traceID(0), traceID(9)}}, []int{0, 9}},
			} {
				var got []string
				cfg := tagged
				cfg.DryRun, cfg.Show = true, func(s Seeded) { got = append(got, s.Trace+" "+string(s.Action)) }
				s.mustSeedTraces(tt.selection, cfg)
				var want []string
				for _, n := range tt.want {
					want = append(want, traceID(n)+" created")
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: %v, want %v", name, got, want)
				}
			}
			cfg := tagged
			result := s.mustSeedTraces(Selection{Tags: []string{"checked"}, Until: began.Add(2 * time.Minute), Sample: 1, Stratify: "category"}, cfg)
			if result.Created != 1 || result.Err() != nil {
				t.Errorf("%d created: %v", result.Created, result.Err())
			}
		})
	}
}
