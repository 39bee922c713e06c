package html

import (
	"context"
	"io"
	"slices"
	"testing"

	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/report"
)

// newAudit returns an audit of three findings whose texts are all the given text.
func newAudit(text string) report.Audit {
	yes, no, value := true, false, 0.5
	a := report.Audit{Dataset: text}
	a.Items, a.Total = 4, 5
	a.Systems = []harness.AuditedSystem{{Name: text, Moves: map[string]float64{"entity_f1": 0.0004}}, {Name: "second"}}
	for _, d := range []harness.Doubt{
		{Key: "k1", Kind: harness.NotInGold, Doubt: 0.93, Proposed: text},
		{Key: "k2", Kind: harness.NotFound, Doubt: 0.5, Expected: text},
		{Key: "k3", Kind: harness.OtherType, Doubt: 0.12, Expected: text, Proposed: text},
	} {
		d.Item, d.What, d.Gold, d.Reason = text, "entity", "00ff", text
		d.Says = []harness.SystemOpinion{{System: text, For: &yes}, {System: "second", For: &no}, {System: "third", Has: text}}
		d.Effects = []harness.Effect{{System: text, Score: "entity_f1", After: &value, Run: &value}}
		d.Places = []harness.Place{{Span: extraction.Span{Quote: text}, Before: text, After: text}}
		a.Findings = append(a.Findings, d)
	}
	return a
}

func auditPage(t *testing.T, a report.Audit) string {
	t.Helper()
	return written(t, func(w io.Writer) error { return Audit(w, a) })
}

const (
	verdicts = `Array.from(document.querySelectorAll(".finding")).map(f => f.dataset.verdict || "-").join()`
	at       = `(document.querySelector(".finding.at") || { dataset: {} }).dataset.finding || ""`
	decided  = `document.getElementById("decided").textContent`
)

// auditKeyboard decides about findings and saves, using the keyboard alone.
func auditKeyboard(t *testing.T, chromium context.Context) {
	b := openPage(t, chromium, auditPage(t, newAudit("Ada")))
	want(b, decided, "nothing decided")
	want(b, `document.getElementById("save").disabled`, true)
	b.Press("a") // no finding is selected yet
	want(b, verdicts, "-,-,-")
	b.Press("j")
	want(b, at, "k1")
	b.Press("a") // selects the next finding
	want(b, at, "k2")
	b.Press("r")
	want(b, verdicts, "accepted,rejected,-")
	want(b, decided, "1 accepted, 1 rejected, 1 left")
	b.Press("k", "k", "k")
	want(b, at, "k1")
	b.Press("u")
	want(b, verdicts, "-,rejected,-")
	want(b, `(() => { document.querySelector("#f-k3 [data-verdict=rejected]").focus(); return `+at+` })()`, "k3") // as by Tab
	b.Press("a")
	want(b, verdicts, "-,rejected,accepted")
	b.Press("u", "k")
	b.Click(`#f-k3 [data-verdict=accepted]`)
	want(b, verdicts, "-,rejected,accepted")
	want(b, `document.querySelector("#f-k3 [data-verdict=accepted]").getAttribute("aria-pressed")`, "true")

	value[bool](b, `window.saved = "", URL.createObjectURL = (blob) => { blob.text().then((t) => { window.saved = t; }); return "#"; }, true`)
	b.Press("s")
	want(b, `window.saved`, `{
  "dataset": "Ada",
  "decisions": [
    {
      "item": "Ada",
      "finding": "k2",
      "gold": "00ff",
      "verdict": "rejected"
    },
    {
      "item": "Ada",
      "finding": "k3",
      "gold": "00ff",
      "verdict": "accepted"
    }
  ]
}
`)
	b.Viewport(400, 800)
	want(b, `document.documentElement.scrollWidth <= 400`, true)
	b.WantNoComplaints()

	later := newAudit("Ada") // with the findings in another order, one of them about other gold
	slices.Reverse(later.Findings)
	later.Findings[0].Gold = "11ff"
	b = openPage(t, chromium, auditPage(t, later))
	// A new page may see late what another one has stored: then it is loaded again.
	want(b, `(v => v === "-,-,-" ? location.reload() : v)(`+verdicts+`)`, "-,rejected,-")
}

func auditHostile(t *testing.T, chromium context.Context) {
	a := newAudit(hostile)
	for i := range a.Findings {
		a.Findings[i].Gold = "other" // the browser stores decisions by finding and gold
	}
	b := openPage(t, chromium, auditPage(t, a))
	b.Press("j", "a", "r", "s")
	want(b, verdicts, "accepted,rejected,-")
	wantUnharmed(b, 1)
}

// TestAudit_nothing checks that a page without findings says so.
func TestAudit_nothing(t *testing.T) {
	wantTexts(t, auditPage(t, report.Audit{Dataset: "d"}), "raises no doubt about the gold")
}
