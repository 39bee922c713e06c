package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/scoring"
)

// TestRate checks that a rate does not read like 0 or 1 if it is not.
func TestRate(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 1: "1.00", 0.5: "0.50", 0.996: "0.996", 0.004: "0.004"} {
		if got := rate(v); got != want {
			t.Errorf("rate(%v) = %q, want %q", v, got, want)
		}
	}
}

// TestAudit_Moves checks that only 0 is shown as zero, and that a system without a change has no row.
func TestAudit_Moves(t *testing.T) {
	var a Audit
	a.Systems = []harness.AuditedSystem{{Name: "a", Moves: map[string]float64{scoring.EntityF1: 0.0004}}, {Name: "b"}}
	if d := cmp.Diff([]Row{{Cells: []string{"a", "+0.0004", "0.000"}}}, a.Moves().Rows); d != "" {
		t.Error(d)
	}
}

// TestAuditText_queue: without findings, the line of the queue names no run.
func TestAuditText_queue(t *testing.T) {
	for run, want := range map[string]string{"": "queue q: 0 traces added, 0 there", "r": "queue q: 0 traces of r added, 0 there"} {
		var b strings.Builder
		if err := AuditText(&b, Audit{Queue: &Queued{Name: "q", Run: run}}, Options{}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%q, want %q, %v", b.String(), want, err)
		}
	}
}
