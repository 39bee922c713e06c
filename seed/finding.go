package seed

import (
	"fmt"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// Kind classifies findings, so that many of one kind can be summed up.
type Kind string

// The kinds of findings. The first two groups make an item unusable; the third is for a person to
// judge.
const (
	Syntax    Kind = "syntax"     // this part of the file cannot be read as an item
	Input     Kind = "input"      // the input is not a document with a text
	Expected  Kind = "expected"   // the expected output is not an extraction
	Foreign   Kind = "foreign"    // the item belongs to another harness, which cannot use it
	EmptyName Kind = "empty_name" // a gold name, end or relationship type is empty
	Schema    Kind = "schema"     // the item breaks the dataset's JSON Schema
	TooLarge  Kind = "too_large"  // the item is larger than Langfuse accepts
	BadID     Kind = "id"         // the id cannot be used
	Refused   Kind = "refused"    // Langfuse refused the item, or would

	UnknownTrace    Kind = "unknown_trace"  // the project has no such trace
	BadTraceID      Kind = "trace_id"       // the text cannot be a trace id
	NotRead         Kind = "not_read"       // the trace could not be read this time
	NoEvidence      Kind = "no_evidence"    // nothing shows that a person validated it
	JudgedWrong     Kind = "judged_wrong"   // a person judged the trace wrong
	NoObservation   Kind = "no_observation" // no observation has the mapping's name or type
	NoInput         Kind = "no_input"       // the trace has no document
	NoOutput        Kind = "no_output"      // the trace has no answer
	NotJSON         Kind = "not_json"       // the answer is not JSON
	Truncated       Kind = "truncated"      // the trace was cut off
	Unredacted      Kind = "unredacted"     // the redaction cannot remove something
	ExperimentTrace Kind = "experiment"     // the trace is from an experiment: its answer is not gold
	NotLinked       Kind = "not_linked"     // the trace is not linked to an item of the dataset
	GoldChanged     Kind = "gold_changed"   // the item's gold is not the one that the person looked at
	SecondItem      Kind = "second_item"    // the dataset has another item of the trace

	Reading      Kind = "reading"       // the value was read, perhaps not as intended
	NotAnnotated Kind = "not_annotated" // gold is absent, its scores are not computed
	Duplicate    Kind = "duplicate"     // the same gold twice
	Redundant    Kind = "redundant"     // gold that follows from other gold
	Unlisted     Kind = "unlisted_end"  // an end of a relationship is not a listed entity
	NotInText    Kind = "not_in_text"   // a gold name does not occur in the document
	UnknownType  Kind = "unknown_type"  // a type that the item's schemas do not have
	EndType      Kind = "end_type"      // the relationship's schema does not accept the type of this end
	NoSchemas    Kind = "no_schemas"    // the input has no schemas for what to extract
	Altered      Kind = "altered"       // Langfuse will store another value
	KeptField    Kind = "kept"          // absent in the file, or reviewed gold: kept in Langfuse
	Contradicts  Kind = "contradicts"   // gold that denies other gold or what another person confirmed
	Similar      Kind = "similar"       // the document is almost that of another item
	Repeated     Kind = "repeated"      // a trace was named twice
	PassedOver   Kind = "passed_over"   // the correction of another step is not used
	NoStratum    Kind = "no_stratum"    // no trace has a value to stratify the sample by
	LeftArchived Kind = "archived"      // the item is archived and stays archived
)

// Finding is a problem or an oddity of one item that a person should know.
type Finding struct {
	Kind    Kind   `json:"kind"`
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Item    string `json:"item,omitempty"` // id of the item, if it has one
	Path    string `json:"path,omitempty"` // "expectedOutput.entities[2].name"
	Message string `json:"message"`
}

// Error makes a *Finding usable as the reason why no item is made from a trace.
func (f *Finding) Error() string { return f.Message }

// String returns place and message on one line, for example "items.jsonl: line 7: item a:
// expectedOutput.entities[2].name: is empty".
func (f Finding) String() string {
	path := f.Path
	if f.Item != "" {
		path = strings.TrimSuffix("item "+f.Item+": "+f.Path, ": ")
	}
	return (&dataset.SyntaxError{File: f.File, Line: f.Line, Path: path, Msg: f.Message}).Error()
}

// reasonOf returns the first problem of a refusal, and how many more there are.
func reasonOf(problems []Finding) string {
	reason := problems[0].Message
	if path := problems[0].Path; path != "" {
		reason = path + ": " + reason
	}
	if more := len(problems) - 1; more > 0 {
		reason += fmt.Sprintf(" (and %d more)", more)
	}
	return reason
}

// maxFindings is the number of findings that a list keeps.
const maxFindings = 100

// Findings keeps the first hundred findings and counts all.
type Findings struct {
	First []Finding    `json:"first"`
	Total int          `json:"total"`
	Kinds map[Kind]int `json:"kinds,omitempty"`
}

// add adds findings about the item at a place.
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

// Report is the result of Check.
type Report struct {
	// Items is the number of items that could be read, good or bad.
	Items int `json:"items"`
	// DerivedIDs is the number of items without an id of their own.
	DerivedIDs int `json:"derived_ids"`
	// Problems make an item unusable. File writes nothing if there are any, unless Config.KeepGoing
	// is set.
	Problems Findings `json:"problems"`
	// Warnings never prevent writing.
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

// Err returns nil without problems, else an error that lists them, one per line, with the exit code
// of malformed input (64). Traces with the same problem share a line.
func (r Report) Err() error {
	if r.Problems.Total == 0 {
		return nil
	}
	var grouped []Finding
	at := map[[2]string]int{} // index in grouped by path and message
	for _, f := range r.Problems.First {
		key := [2]string{f.Path, f.Message}
		if i, found := at[key]; found && f.Line == 0 {
			grouped[i].File, grouped[i].Item = grouped[i].File+", "+f.File, ""
			continue
		}
		at[key] = len(grouped)
		grouped = append(grouped, f)
	}
	lines := cli.Each(grouped, Finding.String)
	if more := r.Problems.Total - len(r.Problems.First); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more problems", more))
	}
	return cli.Usage("%s", strings.Join(lines, "\n"))
}

// Action is what File, FromTraces or Archive did with an item.
type Action string

// The actions.
const (
	Created       Action = "created"
	Updated       Action = "updated"
	Unchanged     Action = "unchanged"
	Archived      Action = "archived"
	RefusedAction Action = "refused"
	NotAnswered   Action = "not_answered" // Langfuse did not answer the write, or the look-up before it
)

// Change is what was done with one item, or what a dry run would do.
type Change struct {
	Item   string `json:"item"`           // id in Langfuse, including the prefix
	Line   int    `json:"line,omitempty"` // line in the file
	Action Action `json:"action"`
	Reason string `json:"reason,omitempty"` // why the item was refused
}

// Result is what File did, or what a dry run would do.
type Result struct {
	// Dataset is the dataset as Langfuse has it. In a dry run it has no id if it does not exist.
	Dataset        langfuse.Dataset `json:"dataset"`
	DatasetCreated bool             `json:"dataset_created"`

	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	// Refused counts items that were not written. Report.Problems has the reasons.
	Refused int `json:"refused"`
	// Unanswered counts items that Langfuse may have or not, because it did not answer the write, or the
	// look-up before it.
	Unanswered int `json:"unanswered,omitempty"`
	// LostReviews are the ids of updated items of which the file lacks a review by a person: gold and
	// metadata of the file took the place of what was reviewed.
	LostReviews []string `json:"lost_reviews,omitempty"`
	// Reactivated are the ids of updated items that were archived.
	Reactivated []string `json:"reactivated,omitempty"`
	// Redacted counts the replacements in all items made, by name. A name with 0 never matched.
	Redacted map[string]int `json:"redacted,omitempty"`

	Report Report `json:"report"`
}

// Done returns the number of processed items, written or not.
func (r Result) Done() int { return r.Created + r.Updated + r.Unchanged + r.Refused + r.Unanswered }

// Err returns nil if every item is in the dataset, else an error with exit code 4 that lists the
// refused items.
func (r Result) Err() error {
	return r.refused("not all of the file is in the dataset, but " + textutil.Counted(r.Created+r.Updated+r.Unchanged, "item"))
}

// refused returns the error for refused items, or nil if there are none.
func (r Result) refused(message string) error {
	if r.Unanswered > 0 {
		message += fmt.Sprintf(", %d not answered", r.Unanswered)
	}
	if r.Refused == 0 && r.Report.Problems.Total == 0 {
		return nil
	}
	return cli.Errorf(cli.ExitFailures, "%s:\n%w", message, r.Report.Err())
}
