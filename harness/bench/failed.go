package bench

import (
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/outcome"
)

// FailedCalls are cases of one class of failure that nobody answered: the system
// could not be asked, or said that it failed. An answer that cannot be used is
// none of them.
type FailedCalls struct {
	Class outcome.Class `json:"class"`
	Count int           `json:"count"`
	// CaseID and Message are those of the first, by case and trial.
	CaseID  string `json:"caseId"`
	Message string `json:"message"`

	trial int
}

// failed notes the failures among so many outcomes. Where no call was answered
// there is nothing to measure, and the rates are 0: a system that is dead is not
// without faults.
func (r *Report) failed(failures map[outcome.Class]*FailedCalls, outcomes int) {
	r.Failures = []FailedCalls{}
	for _, class := range slices.Sorted(maps.Keys(failures)) {
		r.Failures = append(r.Failures, *failures[class])
		r.FailedCalls += failures[class].Count
	}
	r.answered = outcomes - r.FailedCalls
	if r.answered == 0 {
		r.SchemaValidRate, r.QuoteInvariantRate, r.UniqueExtractionStability = 0, 0, 0
	}
}

// Err returns nil where every call was answered, else a *FailedError.
func (r Report) Err() error {
	if r.FailedCalls == 0 {
		return nil
	}
	e := &FailedError{Failed: r.FailedCalls, Calls: r.FailedCalls + r.answered, First: r.Failures[0], code: 4}
	reach := []outcome.Class{outcome.Provider, outcome.RateLimited, outcome.Timeout}
	if r.answered == 0 && !slices.ContainsFunc(r.Failures, func(f FailedCalls) bool { return !slices.Contains(reach, f.Class) }) {
		e.code = 69
	}
	if slices.ContainsFunc(r.Failures, func(f FailedCalls) bool { return f.Class == outcome.Internal }) {
		e.code = 70
	}
	return e
}

// FailedError says that calls of the system failed.
type FailedError struct {
	Failed, Calls int
	First         FailedCalls
	code          int
}

// Error counts them and quotes the first.
func (e *FailedError) Error() string {
	return fmt.Sprintf("%d of %d calls failed; the first (%s, case %s): %s", e.Failed, e.Calls, e.First.Class, e.First.CaseID, e.First.Message)
}

// ExitCode is 69 where nothing was answered because the system could not be
// reached or refused, 70 where this program is at fault, else 4.
func (e *FailedError) ExitCode() int { return e.code }
