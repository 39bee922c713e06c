package report

import (
	"fmt"
	"strings"

	"extraction-experiment/internal/printable"
)

// Estimate is what a run would take, before anything is spent. Tokens are
// estimated from bytes, three to a token, which is rather too many; the output
// is as long as what is expected.
type Estimate struct {
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Items   int    `json:"items"`
	// Unusable items would fail before a model is asked.
	Unusable int `json:"unusable"`
	// Asks is false where no model of a known way is asked: the baseline, or a
	// team's own pipeline.
	Asks         bool  `json:"asks"`
	Stages       int   `json:"stages"`
	Trials       int   `json:"trials"` // all that follows is for all of them
	Requests     int64 `json:"requests"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CostUSD is nil where the price is not known.
	CostUSD *float64 `json:"cost_usd"`
}

// Text writes the estimate for a person.
func (e Estimate) Text() string {
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "%-9s %s\n", label, text) }
	fmt.Fprintf(&b, "%s · %s · an estimate, nothing was asked\n", printable.Line(e.Dataset), printable.Line(e.Model))
	items := count(e.Items)
	if e.Trials > 1 {
		items += " × " + counted(e.Trials, "trial")
	}
	if e.Unusable > 0 {
		items += fmt.Sprintf(" · %s of them cannot be asked about", count(e.Unusable))
	}
	line("items", items)
	if !e.Asks {
		line("cost", "nothing that is known here: no model is asked for extractions by this program")
		return b.String()
	}
	line("requests", count(e.Requests)+" · repairs and retries come on top")
	line("tokens", fmt.Sprintf("about %s in · %s out (as long as what is expected)", count(e.InputTokens), count(e.OutputTokens)))
	if e.CostUSD == nil {
		line("cost", "unknown: there is no price for "+printable.Line(e.Model))
	} else {
		line("cost", "about "+dollars(*e.CostUSD)+", by list prices")
	}
	return b.String()
}

// EstimateSum writes in one line what several runs would take together. A run of
// which the price is not known, or that asks no model that is, makes the sum one
// of the others.
func EstimateSum(list []Estimate) string {
	var requests, input, output int64
	cost, unknown := 0.0, 0
	for _, e := range list {
		if !e.Asks {
			continue
		}
		requests, input, output = requests+e.Requests, input+e.InputTokens, output+e.OutputTokens
		if e.CostUSD == nil {
			unknown++
			continue
		}
		cost += *e.CostUSD
	}
	line := fmt.Sprintf("%s together: %s, about %s tokens in and %s out, about %s", counted(len(list), "run"), counted(requests, "request"), count(input), count(output), dollars(cost))
	if unknown > 0 {
		line += ", and " + counted(unknown, "run") + " without a known price"
	}
	return line + "\n"
}
