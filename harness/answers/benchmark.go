package answers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// epsilon is the largest difference that does not count.
const epsilon = 1e-9

// BenchmarkQuestion is one question of a run. A failed question has score 0.
type BenchmarkQuestion struct {
	Score  float64 `json:"score"`
	Weight float64 `json:"weight"`
	Failed bool    `json:"failed,omitempty"`
}

// BenchmarkRun is one pass over a dataset. It has no score if Error is set.
type BenchmarkRun struct {
	Name            string                       `json:"name"`
	Path            string                       `json:"path"`
	WeightedScore   *float64                     `json:"weighted_score"`
	PDFSHA256       string                       `json:"pdf_sha256"`
	QuestionsSHA256 string                       `json:"questions_sha256"`
	Failed          int                          `json:"failed"`
	Seconds         float64                      `json:"seconds"`
	Error           string                       `json:"error,omitempty"`
	Questions       map[string]BenchmarkQuestion `json:"questions"`
}

// BenchmarkDataset is a document with its questions and runs.
type BenchmarkDataset struct {
	ID     string  `json:"id"`
	Kind   string  `json:"kind"`
	Weight float64 `json:"weight"`
	// WeightedScore is the mean over the runs; nil if a run has no score.
	WeightedScore *float64 `json:"weighted_score"`
	// Stddev is the sample standard deviation of the runs' scores; nil for fewer than two.
	Stddev *float64       `json:"stddev"`
	Runs   []BenchmarkRun `json:"runs"`
}

// FailureReason returns why a dataset has no score.
func (d BenchmarkDataset) FailureReason() string {
	for _, run := range d.Runs {
		if run.WeightedScore == nil && run.Error != "" {
			return run.Error
		}
	}
	return "it was not run to its end, or its weights sum up to 0"
}

// BenchmarkReport is a benchmark with its summary. It also serves as the base of a later benchmark.
type BenchmarkReport struct {
	Name     string             `json:"name"`
	Summary  BenchmarkSummary   `json:"summary"`
	Datasets []BenchmarkDataset `json:"datasets"`
	Gates    []BenchmarkGate    `json:"gates"`
	// ScorerVersion is the version with which the runs were scored; empty in old reports.
	ScorerVersion string `json:"scorer_version,omitempty"`
}

// BenchmarkSummary is the result over all datasets.
type BenchmarkSummary struct {
	// WeightedScore is Σ weighted_score·weight / Σ weight over the datasets; nil if a dataset with
	// a positive weight has no score.
	WeightedScore *float64 `json:"weighted_score"`
	// QuestionWeightedScore is Σ score·weight / Σ weight over all questions of all datasets and
	// runs, regardless of the weights of the datasets.
	QuestionWeightedScore *float64 `json:"question_weighted_score"`
	// Stddev is the sample standard deviation of WeightedScore over the repetitions: over the first
	// run of every dataset, the second, and so on. Nil for fewer than two.
	Stddev *float64 `json:"stddev"`
	Failed int      `json:"failed"` // number of failed questions
	Broken int      `json:"broken"` // number of runs without a score
}

// SumBenchmark makes the report of datasets whose Runs are set.
func SumBenchmark(name string, datasets []BenchmarkDataset) BenchmarkReport {
	r := BenchmarkReport{Name: name, Datasets: datasets, Gates: []BenchmarkGate{}}
	var questions outcome.WeightedSum
	for i := range r.Datasets {
		d := &r.Datasets[i]
		var scores stats.Moments
		for _, run := range d.Runs {
			r.Summary.Failed += run.Failed
			if run.WeightedScore == nil {
				r.Summary.Broken++
			} else {
				scores.Add(*run.WeightedScore)
			}
			for _, q := range run.Questions {
				questions.Add(q.Score, &q.Weight)
			}
		}
		if d.Stddev = stddevOrNil(scores); scores.N() == len(d.Runs) {
			d.WeightedScore = scores.MeanOrNil()
		}
	}
	r.Summary.QuestionWeightedScore = questions.Mean()
	r.Summary.WeightedScore = r.weightedMean(func(d BenchmarkDataset) *float64 { return d.WeightedScore })
	r.Summary.Stddev = r.stddevOverRuns()
	return r
}

// weightedMean returns the mean of the datasets' scores, weighted by dataset; nil if a dataset with
// a positive weight has no score.
func (r BenchmarkReport) weightedMean(score func(BenchmarkDataset) *float64) *float64 {
	var sum outcome.WeightedSum
	for _, d := range r.Datasets {
		if s := score(d); s != nil {
			sum.Add(*s, &d.Weight)
		} else if d.Weight > 0 {
			return nil
		}
	}
	return sum.Mean()
}

func (r BenchmarkReport) stddevOverRuns() *float64 {
	var m stats.Moments
	rounds := slices.Max(append(cli.Each(r.Datasets, func(d BenchmarkDataset) int { return len(d.Runs) }), 0))
	for n := range rounds {
		score := r.weightedMean(func(d BenchmarkDataset) *float64 {
			if n >= len(d.Runs) {
				return nil
			}
			return d.Runs[n].WeightedScore
		})
		if score != nil {
			m.Add(*score)
		}
	}
	return stddevOrNil(m)
}

// stddevOrNil returns the sample standard deviation, or nil for fewer than two values.
func stddevOrNil(m stats.Moments) *float64 {
	if sd, ok := m.SD(); ok {
		return &sd
	}
	return nil
}

// BenchmarkGates are the bounds of a benchmark; nil for no bound.
type BenchmarkGates struct {
	MinScore       *float64 // least weighted_score
	MaxDrop        *float64 // largest drop of weighted_score below that of the base
	MaxStddev      *float64 // largest standard deviation of weighted_score over repeated runs
	MaxRegressions *int     // most questions that are worse than in the base by more than epsilon
}

// BenchmarkGate is one bound with its verdict.
type BenchmarkGate struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Skipped is set if there was no base to compare with; the gate neither passed nor failed.
	Skipped bool   `json:"skipped,omitempty"`
	Reason  string `json:"reason"`
}

// Failed reports whether the gate was judged and did not pass.
func (g BenchmarkGate) Failed() bool { return !g.Passed && !g.Skipped }

// Word returns "pass", "FAIL" or "skip".
func (g BenchmarkGate) Word() string {
	switch {
	case g.Skipped:
		return "skip"
	case g.Passed:
		return "pass"
	}
	return "FAIL"
}

// Judge judges every gate. Without a base it skips the gates that need one. A bound that is met
// exactly passes. Without a score no gate passes.
func (r BenchmarkReport) Judge(g BenchmarkGates, base *BenchmarkReport) []BenchmarkGate {
	out, score := []BenchmarkGate{}, r.Summary.WeightedScore
	add := func(name string, passed bool, format string, args ...any) {
		gate := BenchmarkGate{Name: name, Passed: passed, Reason: fmt.Sprintf(format, args...)}
		if score == nil { // there is nothing to compare
			gate = BenchmarkGate{Name: name, Reason: "there is no weighted_score: a dataset has none"}
		}
		out = append(out, gate)
	}
	if g.MinScore != nil {
		add("min_score", score != nil && *score >= *g.MinScore-epsilon, "weighted_score is %s, at least %g is asked for", formatNumber(score), *g.MinScore)
	}
	if g.MaxStddev != nil {
		sd := r.Summary.Stddev
		add("max_stddev", sd != nil && *sd <= *g.MaxStddev+epsilon, "weighted_score varies by %s over the runs, %g is allowed", formatNumber(sd), *g.MaxStddev)
	}
	hasBase := func(name string) bool {
		if base == nil {
			out = append(out, BenchmarkGate{Name: name, Skipped: true, Reason: "there is no baseline to compare with (--baseline)"})
		}
		return base != nil
	}
	if g.MaxDrop != nil && hasBase("max_drop") {
		old := base.Summary.WeightedScore
		passed := score != nil && old != nil && *old-*score <= *g.MaxDrop+epsilon
		add("max_drop", passed, "weighted_score went from %s to %s, a drop of %g is allowed", formatNumber(old), formatNumber(score), *g.MaxDrop)
	}
	if g.MaxRegressions != nil && hasBase("max_regressions") {
		worse := r.regressions(*base)
		names := strings.TrimSuffix(": "+textutil.Brief(strings.Join(worse, ", "), 200), ": ")
		add("max_regressions", len(worse) <= *g.MaxRegressions, "%d questions are worse, %d are allowed%s",
			len(worse), *g.MaxRegressions, names)
	}
	return out
}

// Incompatible lists why a report cannot be compared with a base, one reason for each dataset: it is
// not in both, or has another weight, another document or other questions. A missing hash equals no
// other hash.
func (r BenchmarkReport) Incompatible(base BenchmarkReport) (reasons []string) {
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	old := map[string]BenchmarkDataset{}
	for _, d := range base.Datasets {
		old[d.ID] = d
	}
	for _, d := range r.Datasets {
		b, ok := old[d.ID]
		delete(old, d.ID)
		pdf, questions := d.Hashes()
		oldPDF, oldQuestions := b.Hashes()
		switch {
		case !ok:
			add("dataset %s is not in the baseline", d.ID)
		case d.Weight != b.Weight:
			add("dataset %s: the weight was %g and is %g", d.ID, b.Weight, d.Weight)
		case oldPDF == "":
			add("dataset %s has no score in the baseline", d.ID)
		case pdf != oldPDF || pdf == "":
			add("dataset %s: another document (pdf_sha256)", d.ID)
		case questions != oldQuestions || questions == "":
			add("dataset %s: other questions (questions_sha256)", d.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(old)) {
		add("dataset %s is in the baseline only", id)
	}
	return reasons
}

// Hashes returns the hashes of document and questions, or "" if no run read them.
func (d BenchmarkDataset) Hashes() (pdf, questions string) {
	for _, run := range d.Runs {
		if run.PDFSHA256 != "" {
			return run.PDFSHA256, run.QuestionsSHA256
		}
	}
	return "", ""
}

// regressions returns the questions whose mean over the runs fell, or that are missing, as
// dataset/question.
func (r BenchmarkReport) regressions(base BenchmarkReport) []string {
	before, current := base.means(), r.means()
	var worse []string
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if after, ok := current[id]; !ok || after < before[id]-epsilon {
			worse = append(worse, id)
		}
	}
	return worse
}

// means returns the mean of each question over the runs that asked it, by dataset/question.
func (r BenchmarkReport) means() map[string]float64 {
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

func formatNumber(v *float64) string {
	if v == nil {
		return "undefined"
	}
	return fmt.Sprintf("%.4f", *v)
}
