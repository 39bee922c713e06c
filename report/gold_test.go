package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/scoring"
)

// TestAudit_Moves checks that only 0 is shown as zero, and that a system without a change has no row.
func TestAudit_Moves(t *testing.T) {
	var a Audit
	a.Systems = []harness.AuditedSystem{{Name: "a", Moves: map[string]float64{scoring.EntityF1: 0.0004}}, {Name: "b"}}
	if d := cmp.Diff([]Row{{Cells: []string{"a", "+0.0004", "0.000"}}}, a.Moves().Rows); d != "" {
		t.Error(d)
	}
}
