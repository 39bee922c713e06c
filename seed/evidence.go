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

// EvidenceKind is the way in which a trace was validated.
type EvidenceKind string

// The kinds of evidence, strongest first.
const (
	// ByQueue: the trace is a completed item of an annotation queue.
	ByQueue EvidenceKind = "queue"
	// ByAnnotation: a person gave the trace an ANNOTATION score. A score without an author was
	// written by a program and does not count.
	ByAnnotation EvidenceKind = "annotation"
	// ByCorrection: a person corrected the output; the correction is the gold.
	ByCorrection EvidenceKind = "correction"
	// ByScore: the trace has a score that EvidenceRules accept.
	ByScore EvidenceKind = "score"
	// ByTag: the trace has a tag that EvidenceRules accept.
	ByTag EvidenceKind = "tag"
	// Unvalidated: there is no evidence, and TraceConfig.AcceptUnvalidated is set.
	Unvalidated EvidenceKind = "unvalidated"
)

// Keys in the metadata of an item: its Evidence and the id of its trace, if it was made from one,
// and the list of its Reviews.
const (
	reviewKey   = "review"
	evidenceKey = "evidence"
	sourceKey   = "source_trace_id"
)

// Evidence is the reason to accept a trace as gold. The item's metadata keep it under "evidence".
type Evidence struct {
	Kind   EvidenceKind `json:"kind"`
	Name   string       `json:"name,omitempty"`   // name of the queue, score or tag
	Author string       `json:"author,omitempty"` // id of the user
	Time   time.Time    `json:"time,omitzero"`    // UTC
	ID     string       `json:"id,omitempty"`     // id of the queue item or score
	// Observation is the id of the observation that the evidence is about; empty for the whole
	// trace.
	Observation string `json:"observation,omitempty"`
}

// EvidenceRules are the tags and scores that count as evidence; any one of them is enough. With the
// zero value only what people did counts.
type EvidenceRules struct {
	Tags   []string
	Scores []ScoreRule
}

// completedItem is a completed item of an annotation queue.
type completedItem struct {
	langfuse.QueueItem
	queue string // name of the queue
}

func evidenceOf(kind EvidenceKind, s langfuse.Score) Evidence {
	e := Evidence{Kind: kind, Name: s.Name, Author: s.AuthorUserID, Time: s.Timestamp.UTC(), ID: s.ID}
	if s.Subject.Kind == "observation" {
		e.Observation = s.Subject.ID
	}
	return e
}

// evidenceSearch looks for the evidence of one trace and its chosen observation.
type evidenceSearch struct {
	trace         langfuse.Trace
	scores        []langfuse.Score           // newest first
	queues        map[string][]completedItem // by object id
	rules         EvidenceRules
	observationID string            // id of the chosen observation, or ""
	parent        map[string]string // parent id by observation id
	related       map[string]bool   // ids of the observations whose evidence counts
	correction    *langfuse.Score   // of the output; nil without one
	private       bool              // reasons do not show text values of scores
}

// newEvidenceSearch prepares the search for a chosen observation. Evidence on the trace, on the
// chosen observation, and on its ancestors and descendants counts; evidence on other observations
// does not. If the whole trace was chosen, all observations count.
func newEvidenceSearch(trace langfuse.Trace, scores []langfuse.Score, queues map[string][]completedItem, rules EvidenceRules, src source) evidenceSearch {
	es := evidenceSearch{trace: trace, queues: queues, rules: rules, observationID: src.id, parent: map[string]string{}, related: map[string]bool{}}
	// The result must not depend on the order in which the server lists scores.
	es.scores = slices.SortedFunc(slices.Values(scores), func(a, b langfuse.Score) int {
		return cmp.Or(b.Timestamp.Compare(a.Timestamp), cmp.Compare(a.ID, b.ID))
	})
	for _, o := range trace.Observations {
		es.parent[o.ID] = o.ParentID
	}
	for _, id := range es.above(src.id) {
		es.related[id] = true
	}
	for id := range es.parent {
		if src.whole || src.id == "" || slices.Contains(es.above(id), src.id) {
			es.related[id] = true
		}
	}
	es.correction = es.findCorrection()
	return es
}

// above returns an observation and its ancestors, nearest first. It stops at a cycle.
func (es evidenceSearch) above(id string) []string {
	var ids []string
	for ; id != "" && !slices.Contains(ids, id); id = es.parent[id] {
		ids = append(ids, id)
	}
	return ids
}

// subject returns the observation that a score is about, or "" for the trace. It returns false if
// the score is about neither an observation nor this trace.
func (es evidenceSearch) subject(s langfuse.Score) (id string, ok bool) {
	if s.Subject.Kind == "trace" {
		return "", s.Subject.ID == es.trace.ID
	}
	return s.Subject.ID, s.Subject.Kind == "observation"
}

// concerns reports whether a score is about the trace or a related observation.
func (es evidenceSearch) concerns(s langfuse.Score) bool {
	id, ok := es.subject(s)
	return ok && (id == "" || es.related[id])
}

// find returns the strongest evidence, the newest among equals, or the reason why there is none. A
// person's rejection outweighs everything but a correction.
func (es evidenceSearch) find() (Evidence, string) {
	rejection := es.rejection()
	if rejection != "" && es.correction == nil {
		return Evidence{}, rejection
	}
	if rejection == "" {
		if e, ok := es.queueEvidence(); ok {
			return e, ""
		}
		if i := slices.IndexFunc(es.scores, func(s langfuse.Score) bool { return es.verdict(s) > 0 }); i >= 0 {
			return evidenceOf(ByAnnotation, es.scores[i]), ""
		}
	}
	if es.correction != nil {
		return evidenceOf(ByCorrection, *es.correction), ""
	}
	if i := slices.IndexFunc(es.scores, func(s langfuse.Score) bool { return es.concerns(s) && es.ruleHolds(s) }); i >= 0 {
		return evidenceOf(ByScore, es.scores[i]), ""
	}
	if i := slices.IndexFunc(es.rules.Tags, func(tag string) bool { return slices.Contains(es.trace.Tags, tag) }); i >= 0 {
		return Evidence{Kind: ByTag, Name: es.rules.Tags[i]}, ""
	}
	return Evidence{}, es.whyNone()
}

// queueEvidence returns the latest completed queue item for the trace or a related observation.
func (es evidenceSearch) queueEvidence() (Evidence, bool) {
	items := slices.Clone(es.queues[es.trace.ID])
	for _, o := range es.trace.Observations { // in this order, so that the first of equals wins
		if es.related[o.ID] {
			items = append(items, es.queues[o.ID]...)
		}
	}
	if len(items) == 0 {
		return Evidence{}, false
	}
	best := slices.MinFunc(items, func(a, b completedItem) int { return b.CompletedAt.Compare(a.CompletedAt) })
	e := Evidence{Kind: ByQueue, Name: best.queue, Time: best.CompletedAt.UTC(), ID: best.ID}
	if best.ObjectType == langfuse.ObjectObservation {
		e.Observation = best.ObjectID
	}
	// A queue item does not name the person who completed it.
	if i := slices.IndexFunc(es.scores, func(s langfuse.Score) bool { return es.byPerson(s) && s.QueueID == best.QueueID }); i >= 0 {
		e.Author = es.scores[i].AuthorUserID
	}
	return e, true
}

// completion returns the completed queue item of the trace. It refuses a trace that neither corrects nor
// confirms the gold.
func (es evidenceSearch) completion() (Evidence, error) {
	evidence, complete := es.queueEvidence()
	switch rejection, unused := es.rejection(), es.unusedCorrection(); {
	case !complete:
		return evidence, refuse(NoEvidence, "", "the item of the queue is about another observation than the one that counts")
	case es.correction != nil:
	case unused != "":
		return evidence, refuse(PassedOver, "", "is neither corrected nor confirmed: %s", unused)
	case rejection != "":
		return evidence, refuse(JudgedWrong, "", "%s, and there is no correction: correct the output, or take the "+
			"annotation back", rejection)
	}
	return evidence, nil
}

// findCorrection returns the newest correction of the chosen observation, else of its nearest corrected
// ancestor, else of the trace, or nil. Corrections of steps below the chosen observation do not correct
// its output.
func (es evidenceSearch) findCorrection() *langfuse.Score {
	for _, id := range append(es.above(es.observationID), "") {
		for i, s := range es.scores {
			if subject, ok := es.subject(s); ok && subject == id && s.Type == langfuse.ScoreCorrection {
				return &es.scores[i]
			}
		}
	}
	return nil
}

// unusedCorrection describes the newest correction of an observation, and the mapping that would
// use it, or returns "".
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

// rejection describes a person's negative annotation, or returns "". The newest annotation of each
// name decides; of two at the same instant the negative one counts.
func (es evidenceSearch) rejection() string {
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

func (es evidenceSearch) byPerson(s langfuse.Score) bool {
	return s.Source == "ANNOTATION" && s.AuthorUserID != "" && s.Type != langfuse.ScoreCorrection && es.concerns(s)
}

// verdictNames are the names of annotations that are verdicts in every project.
var verdictNames = []string{"validated", "correct", "approved"}

// verdict returns 1 if a person's annotation says that the trace is right, -1 if it says that the
// trace is wrong, else 0. A rule with the annotation's name decides. Without such a rule, true or a
// number above 0 is positive and any other number negative, but the annotation counts only if its
// name is one of verdictNames, if it was made in a queue that has the trace completed, or if no
// rule names any score.
func (es evidenceSearch) verdict(s langfuse.Score) int {
	inScoreQueue := func(c completedItem) bool { return s.QueueID != "" && c.QueueID == s.QueueID }
	number, isNumber := s.Value.Number()
	isNumber = isNumber && (s.Type == langfuse.ScoreBoolean || s.Type == langfuse.ScoreNumeric)
	ruled := slices.ContainsFunc(es.rules.Scores, func(r ScoreRule) bool { return r.Name == s.Name })
	counts := len(es.rules.Scores) == 0 || slices.Contains(verdictNames, s.Name) ||
		slices.ContainsFunc(es.queues[es.trace.ID], inScoreQueue) || slices.ContainsFunc(es.queues[s.Subject.ID], inScoreQueue)
	switch {
	case !es.byPerson(s) || !ruled && (!counts || !isNumber):
		return 0
	case es.ruleHolds(s) || !ruled && number > 0:
		return 1
	}
	return -1
}

func (es evidenceSearch) ruleHolds(s langfuse.Score) bool {
	return slices.ContainsFunc(es.rules.Scores, func(r ScoreRule) bool { return r.holds(s) })
}

// value returns the value of a score as reasons show it. A private search hides texts, which may
// quote the trace.
func (es evidenceSearch) value(s langfuse.Score) string {
	if _, isText := s.Value.Text(); isText && es.private {
		return notShown
	}
	if number, ok := s.Value.Number(); ok && s.Type == langfuse.ScoreBoolean {
		return strconv.FormatBool(number != 0)
	}
	return s.Value.String()
}

// maxListed is the number of names that a reason lists.
const maxListed = 8

// countableHint lists the tags and scores of a trace without evidence, and the flags that make them
// count.
func (es evidenceSearch) countableHint() string {
	var scores []string
	seen := map[string]bool{}
	for _, s := range es.scores {
		if s.Type != langfuse.ScoreCorrection && es.concerns(s) && !seen[s.Name] {
			seen[s.Name] = true
			scores = append(scores, s.Name+" = "+es.value(s))
		}
	}
	return fmt.Sprintf("tags: %s (--accept-tag TAG makes one count); scores: %s (--accept-score 'NAME>=V'); --accept-unvalidated takes it as it is",
		textutil.First(es.trace.Tags, maxListed), textutil.First(scores, maxListed))
}

// whyNone returns why there is no evidence, and why an existing annotation is not evidence.
func (es evidenceSearch) whyNone() string {
	const reason = "nothing shows that a person validated it"
	if unused := es.unusedCorrection(); unused != "" {
		return reason + "; " + unused
	}
	const noEvidence = reason + ": no completed queue item, no annotation with an author, no correction"
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
		return noEvidence + "; the annotation " + s.Name + why
	}
	return noEvidence
}
