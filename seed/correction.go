package seed

import (
	"fmt"

	"extraction-experiment/langfuse"
)

// correction returns the correction that counts: of the chosen observation,
// else of the nearest above it, else of the trace; of several the newest.
// Corrections of steps below are corrections of something else.
func (w witness) correction() (langfuse.Score, bool) {
	of := func(kind, id string) (langfuse.Score, bool) {
		for _, s := range w.scores {
			if s.Type == langfuse.ScoreCorrection && s.Subject.Kind == kind && s.Subject.ID == id {
				return s, true
			}
		}
		return langfuse.Score{}, false
	}
	parent := map[string]string{}
	for _, o := range w.trace.Observations {
		parent[o.ID] = o.ParentID
	}
	seen := map[string]bool{}
	for id := w.observed; id != "" && !seen[id]; id = parent[id] {
		if s, ok := of("observation", id); ok {
			return s, true
		}
		seen[id] = true
	}
	return of("trace", w.trace.ID)
}

// passedOver names a correction of a step that is not what the trace is seen
// as, the newest, and says what would take it; nothing where there is none.
func (w witness) passedOver() string {
	for _, s := range w.scores {
		if s.Type != langfuse.ScoreCorrection || s.Subject.Kind != "observation" {
			continue
		}
		for _, o := range w.trace.Observations {
			if o.ID == s.Subject.ID {
				return fmt.Sprintf("the correction %s is of the observation %s (%s), and not used: a mapping with observation: {name: %q, type: %s} makes the item of that observation",
					s.ID, o.ID, o.Name, o.Name, o.Type)
			}
		}
	}
	return ""
}
