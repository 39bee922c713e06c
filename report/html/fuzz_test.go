package html

import (
	"io"
	"strings"
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// FuzzWrite checks that untrusted text cannot change the structure of the page, that its blocks
// are JSON, and that its size is limited.
func FuzzWrite(f *testing.F) {
	f.Add("a text", "a name", []byte(`[{"role":"user","content":"x"}]`))
	f.Add(hostile, hostile, []byte(`"</script>"`))
	f.Add("\xff\x00\u202e", "", []byte(`{`))
	f.Fuzz(func(t *testing.T, text, name string, raw []byte) {
		run := newRun(name, 2, func(i int, v *report.ItemView) {
			v.Text, v.Outcome.Item, v.Outcome.Calls[0].Error = text, name, text
			v.Outcome.Causes = append(v.Outcome.Causes, outcome.Cause{What: name, Name: text, Count: 1})
			v.Outcome.Scores = append(v.Outcome.Scores, outcome.Score{Name: text, Comment: name})
			v.Outcome.Calls[0].Input, v.Outcome.Output = raw, raw
			v.Expected.Entities[0].Name, v.Expected.Entities[1].Type = name, text
			v.Missed[0].Nearest, v.Faults[0].Cause = text, name
		})
		run.Summary.Run.URL, run.Summary.Warnings = text, []string{text}
		wantValid(t, page(t, []report.Run{run}, Config{MaxBytes: 20_000}))
	})
}

// FuzzCompare checks the same for a comparison and a trace.
func FuzzCompare(f *testing.F) {
	f.Add("a text", "a name")
	f.Add(hostile, hostile)
	f.Add("\xff\x00\u202e", "")
	f.Fuzz(func(t *testing.T, text, name string) {
		change := func(i int, v *report.ItemView) {
			v.Text, v.Outcome.Calls[0].Error, v.Outcome.Warnings = text, text, []string{name}
			v.Expected.Entities[0].Name, v.Expected.Entities[1].Type = name, text
			if v.Extracted != nil {
				v.Extracted.Entities[0].Name, v.Extracted.Relationships[0].Type = text, name
			}
		}
		runs := newPair(t, 3, change)
		c := compareRuns(t, runs, gateConfig(t))
		r := &c.Candidates[0]
		runs[0].Summary.Run.Name, runs[1].Summary.Run.Model, c.Base.Where, r.Warnings = name, text, text, []string{text}
		r.Gate.Rules[0].Rule, r.Gate.Rules[0].Reason, r.Scores[0].Name, r.Groups[0].Kind, r.Groups[0].Name = name, text, name, text, name
		r.Changed[0].Item, r.Changed[0].Gained, r.Changed[0].CandidateFailure = name, []string{text}, text
		wantValid(t, comparePage(t, c, runs, Config{MaxBytes: 20_000}))
		step := Observation{ID: text, Parent: name, Name: name, Facts: []string{text}, Texts: [][2]string{{name, text}}}
		trace := Trace{ID: name, Name: text, Observations: []Observation{step, step}, Scores: []TraceScore{{text, name, text, name}}}
		static := written(t, func(w io.Writer) error { return WriteTrace(w, trace) })
		wantNoTags(t, static)
		if strings.Contains(static, "<script") {
			t.Error("a page without script has one")
		}
	})
}
