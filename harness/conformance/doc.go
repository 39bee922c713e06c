// Package conformance says whether an evaluator is fit to be trusted: it asks
// it several times about labelled fixtures, and checks that every answer has
// the right form and that the scores are those that the labels demand.
//
// It does not say whether the fixtures are the right ones, and it improves no
// score: what misbehaves is counted and named.
//
// The steps are
//
//  1. Read reads a file of fixtures, and names everything that is wrong in it;
//  2. Run asks the evaluator about every fixture, several times;
//  3. each fixture is judged (compatible: every answer was valid; consistent:
//     the scores are what its label demands, and stable);
//  4. the Report adds what a judge must know: rates with intervals, and how
//     many runs would certify a rate of flips.
//
// For example:
//
//	set, err := conformance.Read("fixtures.yaml")
//	report, err := conformance.Run(ctx, conformance.Config{Evaluator: judge, Fixtures: set.Fixtures, Runs: 5})
//	if !report.Passed() { … }
package conformance
