package tracking

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// headerFrom reads what Metadata wrote. What is not there, or in another form,
// stays empty.
func headerFrom(run langfuse.Run, dataset outcome.Dataset) outcome.Header {
	said := map[string]string{}
	var values map[string]any
	if json.Unmarshal(run.Metadata, &values) == nil {
		for key, value := range values {
			if text, ok := value.(string); ok {
				said[key] = text
				continue
			}
			if raw, err := json.Marshal(value); err == nil && value != nil {
				said[key] = string(raw)
			}
		}
	}
	h := outcome.Header{Name: run.Name, Dataset: dataset, Trials: 1, Description: run.Description, Started: run.Time, GitSHA: said["git_sha"], Runner: said["runner_version"]}
	h.Dataset.Version, h.Dataset.Fingerprint = said["dataset_version"], said["dataset_fingerprint"]
	h.Scorer.Version = said["scorer_version"]
	h.Scorer.Options = allOptions(h.Scorer.Version, said["scorer_options"])
	h.Harness, h.Dataset.Selection, h.Scorer.Primary = said["harness"], said["selection"], said["primary_score"]
	if custom := said["evaluators"]; custom != "" && json.Unmarshal([]byte(custom), &h.Scorer.Custom) != nil {
		h.Scorer.Custom = nil
	}
	h.System = outcome.System{Model: said["model"], Provider: said["provider"], Pipeline: said["pipeline"],
		Temperature: parsed(said["temperature"]), TopP: parsed(said["top_p"])}
	if name := said["prompt_name"]; name != "" {
		h.System.Prompt = outcome.Prompt{Name: name, Label: said["prompt_label"]}
		h.System.Prompt.Version, _ = strconv.Atoi(said["prompt_version"])
	}
	for _, key := range FixedKeys() {
		delete(said, key)
	}
	h.Metadata = said
	return h
}

// parsed is a number of the metadata; nil where there is none.
func parsed(text string) *float64 {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return &v
	}
	return nil
}

// outcomeFrom makes an outcome of an item of a run, the output of its root span and
// the scores of its trace.
func outcomeFrom(item langfuse.RunItem, trial int, scores map[string]langfuse.Score, output json.RawMessage) outcome.Outcome {
	o := outcome.Outcome{Item: item.ItemID, Trial: trial, Attempt: 1, Started: item.Time, Ended: item.Time}
	failed, _ := scores[outcome.ErrorScore].Value.Number()
	if failed == 1 || item.Level == "ERROR" {
		comment := scores[outcome.ErrorScore].Comment
		class, message, _ := strings.Cut(comment, ": ")
		if !slices.Contains(outcome.Classes(), outcome.Class(class)) { // other people's words, or none
			message = comment
		}
		o.Failure = knownFailure(outcome.Class(class), message)
		o.Class = o.Failure.Class
	} else {
		o.Output = output
	}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if s, ok := scoreFrom(scores[name]); ok {
			o.Scores = append(o.Scores, s)
		}
	}
	held := behindScore(scores[outcome.ErrorScore])
	for _, key := range slices.Sorted(maps.Keys(held)) {
		name, isWeight := strings.CutPrefix(key, heldWeight)
		if _, there := scores[name]; isWeight && o.Failed() && !there {
			o.Scores = append(o.Scores, outcome.Score{Name: name, Reason: itemFailed, Weight: weightOf(held[key])})
		}
	}
	return o
}

// scoreFrom reads what builder.scores wrote; a text is no score here.
func scoreFrom(s langfuse.Score) (outcome.Score, bool) {
	value, ok := s.Value.Number()
	out := outcome.Score{Name: s.Name, Value: &value, Boolean: s.Type == langfuse.ScoreBoolean, Comment: s.Comment}
	behind := behindScore(s)
	num, isNum := integral(behind["numerator"])
	den, isDen := integral(behind["denominator"])
	if isNum && isDen {
		out.Ratio = &outcome.Ratio{Num: num, Den: den}
	}
	out.Weight = weightOf(behind[weightKey])
	return out, ok
}

// behindScore is the metadata of a score; empty where it is no object.
func behindScore(s langfuse.Score) map[string]any {
	var values map[string]any
	if json.Unmarshal(s.Metadata, &values) != nil {
		return nil
	}
	return values
}

// weightOf reads a weight, which servers give as a number or as its text.
func weightOf(value any) *float64 {
	weight, isNumber := value.(float64)
	if text, ok := value.(string); ok {
		var err error
		weight, err = strconv.ParseFloat(text, 64)
		isNumber = err == nil
	}
	if !isNumber || !(weight >= 0 && weight <= math.MaxFloat64) {
		return nil
	}
	return &weight
}

// itemFailed is why a score has no value.
const itemFailed = "the item failed"

// integral reads a count, which servers give as a number or as its text.
func integral(value any) (int64, bool) {
	switch v := value.(type) {
	case float64:
		return int64(v), v == float64(int64(v)) && v >= 0 && v < 1<<53
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// finished sorts the outcomes, and lists with those that failed, and are not
// recorded, the scores that the run has elsewhere, without a value: so they count as 0.
func (r *remoteReader) finished() []outcome.Outcome {
	names := map[string]bool{}
	for _, o := range r.outcomes {
		for _, s := range o.Scores {
			names[s.Name] = true
		}
	}
	delete(names, outcome.ErrorScore)
	for _, i := range r.unrecorded {
		o := &r.outcomes[i]
		if !o.Failed() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if _, there := outcome.Lookup(o.Scores, name); !there {
				o.Scores = append(o.Scores, outcome.Score{Name: name, Reason: itemFailed})
			}
		}
	}
	slices.SortStableFunc(r.outcomes, func(a, b outcome.Outcome) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
	})
	return r.outcomes
}
