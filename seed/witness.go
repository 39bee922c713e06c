package seed

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/langfuse"
)

// witness looks for the evidence of one trace as seen from one observation.
type witness struct {
	trace    langfuse.Trace
	scores   []langfuse.Score
	queues   map[string][]completed // by object id
	rules    EvidenceRules
	observed string // id of the chosen observation; "" where there is none
	related  map[string]bool
	private  bool // reasons do not show the values of scores
}

// newWitness looks at a trace as it was chosen: evidence on the chosen
// observation, on those above it, on those below it and on the trace counts,
// that on others does not. Of a trace that is seen as a whole all count.
func newWitness(trace langfuse.Trace, scores []langfuse.Score, queues map[string][]completed, rules EvidenceRules, c chosen) witness {
	from := c.id
	if c.whole {
		from = ""
	}
	return witness{trace: trace, scores: newestFirst(scores), queues: queues, rules: rules, observed: c.id, related: relatives(trace, from)}
}

// relatives returns the observation with those above and below it; of none all
// observations of the trace.
func relatives(trace langfuse.Trace, observed string) map[string]bool {
	parent, below := map[string]string{}, map[string][]string{}
	for _, o := range trace.Observations {
		parent[o.ID] = o.ParentID
		below[o.ParentID] = append(below[o.ParentID], o.ID)
	}
	related := map[string]bool{}
	if observed == "" {
		for id := range parent {
			related[id] = true
		}
		return related
	}
	for rest := []string{observed}; len(rest) > 0; rest = rest[1:] {
		if id := rest[0]; !related[id] { // a circle ends it
			related[id] = true
			rest = append(rest, below[id]...)
		}
	}
	for id := parent[observed]; id != "" && !related[id]; id = parent[id] {
		related[id] = true
	}
	return related
}

// newestFirst sorts by time, then id, so that the answer does not depend on the
// order of the server.
func newestFirst(scores []langfuse.Score) []langfuse.Score {
	sorted := slices.Clone(scores)
	slices.SortFunc(sorted, func(a, b langfuse.Score) int {
		return cmp.Or(b.Timestamp.Compare(a.Timestamp), cmp.Compare(a.ID, b.ID))
	})
	return sorted
}

// concerns reports whether a score is about the trace or a related observation.
func (w witness) concerns(s langfuse.Score) bool {
	switch s.Subject.Kind {
	case "trace":
		return s.Subject.ID == w.trace.ID
	case "observation":
		return w.related[s.Subject.ID]
	}
	return false
}

// find returns the strongest evidence, of equals the newest, or why there is
// none. A person's "no" beats everything but a correction.
func (w witness) find() (Evidence, string) {
	correction, corrected := w.correction()
	no := w.rejected()
	if no != "" && !corrected {
		return Evidence{}, no
	}
	if no == "" {
		if e, ok := w.inQueue(); ok {
			return e, ""
		}
		if e, ok := w.annotated(); ok {
			return e, ""
		}
	}
	if corrected {
		return evidenceOf(ByCorrection, correction), ""
	}
	if e, ok := w.configured(); ok {
		return e, ""
	}
	return Evidence{}, w.nothing()
}

func (w witness) inQueue() (Evidence, bool) {
	var best *completed
	take := func(items []completed, kind string) {
		for _, item := range items {
			if item.ObjectType == kind && (best == nil || item.CompletedAt.After(best.CompletedAt)) {
				best = &item
			}
		}
	}
	take(w.queues[w.trace.ID], langfuse.ObjectTrace)
	for _, o := range w.trace.Observations { // in their order, so that of equals the first stays
		if w.related[o.ID] {
			take(w.queues[o.ID], langfuse.ObjectObservation)
		}
	}
	if best == nil {
		return Evidence{}, false
	}
	e := Evidence{Kind: ByQueue, Name: best.queue, Time: instant(best.CompletedAt), ID: best.ID}
	if best.ObjectType == langfuse.ObjectObservation {
		e.Observation = best.ObjectID
	}
	e.Author = w.queueAuthor(best.QueueID)
	return e, true
}

// queueAuthor is who scored for the queue: the queue itself does not say.
func (w witness) queueAuthor(queue string) string {
	for _, s := range w.scores {
		if w.human(s) && s.QueueID == queue {
			return s.AuthorUserID
		}
	}
	return ""
}

func (w witness) annotated() (Evidence, bool) {
	for _, s := range w.scores {
		if w.human(s) && w.approves(s) {
			return evidenceOf(ByAnnotation, s), true
		}
	}
	return Evidence{}, false
}

func (w witness) configured() (Evidence, bool) {
	for _, s := range w.scores {
		for _, rule := range w.rules.Scores {
			if w.concerns(s) && rule.Holds(s) {
				return evidenceOf(ByScore, s), true
			}
		}
	}
	for _, tag := range w.rules.Tags {
		if slices.Contains(w.trace.Tags, tag) {
			return Evidence{Kind: ByTag, Name: tag}, true
		}
	}
	return Evidence{}, false
}

// value is that of a score, as reasons show it: one that is a text may quote the
// trace.
func (w witness) value(s langfuse.Score) string {
	if _, isText := s.Value.Text(); isText && w.private {
		return notShown
	}
	if number, ok := s.Value.Number(); ok && s.Type == langfuse.ScoreBoolean {
		return strconv.FormatBool(number != 0)
	}
	return s.Value.String()
}

// mostNamed is how many tags or scores of a trace a refusal names.
const mostNamed = 8

// couldCount names the tags and scores of a trace without evidence, and how they
// are made to count.
func (w witness) couldCount() string {
	var scores []string
	seen := map[string]bool{}
	for _, s := range w.scores {
		if s.Type != langfuse.ScoreCorrection && w.concerns(s) && !seen[s.Name] {
			seen[s.Name] = true
			scores = append(scores, s.Name+" = "+w.value(s))
		}
	}
	named := func(list []string) string {
		if n := len(list) - mostNamed; n > 0 {
			list = append(slices.Clone(list[:mostNamed]), fmt.Sprintf("%d more", n))
		}
		return cmp.Or(strings.Join(list, ", "), "none")
	}
	return fmt.Sprintf("tags: %s (--accept-tag TAG makes one count); scores: %s (--accept-score 'NAME>=V'); --accept-unvalidated takes it as it is",
		named(w.trace.Tags), named(scores))
}

// nothing says why there is no evidence, and what was there that is none.
func (w witness) nothing() string {
	reason := "nothing shows that a person validated it: no completed queue item, no annotation with an author, no correction"
	if other := w.passedOver(); other != "" {
		return "nothing shows that a person validated it; " + other
	}
	for _, s := range w.scores {
		switch {
		case s.Source != "ANNOTATION" || s.Type == langfuse.ScoreCorrection:
		case !w.concerns(s):
			return reason + fmt.Sprintf("; the annotation %s is about the observation %s, which is another", s.Name, s.Subject.ID)
		case s.AuthorUserID == "":
			return reason + fmt.Sprintf("; the annotation %s has no author: a program wrote it", s.Name)
		default:
			return reason + fmt.Sprintf("; the annotation %s = %s does not say that it is right", s.Name, w.value(s))
		}
	}
	return reason
}
