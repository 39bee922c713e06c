package seed

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/langfuse"
)

// EvidenceKind says how a trace is known to be right.
type EvidenceKind string

// The kinds of evidence, the strongest first.
const (
	// ByQueue: an annotation queue has it, completed.
	ByQueue EvidenceKind = "queue"
	// ByAnnotation: a person gave it an ANNOTATION score. One without an author
	// was written by a program and is none.
	ByAnnotation EvidenceKind = "annotation"
	// ByCorrection: its output was corrected; the correction is the gold.
	ByCorrection EvidenceKind = "correction"
	// ByScore: a score that EvidenceRules name.
	ByScore EvidenceKind = "score"
	// ByTag: a tag that EvidenceRules name.
	ByTag EvidenceKind = "tag"
	// Unvalidated: none, and accepted all the same.
	Unvalidated EvidenceKind = "unvalidated"
)

// Where the metadata of an item that was made of a trace holds its Evidence and
// the id of the trace.
const (
	evidenceKey = "evidence"
	sourceKey   = "source_trace_id"
)

// Evidence is why a trace was taken for right. It is kept in the item's
// metadata under "evidence".
type Evidence struct {
	Kind   EvidenceKind `json:"kind"`
	Name   string       `json:"name,omitempty"`   // of the queue, score or tag
	Author string       `json:"author,omitempty"` // id of the user
	Time   time.Time    `json:"time,omitzero"`    // UTC
	ID     string       `json:"id,omitempty"`     // of the queue item or score
	// Observation is what it is about; empty: the whole trace.
	Observation string `json:"observation,omitempty"`
}

// EvidenceRules are the configured kinds of evidence: any of the tags, any of
// the scores. The zero value has none, so that only people count.
type EvidenceRules struct {
	Tags   []string
	Scores []ScoreRule
}

// completed is a completed item of an annotation queue.
type completed struct {
	langfuse.QueueItem
	queue string // name
}

func evidenceOf(kind EvidenceKind, s langfuse.Score) Evidence {
	e := Evidence{Kind: kind, Name: s.Name, Author: s.AuthorUserID, Time: s.Timestamp.UTC(), ID: s.ID}
	if s.Subject.Kind == "observation" {
		e.Observation = s.Subject.ID
	}
	return e
}

// evidenceSearch looks for the evidence of one trace as seen from one
// observation.
type evidenceSearch struct {
	trace    langfuse.Trace
	scores   []langfuse.Score       // the newest first
	queues   map[string][]completed // by object id
	rules    EvidenceRules
	observed string // id of the chosen observation; "" where there is none
	parent   map[string]string
	related  map[string]bool
	private  bool // reasons do not show the values of scores
}

// newEvidenceSearch looks at a trace as it was chosen: evidence on the chosen
// observation, on those above it, on those below it and on the trace counts,
// that on others does not. Of a trace that is seen as a whole all count.
func newEvidenceSearch(trace langfuse.Trace, scores []langfuse.Score, queues map[string][]completed, rules EvidenceRules, c chosen) evidenceSearch {
	es := evidenceSearch{trace: trace, scores: slices.Clone(scores), queues: queues, rules: rules, observed: c.id,
		parent: map[string]string{}, related: map[string]bool{}}
	slices.SortFunc(es.scores, func(a, b langfuse.Score) int { // the answer does not depend on the order of the server
		return cmp.Or(b.Timestamp.Compare(a.Timestamp), cmp.Compare(a.ID, b.ID))
	})
	for _, o := range trace.Observations {
		es.parent[o.ID] = o.ParentID
	}
	for _, id := range es.above(c.id) {
		es.related[id] = true
	}
	for id := range es.parent {
		if c.whole || c.id == "" || slices.Contains(es.above(id), c.id) {
			es.related[id] = true
		}
	}
	return es
}

// above returns an observation and those above it, the nearest first; a circle
// ends it.
func (es evidenceSearch) above(id string) []string {
	var ids []string
	for seen := map[string]bool{}; id != "" && !seen[id]; id = es.parent[id] {
		seen[id] = true
		ids = append(ids, id)
	}
	return ids
}

// concerns reports whether a score is about the trace or a related observation.
func (es evidenceSearch) concerns(s langfuse.Score) bool {
	return s.Subject.Kind == "trace" && s.Subject.ID == es.trace.ID || s.Subject.Kind == "observation" && es.related[s.Subject.ID]
}

// find returns the strongest evidence, of equals the newest, or why there is
// none. A person's "no" beats everything but a correction.
func (es evidenceSearch) find() (Evidence, string) {
	correction, corrected := es.correction()
	no := es.rejected()
	if no != "" && !corrected {
		return Evidence{}, no
	}
	if no == "" {
		if e, ok := es.inQueue(); ok {
			return e, ""
		}
		for _, s := range es.scores {
			if es.human(s) && es.approves(s) {
				return evidenceOf(ByAnnotation, s), ""
			}
		}
	}
	if corrected {
		return evidenceOf(ByCorrection, correction), ""
	}
	for _, s := range es.scores {
		if es.concerns(s) && es.ruleHolds(s) {
			return evidenceOf(ByScore, s), ""
		}
	}
	for _, tag := range es.rules.Tags {
		if slices.Contains(es.trace.Tags, tag) {
			return Evidence{Kind: ByTag, Name: tag}, ""
		}
	}
	return Evidence{}, es.lacking()
}

func (es evidenceSearch) inQueue() (Evidence, bool) {
	var best completed
	take := func(items []completed) {
		for _, item := range items {
			if best.ID == "" || item.CompletedAt.After(best.CompletedAt) {
				best = item
			}
		}
	}
	take(es.queues[es.trace.ID])
	for _, o := range es.trace.Observations { // in their order, so that of equals the first stays
		if es.related[o.ID] {
			take(es.queues[o.ID])
		}
	}
	e := Evidence{Kind: ByQueue, Name: best.queue, Time: best.CompletedAt.UTC(), ID: best.ID}
	if best.ObjectType == langfuse.ObjectObservation {
		e.Observation = best.ObjectID
	}
	for _, s := range es.scores { // the queue itself does not say who it was
		if es.human(s) && s.QueueID == best.QueueID {
			e.Author = s.AuthorUserID
			break
		}
	}
	return e, best.ID != ""
}

// correction returns the correction that counts: of the chosen observation,
// else of the nearest above it, else of the trace; of several the newest.
// Corrections of steps below are corrections of something else.
func (es evidenceSearch) correction() (langfuse.Score, bool) {
	for _, id := range append(es.above(es.observed), "") {
		for _, s := range es.scores {
			ofTrace := id == "" && s.Subject.Kind == "trace" && s.Subject.ID == es.trace.ID
			if s.Type == langfuse.ScoreCorrection && (ofTrace || id != "" && s.Subject.Kind == "observation" && s.Subject.ID == id) {
				return s, true
			}
		}
	}
	return langfuse.Score{}, false
}

// unusedCorrection names a correction of a step that is not what the trace is
// seen as, the newest, and says what would take it; nothing where there is none.
func (es evidenceSearch) unusedCorrection() string {
	for _, s := range es.scores {
		for _, o := range es.trace.Observations {
			if s.Type == langfuse.ScoreCorrection && s.Subject.Kind == "observation" && o.ID == s.Subject.ID {
				return fmt.Sprintf("the correction %s is of the observation %s (%s), and not used: "+
					"a mapping with observation: {name: %q, type: %s} makes the item of that observation", s.ID, o.ID, o.Name, o.Name, o.Type)
			}
		}
	}
	return ""
}

// verdictNames are the annotations that say yes or no in every project.
var verdictNames = []string{"validated", "correct", "approved"}

// rejected names a person's no. The newest annotation of each name decides; of
// two at the same instant the no counts.
func (es evidenceSearch) rejected() string {
	newest := map[string]time.Time{}
	for _, s := range es.scores {
		if !es.human(s) || !es.isVerdict(s) {
			continue
		}
		if later, found := newest[s.Name]; found && !s.Timestamp.Equal(later) {
			continue
		}
		newest[s.Name] = s.Timestamp
		if es.denies(s) {
			return fmt.Sprintf("the user %s annotated it with %s = %s: it is judged wrong", s.AuthorUserID, s.Name, es.value(s))
		}
	}
	return ""
}

func (es evidenceSearch) human(s langfuse.Score) bool {
	return s.Source == "ANNOTATION" && s.AuthorUserID != "" && s.Type != langfuse.ScoreCorrection && es.concerns(s)
}

// isVerdict reports whether annotations of a score's name say yes or no: those
// that a rule names, verdictNames, and what was scored in a queue that has the
// trace completed. Where no rule names a score, any annotation does.
func (es evidenceSearch) isVerdict(s langfuse.Score) bool {
	ofQueue := func(c completed) bool { return s.QueueID != "" && c.QueueID == s.QueueID }
	return len(es.rules.Scores) == 0 || slices.Contains(verdictNames, s.Name) || es.hasRule(s) ||
		slices.ContainsFunc(es.queues[es.trace.ID], ofQueue) || slices.ContainsFunc(es.queues[s.Subject.ID], ofQueue)
}

func (es evidenceSearch) hasRule(s langfuse.Score) bool {
	return slices.ContainsFunc(es.rules.Scores, func(r ScoreRule) bool { return r.Name == s.Name })
}

func (es evidenceSearch) ruleHolds(s langfuse.Score) bool {
	return slices.ContainsFunc(es.rules.Scores, func(r ScoreRule) bool { return r.holds(s) })
}

// approves reports whether an annotation says that the trace is right: a rule
// of its name holds, or without one it is true or a number above 0.
func (es evidenceSearch) approves(s langfuse.Score) bool {
	number, ok := plainNumber(s)
	return es.ruleHolds(s) || !es.hasRule(s) && ok && number > 0 && es.isVerdict(s)
}

// denies reports whether a verdict says that the trace is wrong: no rule of its
// name holds, or without one it is false or a number of at most 0. A category or
// a text that no rule names says nothing.
func (es evidenceSearch) denies(s langfuse.Score) bool {
	if es.hasRule(s) {
		return !es.ruleHolds(s)
	}
	number, ok := plainNumber(s)
	return ok && number <= 0
}

func plainNumber(s langfuse.Score) (float64, bool) {
	number, ok := s.Value.Number()
	return number, ok && (s.Type == langfuse.ScoreBoolean || s.Type == langfuse.ScoreNumeric)
}

// value is that of a score, as reasons show it: one that is a text may quote the
// trace.
func (es evidenceSearch) value(s langfuse.Score) string {
	if _, isText := s.Value.Text(); isText && es.private {
		return notShown
	}
	if number, ok := s.Value.Number(); ok && s.Type == langfuse.ScoreBoolean {
		return strconv.FormatBool(number != 0)
	}
	return s.Value.String()
}

// couldCount names the tags and scores of a trace without evidence, and how they
// are made to count.
func (es evidenceSearch) couldCount() string {
	var scores []string
	seen := map[string]bool{}
	for _, s := range es.scores {
		if s.Type != langfuse.ScoreCorrection && es.concerns(s) && !seen[s.Name] {
			seen[s.Name] = true
			scores = append(scores, s.Name+" = "+es.value(s))
		}
	}
	return fmt.Sprintf("tags: %s (--accept-tag TAG makes one count); scores: %s (--accept-score 'NAME>=V'); --accept-unvalidated takes it as it is",
		listed(es.trace.Tags), listed(scores))
}

// listed names the first few of a list.
func listed(names []string) string {
	const shown = 8
	if n := len(names) - shown; n > 0 {
		names = append(slices.Clone(names[:shown]), fmt.Sprintf("%d more", n))
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// lacking says why there is no evidence, and what was there that is none.
func (es evidenceSearch) lacking() string {
	const reason = "nothing shows that a person validated it"
	if other := es.unusedCorrection(); other != "" {
		return reason + "; " + other
	}
	const none = reason + ": no completed queue item, no annotation with an author, no correction"
	for _, s := range es.scores {
		switch {
		case s.Source != "ANNOTATION" || s.Type == langfuse.ScoreCorrection:
		case !es.concerns(s):
			return none + fmt.Sprintf("; the annotation %s is about the observation %s, which is another", s.Name, s.Subject.ID)
		case s.AuthorUserID == "":
			return none + fmt.Sprintf("; the annotation %s has no author: a program wrote it", s.Name)
		default:
			return none + fmt.Sprintf("; the annotation %s = %s does not say that it is right", s.Name, es.value(s))
		}
	}
	return none
}
