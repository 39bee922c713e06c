package html

import (
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// The faults of an answer: it lacks a term or a citation, or has a forbidden term.
const (
	causeMissed    = "missed"
	causeForbidden = "forbidden"
)

// answerCauses counts what is wrong with an answer, which has no causes of its
// own: each row of its terms that is not found as it should be is a fault.
func answerCauses(v report.ItemView) []outcome.Cause {
	var list []outcome.Cause
	count := func(name string, misses []report.Miss) {
		for _, m := range misses {
			if ofAnswer(m.What) {
				list = append(list, outcome.Cause{What: m.What, Name: name, Count: 1})
			}
		}
	}
	count(causeMissed, v.Missed)
	count(causeForbidden, v.Spurious)
	return list
}

// answerCauseKeys are what the faults of answers can be chosen by.
func answerCauseKeys() []string {
	return []string{causeKey("term", causeMissed), causeKey("term", causeForbidden), causeKey(citation, causeMissed)}
}

// ofAnswer reports whether what was expected or found is a part of an answer.
func ofAnswer(what string) bool { return what != "entity" && what != "relationship" }
