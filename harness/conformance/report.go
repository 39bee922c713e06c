package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/evaluator"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Report is the result of a certification. Its JSON is the file of --output.
type Report struct {
	Evaluator     []string `json:"evaluator"`
	TotalFixtures int      `json:"total_fixtures"`
	TotalRuns     int      `json:"total_runs"` // runs × fixtures
	// Compatible: every answer was valid. Consistent: every fixture is consistent. Pass: every
	// fixture passed, which does not require Consistent if a flip rate is allowed.
	Compatible bool            `json:"compatible"`
	Consistent bool            `json:"consistent"`
	Pass       bool            `json:"passed"`
	Fixtures   []FixtureResult `json:"fixtures"`

	Runs           int     `json:"runs"` // of each fixture
	MaxFlipRate    float64 `json:"max_flip_rate"`
	ScoreTolerance float64 `json:"score_tolerance"`
	// Fingerprint identifies the evaluator.
	Fingerprint string     `json:"fingerprint,omitempty"`
	Statistics  Statistics `json:"statistics"`
	Warnings    []string   `json:"warnings"`
}

// Passed reports whether the evaluator passed. Reports of older versions have no "passed"; they
// passed if they are compatible and consistent.
func (r Report) Passed() bool { return r.Pass || r.Compatible && r.Consistent }

// PassedFixtures returns the number of fixtures that passed.
func (r Report) PassedFixtures() int {
	n := 0
	for _, f := range r.Fixtures {
		if f.Pass {
			n++
		}
	}
	return n
}

// FixtureResult is the result of the runs of one fixture. Everything but Runs and Errors covers
// the valid runs only; Scores are in their order.
type FixtureResult struct {
	ID     string    `json:"id"`
	Label  Label     `json:"label"`
	Runs   int       `json:"runs"`
	Scores []float64 `json:"scores"`
	// Mean and Variance (of a population) are null without a valid run.
	Mean     *float64 `json:"mean"`
	Variance *float64 `json:"variance"`
	// FlipRate is Flips / valid runs: the share of runs whose grade differs from that of the
	// first valid run; null without a valid run.
	FlipRate *float64 `json:"flip_rate"`
	// Compatible: every answer was valid. Consistent: the label allows every score, and the flip
	// rate is allowed. Pass: compatible, the flip rate is allowed, and the share of scores that
	// the label does not allow is at most the allowed flip rate; for an ambiguous fixture there
	// may be no such score.
	Compatible bool     `json:"compatible"`
	Consistent bool     `json:"consistent"`
	Pass       bool     `json:"passed"`
	Errors     []string `json:"errors"`

	Flips int `json:"flips"`
	// Violations is the number of scores that the label does not allow.
	Violations int     `json:"bound_violations"`
	Bounds     *Bounds `json:"score_bounds,omitempty"`
	// Reasons are why the fixture is not consistent or failed.
	Reasons []string `json:"reasons"`
}

func newReport(cfg Config, answers [][]answer) Report {
	r := Report{
		Evaluator: cfg.Evaluator.Command(), TotalFixtures: len(cfg.Fixtures), TotalRuns: cfg.Runs * len(cfg.Fixtures),
		Compatible: true, Consistent: true, Pass: true,
		Runs: cfg.Runs, MaxFlipRate: cfg.MaxFlipRate, ScoreTolerance: cfg.ScoreTolerance,
		Fingerprint: cfg.Fingerprint, Warnings: append([]string{}, cfg.Warnings...),
	}
	t := &tally{Statistics: Statistics{Faults: map[string]int{}}}
	for i, f := range cfg.Fixtures {
		result := judge(cfg, f, answers[i])
		t.add(result, answers[i])
		r.Compatible = r.Compatible && result.Compatible
		r.Consistent = r.Consistent && result.Consistent
		r.Pass = r.Pass && result.Pass
		r.Fixtures = append(r.Fixtures, result)
	}
	r.Statistics = t.statistics(cfg)
	return r
}

// maxMessage is the most bytes of an error in a report.
const maxMessage = 1000

// judge returns the result of one fixture.
func judge(cfg Config, f Fixture, answers []answer) FixtureResult {
	r := FixtureResult{ID: f.ID, Label: f.Label, Runs: len(answers), Scores: []float64{}, Bounds: f.Bounds, Errors: []string{}, Reasons: []string{}}
	var m stats.Moments
	var first evaluator.Grade
	least, most, allowed := allowedScores(cfg, f)
	for run, a := range answers {
		if a.err != nil {
			r.Errors = append(r.Errors, fmt.Sprintf("run %d: %s", run+1, textutil.Brief(a.err.Error(), maxMessage)))
			continue
		}
		score := a.verdict.Score
		grade := evaluator.GradeOf(score)
		if first = cmp.Or(first, grade); grade != first {
			r.Flips++
		}
		if score < least || score > most {
			r.Violations++
		}
		r.Scores = append(r.Scores, score)
		m.Add(score)
	}
	if n := len(r.Scores); n > 0 {
		variance, _ := m.PopulationVariance()
		r.Mean, r.Variance, r.FlipRate = m.MeanOrNil(), &variance, new(float64(r.Flips)/float64(n))
	}
	r.Compatible = len(r.Errors) == 0
	r.setVerdict(cfg, allowed)
	return r
}

// epsilon allows for binary arithmetic: 1 − 0.58 is a little more than 0.42.
const epsilon = 1e-9

// allowedScores returns the least and the greatest score that the label of a fixture allows, and
// describes them. For the tolerance, equality is that of the decimal numbers.
func allowedScores(cfg Config, f Fixture) (least, most float64, text string) {
	tolerance := cfg.ScoreTolerance
	switch {
	case f.Label == Ambiguous:
		bounds := cmp.Or(f.Bounds, &Bounds{0, 1})
		return bounds.Low, bounds.High, fmt.Sprintf("from %g to %g", bounds.Low, bounds.High)
	case f.Label == Pass && tolerance == 0:
		return 1 - epsilon, 1, "1"
	case f.Label == Pass:
		return 1 - tolerance - epsilon, 1, "at least " + decimal(1-tolerance)
	case tolerance == 0:
		return 0, epsilon, "0"
	}
	return 0, tolerance + epsilon, "at most " + decimal(tolerance)
}

// setVerdict sets Consistent, Pass and Reasons from the scores; allowed describes those that the
// label allows.
func (r *FixtureResult) setVerdict(cfg Config, allowed string) {
	if len(r.Scores) == 0 {
		r.Reasons = append(r.Reasons, "no run was valid")
		return
	}
	r.Consistent, r.Pass = r.Violations == 0, r.Compatible
	if r.Violations > 0 {
		reason := fmt.Sprintf("%d of %d scores are not %s", r.Violations, len(r.Scores), allowed)
		if share := float64(r.Violations) / float64(len(r.Scores)); r.Label != Ambiguous && share <= cfg.MaxFlipRate {
			reason += fmt.Sprintf(", which the flip rate of %.4g allows", cfg.MaxFlipRate)
		} else {
			r.Pass = false
		}
		r.Reasons = append(r.Reasons, reason)
	}
	if r.Label != Ambiguous && *r.FlipRate > cfg.MaxFlipRate {
		r.Reasons = append(r.Reasons, fmt.Sprintf("flip rate %.4g is above %.4g", *r.FlipRate, cfg.MaxFlipRate))
		r.Consistent, r.Pass = false, false
	}
}

// Terms describes the conditions of the certificate in one line.
func (r Report) Terms() string {
	labels := r.labels()
	text := fmt.Sprintf("%s of each of %s (%d pass, %d fail, %d ambiguous); flip rate up to %s allowed, tolerance %s",
		textutil.Counted(r.Runs, "run"), textutil.Counted(r.TotalFixtures, "fixture"), labels[Pass], labels[Fail], labels[Ambiguous], decimal(r.MaxFlipRate), decimal(r.ScoreTolerance))
	if rate := r.Statistics.Certification.FlipRate; rate != nil {
		text += fmt.Sprintf("; a flip rate of at most %.1f %% is certified", *rate*100)
	}
	return text
}

// Weak lists the reasons why a certificate proves little or nothing. The list is empty if there
// are none.
func (r Report) Weak() []string {
	list := []string{}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch rate := r.Statistics.Certification.FlipRate; {
	case rate == nil:
		add("no pass or fail fixture was evaluated twice, so that nothing is known of its stability")
	case *rate > 0.5:
		comparisons := textutil.Counted(r.Statistics.FlipRate.Of, "comparison")
		add("its %s leave a flip rate of %.0f %% possible", comparisons, *rate*100)
	}
	labels := r.labels()
	missing := slices.DeleteFunc([]string{string(Pass), string(Fail)}, func(label string) bool { return labels[Label(label)] > 0 })
	if len(missing) > 0 {
		add("there is no %s fixture: an evaluator that always says the same would pass", strings.Join(missing, " and no "))
	}
	if r.MaxFlipRate >= 0.5 {
		add("a flip rate of %s was allowed", decimal(r.MaxFlipRate))
	}
	if r.ScoreTolerance > 0.2 {
		add("with a tolerance of %s a pass fixture passes below 0.8, which is not a pass", decimal(r.ScoreTolerance))
	}
	return list
}

// labels returns the number of fixtures by label.
func (r Report) labels() map[Label]int {
	labels := map[Label]int{}
	for _, f := range r.Fixtures {
		labels[f.Label]++
	}
	return labels
}

// decimal formats a number without the last digits, in which binary arithmetic may be off.
func decimal(v float64) string { return fmt.Sprintf("%.10g", v) }
