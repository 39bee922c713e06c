package report

import (
	"fmt"
	"io"
	"strings"

	"extraction-experiment/internal/printable"
)

// mostAnnotations is how many annotations of a kind GitHub shows of a step.
const mostAnnotations = 10

// GitHub writes workflow commands: an error annotation per failed item, of each
// run the first nine and one that counts the rest (GitHub shows ten), and a
// notice with the run's primary score. Text of strangers is escaped, so that it
// begins no command of its own. The step summary is Markdown's.
//
// The messages are those that the summary keeps of each class; the caller
// decides with outcome.SummaryConfig.Messages how many. It writes once; the
// error is that of the writer.
func GitHub(w io.Writer, runs []Run) error {
	var b strings.Builder
	for _, r := range runs {
		shown := 0
		for _, class := range r.Summary.Failures {
			for _, item := range class.Items {
				if shown == mostAnnotations-1 {
					break
				}
				shown++
				annotate(&b, "error", label(string(class.Class))+": "+label(item.ID), label(item.Message))
			}
		}
		if more := r.Summary.Items.Failed - shown; more > 0 {
			annotate(&b, "error", label(r.Summary.Run.Name), "and "+counted(more, "more failed "+outcomes(r.Summary)))
		}
		annotate(&b, "notice", r.title(), r.inOneLine())
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// inOneLine is the primary score with the counts of items.
func (r Run) inOneLine() string {
	s := r.Summary
	parts := []string{}
	if stat, ok := s.Scores.Lookup(s.Run.Primary); ok {
		mean, ci := s.Scores.Lead(stat)
		text := printable.Line(stat.Name) + " " + score(mean, 3) + " (" + interval(ci, nil, false) + ")"
		if s.Scores.AnyFailed() {
			parts = append(parts, text+" with failed items as 0", score(stat.Mean, 3)+" of those scored")
		} else {
			parts = append(parts, text)
		}
	}
	parts = append(parts, plannedItems(s), count(s.Items.Failed)+" failed")
	if n := s.Items.NotRun(); n > 0 {
		parts = append(parts, count(n)+" not run")
	}
	return strings.Join(parts, " · ")
}

// annotate writes a command with the escapes that GitHub's runner undoes.
func annotate(b *strings.Builder, kind, title, message string) {
	data := []string{"%", "%25", "\r", "%0D", "\n", "%0A"}
	property := append([]string{":", "%3A", ",", "%2C"}, data...)
	fmt.Fprintf(b, "::%s title=%s::%s\n", kind, strings.NewReplacer(property...).Replace(title), strings.NewReplacer(data...).Replace(message))
}
