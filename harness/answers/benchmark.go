package answers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// epsilon is up to what size a difference of one question is none.
const epsilon = 1e-9

// BenchmarkQuestion is one question of a run: a failed one scores 0.
type BenchmarkQuestion struct {
	Score  float64 `json:"score"`
	Weight float64 `json:"weight"`
	Failed bool    `json:"failed,omitempty"`
}

// BenchmarkRun is one pass over a dataset. A BenchmarkRun with an Error has no score.
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
	// WeightedScore is the mean of those of the runs; nil if any has none.
	WeightedScore *float64 `json:"weighted_score"`
	// Stddev is their sample standard deviation; nil for fewer than two.
	Stddev *float64       `json:"stddev"`
	Runs   []BenchmarkRun `json:"runs"`
}

// Broken says why a dataset has no score.
func (d BenchmarkDataset) Broken() string {
	for _, run := range d.Runs {
		if run.WeightedScore == nil && run.Error != "" {
			return run.Error
		}
	}
	return "it was not run to its end, or its weights sum up to 0"
}

// BenchmarkReport is a benchmark with its summary; it is also what a later one is compared
// with.
type BenchmarkReport struct {
	Name     string             `json:"name"`
	Summary  BenchmarkSummary   `json:"summary"`
	Datasets []BenchmarkDataset `json:"datasets"`
	Gates    []BenchmarkGate    `json:"gates"`
	// ScorerVersion is that of the runs; earlier reports have none.
	ScorerVersion string `json:"scorer_version,omitempty"`
}

// BenchmarkSummary is what the datasets come to together.
type BenchmarkSummary struct {
	// WeightedScore is Σ weighted_score·weight / Σ weight over the datasets; nil
	// while a dataset with a weight has no score.
	WeightedScore *float64 `json:"weighted_score"`
	// QuestionWeightedScore is Σ score·weight / Σ weight over all questions of
	// all datasets and runs, whatever the weight of their dataset.
	QuestionWeightedScore *float64 `json:"question_weighted_score"`
	// Stddev is that of WeightedScore over the repeated runs: of the first run of
	// every dataset, of the second, and so on. Nil for fewer than two.
	Stddev *float64 `json:"stddev"`
	Failed int      `json:"failed"` // questions
	Broken int      `json:"broken"` // runs that came to no score
}

// SumBenchmark makes the report of datasets whose runs are filled in.
func SumBenchmark(name string, datasets []BenchmarkDataset) BenchmarkReport {
	r := BenchmarkReport{Name: name, Datasets: datasets, Gates: []BenchmarkGate{}}
	var questions weighted
	for i := range r.Datasets {
		d := &r.Datasets[i]
		d.sum()
		for _, run := range d.Runs {
			r.Summary.Failed += run.Failed
			if run.WeightedScore == nil {
				r.Summary.Broken++
			}
			for _, q := range run.Questions {
				questions.add(q.Score, q.Weight)
			}
		}
	}
	r.Summary.QuestionWeightedScore = questions.mean()
	r.Summary.WeightedScore = r.over(func(d BenchmarkDataset) *float64 { return d.WeightedScore })
	r.Summary.Stddev = r.stddev()
	return r
}

func (d *BenchmarkDataset) sum() {
	var m stats.Moments
	for _, run := range d.Runs {
		if run.WeightedScore != nil {
			m.Add(*run.WeightedScore)
		}
	}
	if m.N() == len(d.Runs) {
		d.WeightedScore = m.MeanOrNil()
	}
	d.Stddev = deviation(m)
}

// over is the mean of the datasets by their weights; nil where one that has a
// weight has no score.
func (r BenchmarkReport) over(score func(BenchmarkDataset) *float64) *float64 {
	var sum weighted
	for _, d := range r.Datasets {
		if s := score(d); s != nil {
			sum.add(*s, d.Weight)
		} else if d.Weight > 0 {
			return nil
		}
	}
	return sum.mean()
}

func (r BenchmarkReport) stddev() *float64 {
	var m stats.Moments
	repeated := slices.Max(append(cli.Each(r.Datasets, func(d BenchmarkDataset) int { return len(d.Runs) }), 0))
	for n := range repeated {
		score := r.over(func(d BenchmarkDataset) *float64 {
			if n >= len(d.Runs) {
				return nil
			}
			return d.Runs[n].WeightedScore
		})
		if score != nil {
			m.Add(*score)
		}
	}
	return deviation(m)
}

// deviation is nil for fewer than two values.
func deviation(m stats.Moments) *float64 {
	if sd, ok := m.SD(); ok {
		return &sd
	}
	return nil
}

// weighted sums values by weights, exactly.
type weighted struct{ sum, weights stats.Sum }

func (w *weighted) add(value, weight float64) {
	w.sum.Add(value * weight)
	w.weights.Add(weight)
}

// mean is nil for weights that sum up to 0.
func (w *weighted) mean() *float64 {
	total := w.weights.Value()
	if total <= 0 {
		return nil
	}
	return new(w.sum.Value() / total)
}

// BenchmarkGates are bounds; a nil one asks for nothing.
type BenchmarkGates struct {
	MinScore       *float64 // of weighted_score
	MaxDrop        *float64 // of weighted_score below that of the base
	MaxStddev      *float64 // of weighted_score over repeated runs
	MaxRegressions *int     // questions worse than in the base by more than epsilon
}

// BenchmarkGate is one bound with its answer.
type BenchmarkGate struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Skipped says that there was no base to compare with; it did not pass, and
	// did not fail.
	Skipped bool   `json:"skipped,omitempty"`
	Reason  string `json:"reason"`
}

// Failed reports whether the gate was judged and did not pass.
func (g BenchmarkGate) Failed() bool { return !g.Passed && !g.Skipped }

// Word is pass, FAIL or skip.
func (g BenchmarkGate) Word() string {
	switch {
	case g.Skipped:
		return "skip"
	case g.Passed:
		return "pass"
	}
	return "FAIL"
}

// Judge judges every gate; those against a base are skipped without one. A
// bound that is met exactly passes. What has no score passes nothing.
func (r BenchmarkReport) Judge(g BenchmarkGates, base *BenchmarkReport) []BenchmarkGate {
	out, score := []BenchmarkGate{}, r.Summary.WeightedScore
	add := func(name string, passed bool, format string, args ...any) {
		gate := BenchmarkGate{Name: name, Passed: passed, Reason: fmt.Sprintf(format, args...)}
		if score == nil { // nothing is better or worse than it was
			gate = BenchmarkGate{Name: name, Reason: "there is no weighted_score: a dataset has none"}
		}
		out = append(out, gate)
	}
	if g.MinScore != nil {
		add("min_score", score != nil && *score >= *g.MinScore-epsilon, "weighted_score is %s, at least %g is asked for", number(score), *g.MinScore)
	}
	if g.MaxStddev != nil {
		sd := r.Summary.Stddev
		add("max_stddev", sd != nil && *sd <= *g.MaxStddev+epsilon, "weighted_score varies by %s over the runs, %g is allowed", number(sd), *g.MaxStddev)
	}
	against := func(name string) bool {
		if base == nil {
			out = append(out, BenchmarkGate{Name: name, Skipped: true, Reason: "there is no baseline to compare with (--baseline)"})
		}
		return base != nil
	}
	if g.MaxDrop != nil && against("max_drop") {
		was := base.Summary.WeightedScore
		passed := score != nil && was != nil && *was-*score <= *g.MaxDrop+epsilon
		add("max_drop", passed, "weighted_score went from %s to %s, a drop of %g is allowed", number(was), number(score), *g.MaxDrop)
	}
	if g.MaxRegressions != nil && against("max_regressions") {
		worse := r.regressions(*base)
		names := strings.TrimSuffix(": "+textutil.Brief(strings.Join(worse, ", "), 200), ": ")
		add("max_regressions", len(worse) <= *g.MaxRegressions, "%d questions are worse, %d are allowed%s",
			len(worse), *g.MaxRegressions, names)
	}
	return out
}

// Incompatible lists why a report cannot be compared with a base: other
// datasets, weights, documents, questions. A hash that is missing is not a hash
// that is equal.
func (r BenchmarkReport) Incompatible(base BenchmarkReport) (reasons []string) {
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	was := map[string]BenchmarkDataset{}
	for _, d := range base.Datasets {
		was[d.ID] = d
	}
	for _, d := range r.Datasets {
		b, ok := was[d.ID]
		delete(was, d.ID)
		if !ok {
			add("dataset %s is not in the baseline", d.ID)
			continue
		}
		if d.Weight != b.Weight {
			add("dataset %s: the weight was %g and is %g", d.ID, b.Weight, d.Weight)
		}
		pdf, questions := d.Hashes()
		oldPDF, oldQuestions := b.Hashes()
		if oldPDF == "" {
			add("dataset %s came to nothing in the baseline", d.ID)
			continue
		}
		if pdf != oldPDF || pdf == "" {
			add("dataset %s: another document (pdf_sha256)", d.ID)
		}
		if questions != oldQuestions || questions == "" {
			add("dataset %s: other questions (questions_sha256)", d.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		add("dataset %s is in the baseline only", id)
	}
	return reasons
}

// Hashes identify document and questions; "" where no run came to know them.
func (d BenchmarkDataset) Hashes() (pdf, questions string) {
	for _, run := range d.Runs {
		if run.PDFSHA256 != "" {
			return run.PDFSHA256, run.QuestionsSHA256
		}
	}
	return "", ""
}

// regressions names the questions whose mean over the runs fell, by dataset.
func (r BenchmarkReport) regressions(base BenchmarkReport) []string {
	before, now := base.means(), r.means()
	var worse []string
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if after, ok := now[id]; !ok || after < before[id]-epsilon {
			worse = append(worse, id)
		}
	}
	return worse
}

// means is the mean of each question over the runs that asked it.
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

func number(v *float64) string {
	if v == nil {
		return "undefined"
	}
	return fmt.Sprintf("%.4f", *v)
}
