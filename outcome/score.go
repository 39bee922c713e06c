package outcome

// ErrorScore is the name of the score that says whether an item failed: 1 with
// class and message as comment, 0 otherwise, so that its mean is the failure
// rate. Every outcome has it.
const ErrorScore = "error"

// Score is one named value of one outcome.
//
// Of a failed item the scores that its expected output would define stand
// there without a value: they are the ones that count as zero in
// Stat.FailuresAsZero.
type Score struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"` // nil is undefined
	// Ratio holds the integers that Value is the quotient of, where there are
	// such; pooled values are made of them.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Boolean says that Value is 0 or 1 and means no or yes.
	Boolean bool `json:"boolean,omitempty"`
	// Vacuous says that the value is 1 only because nothing was expected and
	// nothing was extracted.
	Vacuous bool `json:"vacuous,omitempty"`
	// Weight is how much the item counts in the weighted mean of this score,
	// at least 0; nil where there are no weights. A failed item has it too.
	Weight *float64 `json:"weight,omitempty"`
	// Reason says why Value is nil.
	Reason string `json:"reason,omitempty"`
	// Comment explains the value to a person: "7/9 extracted entities matched".
	Comment string `json:"comment,omitempty"`
	// Counts are the named integers behind the value.
	Counts map[string]int64 `json:"counts,omitempty"`
}

// Ratio is an integer numerator and denominator.
type Ratio struct {
	Num int64 `json:"num"`
	Den int64 `json:"den"`
}

// Usable reports whether the ratio is there and its numbers are neither negative
// nor absurd, so that sums of them cannot overflow.
func (r *Ratio) Usable() bool { return r != nil && countable(r.Num) && countable(r.Den) }

// Lookup returns the score of that name.
func Lookup(scores []Score, name string) (Score, bool) {
	for _, s := range scores {
		if s.Name == name {
			return s, true
		}
	}
	return Score{}, false
}
