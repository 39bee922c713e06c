package tracking

import (
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// maxComment bounds the comment of a score; servers keep far more, pages do not
// show it.
const maxComment = 2000

// scores returns the defined scores of an outcome as Langfuse takes them: on
// the root span, with the counts behind the value as metadata. An undefined
// score is not recorded. They carry the time at which the item ended, or the
// later one at which they were corrected.
func (b builder) scores(o runstore.Pending) []langfuse.ScoreCreate {
	id := identify(b.header, o.Outcome)
	var scores []langfuse.ScoreCreate
	for _, s := range o.Scores {
		if s.Value == nil {
			continue
		}
		score := langfuse.ScoreCreate{
			ID: id.score(s.Name), Name: scoreName(s.Name), Value: langfuse.NumberValue(*s.Value), Type: langfuse.ScoreNumeric,
			TraceID: id.trace(), ObservationID: id.span(0),
			Comment:     cut(clean(s.Comment), maxComment),
			Environment: b.header.Environment,
			Timestamp:   latest(later(o.Started, o.Ended), o.Corrected),
		}
		if s.Boolean {
			score.Type = langfuse.ScoreBoolean
		}
		if counts := countsOf(s); len(counts) > 0 {
			score.Metadata = encode(counts)
		}
		scores = append(scores, score)
	}
	return scores
}

// countsOf returns the integers behind a score: from them pooled values can be
// rebuilt by anyone who reads Langfuse.
func countsOf(s outcome.Score) map[string]int64 {
	counts := map[string]int64{}
	if s.Ratio != nil {
		counts["numerator"], counts["denominator"] = s.Ratio.Num, s.Ratio.Den
	}
	for name, n := range s.Counts {
		counts[name] = n
	}
	return counts
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
