package html

import (
	"io"

	"extraction-experiment/internal/printable"
	"extraction-experiment/report"
)

// RunLink is a run in a list of pages.
type RunLink struct {
	report.RunRow
	Address string // of its page
	Path    string // which run it is, for the comparison
}

// RunList writes the list of runs, with links to their pages and a form that
// asks for /compare?base=PATH&cand=PATH. Problems are what could not be read.
// The page has no script. Errors are those of the writer.
func RunList(w io.Writer, title string, runs []RunLink, problems []string) error {
	out, err := newWriter(w, still, Config{})
	if err != nil {
		return err
	}
	out.titles = []string{named(title)}
	page := struct {
		Title    string
		Runs     []runLine
		More     int
		Problems []string
		Primary  string // the score of all, where it is one
	}{Title: named(title), Primary: sharedPrimary(runs), More: max(0, len(runs)-mostRuns)}
	base, candidate := suggested(runs)
	for i, r := range runs[:min(len(runs), mostRuns)] {
		line := newRunLine(r)
		line.Base, line.Candidate = i == base, i == candidate
		page.Runs = append(page.Runs, line)
	}
	for _, p := range problems[:min(len(problems), mostLines)] {
		page.Problems = append(page.Problems, printable.Block(cutTo(p, 1000)))
	}
	return out.parts(out.head, func() error { return out.ExecuteTemplate(out, "runlist", page) })
}

// sharedPrimary is the primary score of all runs, or just the word.
func sharedPrimary(runs []RunLink) string {
	for _, r := range runs {
		if r.Primary != runs[0].Primary {
			return "score"
		}
	}
	if len(runs) == 0 || runs[0].Primary == "" {
		return "score"
	}
	return named(runs[0].Primary)
}

// mostRuns bounds the list.
const mostRuns = 2000

type runLine struct {
	Name, Address, Path, Dataset, Model, Status, State string
	Items, Failed, Primary, Mean, Weighted             string
	Note, Started, Unpublished                         string
	Bar                                                *float64
	Base, Candidate                                    bool // chosen at first
}

func newRunLine(r RunLink) runLine {
	line := runLine{Name: named(r.Name), Address: r.Address, Path: r.Path, Dataset: named(r.Dataset), Model: named(r.Model), Status: named(r.Status),
		Items: report.FormatItems(r.RunRow), Primary: named(r.Primary), Mean: report.FormatScore(r.AsZero, 3)}
	if r.Status != "complete" {
		line.State = "warn"
	}
	if r.Weighted != nil {
		line.Weighted = "weighted " + report.FormatScore(r.Weighted, 3)
	}
	if r.Failed > 0 {
		line.Failed = report.FormatCount(r.Failed)
		line.Note = "failed items as 0; " + report.FormatScore(r.Mean, 3) + " of the others"
	}
	if r.Unpublished > 0 {
		line.Unpublished = report.FormatCount(r.Unpublished) + " not published"
	}
	if !r.Started.IsZero() {
		line.Started = r.Started.Format("2006-01-02 15:04")
	}
	if r.AsZero != nil {
		line.Bar = new(barOf(r.AsZero))
	}
	return line
}

// suggested is the first run, the newest, against the next one of its dataset.
func suggested(runs []RunLink) (base, candidate int) {
	for i := 1; i < min(len(runs), mostRuns); i++ {
		if runs[i].Dataset == runs[0].Dataset {
			return i, 0
		}
	}
	return -1, -1
}
