// Package compare says whether a candidate run did better than a base run over
// the same items, by how much, and whether that can be trusted.
//
// It is pure: runs come as streams of outcome values through a Source, results
// go out as data (Comparison), nothing is printed and nothing opened. It knows
// no harness: what was matched is turned into words by the caller.
//
// One comparison goes through these steps:
//
//  1. check that the runs can be compared at all: same items with the same
//     content, same scorer and options, both complete. Otherwise the Result
//     holds every Mismatch and nothing else.
//  2. go through both runs item by item, in order of their ids, and keep of each
//     only the difference of each score; a failed item counts as 0 wherever its
//     expected output defines the score, trials are averaged within the item;
//  3. estimate: paired difference with its interval, clustered if asked for,
//     sign-flip p-value, Holm's correction over the secondary scores, pooled
//     difference by paired bootstrap, McNemar on yes/no results;
//  4. warn of what makes the numbers weak;
//  5. judge the rules of a Gate: pass, fail or inconclusive, each with its reason.
//
// Rank compares every two of several runs in the same way and puts them in order
// (Leaderboard); Gate.JudgeRun asks the rules of one run by itself.
//
// The formulas stand in package stats. Exchanging base and candidate negates
// every difference and leaves every p-value.
//
//	c, err := compare.New(compare.Config{Gate: gate})
//	result, err := c.Compare(ctx, base, candidate)
//	os.Exit(cli.ExitCode(result.Err()))
package compare
