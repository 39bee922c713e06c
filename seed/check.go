package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
)

// CheckConfig says what items are checked against. The zero value checks
// everything that needs no knowledge beside the items.
type CheckConfig struct {
	// Dataset is the name of the dataset that the items are meant for; it only
	// counts towards the size of an item.
	Dataset string
	// IDPrefix is put before every id.
	IDPrefix string
	// Schemas, if set, must hold for every item.
	Schemas Schemas
	// Vocabulary tells which gold relationships say the same.
	Vocabulary Vocabulary
	// Foreign, if set, says of each item whether it is of another harness than
	// extraction; err is then what is wrong with it, a problem each if they are
	// joined, and odd what is probably a mistake.
	Foreign func(item dataset.Item) (is bool, odd []string, err error)
	// MaxFindings bounds how many problems, and how many warnings, are kept;
	// 0 is DefaultMaxFindings.
	MaxFindings int
}

// Check reads all items and returns everything that is wrong or odd with them.
// Nothing is sent anywhere. What it finds is in the report, see Report.Err; the
// error is for a bad configuration or a file that cannot be read on.
//
// Time is linear in the size of the items; one item is in memory at a time.
func Check(items iter.Seq2[dataset.Located, error], cfg CheckConfig) (Report, error) {
	c, err := newChecker(cfg)
	if err != nil {
		return Report{}, err
	}
	report, _, err := c.run(items, func(Progress) {})
	return report, err
}

// checker holds what is prepared once for all items.
type checker struct {
	cfg     CheckConfig
	schemas compiledSchemas
	facts   facts
	keep    int
}

func newChecker(cfg CheckConfig) (*checker, error) {
	schemas, err := cfg.Schemas.compile()
	if err != nil {
		return nil, err
	}
	keep := cfg.MaxFindings
	if keep <= 0 {
		keep = DefaultMaxFindings
	}
	return &checker{cfg: cfg, schemas: schemas, facts: newFacts(cfg.Vocabulary), keep: keep}, nil
}

// run checks all items; bad holds the numbers, from 1, of those among the items
// read that cannot be used. A line would not do: a JSON list may be one line.
func (c *checker) run(items iter.Seq2[dataset.Located, error], progress func(Progress)) (Report, map[int]bool, error) {
	var report Report
	bad := map[int]bool{}
	for located, err := range items {
		var syntax *dataset.SyntaxError
		if errors.As(err, &syntax) {
			report.Problems.add(c.keep, Finding{Kind: Syntax, File: syntax.File, Line: syntax.Line, Path: syntax.Path, Message: syntax.Msg})
			continue
		}
		if err != nil {
			return report, bad, err
		}
		report.Items++
		if located.DerivedID {
			report.DerivedIDs++
		}
		n := c.item(located)
		report.Problems.add(c.keep, n.problems...)
		report.Warnings.add(c.keep, n.warnings...)
		if len(n.problems) > 0 {
			bad[report.Items] = true
		}
		progress(Progress{Phase: Checking, Done: report.Items})
	}
	return report, bad, nil
}

// notes are the findings of one item.
type notes struct {
	at       Finding // its place
	problems []Finding
	warnings []Finding
}

func (n *notes) problem(kind Kind, path, format string, args ...any) {
	n.problems = append(n.problems, n.finding(kind, path, format, args))
}

func (n *notes) warn(kind Kind, path, format string, args ...any) {
	n.warnings = append(n.warnings, n.finding(kind, path, format, args))
}

func (n *notes) finding(kind Kind, path, format string, args []any) Finding {
	f := n.at
	f.Kind, f.Path, f.Message = kind, path, fmt.Sprintf(format, args...)
	return f
}

// item checks one item, as an extraction item unless it is of another harness.
func (c *checker) item(located dataset.Located) *notes {
	n := &notes{at: Finding{File: located.File, Line: located.Line, Item: located.ID}}
	for _, warning := range located.Warnings {
		n.warn(Reading, "", "%s", warning)
	}
	if err := dataset.ValidID(c.cfg.IDPrefix + located.ID); err != nil {
		n.problem(BadID, "id", "with the prefix %q it %v", c.cfg.IDPrefix, err)
	}
	if !c.foreign(n, located.Item) {
		document, readable := c.input(n, located.Item)
		if expected, ok := c.expected(n, located.Item); ok && readable {
			c.gold(n, document, expected)
		}
	}
	c.schemas.check(n, located.Item)
	c.stored(n, located.Item)
	return n
}

// foreign reports whether an item is of another harness, and then notes what is
// to be said of it.
func (c *checker) foreign(n *notes, item dataset.Item) bool {
	if c.cfg.Foreign == nil {
		return false
	}
	is, odd, err := c.cfg.Foreign(item)
	if !is {
		return false
	}
	for _, one := range all(err) {
		n.problem(Foreign, "", "%v", one)
	}
	for _, text := range odd {
		n.warn(Reading, "", "%s", text)
	}
	return true
}

func (c *checker) input(n *notes, item dataset.Item) (extraction.Document, bool) {
	document, warnings, err := extraction.DecodeDocument(item.Input)
	for _, text := range warnings {
		path, message := splitPath(text, "input")
		n.warn(Reading, path, "%s", message)
	}
	if errors.Is(err, extraction.ErrNoText) {
		n.problem(Input, "input.document_text", "is missing or blank: an item needs a text")
		return document, false
	}
	for _, one := range all(err) {
		path, message := splitPath(one.Error(), "input")
		n.problem(Input, path, "%s", message)
	}
	if err == nil && len(document.Objects) == 0 && len(document.Relationships) == 0 {
		n.warn(NoSchemas, "input", "has neither object_schemas nor relationship_schemas: nothing tells an extractor what to look for")
	}
	return document, err == nil
}

func (c *checker) expected(n *notes, item dataset.Item) (extraction.Extraction, bool) {
	if item.Expected == nil {
		elsewhere := ""
		var metadata struct{ Entities, Relationships json.RawMessage }
		if json.Unmarshal(item.Metadata, &metadata) == nil && (metadata.Entities != nil || metadata.Relationships != nil) {
			elsewhere = "; entities and relationships belong into expectedOutput, here they are keys of the metadata"
		}
		n.warn(NotAnnotated, "expectedOutput", "is absent: nothing of this item is scored%s", elsewhere)
		return extraction.Extraction{}, false
	}
	expected, warnings, err := extraction.DecodeExtraction(item.Expected)
	for _, text := range warnings {
		path, message := splitPath(text, "expectedOutput")
		n.warn(Reading, path, "%s", message)
	}
	for _, one := range all(err) {
		path, message := splitPath(one.Error(), "expectedOutput")
		n.problem(Expected, path, "%s", message)
	}
	return expected, err == nil
}

// all takes a joined error apart.
func all(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// splitPath takes "entities[0].name: is …" apart and puts the path below the
// item's field.
func splitPath(text, root string) (path, message string) {
	path, message, found := strings.Cut(text, ": ")
	switch {
	case !found || strings.Contains(path, " "):
		return root, text
	case path == root || strings.HasPrefix(path, root+"."):
		return path, message
	case path == "extraction":
		return root, message
	}
	return root + "." + path, message
}
