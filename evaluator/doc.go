// Package evaluator asks external evaluators for a score: a program, an HTTP
// endpoint, or a language model that judges. It holds the protocol, which is
// the same for all three, and contains what misbehaves.
//
// It does not say whether an evaluator can be trusted (that is the conformance
// harness), and it knows nothing of runs or datasets. An address or a model is
// asked again after 429, 5xx and broken connections; a program never is.
//
// One question goes through these steps:
//
//  1. the Case is written as one JSON object that carries the names of both
//     generations of the protocol (docs/evaluators.md);
//  2. the program, endpoint or model answers within Config.Timeout;
//  3. the answer is read strictly: one JSON object with a finite score in
//     [0,1], and hits and misses, or assertions;
//  4. whatever is not that is a *Fault with a kind, never a score.
//
// A short example:
//
//	judge, err := evaluator.New(evaluator.Config{Script: []string{"python3", "judge.py"}})
//	verdict, err := judge.Evaluate(ctx, evaluator.Case{Question: "7 * 8?", Reference: "56", Candidate: "56"})
package evaluator
