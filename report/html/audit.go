package html

import (
	"io"
	"math"

	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/report"
)

// Audit writes the page of an audit: every finding with its places in the document, what
// each system says, and what would change. A person accepts or rejects findings by mouse
// or keyboard and saves the decisions as a file, which experiment audit --decisions
// reads; the browser remembers them. Errors are those of the writer.
func Audit(w io.Writer, a report.Audit) error {
	out := newWriter(w, ofAudit, Config{})
	out.titles = []string{"Audit of " + named(a.Dataset)}
	page := struct {
		report.Audit
		Shown []finding
		Moves *table
	}{Audit: a, Moves: newTable("moves", a.Moves(), mostLines)}
	type key struct { // in the order of the file that the page saves
		Item    string `json:"item"`
		Finding string `json:"finding"`
		Gold    string `json:"gold"`
	}
	keys := []key{}
	for _, d := range a.Findings {
		keys = append(keys, key{d.Item, d.Key, d.Gold})
		page.Shown = append(page.Shown, newFinding(d))
	}
	return out.parts(out.head, func() error { return out.ExecuteTemplate(out, "audit", page) }, func() error {
		return out.move(map[string]any{"dataset": a.Dataset, "findings": keys})
	})
}

// finding is one of the page.
type finding struct {
	harness.Doubt
	Percent int
	Systems []systemSays
}

type systemSays struct{ System, Word, State string }

func newFinding(d harness.Doubt) finding {
	f := finding{Doubt: d, Percent: int(math.Round(100 * d.Doubt))}
	for _, s := range d.Says {
		says := systemSays{s.System, "says neither", ""}
		switch {
		case s.Has != "":
			says.Word, says.State = "has "+s.Has, "near"
		case s.For != nil && *s.For:
			says.Word, says.State = "speaks for it", "ok"
		case s.For != nil:
			says.Word, says.State = "has what gold has", "missed"
		}
		f.Systems = append(f.Systems, says)
	}
	return f
}
