package seed

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"extraction-experiment/internal/textutil"
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
	es := evidenceSearch{trace: trace, queues: queues, rules: rules, observed: c.id, parent: map[string]string{}, related: map[string]bool{}}
	// The answer does not depend on the order of the server.
	es.scores = slices.SortedFunc(slices.Values(scores), func(a, b langfuse.Score) int {
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
	for ; id != "" && !slices.Contains(ids, id); id = es.parent[id] {
		ids = append(ids, id)
	}
	return ids
}

// place returns the observation that a score is about, "" for the trace, and whether
// it is about either.
func (es evidenceSearch) place(s langfuse.Score) (id string, ok bool) {
	if s.Subject.Kind == "trace" {
		return "", s.Subject.ID == es.trace.ID
	}
	return s.Subject.ID, s.Subject.Kind == "observation"
}

// concerns reports whether a score is about the trace or a related observation.
func (es evidenceSearch) concerns(s langfuse.Score) bool {
	id, ok := es.place(s)
	return ok && (id == "" || es.related[id])
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
		if i := slices.IndexFunc(es.scores, func(s langfuse.Score) bool { return es.verdict(s) > 0 }); i >= 0 {
			return evidenceOf(ByAnnotation, es.scores[i]), ""
		}
	}
	if corrected {
		return evidenceOf(ByCorrection, correction), ""
	}
	if i := slices.IndexFunc(es.scores, func(s langfuse.Score) bool { return es.concerns(s) && es.ruleHolds(s) }); i >= 0 {
		return evidenceOf(ByScore, es.scores[i]), ""
	}
	if i := slices.IndexFunc(es.rules.Tags, func(tag string) bool { return slices.Contains(es.trace.Tags, tag) }); i >= 0 {
		return Evidence{Kind: ByTag, Name: es.rules.Tags[i]}, ""
	}
	return Evidence{}, es.lacking()
}

// inQueue returns the latest completed item of a queue for the trace or a related
// observation.
func (es evidenceSearch) inQueue() (Evidence, bool) {
	items := slices.Clone(es.queues[es.trace.ID])
	for _, o := range es.trace.Observations { // in their order, so that of equals the first stays
		if es.related[o.ID] {
			items = append(items, es.queues[o.ID]...)
		}
	}
	if len(items) == 0 {
		return Evidence{}, false
	}
	best := slices.MinFunc(items, func(a, b completed) int { return b.CompletedAt.Compare(a.CompletedAt) })
	e := Evidence{Kind: ByQueue, Name: best.queue, Time: best.CompletedAt.UTC(), ID: best.ID}
	if best.ObjectType == langfuse.ObjectObservation {
		e.Observation = best.ObjectID
	}
	// The queue itself does not say who it was.
	if i := slices.IndexFunc(es.scores, func(s langfuse.Score) bool { return es.human(s) && s.QueueID == best.QueueID }); i >= 0 {
		e.Author = es.scores[i].AuthorUserID
	}
	return e, true
}

// correction returns the correction that counts: of the chosen observation,
// else of the nearest above it, else of the trace; of several the newest.
// Corrections of steps below are corrections of something else.
func (es evidenceSearch) correction() (langfuse.Score, bool) {
	for _, id := range append(es.above(es.observed), "") {
		for _, s := range es.scores {
			if of, ok := es.place(s); ok && of == id && s.Type == langfuse.ScoreCorrection {
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

// rejected names a person's no. The newest annotation of each name decides; of
// two at the same instant the no counts.
func (es evidenceSearch) rejected() string {
	newest := map[string]time.Time{}
	for _, s := range es.scores {
		later, found := newest[s.Name]
		verdict := es.verdict(s)
		if verdict == 0 || found && !s.Timestamp.Equal(later) {
			continue
		}
		newest[s.Name] = s.Timestamp
		if verdict < 0 {
			return fmt.Sprintf("the user %s annotated it with %s = %s: it is judged wrong", s.AuthorUserID, s.Name, es.value(s))
		}
	}
	return ""
}

func (es evidenceSearch) human(s langfuse.Score) bool {
	return s.Source == "ANNOTATION" && s.AuthorUserID != "" && s.Type != langfuse.ScoreCorrection && es.concerns(s)
}

// verdictNames are the annotations that say yes or no in every project.
var verdictNames = []string{"validated", "correct", "approved"}

// verdict is 1 where a person's annotation says that the trace is right, -1 where it
// says that it is wrong, and 0 where it says nothing. A rule of its name decides; without
// one true or a number above 0 is a yes, and any other number a no, if the name is one
// of verdictNames, or it was scored in a queue that has the trace completed. Where no
// rule names a score, annotations of any name count.
func (es evidenceSearch) verdict(s langfuse.Score) int {
	ofQueue := func(c completed) bool { return s.QueueID != "" && c.QueueID == s.QueueID }
	number, isNumber := s.Value.Number()
	isNumber = isNumber && (s.Type == langfuse.ScoreBoolean || s.Type == langfuse.ScoreNumeric)
	ruled := slices.ContainsFunc(es.rules.Scores, func(r ScoreRule) bool { return r.Name == s.Name })
	counts := len(es.rules.Scores) == 0 || slices.Contains(verdictNames, s.Name) ||
		slices.ContainsFunc(es.queues[es.trace.ID], ofQueue) || slices.ContainsFunc(es.queues[s.Subject.ID], ofQueue)
	switch {
	case !es.human(s) || !ruled && (!counts || !isNumber):
		return 0
	case es.ruleHolds(s) || !ruled && number > 0:
		return 1
	}
	return -1
}

func (es evidenceSearch) ruleHolds(s langfuse.Score) bool {
	return slices.ContainsFunc(es.rules.Scores, func(r ScoreRule) bool { return r.holds(s) })
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

// mostListed is how many names a reason lists.
const mostListed = 8

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
		textutil.First(es.trace.Tags, mostListed), textutil.First(scores, mostListed))
}

// lacking says why there is no evidence, and what was there that is none.
func (es evidenceSearch) lacking() string {
	const reason = "nothing shows that a person validated it"
	if other := es.unusedCorrection(); other != "" {
		return reason + "; " + other
	}
	const none = reason + ": no completed queue item, no annotation with an author, no correction"
	for _, s := range es.scores {
		if s.Source != "ANNOTATION" || s.Type == langfuse.ScoreCorrection {
			continue
		}
		why := fmt.Sprintf(" = %s does not say that it is right", es.value(s))
		if !es.concerns(s) {
			why = fmt.Sprintf(" is about the observation %s, which is another", s.Subject.ID)
		} else if s.AuthorUserID == "" {
			why = " has no author: a program wrote it"
		}
		return none + "; the annotation " + s.Name + why
	}
	return none
}
