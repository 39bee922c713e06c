package seed

import (
	"fmt"
	"slices"
	"time"

	"extraction-experiment/langfuse"
)

// verdictNames are the annotations that say yes or no in every project.
var verdictNames = []string{"validated", "correct", "approved"}

// rejected names a person's no. The newest annotation of each name decides; of
// two at the same instant the no counts.
func (w witness) rejected() string {
	newest := map[string]time.Time{}
	for _, s := range w.scores {
		if !w.human(s) || !w.isVerdict(s) {
			continue
		}
		if later, found := newest[s.Name]; found && !s.Timestamp.Equal(later) {
			continue
		}
		newest[s.Name] = s.Timestamp
		if w.denies(s) {
			return fmt.Sprintf("the user %s annotated it with %s = %s: it is judged wrong", s.AuthorUserID, s.Name, w.value(s))
		}
	}
	return ""
}

func (w witness) human(s langfuse.Score) bool {
	return s.Source == "ANNOTATION" && s.AuthorUserID != "" && s.Type != langfuse.ScoreCorrection && w.concerns(s)
}

// isVerdict reports whether annotations of a score's name say yes or no: those
// that a rule names, verdictNames, and what was scored in a queue that has the
// trace completed. Where no rule names a score, any annotation does.
func (w witness) isVerdict(s langfuse.Score) bool {
	return len(w.rules.Scores) == 0 || slices.Contains(verdictNames, s.Name) || w.isListed(s) || w.isOfQueue(s)
}

func (w witness) isListed(s langfuse.Score) bool {
	return slices.ContainsFunc(w.rules.Scores, func(r ScoreRule) bool { return r.Name == s.Name })
}

func (w witness) isOfQueue(s langfuse.Score) bool {
	of := func(items []completed) bool {
		return slices.ContainsFunc(items, func(c completed) bool { return c.QueueID == s.QueueID })
	}
	return s.QueueID != "" && (of(w.queues[w.trace.ID]) || of(w.queues[s.Subject.ID]))
}

// approves reports whether an annotation says that the trace is right: a rule
// of its name holds, or without one it is true or a number above 0.
func (w witness) approves(s langfuse.Score) bool {
	if w.isListed(s) {
		return slices.ContainsFunc(w.rules.Scores, func(r ScoreRule) bool { return r.Holds(s) })
	}
	number, ok := plainNumber(s)
	return ok && number > 0 && w.isVerdict(s)
}

// denies reports whether a verdict says that the trace is wrong: no rule of its
// name holds, or without one it is false or a number of at most 0. A category or
// a text that no rule names says nothing.
func (w witness) denies(s langfuse.Score) bool {
	if w.isListed(s) {
		return !w.approves(s)
	}
	number, ok := plainNumber(s)
	return ok && number <= 0
}

func plainNumber(s langfuse.Score) (float64, bool) {
	number, ok := s.Value.Number()
	return number, ok && (s.Type == langfuse.ScoreBoolean || s.Type == langfuse.ScoreNumeric)
}
