package seed

import (
	"fmt"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// TraceConfig says how FromTraces seeds. Only Dataset is required.
type TraceConfig struct {
	// Config is as for File, except that bad items never keep the others out
	// and archived items stay archived (KeepGoing and KeepArchived have no
	// effect), and that the schemas which the dataset has are checked where none
	// are given.
	Config
	// Mapping says where in a trace an item's fields are.
	Mapping Mapping
	// Redaction, if set, is applied to every item before anything is sent,
	// written or shown.
	Redaction *Redaction
	// AcceptUnvalidated takes traces without evidence, too; the metadata of
	// their items then says "unvalidated".
	AcceptUnvalidated bool
	// Out, if set, gets the items, and Langfuse gets nothing. The caller closes it.
	Out *dataset.Writer
	// Show, if set, is told of every trace: first of those refused, then of the
	// items in the order in which they are written (with a dry run: that of the
	// traces). It is never called concurrently.
	Show func(Seeded)
	// Before asks Show for what the dataset has of items that change: a request
	// more for each.
	Before bool
}

// Seeded is what became of one trace, or in a dry run would.
type Seeded struct {
	Change
	Trace    string   `json:"trace"`
	Evidence Evidence `json:"evidence,omitzero"`
	// Content is the item; nil where none was made.
	Content *dataset.Item `json:"content,omitempty"`
	// Before is what the dataset has under its id; see TraceConfig.Before.
	Before *dataset.Item `json:"before,omitempty"`
}

// TraceResult is what FromTraces did, or in a dry run would do.
type TraceResult struct {
	Result
	// Selected is how many traces there were, each counted once.
	Selected int `json:"selected"`
	// RefusedQueueItems is how many of Refused are items of the annotation queue
	// that lead to no trace: Selected does not have them.
	RefusedQueueItems int `json:"refused_queue_items,omitempty"`
	// Evidence counts the items made by kind.
	Evidence map[EvidenceKind]int `json:"evidence"`
	// Redacted counts the replacements by name, in all items made; a name at 0
	// took nothing out.
	Redacted map[string]int `json:"redacted,omitempty"`
	// Written counts the items that went to TraceConfig.Out.
	Written int `json:"written,omitempty"`
}

// Err returns nil when an item was made of every trace, else an error with exit
// code 4 that lists those refused.
func (r TraceResult) Err() error {
	if r.Refused == 0 && r.Report.Problems.Total == 0 {
		return nil
	}
	said := fmt.Sprintf("%d of %d traces were refused", r.Refused-r.RefusedQueueItems, r.Selected)
	if r.RefusedQueueItems > 0 {
		said += fmt.Sprintf(", and %d items of the queue", r.RefusedQueueItems)
	}
	return &exitError{fmt.Errorf("%s:\n%w", said, r.Report.Err()), 4}
}

// parts says what has to be read of traces for the mapping.
func (m Mapping) parts() langfuse.TraceParts {
	parts := langfuse.TraceParts{IO: true}
	lists := [][]Path{m.Expected}
	for _, fields := range []map[string][]Path{m.Input, m.Metadata} {
		for _, paths := range fields {
			lists = append(lists, paths)
		}
	}
	for _, path := range slices.Concat(lists...) {
		for i, s := range path.steps[:min(2, len(path.steps))] {
			if s.kind != stepKey || s.key != placeMetadata {
				continue
			}
			parts.Metadata = true
			if next := path.steps[i+1:]; len(next) > 0 && next[0].kind == stepKey && !slices.Contains(parts.ExpandMetadata, next[0].key) {
				parts.ExpandMetadata = append(parts.ExpandMetadata, next[0].key)
			}
		}
	}
	slices.Sort(parts.ExpandMetadata)
	return parts
}
