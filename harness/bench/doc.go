// Package bench measures how stable and well-formed extraction is: whether every
// extracted record has the right shape, whether it quotes the document at the
// offsets that it claims, and whether repeated trials extract the same.
//
// It does not say whether what was extracted is right (that is package scoring);
// its cases come with at most a few spans that must be found and with how many
// records are expected.
//
// The steps are
//
//  1. Read reads and validates the cases, all of them before anything runs;
//  2. Run takes them through the project's runner, several trials, into a run
//     file: answers are those stored with the cases, or an Answerer's (a model by
//     Asking, a team's pipeline by External, an extractor by Extracting);
//  3. every answer is taken apart into records, each checked against the
//     case's schema and against the document;
//  4. Measure makes the metrics of a run file, and Gates.Check judges them.
//
// For example:
//
//	report, err := bench.Run(ctx, bench.Config{Datasets: []string{"smoke.jsonl"}})
//	violations := bench.DefaultGates().Check(report)
package bench

// Name is how run files call this harness.
const Name = "bench"

// Version changes when the same answers could give other metrics.
const Version = "3"
