package html

import (
	"encoding/json"
	"strings"
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// TestListRow: whatever stands in an outcome, a row of the list stays small.
func TestListRow(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	v := report.ItemView{Text: long}
	v.Outcome.Item, v.Outcome.Class = long, outcome.Class(long)
	v.Outcome.Failure = &outcome.Failure{Class: v.Outcome.Class, Message: long}
	raw, err := json.Marshal(newListRow(merging{long, 1, []*report.ItemView{&v}}, []string{"f1"}))
	if err != nil || len(raw) > 2<<10 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}
