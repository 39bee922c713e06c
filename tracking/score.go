package tracking

import (
	"maps"
	"slices"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// maxComment bounds the comment of a score; servers keep far more, pages do not
// show it.
const maxComment = 2000

// publishes reports whether a run has the score of that name in Langfuse. Unless
// more was asked for, that are few: its pages give each a column, and list all of
// them in every cell of a comparison. The others stand in the metadata of the root
// span; see record. Form 0 published all.
func publishes(h outcome.Header, score string) bool {
	p := h.Publication
	return p.Form == 0 || score == outcome.ErrorScore || h.Scorer.External(score) ||
		slices.Contains(scoring.Headlines(), score) ||
		slices.Contains(p.Scores, score) || slices.Contains(p.Scores, outcome.AllScores)
}

// scores returns the defined scores of an outcome as Langfuse takes them: on
// the root span, with the counts behind the value as metadata. An undefined
// score is not recorded. They carry the time at which the item ended, or the
// later one at which they were corrected.
func (b builder) scores(o runstore.Pending) []langfuse.ScoreCreate {
	id := identify(b.header, o.Outcome)
	var scores []langfuse.ScoreCreate
	for _, s := range o.Scores {
		if s.Value == nil || !publishes(b.header, s.Name) {
			continue
		}
		score := langfuse.ScoreCreate{
			ID: id.score(s.Name), Name: scoreName(s.Name), Value: langfuse.NumberValue(*s.Value), Type: langfuse.ScoreNumeric,
			TraceID: id.trace(), ObservationID: id.span(0),
			Comment:     cut(clean(s.Comment), maxComment),
			Environment: b.header.ScoreEnvironment(),
			Timestamp:   latest(later(o.Started, o.Ended), o.Corrected),
		}
		if s.Boolean {
			score.Type = langfuse.ScoreBoolean
		}
		behind := countsOf(s)
		if s.Name == outcome.ErrorScore {
			maps.Copy(behind, heldWeights(o.Scores))
		}
		if len(behind) > 0 {
			score.Metadata = encode(behind)
		}
		scores = append(scores, score)
	}
	return scores
}

// weightKey is where the metadata of a score has its weight; the error score has
// those of scores without a value behind heldWeight and their names.
const (
	weightKey  = "weight"
	heldWeight = "weight_of_"
)

// countsOf returns the integers behind a score, and its weight: from them pooled
// values and weighted means can be rebuilt by anyone who reads Langfuse.
func countsOf(s outcome.Score) map[string]any {
	counts := map[string]any{}
	for name, n := range s.Counts {
		counts[name] = n
	}
	if s.Ratio != nil {
		counts["numerator"], counts["denominator"] = s.Ratio.Num, s.Ratio.Den
	}
	if s.Weight != nil {
		counts[weightKey] = *s.Weight
	}
	return counts
}

// heldWeights returns the weights of scores that are not recorded, having no
// value: in a weighted mean a failed item counts as 0.
func heldWeights(scores []outcome.Score) map[string]any {
	held := map[string]any{}
	for _, s := range scores {
		if s.Value == nil && s.Weight != nil {
			held[heldWeight+scoreName(s.Name)] = *s.Weight
		}
	}
	return held
}

// byProgram reports whether a score came through the API; others are those of
// people and of evaluators that Langfuse runs.
func byProgram(s langfuse.Score) bool {
	return s.AuthorUserID == "" && (s.Source == "" || s.Source == "API")
}

// cut shortens a text to n runes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}
