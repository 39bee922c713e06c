package seed

import (
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
	Time   string       `json:"time,omitempty"`   // RFC 3339, UTC
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
	e := Evidence{Kind: kind, Name: s.Name, Author: s.AuthorUserID, Time: instant(s.Timestamp), ID: s.ID}
	if s.Subject.Kind == "observation" {
		e.Observation = s.Subject.ID
	}
	return e
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
