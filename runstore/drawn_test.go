package runstore

import (
	"encoding/json"
	"time"

	"pgregory.net/rapid"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

// drawOutcome draws outcomes with unusual values in all fields.
func drawOutcome(t *rapid.T, item string, attempt int) outcome.Outcome {
	text := rapid.String()
	o := outcome.Outcome{Item: item, Trial: rapid.IntRange(1, 2).Draw(t, "trial"), Attempt: attempt,
		Latency: time.Duration(rapid.Int64Min(0).Draw(t, "latency"))}
	if rapid.Bool().Draw(t, "timed") {
		o.Started = time.Unix(0, rapid.Int64().Draw(t, "started"))
		o.Ended = o.Started.Add(time.Second)
		if o.Ended.UnixNano() < o.Started.UnixNano() || o.Started.Year() < 1680 {
			o.Started, o.Ended = testTime, testTime
		}
	}
	if rapid.Bool().Draw(t, "failed") {
		o.Class = outcome.Timeout
		o.Failure = &outcome.Failure{Class: o.Class, Message: text.Draw(t, "message")}
	}
	o.Usage = outcome.Usage{Input: rapid.Int64Min(0).Draw(t, "in"), Reasoning: rapid.Int64Min(0).Draw(t, "reasoning")}
	for range rapid.IntRange(0, 5).Draw(t, "scores") {
		s := outcome.Score{Name: text.Draw(t, "name"), Reason: text.Draw(t, "reason"), Comment: text.Draw(t, "comment"),
			Boolean: rapid.Bool().Draw(t, "boolean"), Vacuous: rapid.Bool().Draw(t, "vacuous")}
		if rapid.Bool().Draw(t, "defined") {
			s.Value = new(rapid.Float64Range(0, 1).Draw(t, "value"))
		}
		if rapid.Bool().Draw(t, "pooled") {
			s.Ratio = &outcome.Ratio{Den: rapid.Int64Range(0, 9).Draw(t, "den")}
			s.Ratio.Num = rapid.Int64Range(0, s.Ratio.Den).Draw(t, "num")
			if s.Value != nil && s.Ratio.Den != 0 {
				s.Value = new(quotient(*s.Ratio))
			}
		}
		if rapid.Bool().Draw(t, "weighted") {
			s.Weight = new(rapid.Float64Min(0).Draw(t, "weight"))
		}
		if rapid.Bool().Draw(t, "counted") {
			s.Counts = outcome.Counts{{Name: text.Draw(t, "key"), N: 1}}
		}
		o.Scores = append(o.Scores, s)
	}
	o.Warnings = rapid.SliceOfN(text, 0, 2).Draw(t, "warnings")
	return o
}

// drawnItem is an item with its outcomes.
type drawnItem struct {
	dataset.Item
	outcomes []outcome.Outcome
}

func drawItems(t *rapid.T) []drawnItem {
	var items []drawnItem
	for _, id := range rapid.SliceOfNDistinct(rapid.StringN(1, 8, 30), 1, 20, rapid.ID[string]).Draw(t, "ids") {
		metadata, err := json.Marshal(rapid.String().Draw(t, "metadata"))
		if err != nil {
			t.Fatal(err)
		}
		item := drawnItem{Item: dataset.Item{ID: id, Input: metadata, Metadata: metadata, SourceTraceID: rapid.String().Draw(t, "trace")}}
		for attempt := range rapid.IntRange(0, 3).Draw(t, "attempts") {
			item.outcomes = append(item.outcomes, drawOutcome(t, id, attempt+1))
		}
		items = append(items, item)
	}
	return items
}
