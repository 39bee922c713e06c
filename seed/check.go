package seed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/schema"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
)

// Check reads all items and returns every problem and warning that File would find. It sends
// nothing, and no field of the configuration is required. The findings are in the report, see
// Report.Err; the error is about a bad configuration or an item that cannot be read for another
// reason than its syntax.
//
// Time is linear in the size of the items. About three items for each processor are in memory at
// a time.
func Check(items iter.Seq2[dataset.Located, error], cfg Config) (Report, error) {
	c, err := newChecker(cfg)
	if err != nil {
		return Report{}, err
	}
	return c.checkAll(items)
}

// checker holds what newChecker prepares once for all items.
type checker struct {
	cfg     Config
	schemas map[string]*schema.Schema // by field; nil accepts everything
	inputs  extraction.Decoder
}

func newChecker(cfg Config) (*checker, error) {
	if cfg.Foreign == nil {
		cfg.Foreign = func(dataset.Item) (bool, []string, error) { return false, nil, nil }
	}
	c := &checker{cfg: cfg, schemas: map[string]*schema.Schema{}}
	return c, cfg.Schemas.forEach(func(field string, raw json.RawMessage) (err error) {
		c.schemas[field], err = schema.Compile(raw)
		return err
	})
}

// checkAll checks all items.
func (c *checker) checkAll(items iter.Seq2[dataset.Located, error]) (Report, error) {
	var report Report
	type entry struct {
		dataset.Located
		notes notes
		err   error
	}
	values := func(yield func(entry, error) bool) {
		for located, err := range items {
			if !yield(entry{Located: located, err: err}, nil) {
				return
			}
		}
	}
	checked := stats.Parallel(0, values, func(r entry) (entry, error) {
		if r.err == nil {
			r.notes = c.item(r.Located)
		}
		return r, nil
	})
	for r := range checked {
		if syntax, ok := errors.AsType[*dataset.SyntaxError](r.err); ok {
			at := dataset.Located{File: syntax.File, Line: syntax.Line}
			report.Problems.add(at, Finding{Kind: Syntax, Path: syntax.Path, Message: syntax.Msg})
			continue
		}
		if r.err != nil {
			return report, r.err
		}
		report.add(r.Located, r.notes)
		c.cfg.progress("checking %d", report.Items)
	}
	return report, nil
}

// notes are the findings about one item.
type notes struct {
	problems []Finding
	warnings []Finding
}

func (n *notes) problem(kind Kind, path, format string, args ...any) {
	n.problems = append(n.problems, Finding{Kind: kind, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (n *notes) warn(kind Kind, path, format string, args ...any) {
	n.warnings = append(n.warnings, Finding{Kind: kind, Path: path, Message: fmt.Sprintf(format, args...)})
}

// item checks one item. It checks input and expected output as an extraction unless
// Config.Foreign claims the item.
func (c *checker) item(located dataset.Located) notes {
	var n notes
	foreign, warnings, err := c.cfg.Foreign(located.Item)
	for _, warning := range slices.Concat(located.Warnings, warnings) {
		n.warn(Reading, "", "%s", warning)
	}
	if metadata := bytes.TrimSpace(located.Metadata); len(metadata) > 0 && metadata[0] != '{' {
		n.warn(Reading, "metadata", "is not an object: no filter finds it, and no review can be added")
	}
	if err := dataset.ValidID(c.cfg.IDPrefix + located.ID); err != nil {
		n.problem(BadID, "id", "with the prefix %q it %v", c.cfg.IDPrefix, err)
	}
	for _, problem := range cli.Unjoin(err) {
		n.problem(Foreign, "", "%v", problem)
	}
	if !foreign {
		n.extraction(&c.inputs, located.Item)
	}
	c.checkSchema(&n, "input", located.Input)
	c.checkSchema(&n, "expectedOutput", located.Expected)
	c.checkStored(&n, located.Item)
	return n
}

// extraction checks input and expected output as a document and its extraction.
func (n *notes) extraction(inputs *extraction.Decoder, item dataset.Item) {
	document, warnings, errInput := inputs.Document(item.Input)
	n.addDecoding(Input, "input", warnings, errInput)
	if errInput == nil && len(document.Objects) == 0 && len(document.Relationships) == 0 {
		n.warn(NoSchemas, "input", "has neither object_schemas nor relationship_schemas: nothing tells an extractor what to look for")
	}
	if item.Expected == nil {
		n.warn(NotAnnotated, "expectedOutput", "is absent: only error and grounded_rate have a value for this item")
		return
	}
	expected, warnings, err := extraction.DecodeExtraction(item.Expected)
	n.addDecoding(Expected, "expectedOutput", warnings, err)
	switch {
	case err != nil:
	case errInput == nil:
		n.checkGold(document, expected)
	default: // only what needs no document
		var alone notes
		alone.checkGold(extraction.Document{}, expected)
		n.problems = append(n.problems, alone.problems...)
	}
}

// addDecoding notes the warnings and errors of reading a field of the item.
func (n *notes) addDecoding(kind Kind, field string, warnings []string, err error) {
	for _, text := range warnings {
		path, message := splitPath(text, field)
		n.warn(Reading, path, "%s", message)
	}
	for _, problem := range cli.Unjoin(err) {
		path, message := splitPath(problem.Error(), field)
		n.problem(kind, path, "%s", message)
	}
}

// splitPath splits a message "entities[0].name: is …" into path and text, and puts the path
// below root, the field of the item. A message without a path gets root.
func splitPath(text, root string) (path, message string) {
	path, message, found := strings.Cut(text, ": ")
	if !found || strings.Contains(path, " ") {
		return root, text
	}
	path = strings.TrimPrefix(path, root+".")
	if path == root || path == "extraction" {
		return root, message
	}
	return root + "." + path, message
}

// CheckGold checks an expected output against itself, its document's text and its schemas. It
// returns the problems, then the warnings: empty names, duplicates, contradictions, names that
// are not in the text, unknown types. Time is linear in both.
func CheckGold(document extraction.Document, expected extraction.Extraction) []Finding {
	var n notes
	n.checkGold(document, expected)
	return slices.Concat(n.problems, n.warnings)
}

func (n *notes) checkGold(document extraction.Document, expected extraction.Extraction) {
	if expected.Entities == nil {
		n.warn(NotAnnotated, "expectedOutput.entities", "is absent: entity scores are not computed; write [] if there are none")
	}
	if expected.Relationships == nil {
		n.warn(NotAnnotated, "expectedOutput.relationships", "is absent: relationship scores are not computed; write [] if there are none")
	}
	n.checkEntities(document, expected.Entities)
	n.checkRelationships(document, expected)
}

// checkEntities notes empty names, duplicates, entities whose name and aliases are all missing
// from the text (case and white space aside), and types that the item's schemas or allowed types
// do not include.
func (n *notes) checkEntities(document extraction.Document, entities []extraction.Entity) {
	text := textutil.FoldName(document.Text)
	occurs := func(name string) bool { return strings.Contains(text, textutil.FoldName(name)) }
	known, allowed := map[string]bool{}, map[string]bool{}
	for key, s := range document.Objects {
		known[textutil.FoldType(key)], known[textutil.FoldType(s.Name)] = true, true
	}
	for _, kind := range document.AllowedTypes {
		allowed[textutil.FoldType(kind)] = true
	}
	first := map[[2]string]int{}
	for i, e := range entities {
		path := fmt.Sprintf("expectedOutput.entities[%d]", i)
		key := [2]string{textutil.FoldName(e.Name), textutil.FoldType(e.Type)}
		earlier, repeated := first[key]
		switch {
		case key[0] == "":
			n.problem(EmptyName, path+".name", "is empty")
		case repeated:
			n.warn(Duplicate, path, "%q is entities[%d] again: each copy must be found once more", e.Name, earlier)
		default:
			first[key] = i
		}
		if key[0] != "" && !occurs(e.Name) && !slices.ContainsFunc(e.Aliases, occurs) {
			n.warn(NotInText, path+".name", "%q does not occur in the document", e.Name)
		}
		if unknown(known, e.Type) {
			n.warn(UnknownType, path+".type", "%q is not one of the object_schemas", e.Type)
		} else if unknown(allowed, e.Type) {
			n.warn(UnknownType, path+".type", "%q is not one of the allowed_types", e.Type)
		}
	}
}

// unknown reports whether kind is not among the known types. It is false if kind is empty or no
// types are known.
func unknown(known map[string]bool, kind string) bool {
	kind = textutil.FoldType(kind)
	return kind != "" && len(known) > 0 && !known[kind]
}

// entityNames maps every folded name and alias to the folded name of its entity. If two entities
// share an alias, the first entity gets it. A name is never taken as an alias of another entity.
// The map is nil if entities are not annotated.
func entityNames(entities []extraction.Entity) map[string]string {
	if entities == nil {
		return nil
	}
	names := map[string]string{}
	for _, e := range entities {
		names[textutil.FoldName(e.Name)] = textutil.FoldName(e.Name)
	}
	for _, e := range entities {
		for _, alias := range e.Aliases {
			if folded := textutil.FoldName(alias); names[folded] == "" {
				names[folded] = textutil.FoldName(e.Name)
			}
		}
	}
	return names
}

// checkRelationships checks that each relationship is complete, that its type is in the schemas,
// that the schema accepts the types of both ends, and that it neither repeats nor contradicts an
// earlier one.
func (n *notes) checkRelationships(document extraction.Document, expected extraction.Extraction) {
	schemas, types := map[string]extraction.RelationshipSchema{}, map[string][]string{}
	for key, s := range document.Relationships {
		schemas[textutil.FoldType(key)], schemas[textutil.FoldType(s.Name)] = s, s
	}
	for _, e := range expected.Entities {
		name := textutil.FoldName(e.Name)
		types[name] = append(types[name], e.Type)
	}
	names, stated := entityNames(expected.Entities), map[fact]statement{}
	for i, r := range expected.Relationships {
		path := fmt.Sprintf("expectedOutput.relationships[%d]", i)
		f := fact{
			n.checkEnd(path+".source_name", r.Source, r.SourceRef, names), textutil.FoldType(r.Type),
			n.checkEnd(path+".target_name", r.Target, r.TargetRef, names),
		}
		if f.typ == "" {
			n.problem(EmptyName, path+".relationship_type", "is empty")
		}
		if f.source != "" && f.typ != "" && f.target != "" {
			n.checkFact(stated, f, i, path, fmt.Sprintf("%s(%s, %s)", r.Type, r.Source, r.Target))
		}
		switch schema, known := schemas[f.typ]; {
		case known:
			n.checkEndType(path+".source_name", r.Source, types[f.source], schema.SourceTypes)
			n.checkEndType(path+".target_name", r.Target, types[f.target], schema.TargetTypes)
		case f.typ != "" && len(schemas) > 0:
			n.warn(UnknownType, path+".relationship_type", "%q is not one of the relationship_schemas", r.Type)
		}
	}
}

// checkEndType warns if a listed entity has none of the types that the schema takes at this end.
// An empty list accepts every type, and an entity without a type fits every schema.
func (n *notes) checkEndType(path, name string, types, accepted []string) {
	fits := func(kind string) bool {
		kind = textutil.FoldType(kind)
		return kind == "" || slices.ContainsFunc(accepted, func(accept string) bool { return textutil.FoldType(accept) == kind })
	}
	if len(types) > 0 && len(accepted) > 0 && !slices.ContainsFunc(types, fits) {
		n.warn(EndType, path, "%q is of the type %q, and the relationship's schema takes %s there",
			name, types[0], textutil.First(cli.Each(accepted, strconv.Quote), 5))
	}
}

// checkEnd returns the folded name of an end of a relationship, with an alias replaced by its
// entity's name. An end that is not a listed entity is only a warning: often it is a misspelt
// name.
func (n *notes) checkEnd(path, name, ref string, names map[string]string) string {
	folded := textutil.FoldName(name)
	switch {
	case folded == "" && ref != "":
		n.problem(EmptyName, path, "refers to %q, which is the id of no entity", ref)
	case folded == "":
		n.problem(EmptyName, path, "is empty")
	case names != nil && names[folded] == "":
		n.warn(Unlisted, path, "%q is neither name nor alias of a listed entity", name)
	}
	return cmp.Or(names[folded], folded)
}

// fact is one statement with folded names and type.
type fact struct{ source, typ, target string }

// statement records the relationship that stated a fact, and whether it did so in this form and not
// in the inverse one.
type statement struct {
	index int
	exact bool
}

// checkFact warns if an earlier relationship states or denies the fact, and records the fact
// with its inverse forms. A relationship of a type with known inverses that is not symmetric
// cannot hold in both directions.
func (n *notes) checkFact(stated map[fact]statement, f fact, i int, path, text string) {
	earlier, repeated := stated[f]
	if repeated && earlier.exact {
		n.warn(Duplicate, path, "is relationships[%d] again: each copy must be found once more", earlier.index)
		return
	}
	if repeated {
		n.warn(Redundant, path, "%s says what relationships[%d] says: keep one, or recall halves", text, earlier.index)
	}
	inverse := inverses()[f.typ]
	denied, ok := stated[fact{f.target, f.typ, f.source}]
	if ok && len(inverse) > 0 && !slices.Contains(inverse, f.typ) && f.source != f.target {
		n.warn(Contradicts, path, "%s denies relationships[%d]: both directions of one statement, and the type is not symmetric", text, denied.index)
	}
	stated[f] = statement{i, true}
	for _, kind := range inverse {
		inverseFact := fact{f.target, kind, f.source}
		if _, ok := stated[inverseFact]; !ok {
			stated[inverseFact] = statement{i, false}
		}
	}
}

// inverses maps each folded relationship type to its inverse types. A symmetric type is its own
// inverse. The types are those of scoring.DefaultOptions.
var inverses = sync.OnceValue(func() map[string][]string {
	known := scoring.DefaultOptions()
	symmetric := cli.Each(known.Symmetric, func(kind string) [2]string { return [2]string{kind, kind} })
	inverse := map[string][]string{}
	for _, pair := range slices.Concat(known.Inverse, symmetric) {
		a, b := textutil.FoldType(pair[0]), textutil.FoldType(pair[1])
		inverse[a], inverse[b] = append(inverse[a], b), append(inverse[b], a)
	}
	return inverse
})
