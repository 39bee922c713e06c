package outcome

import "cmp"

// Trials is what the repetitions of a run come to. A trial is no more items: an
// item's value is the mean over its trials. Here, a failed trial counts as 0
// wherever the expected output defines the score, so that every trial is over
// the same items.
type Trials struct {
	Count  int     `json:"count"`
	Items  int     `json:"items"`  // with an outcome in any trial
	Uneven int     `json:"uneven"` // of them, those without one in some trial
	Runs   []Trial `json:"runs"`
	// Scores says how much each score varies, in the order of Summary.Scores.
	Scores []Spread `json:"scores"`
	// Flaky counts the items whose primary score is not the same in all their
	// trials; FlakyItems are those that vary most, at most 10.
	Flaky      int         `json:"flaky"`
	FlakyItems []FlakyItem `json:"flaky_items"`
}

// Trial is one repetition, a run of its own in Langfuse.
type Trial struct {
	Trial  int      `json:"trial"`
	Name   string   `json:"name"` // in Langfuse; it, ID and URL are filled in by the caller
	ID     string   `json:"id"`
	URL    string   `json:"url"`
	Scored int      `json:"scored"`
	Failed int      `json:"failed"`
	Mean   *float64 `json:"mean"` // of the primary score
}

// Spread is how much one score varies where nothing was changed.
type Spread struct {
	Name string `json:"name"`
	// Least and Top are the lowest and the highest mean of a trial, Between the
	// standard deviation of these means (K−1): what the mean of one trial is
	// worth. Nil for fewer than 2 trials with the score.
	Least   *float64 `json:"lowest_trial"`
	Top     *float64 `json:"highest_trial"`
	Between *float64 `json:"sd_between_trials"`
	// Within is √(mean over the N items of the sample variance over an item's
	// trials): how much one item varies. Nil for N = 0.
	Within *float64 `json:"sd_within_items"`
	// Consistent counts those of the N items that have the same value, up to
	// 1e-9, in all their trials. N counts items with the score in 2 or more.
	Consistent int `json:"consistent"`
	N          int `json:"n"`
}

// FlakyItem is an item whose primary score varies.
type FlakyItem struct {
	ID     string  `json:"id"`
	Trials int     `json:"trials"`
	Failed int     `json:"failed"` // trials that failed
	Least  float64 `json:"least"`
	Top    float64 `json:"top"`
	Mean   float64 `json:"mean"`
}

// mostFlaky bounds Trials.FlakyItems.
const mostFlaky = 10

// same is up to what difference two values of a score are one.
const same = 1e-9

func compareFlaky(a, b FlakyItem) int {
	return cmp.Or(cmp.Compare(b.Top-b.Least, a.Top-a.Least), cmp.Compare(a.ID, b.ID))
}
