package report

import (
	"io"
	"iter"

	"extraction-experiment/outcome"
)

// Run is a whole run as the reports take it: what it comes to, and its items.
type Run struct {
	Summary outcome.Summary
	// Items yields the newest attempt of every item, ordered by item id and
	// trial. A report holds one at a time, reads them at most once, and stops
	// at the first error.
	Items iter.Seq2[ItemView, error]
}

// title names a run for people: "baseline-v1 · contracts · gpt-4o".
func (r Run) title() string {
	title := label(r.Summary.Run.Name)
	for _, part := range []string{r.Summary.Run.Dataset, r.Summary.Run.Model} {
		if part != "" {
			title += " · " + label(part)
		}
	}
	return title
}

// message says why an item failed; "" if it did not.
func (v ItemView) message() string {
	if v.Outcome.Failure != nil {
		return v.Outcome.Failure.Message
	}
	if v.Outcome.Failed() {
		if s, ok := outcome.Lookup(v.Outcome.Scores, outcome.ErrorScore); ok {
			return s.Comment
		}
	}
	return ""
}

// JSONL writes one JSON object per item on a line of its own, that of "show
// --json". It writes item by item; the errors are those of the run and of the
// writer.
func JSONL(w io.Writer, runs []Run) error {
	for _, r := range runs {
		for item, err := range r.Items {
			if err != nil {
				return err
			}
			if err := JSON(w, item, false); err != nil {
				return err
			}
		}
	}
	return nil
}
