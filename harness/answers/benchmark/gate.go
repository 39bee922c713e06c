package benchmark

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Gates are bounds; a nil one asks for nothing.
type Gates struct {
	MinScore       *float64 // of weighted_score
	MaxDrop        *float64 // of weighted_score below that of the base
	MaxStddev      *float64 // of weighted_score over repeated runs
	MaxRegressions *int     // questions worse than in the base by more than Epsilon
}

// Gate is one bound with its answer.
type Gate struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Skipped says that there was no base to compare with; it did not pass, and
	// did not fail.
	Skipped bool   `json:"skipped,omitempty"`
	Reason  string `json:"reason"`
}

// Failed reports whether the gate was judged and did not pass.
func (g Gate) Failed() bool { return !g.Passed && !g.Skipped }

// Word is pass, FAIL or skip.
func (g Gate) Word() string {
	switch {
	case g.Skipped:
		return "skip"
	case g.Passed:
		return "pass"
	}
	return "FAIL"
}

// Passed reports whether no gate failed.
func (r Report) Passed() bool { return !slices.ContainsFunc(r.Gates, Gate.Failed) }

// Judge judges every gate; those against a base are skipped without one. A
// bound that is met exactly passes. What has no score passes nothing.
func (r Report) Judge(g Gates, base *Report) []Gate {
	out := []Gate{}
	add := func(name string, passed bool, format string, args ...any) {
		out = append(out, Gate{Name: name, Passed: passed, Reason: fmt.Sprintf(format, args...)})
	}
	skip := func(name string) {
		out = append(out, Gate{Name: name, Skipped: true, Reason: "there is no baseline to compare with (--baseline)"})
	}
	score := r.Summary.WeightedScore
	if score == nil { // nothing is better or worse than it was
		add = func(name string, _ bool, _ string, _ ...any) {
			out = append(out, Gate{Name: name, Reason: "there is no weighted_score: a dataset has none"})
		}
	}
	if g.MinScore != nil {
		add("min_score", score != nil && *score >= *g.MinScore-Epsilon, "weighted_score is %s, at least %g is asked for", number(score), *g.MinScore)
	}
	if g.MaxStddev != nil {
		sd := r.Summary.Stddev
		add("max_stddev", sd != nil && *sd <= *g.MaxStddev+Epsilon, "weighted_score varies by %s over the runs, %g is allowed", number(sd), *g.MaxStddev)
	}
	if g.MaxDrop != nil {
		switch {
		case base == nil:
			skip("max_drop")
		case score == nil || base.Summary.WeightedScore == nil:
			add("max_drop", false, "weighted_score was %s", number(base.Summary.WeightedScore))
		default:
			drop := *base.Summary.WeightedScore - *score
			add("max_drop", drop <= *g.MaxDrop+Epsilon, "weighted_score went from %s to %s, a drop of %g is allowed", number(base.Summary.WeightedScore), number(score), *g.MaxDrop)
		}
	}
	if g.MaxRegressions != nil {
		if base == nil {
			skip("max_regressions")
		} else {
			worse := r.regressions(*base)
			add("max_regressions", len(worse) <= *g.MaxRegressions, "%d questions are worse, %d are allowed%s", len(worse), *g.MaxRegressions, some(worse))
		}
	}
	return out
}

// Incompatible lists why a report cannot be compared with a base: other
// datasets, weights, documents, questions. A hash that is missing is no hash
// that is equal.
func (r Report) Incompatible(base Report) []string {
	var reasons []string
	was := map[string]Dataset{}
	for _, d := range base.Datasets {
		was[d.ID] = d
	}
	for _, d := range r.Datasets {
		b, ok := was[d.ID]
		delete(was, d.ID)
		if !ok {
			reasons = append(reasons, "dataset "+d.ID+" is not in the baseline")
			continue
		}
		if d.Weight != b.Weight {
			reasons = append(reasons, fmt.Sprintf("dataset %s: the weight was %g and is %g", d.ID, b.Weight, d.Weight))
		}
		pdf, questions := d.Hashes()
		oldPDF, oldQuestions := b.Hashes()
		if oldPDF == "" {
			reasons = append(reasons, "dataset "+d.ID+" came to nothing in the baseline")
			continue
		}
		if pdf != oldPDF || pdf == "" {
			reasons = append(reasons, "dataset "+d.ID+": another document (pdf_sha256)")
		}
		if questions != oldQuestions || questions == "" {
			reason := "dataset " + d.ID + ": other questions (questions_sha256)"
			if base.ScorerVersion == "" {
				reason += ", or a baseline of an earlier version, which hashed them in another form: run it again"
			}
			reasons = append(reasons, reason)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		reasons = append(reasons, "dataset "+id+" is in the baseline only")
	}
	return reasons
}

// Hashes identify document and questions; "" where no run came to know them.
func (d Dataset) Hashes() (pdf, questions string) {
	for _, run := range d.Runs {
		if run.PDFSHA256 != "" {
			return run.PDFSHA256, run.QuestionsSHA256
		}
	}
	return "", ""
}

// regressions names the questions whose mean over the runs fell, by dataset.
func (r Report) regressions(base Report) []string {
	before := base.means()
	now := r.means()
	var worse []string
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if after, ok := now[id]; !ok || after < before[id]-Epsilon {
			worse = append(worse, id)
		}
	}
	return worse
}

// means is the mean of each question over the runs that asked it.
func (r Report) means() map[string]float64 {
	sums, counts := map[string]float64{}, map[string]float64{}
	for _, d := range r.Datasets {
		for _, run := range d.Runs {
			for id, q := range run.Questions {
				sums[d.ID+"/"+id] += q.Score
				counts[d.ID+"/"+id]++
			}
		}
	}
	for id := range sums {
		sums[id] /= counts[id]
	}
	return sums
}

func some(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	text := ": " + strings.Join(ids[:min(5, len(ids))], ", ")
	if len(ids) > 5 {
		text += fmt.Sprintf(" and %d more", len(ids)-5)
	}
	return text
}

func number(v *float64) string {
	if v == nil {
		return "undefined"
	}
	return fmt.Sprintf("%.4f", *v)
}
