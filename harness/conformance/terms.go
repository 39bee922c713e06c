package conformance

import (
	"fmt"
	"strings"

	"extraction-experiment/internal/printable"
)

// Terms say in one line on what a certificate was given.
func (r Report) Terms() string {
	labels := r.labels()
	text := fmt.Sprintf("%s of each of %s (%d pass, %d fail, %d ambiguous), flip rate up to %s allowed, tolerance %s",
		printable.Counted(r.Runs, "run"), printable.Counted(r.TotalFixtures, "fixture"), labels[Pass], labels[Fail], labels[Ambiguous], decimal(r.MaxFlipRate), decimal(r.ScoreTolerance))
	if rate := r.Statistics.Certification.FlipRate; rate != nil {
		text += fmt.Sprintf("; a flip rate of at most %.1f %% is certified", *rate*100)
	}
	return text
}

// Weak are the terms on which a certificate says little or nothing; none for one
// that can be relied on as far as its fixtures go.
func (r Report) Weak() []string {
	list := []string{}
	s := r.Statistics
	switch rate := s.Certification.FlipRate; {
	case rate == nil:
		list = append(list, "no pass or fail fixture was evaluated twice, so that nothing is known of its stability")
	case *rate > 0.5:
		list = append(list, fmt.Sprintf("its %s leave a flip rate of %.0f %% possible", printable.Counted(s.FlipRate.Of, "comparison"), *rate*100))
	}
	var missing []string
	for _, label := range []Label{Pass, Fail} {
		if r.labels()[label] == 0 {
			missing = append(missing, string(label))
		}
	}
	if len(missing) > 0 {
		list = append(list, fmt.Sprintf("there is no %s fixture: an evaluator that always says the same would pass", strings.Join(missing, " and no ")))
	}
	if r.MaxFlipRate >= 0.5 {
		list = append(list, fmt.Sprintf("a flip rate of %s was allowed", decimal(r.MaxFlipRate)))
	}
	if r.ScoreTolerance > 0.2 {
		list = append(list, fmt.Sprintf("with a tolerance of %s a pass fixture passes below 0.8, which is no pass", decimal(r.ScoreTolerance)))
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
