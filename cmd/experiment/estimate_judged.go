package main

import (
	"fmt"
	"strings"

	"extraction-experiment/report"
)

// judgedEstimate is an estimate with the calls of the judging models among the
// evaluators of the run, which are paid for too.
type judgedEstimate struct {
	report.Estimate
	// Judging is nil where no model judges.
	Judging *judgingEstimate `json:"judging,omitempty"`
}

// judgingEstimate counts calls of judging models: one for every trial of an item
// that can be asked about, and every judge.
type judgingEstimate struct {
	Judges int   `json:"judges"`
	Calls  int64 `json:"calls"`
	// CostUSD is always nil: what a judge is told is not known before there is
	// something to judge.
	CostUSD *float64 `json:"cost_usd"`
	Note    string   `json:"note"`
}

const judgingNote = "their tokens and cost are not estimated"

// withJudging adds the calls of so many judging models to an estimate.
func withJudging(e report.Estimate, judges int) judgedEstimate {
	if judges == 0 {
		return judgedEstimate{Estimate: e}
	}
	calls := int64(e.Items-e.Unusable) * int64(e.Trials) * int64(judges)
	return judgedEstimate{e, &judgingEstimate{Judges: judges, Calls: calls, Note: judgingNote}}
}

// Text writes the estimate for a person.
func (e judgedEstimate) Text() string {
	text := e.Estimate.Text()
	if e.Judging == nil {
		return text
	}
	return text + fmt.Sprintf("%-9s %s; %s\n", "judging", judgingCalls(e.Judging.Calls), judgingNote)
}

// judgedSum writes in one line what several runs would take together.
func judgedSum(all []judgedEstimate) string {
	var list []report.Estimate
	var calls int64
	for _, e := range all {
		list = append(list, e.Estimate)
		if e.Judging != nil {
			calls += e.Judging.Calls
		}
	}
	sum := report.EstimateSum(list)
	if calls == 0 {
		return sum
	}
	return strings.TrimSuffix(sum, "\n") + fmt.Sprintf("; and %s: %s\n", judgingCalls(calls), judgingNote)
}

func judgingCalls(n int64) string {
	if n == 1 {
		return "1 call of judging models"
	}
	return report.FormatCount(n) + " calls of judging models"
}
