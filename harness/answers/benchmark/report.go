package benchmark

import (
	"extraction-experiment/internal/stats"
)

// Question is one question of a run: a failed one scores 0.
type Question struct {
	Score  float64 `json:"score"`
	Weight float64 `json:"weight"`
	Failed bool    `json:"failed,omitempty"`
}

// Run is one pass over a dataset. A Run with an Error has no score.
type Run struct {
	Name            string              `json:"name"`
	Path            string              `json:"path"`
	WeightedScore   *float64            `json:"weighted_score"`
	PDFSHA256       string              `json:"pdf_sha256"`
	QuestionsSHA256 string              `json:"questions_sha256"`
	Failed          int                 `json:"failed"`
	Seconds         float64             `json:"seconds"`
	Error           string              `json:"error,omitempty"`
	Questions       map[string]Question `json:"questions"`
}

// Dataset is a document with its questions and runs.
type Dataset struct {
	ID     string  `json:"id"`
	Kind   string  `json:"kind"`
	Weight float64 `json:"weight"`
	// WeightedScore is the mean of those of the runs; nil if any has none.
	WeightedScore *float64 `json:"weighted_score"`
	// Stddev is their sample standard deviation; nil for fewer than two.
	Stddev *float64 `json:"stddev"`
	Runs   []Run    `json:"runs"`
}

// Broken says why a dataset has no score.
func (d Dataset) Broken() string {
	for _, run := range d.Runs {
		if run.WeightedScore == nil && run.Error != "" {
			return run.Error
		}
	}
	return "it was not run to its end, or its weights sum up to 0"
}

// Report is a benchmark with its summary; it is also what a later one is compared
// with.
type Report struct {
	Name     string    `json:"name"`
	Summary  Summary   `json:"summary"`
	Datasets []Dataset `json:"datasets"`
	Gates    []Gate    `json:"gates"`
	// ScorerVersion is that of the runs; earlier reports have none.
	ScorerVersion string `json:"scorer_version,omitempty"`
}

// Summary is what the datasets come to together.
type Summary struct {
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

// Sum makes the report of datasets whose runs are filled in.
func Sum(name string, datasets []Dataset) Report {
	r := Report{Name: name, Datasets: datasets, Gates: []Gate{}}
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
	r.Summary.WeightedScore = r.over(func(d Dataset) *float64 { return d.WeightedScore })
	r.Summary.Stddev = r.stddev()
	return r
}

func (d *Dataset) sum() {
	var m stats.Moments
	for _, run := range d.Runs {
		if run.WeightedScore != nil {
			m.Add(*run.WeightedScore)
		}
	}
	if mean, ok := m.Mean(); ok && m.N() == len(d.Runs) {
		d.WeightedScore = &mean
	}
	if sd, ok := m.SD(); ok {
		d.Stddev = &sd
	}
}

// over is the mean of the datasets by their weights; nil where one that has a
// weight has no score.
func (r Report) over(score func(Dataset) *float64) *float64 {
	var sum weighted
	for _, d := range r.Datasets {
		s := score(d)
		if s == nil {
			if d.Weight > 0 {
				return nil
			}
			continue
		}
		sum.add(*s, d.Weight)
	}
	return sum.mean()
}

func (r Report) stddev() *float64 {
	var m stats.Moments
	for n := 0; ; n++ {
		there := false
		score := r.over(func(d Dataset) *float64 {
			if n >= len(d.Runs) {
				return nil
			}
			there = true
			return d.Runs[n].WeightedScore
		})
		if score != nil {
			m.Add(*score)
		}
		if !there {
			break
		}
	}
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
	mean := w.sum.Value() / total
	return &mean
}
