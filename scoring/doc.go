// Package scoring compares an extraction with what was expected and says how
// good it is, item by item: counts, scores, matches, misses and reasons.
//
// It is pure: nothing is read, written, sent or kept between calls, and it
// knows nothing of items, runs or Langfuse. It averages nothing either; means
// and pooled values are made by package outcome from the ratios given here.
//
// One call goes through these steps:
//
//  1. normalise names and types, and give each distinct one a number in the
//     order of its text, so that nothing below depends on the order of a list;
//  2. find repeated entities and statements, and collapse them if asked to;
//  3. link what may be matched: equal names, similar names, and statements
//     that say the same, directly or by inverse;
//  4. choose among the links one optimal one-to-one assignment;
//  5. count, derive the scores from the counts, and explain every match and
//     every miss.
//
// What each score means stands in Catalog and, for readers, in docs/metrics.md.
//
//	scorer, err := scoring.New(scoring.DefaultOptions())
//	if err != nil { … }
//	result := scorer.Score(expected, extracted)
//	for _, s := range result.Scores { fmt.Println(s.Name, s.Comment) }
//
// Work on hostile input is bounded by fixed allowances (see limits.go). When
// one runs out, the matching is still one-to-one, still independent of the
// order of the lists, and Result.Warnings says what was not looked at.
package scoring

// Version names the meaning of the scores. It changes whenever the same input
// and options could give another count or score; runs scored by different
// versions are not comparable.
const Version = "2"
