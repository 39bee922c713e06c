package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
	"extraction-experiment/tracking"
)

// shownFindings is how many findings the table has; JSON has more.
const shownFindings = 50

// verification is what verify prints.
type verification struct {
	OK       bool   `json:"ok"`
	Langfuse string `json:"langfuse"`
	Version  string `json:"version"`
	tracking.Verdict
	// Before is what was found before the repair; nil where there was nothing to
	// repair, or no repair was asked for.
	Before *tracking.Verdict `json:"before_repair,omitempty"`
}

// failed is the error of a run that differs.
func (v verification) failed() error {
	if v.OK {
		return nil
	}
	return &tracking.DifferentError{Verdict: v.Verdict}
}

// write writes the verification for people.
func (v verification) write(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s in Langfuse %s (%s), %s\n", printable.Line(v.Run), v.Version, v.Mode, v.Langfuse)
	c := v.Checked
	fmt.Fprintf(&b, "in order    %d of %d items: %d spans, %d scores, %d links to the prompt; %d scores of the run\n",
		c.Items, v.Outcomes, c.Spans, c.Scores, c.Prompts, c.RunScores)
	for _, view := range []langfuse.View{langfuse.ViewRuns, langfuse.ViewExperiments} {
		if n, ok := c.Shown[view]; ok {
			fmt.Fprintf(&b, "shown       %s in the list of %s\n", printable.Counted(n, "item"), view)
		}
	}
	if v.Before != nil {
		sent := v.Before.Total() - v.Before.LeftCount
		fmt.Fprintf(&b, "sent again  %d; mended: %d; still different: %d\n", sent, mended(*v.Before, v.Verdict), v.Total())
	}
	if n := v.OthersCount; n > 0 {
		first := v.Others[0]
		fmt.Fprintf(&b, "also there  %s of these names by other programs, not beside the run's own: left alone (the first: %s on %s, id %s)\n",
			printable.Counted(n, "score"), short(first.Score), of(first.Item, first.Trial), short(first.ID))
	}
	if n := v.SupersededCount; n > 0 {
		fmt.Fprintf(&b, "superseded  %s that newer ones replaced; their traces stay, without scores (the first: %s, attempt %d)\n",
			printable.Counted(n, "attempt"), printable.Line(v.Superseded[0].Item), v.Superseded[0].Attempt)
	}
	switch {
	case v.OK && v.Before != nil:
		fmt.Fprintf(&b, "before      %s\n", differences(*v.Before))
		findings(&b, *v.Before)
		b.WriteString("nothing differs\n")
	case v.OK:
		b.WriteString("nothing differs\n")
	default:
		fmt.Fprintf(&b, "%s\n", differences(v.Verdict))
		findings(&b, v.Verdict)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// mended counts the findings, by kind, that are no more.
func mended(before, after tracking.Verdict) int {
	n := 0
	for kind, was := range before.Counts {
		n += max(0, was-after.Counts[kind])
	}
	return n
}

// differences counts what was found, by kind.
func differences(v tracking.Verdict) string {
	var kinds []string
	for _, kind := range tracking.Kinds() {
		if n := v.Counts[kind]; n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
		}
	}
	text := "differences"
	if v.Total() == 1 {
		text = "difference"
	}
	return fmt.Sprintf("%d %s: %s", v.Total(), text, strings.Join(kinds, ", "))
}

// findings lists the first findings.
func findings(b *bytes.Buffer, v tracking.Verdict) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, f := range v.Findings {
		if i == shownFindings {
			break
		}
		what := f.Detail
		if f.Score != "" {
			what = f.Score + ": " + what
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", f.Kind, of(f.Item, f.Trial), short(what))
	}
	_ = t.Flush() // into memory
	if more := v.Total() - min(len(v.Findings), shownFindings); more > 0 {
		fmt.Fprintf(b, "  and %d more; --json lists up to %d\n", more, len(v.Findings))
	}
}

// of names an item and its trial.
func of(item string, trial int) string {
	text := short(item)
	if item == "" {
		text = "(the run)"
	}
	if trial > 1 {
		text += fmt.Sprintf(" #%d", trial)
	}
	return text
}
