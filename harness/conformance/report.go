package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/evaluator"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Report is what a certification came to; its JSON is what --output writes.
type Report struct {
	Evaluator     []string `json:"evaluator"`
	TotalFixtures int      `json:"total_fixtures"`
	TotalRuns     int      `json:"total_runs"` // runs × fixtures
	// Compatible: every answer was valid. Consistent: every fixture is. Pass: every
	// fixture passed, which a flip rate that is allowed lets it do without being
	// consistent.
	Compatible bool            `json:"compatible"`
	Consistent bool            `json:"consistent"`
	Pass       bool            `json:"passed"`
	Fixtures   []FixtureResult `json:"fixtures"`

	Runs           int     `json:"runs"` // of each fixture
	MaxFlipRate    float64 `json:"max_flip_rate"`
	ScoreTolerance float64 `json:"score_tolerance"`
	// Fingerprint names the evaluator that was certified.
	Fingerprint string     `json:"fingerprint,omitempty"`
	Statistics  Statistics `json:"statistics"`
	Warnings    []string   `json:"warnings"`
}

// Passed reports whether the evaluator is fit to be trusted. A report of an older
// version does not say "passed": what was consistent had.
func (r Report) Passed() bool { return r.Pass || r.Compatible && r.Consistent }

// PassedFixtures counts the fixtures that passed.
func (r Report) PassedFixtures() int {
	n := 0
	for _, f := range r.Fixtures {
		if f.Pass {
			n++
		}
	}
	return n
}

// FixtureResult is what the runs of one fixture came to. Everything but Runs
// and Errors is over the valid runs, in their order.
type FixtureResult struct {
	ID     string    `json:"id"`
	Label  Label     `json:"label"`
	Runs   int       `json:"runs"`
	Scores []float64 `json:"scores"`
	// Mean and Variance (that of a population) are null without a valid run.
	Mean     *float64 `json:"mean"`
	Variance *float64 `json:"variance"`
	// FlipRate is Flips / valid runs: the share of the runs whose grade differs
	// from that of the first; null without a valid run.
	FlipRate *float64 `json:"flip_rate"`
	// Compatible: every answer was valid. Consistent: every score is what the label
	// demands, and no more verdicts flip than is allowed. Pass: compatible, and of a
	// pass or fail fixture no more scores than the allowed flip rate are not what
	// the label demands; of an ambiguous one, consistent.
	Compatible bool     `json:"compatible"`
	Consistent bool     `json:"consistent"`
	Pass       bool     `json:"passed"`
	Errors     []string `json:"errors"`

	Flips int `json:"flips"`
	// Violations counts the scores that the label does not allow.
	Violations int     `json:"bound_violations"`
	Bounds     *Bounds `json:"score_bounds,omitempty"`
	// Reasons say why the fixture is not consistent, or failed.
	Reasons []string `json:"reasons"`
}

func newReport(cfg Config, answers [][]answer) Report {
	r := Report{
		Evaluator: cfg.Evaluator.Command(), TotalFixtures: len(cfg.Fixtures), TotalRuns: cfg.Runs * len(cfg.Fixtures),
		Compatible: true, Consistent: true, Pass: true,
		Runs: cfg.Runs, MaxFlipRate: cfg.MaxFlipRate, ScoreTolerance: cfg.ScoreTolerance,
		Fingerprint: cfg.Fingerprint, Warnings: append([]string{}, cfg.Warnings...),
	}
	t := &tally{Statistics: Statistics{Faults: map[string]int{}}, grades: map[graded]int{}, runs: map[Label]int{}}
	for i, f := range cfg.Fixtures {
		one := judge(cfg, f, answers[i])
		t.add(one, answers[i])
		r.Compatible = r.Compatible && one.Compatible
		r.Consistent = r.Consistent && one.Consistent
		r.Pass = r.Pass && one.Pass
		r.Fixtures = append(r.Fixtures, one)
	}
	r.Statistics = t.statistics(cfg)
	return r
}

// maxMessage bounds what a report says of one error, in bytes.
const maxMessage = 1000

// judge makes the result of one fixture.
func judge(cfg Config, f Fixture, answers []answer) FixtureResult {
	r := FixtureResult{ID: f.ID, Label: f.Label, Runs: len(answers), Scores: []float64{}, Bounds: f.Bounds, Errors: []string{}, Reasons: []string{}}
	var m stats.Moments
	var first evaluator.Grade
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
		if !allowed(cfg, f, score) {
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
	r.settle(cfg, f)
	return r
}

// slack is what arithmetic in binary may be off: 1 − 0.58 is a little more than
// 0.42.
const slack = 1e-9

// allowed reports whether the label of a fixture allows a score; a score exactly
// at a bound is allowed, as the decimals of the bound and the score have it.
func allowed(cfg Config, f Fixture, score float64) bool {
	switch f.Label {
	case Pass:
		return score >= 1-cfg.ScoreTolerance-slack
	case Fail:
		return score <= cfg.ScoreTolerance+slack
	}
	return f.Bounds == nil || score >= f.Bounds.Low && score <= f.Bounds.High
}

// settle says whether a fixture is consistent and passed, and why not.
func (r *FixtureResult) settle(cfg Config, f Fixture) {
	if len(r.Scores) == 0 {
		r.Reasons = append(r.Reasons, "no run was valid")
		return
	}
	r.Consistent, r.Pass = r.Violations == 0, r.Compatible
	if r.Violations > 0 {
		reason := fmt.Sprintf("%d of %d scores are not %s", r.Violations, len(r.Scores), demanded(cfg, f))
		if share := float64(r.Violations) / float64(len(r.Scores)); f.Label != Ambiguous && share <= cfg.MaxFlipRate {
			reason += fmt.Sprintf(", which the flip rate of %.4g allows", cfg.MaxFlipRate)
		} else {
			r.Pass = false
		}
		r.Reasons = append(r.Reasons, reason)
	}
	if f.Label != Ambiguous && *r.FlipRate > cfg.MaxFlipRate {
		r.Reasons = append(r.Reasons, fmt.Sprintf("flip rate %.4g is above %.4g", *r.FlipRate, cfg.MaxFlipRate))
		r.Consistent, r.Pass = false, false
	}
}

func demanded(cfg Config, f Fixture) string {
	switch {
	case f.Label == Ambiguous:
		return fmt.Sprintf("from %g to %g", f.Bounds.Low, f.Bounds.High)
	case cfg.ScoreTolerance == 0:
		return map[Label]string{Pass: "1", Fail: "0"}[f.Label]
	case f.Label == Pass:
		return "at least " + decimal(1-cfg.ScoreTolerance)
	}
	return "at most " + decimal(cfg.ScoreTolerance)
}

// kindOf returns the kind of a fault.
func kindOf(err error) string {
	if fault, ok := errors.AsType[*evaluator.Fault](err); ok {
		return string(fault.Kind)
	}
	return "other"
}

// Terms say in one line on what a certificate was given.
func (r Report) Terms() string {
	labels := r.labels()
	text := fmt.Sprintf("%s of each of %s (%d pass, %d fail, %d ambiguous), flip rate up to %s allowed, tolerance %s",
		textutil.Counted(r.Runs, "run"), textutil.Counted(r.TotalFixtures, "fixture"), labels[Pass], labels[Fail], labels[Ambiguous], decimal(r.MaxFlipRate), decimal(r.ScoreTolerance))
	if rate := r.Statistics.Certification.FlipRate; rate != nil {
		text += fmt.Sprintf("; a flip rate of at most %.1f %% is certified", *rate*100)
	}
	return text
}

// Weak are the terms on which a certificate says little or nothing; none for one
// that can be relied on as far as its fixtures go.
func (r Report) Weak() []string {
	list := []string{}
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch rate := r.Statistics.Certification.FlipRate; {
	case rate == nil:
		say("no pass or fail fixture was evaluated twice, so that nothing is known of its stability")
	case *rate > 0.5:
		say("its %s leave a flip rate of %.0f %% possible", textutil.Counted(r.Statistics.FlipRate.Of, "comparison"), *rate*100)
	}
	labels := r.labels()
	missing := slices.DeleteFunc([]string{string(Pass), string(Fail)}, func(label string) bool { return labels[Label(label)] > 0 })
	if len(missing) > 0 {
		say("there is no %s fixture: an evaluator that always says the same would pass", strings.Join(missing, " and no "))
	}
	if r.MaxFlipRate >= 0.5 {
		say("a flip rate of %s was allowed", decimal(r.MaxFlipRate))
	}
	if r.ScoreTolerance > 0.2 {
		say("with a tolerance of %s a pass fixture passes below 0.8, which is not a pass", decimal(r.ScoreTolerance))
	}
	return list
}

// labels counts the fixtures of each label.
func (r Report) labels() map[Label]int {
	labels := map[Label]int{}
	for _, f := range r.Fixtures {
		labels[f.Label]++
	}
	return labels
}

// decimal writes a number as it was given, without the digits that arithmetic in
// binary leaves.
func decimal(v float64) string { return fmt.Sprintf("%.10g", v) }
