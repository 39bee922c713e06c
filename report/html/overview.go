package html

import (
	"fmt"
	"strconv"
	"strings"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/scoring"
)

// mostLines bounds each list of the overview.
const mostLines = 40

// overview is what the first view shows of one run.
type overview struct {
	Name     string
	About    []string
	Link     string
	Tiles    []tile
	Failed   bool // the scores lead with failed items as 0
	Scores   []scoreLine
	Trials   *trialsPart
	Causes   []causeLine
	Failures []failureLine
	Groups   []typeTable[groupRow]
	Matrices []namedMatrix
	Warnings []string
}

// tile is a number that stands out.
type tile struct{ Title, Value, Note, State string }

type scoreLine struct {
	Name, Lead, Interval, Scored, N, Pooled string
	Primary                                 bool
	Figure                                  figure
}

type causeLine struct {
	Key, What, Name, Meaning string
	Count, Items             string
	Share                    int // percent of all faults
	Worst                    []itemLink
}

type itemLink struct {
	ID, Label string
	Trial     int
	Against   string // which candidate, where there are several
}

type failureLine struct {
	Class, Count string
	Items        []failedLink
}

type failedLink struct {
	itemLink
	Message string
}

type namedMatrix struct {
	Title string
	*matrix
}

func newOverview(r report.Run, t *tally) overview {
	s := r.Summary
	o := overview{Name: named(s.Run.Name), About: about(r), Tiles: tiles(r)}
	if link, ok := report.WebLink(s.Run.URL); ok {
		o.Link = link
	}
	o.Failed = s.Scores.AnyFailed()
	for _, stat := range s.Scores[:min(len(s.Scores), mostLines)] {
		mean, ci := s.Scores.Lead(stat)
		o.Scores = append(o.Scores, scoreLine{
			Name: named(stat.Name), Primary: stat.Name == s.Run.Primary,
			Lead: report.FormatScore(mean, 3), Interval: report.FormatInterval(ci), Scored: report.FormatScore(stat.Mean, 3),
			N: report.FormatCount(stat.N), Pooled: report.FormatScore(stat.Pooled, 3),
			Figure: newFigure(named(stat.Name), mean, ci, t.distributions[stat.Name]),
		})
	}
	o.Trials, o.Causes = newTrialsPart(s), causeLines(s)
	for _, f := range s.Failures[:min(len(s.Failures), mostLines)] {
		line := failureLine{Class: named(string(f.Class)), Count: report.FormatCount(f.Count)}
		for _, item := range f.Items[:min(len(f.Items), 10)] {
			line.Items = append(line.Items, failedLink{link(item.ID, item.Trial), printable.Line(cutTo(item.Message, 400))})
		}
		o.Failures = append(o.Failures, line)
	}
	o.Groups = groupTables(s.Groups)
	for _, m := range []namedMatrix{{"Entity types", t.entities.matrix()}, {"Relationship types", t.relationships.matrix()}} {
		if m.matrix != nil {
			o.Matrices = append(o.Matrices, m)
		}
	}
	for _, warning := range s.Warnings[:min(len(s.Warnings), mostLines)] {
		o.Warnings = append(o.Warnings, printable.Line(cutTo(warning, 1000)))
	}
	return o
}

func about(r report.Run) []string {
	run := r.Summary.Run
	var parts []string
	for _, part := range []string{run.Dataset, run.Model} {
		if part != "" {
			parts = append(parts, named(part))
		}
	}
	for _, part := range report.FormatSystem(r) {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if judging := report.FormatJudging(r); len(judging) > 0 {
		parts = append(parts, "judging: "+strings.Join(judging, ", "))
	}
	if run.Selection != "" {
		parts = append(parts, named(run.Selection))
	}
	if !run.Started.IsZero() {
		parts = append(parts, run.Started.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if run.ScorerVersion != "" {
		parts = append(parts, "scorer "+named(run.ScorerVersion))
	}
	if run.DatasetFingerprint != "" {
		parts = append(parts, "dataset "+named(cutOff(run.DatasetFingerprint, 12)))
	}
	return parts
}

func tiles(r report.Run) []tile {
	s := r.Summary
	var list []tile
	if s.Answers != nil {
		list = append(list, tile{"weighted_score", report.FormatScore(s.WeightedScore, 3), "by the weights of the questions", "primary"})
	}
	if stat, ok := s.Scores.Lookup(s.Run.Primary); ok {
		var notes []string
		mean, ci := s.Scores.Lead(stat)
		if ci != nil {
			notes = append(notes, "95 % interval "+report.FormatInterval(ci))
		}
		if s.Scores.AnyFailed() {
			notes = append(notes, "failed as 0; of those scored "+report.FormatScore(stat.Mean, 3))
		}
		list = append(list, tile{named(stat.Name), report.FormatScore(mean, 3), strings.Join(notes, ", "), "primary"})
	}
	noun := report.FormatOutcomes(r)
	items := tile{"items", report.FormatCount(s.Items.Planned), report.FormatCount(s.Items.Scored) + " scored", ""}
	if t := s.Trials; t != nil {
		items.Value = report.FormatCount(s.Items.Planned / max(1, t.Count))
		items.Note = fmt.Sprintf("%s each, %s scored", report.FormatCounted(t.Count, "trial"), report.FormatCounted(s.Items.Scored, noun))
	}
	if n := s.Items.NotRun(); n > 0 {
		items.Note += ", " + report.FormatCount(n) + " not run"
		items.State = "warn"
	}
	failed := tile{"failed", report.FormatCount(s.Items.Failed), "of " + report.FormatCounted(s.Items.Scored+s.Items.Failed, noun), ""}
	if s.Items.Failed > 0 {
		failed.State = "bad"
	}
	list = append(list, items, failed)
	if l := s.LatencyMS; l != nil {
		list = append(list, tile{"latency p50", report.FormatMilliseconds(l.P50), "p95 " + report.FormatMilliseconds(l.P95), ""})
	}
	if cost := report.FormatCost(r); len(cost) > 0 {
		list = append(list, tile{"cost", cost[0], strings.Join(cost[1:], ", "), ""})
	}
	if tokens := report.FormatTokens(r); len(tokens) > 0 {
		list = append(list, tile{"tokens", report.FormatCount(s.Usage.Total), strings.Join(tokens, ", "), ""})
	}
	if s.Status != outcome.Complete {
		list = append(list, tile{"status", printable.Line(string(s.Status)), "", "warn"})
	}
	return list
}

func causeLines(s outcome.Summary) []causeLine {
	meanings := map[string]string{}
	for _, c := range scoring.Causes() {
		meanings[string(c.Cause)] = c.Meaning
	}
	total := int64(1)
	for _, c := range s.Causes {
		total = max(total, c.Count)
	}
	var lines []causeLine
	for _, c := range s.Causes[:min(len(s.Causes), mostLines)] {
		line := causeLine{Key: causeKey(c.What, c.Name), What: report.FormatWords(c.What), Name: report.FormatWords(c.Name), Meaning: meanings[c.Name],
			Count: report.FormatCount(c.Count), Items: report.FormatCount(c.Items), Share: int(100 * c.Count / total)}
		for _, item := range c.Worst[:min(len(c.Worst), 10)] {
			l := link(item.ID, item.Trial)
			l.Label += " ×" + strconv.FormatInt(item.Count, 10)
			line.Worst = append(line.Worst, l)
		}
		lines = append(lines, line)
	}
	return lines
}

func link(id string, trial int) itemLink {
	return itemLink{ID: cutTo(id, rowID), Label: printable.Line(cutTo(id, 60)), Trial: max(1, trial)}
}

func binTitle(i int) string {
	return fmt.Sprintf("%.2f–%.2f", float64(i)/bins, float64(i+1)/bins)
}
