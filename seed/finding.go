package seed

import (
	"fmt"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// Kind sorts findings, so that many of one kind can be summed up.
type Kind string

// The kinds of finding. The first group makes an item unusable, the second is
// for a person to judge.
const (
	Syntax    Kind = "syntax"     // the file cannot be read as items there
	Input     Kind = "input"      // the input is not a document with a text
	Expected  Kind = "expected"   // the expected output is not an extraction
	Foreign   Kind = "foreign"    // the item is of another harness, which cannot use it
	EmptyName Kind = "empty_name" // a gold name, end or relationship type is empty
	Schema    Kind = "schema"     // breaks the dataset's JSON Schema
	TooLarge  Kind = "too_large"  // more than Langfuse takes
	BadID     Kind = "id"         // the id cannot be used
	Refused   Kind = "refused"    // Langfuse refused the item, or would

	UnknownTrace  Kind = "unknown_trace"  // there is no such trace in the project
	BadTraceID    Kind = "trace_id"       // cannot be the id of a trace
	NotRead       Kind = "not_read"       // the trace could not be read this time
	NoEvidence    Kind = "no_evidence"    // nothing shows that a person validated it
	JudgedWrong   Kind = "judged_wrong"   // a person said that it is not right
	NoObservation Kind = "no_observation" // nothing is of the mapping's name or type
	NoInput       Kind = "no_input"       // the trace has no document
	NoOutput      Kind = "no_output"      // the trace has no answer
	NotJSON       Kind = "not_json"       // the answer is not JSON
	Truncated     Kind = "truncated"      // the trace was cut
	Unredacted    Kind = "unredacted"     // something cannot be taken out
	OfExperiment  Kind = "experiment"     // the trace is of an experiment: its answer is not gold
	NotLinked     Kind = "not_linked"     // the trace is linked to no item of the dataset
	GoldChanged   Kind = "gold_changed"   // the item has another gold than the one that was looked at

	Reading      Kind = "reading"       // was read, perhaps not as it was meant
	NotAnnotated Kind = "not_annotated" // gold is absent, its scores are not computed
	Duplicate    Kind = "duplicate"     // the same gold twice
	Redundant    Kind = "redundant"     // gold that follows from other gold
	Unlisted     Kind = "unlisted_end"  // an end of a relationship is not a listed entity
	NotInText    Kind = "not_in_text"   // a gold name does not occur in the document
	UnknownType  Kind = "unknown_type"  // a type that the item's schemas do not have
	EndType      Kind = "end_type"      // an end of a type that the relationship's schema does not take
	NoSchemas    Kind = "no_schemas"    // nothing says what is to be extracted
	Altered      Kind = "altered"       // Langfuse will store another value
	Kept         Kind = "kept"          // absent in the file, kept in Langfuse
	Contradicts  Kind = "contradicts"   // gold that denies other gold
	Similar      Kind = "similar"       // the document of another item, almost
	Repeated     Kind = "repeated"      // a trace was named twice
	PassedOver   Kind = "passed_over"   // a correction of another step is not used
	NoStratum    Kind = "no_stratum"    // a sample is spread over what no trace has
	LeftArchived Kind = "archived"      // the item is archived, and stays so
)

// Finding is something about one item that a person should know.
type Finding struct {
	Kind    Kind   `json:"kind"`
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Item    string `json:"item,omitempty"` // its id, if it has one
	Path    string `json:"path,omitempty"` // "expectedOutput.entities[2].name"
	Message string `json:"message"`
}

// Error makes a finding the reason why no item is made of a trace.
func (f *Finding) Error() string { return f.Message }

// String gives place and message on one line:
// "items.jsonl: line 7: item a: expectedOutput.entities[2].name: is empty".
func (f Finding) String() string {
	parts := []string{f.File}
	if f.Line > 0 {
		parts = append(parts, fmt.Sprintf("line %d", f.Line))
	}
	if f.Item != "" {
		parts = append(parts, "item "+f.Item)
	}
	if f.Path != "" {
		parts = append(parts, f.Path)
	}
	return strings.Join(append(parts, f.Message), ": ")
}

// reasonOf is the reason of a refusal: the first of its problems, and how many more there are.
func reasonOf(first Finding, all int) string {
	reason := first.Message
	if first.Path != "" {
		reason = first.Path + ": " + reason
	}
	if all > 1 {
		reason += fmt.Sprintf(" (and %d more)", all-1)
	}
	return reason
}

// maxFindings is how many findings a list keeps.
const maxFindings = 100

// Findings is a list that keeps the first hundred and counts all.
type Findings struct {
	First []Finding    `json:"first"`
	Total int          `json:"total"`
	Kinds map[Kind]int `json:"kinds,omitempty"`
}

// add adds findings of an item.
func (l *Findings) add(at dataset.Located, findings ...Finding) {
	for _, f := range findings {
		f.File, f.Line, f.Item = at.File, at.Line, at.ID
		if l.Kinds == nil {
			l.Kinds = map[Kind]int{}
		}
		l.Kinds[f.Kind]++
		l.Total++
		if len(l.First) < maxFindings {
			l.First = append(l.First, f)
		}
	}
}

// Report is what Check found in a file.
type Report struct {
	// Items is how many items could be read, good or not.
	Items int `json:"items"`
	// DerivedIDs is how many of them have no id of their own.
	DerivedIDs int `json:"derived_ids"`
	// Problems make an item unusable; with any of them nothing is written.
	Problems Findings `json:"problems"`
	// Warnings do not stop anything.
	Warnings Findings `json:"warnings"`
}

func (r *Report) add(located dataset.Located, n notes) {
	r.Items++
	if located.DerivedID {
		r.DerivedIDs++
	}
	r.Problems.add(located, n.problems...)
	r.Warnings.add(located, n.warnings...)
}

// Err returns nil without problems, else an error that lists them, one per
// line, with the exit code of malformed input (64).
func (r Report) Err() error {
	if r.Problems.Total == 0 {
		return nil
	}
	lines := cli.Each(r.Problems.First, Finding.String)
	if more := r.Problems.Total - len(r.Problems.First); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", more))
	}
	return cli.Usage("%s", strings.Join(lines, "\n"))
}

// Action is what was done with an item.
type Action string

// The actions.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged"
	Archived  Action = "archived"
	NotDone   Action = "refused"
)

// Change is what was done with one item, or in a dry run would be.
type Change struct {
	Item   string `json:"item"`           // id in Langfuse, with its prefix
	Line   int    `json:"line,omitempty"` // in the file
	Action Action `json:"action"`
	Reason string `json:"reason,omitempty"` // why it was refused, or what else to know
}

// Result is what File did, or in a dry run would do.
type Result struct {
	// Dataset is the dataset as Langfuse has it; in a dry run without id where
	// it does not exist yet.
	Dataset        langfuse.Dataset `json:"dataset"`
	DatasetCreated bool             `json:"dataset_created"`

	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	// Refused counts items that were not written; why is in the problems
	// of the report.
	Refused int `json:"refused"`
	// Redacted counts the replacements by name, in all items made; a name at 0
	// took nothing out.
	Redacted map[string]int `json:"redacted,omitempty"`

	Report Report `json:"report"`
}

// Done is how many items were looked at, written or not.
func (r Result) Done() int { return r.Created + r.Updated + r.Unchanged + r.Refused }

// Err returns nil when every item went in, else an error with exit code 4 that
// lists the items that were refused.
func (r Result) Err() error {
	return r.refused(fmt.Sprintf("%d items are in the dataset, not all of the file", r.Created+r.Updated+r.Unchanged))
}

// refused is the error of items that were refused, nil where there is none.
func (r Result) refused(said string) error {
	if r.Refused == 0 && r.Report.Problems.Total == 0 {
		return nil
	}
	return cli.Errorf(cli.ExitFailures, "%s:\n%w", said, r.Report.Err())
}
