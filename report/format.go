package report

import "extraction-experiment/outcome"

// The ways in which numbers are written for people, for the packages below
// this one: rounding is done here and nowhere else.

// FormatScore shows a ratio with so many decimals; what is not perfect never
// looks so. Nil, NaN and infinity are a dash.
func FormatScore(v *float64, decimals int) string { return score(v, decimals) }

// FormatInterval shows both ends of an interval, "0.412–0.508"; nil is a dash.
func FormatInterval(ci *[2]float64) string { return interval(ci, nil, false) }

// FormatCount shows an integer with its thousands apart.
func FormatCount[T int | int64](n T) string { return count(n) }

// FormatCounted is a number with its noun: "1 item", "3,000 items".
func FormatCounted(n int, noun string) string { return counted(n, noun) }

// FormatItems counts the items of a run, times its trials where there are several.
func FormatItems(r RunRow) string { return timesTrials(r) }

// FormatPlanned counts the items of a run with their noun, and the trials.
func FormatPlanned(s Run) string { return plannedItems(s.Summary) }

// FormatOutcomes is the noun for what is counted of a run: items, or outcomes
// where every item has several trials.
func FormatOutcomes(s Run) string { return outcomes(s.Summary) }

// FormatWords shows a name of the program as words: "wrong type" for wrong_type.
func FormatWords(name string) string { return plainWords(name) }

// FormatMilliseconds shows a duration in the unit that suits its size.
func FormatMilliseconds(ms float64) string { return milliseconds(ms) }

// FormatCost says what is known of the cost of a run; it is empty where nothing
// was bought.
func FormatCost(s Run) []string { return costParts(s.Summary) }

// FormatSystem lists what was measured: provider, parameters, prompt, trials.
func FormatSystem(s Run) []string { return systemParts(s.Summary.Run) }

// FormatSpread shows the least and the largest mean of a trial, and how many items
// are the same in all trials.
func FormatSpread(s outcome.Spread) (means, same string) { return spreadParts(s) }

// FormatJudging says what judging models took; nothing without any.
func FormatJudging(s Run) []string { return judgingParts(s.Summary.Judging) }

// FormatTokens lists the tokens of a run; it is empty where there were none.
func FormatTokens(s Run) []string { return tokenParts(s.Summary.Usage) }

// WebLink returns an address that a browser may be sent to: http or https with
// a host; ok is false for anything else.
func WebLink(raw string) (link string, ok bool) { return webLink(raw) }
