package seed

import (
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

// Check reads all items and returns everything that is wrong or odd with them,
// as File would find it. Nothing is sent anywhere, and no field of the
// configuration is required. What it finds is in the report, see Report.Err; the
// error is for a bad configuration or a file that cannot be read on.
//
// Time is linear in the size of the items; one item is in memory at a time.
func Check(items iter.Seq2[dataset.Located, error], cfg Config) (Report, error) {
	c, err := newChecker(cfg)
	if err != nil {
		return Report{}, err
	}
	return c.run(items)
}

// checker holds what is prepared once for all items.
type checker struct {
	cfg     Config
	schemas map[string]*schema.Schema // by field; nil accepts everything
	inputs  extraction.Decoder
}

func newChecker(cfg Config) (*checker, error) {
	c := &checker{cfg: cfg, schemas: map[string]*schema.Schema{}}
	return c, cfg.Schemas.each(func(field string, raw json.RawMessage) (err error) {
		c.schemas[field], err = schema.Compile(raw)
		return err
	})
}

// run checks all items.
func (c *checker) run(items iter.Seq2[dataset.Located, error]) (Report, error) {
	var report Report
	type read struct {
		dataset.Located
		notes notes
		err   error
	}
	values := func(yield func(read, error) bool) {
		for located, err := range items {
			if !yield(read{Located: located, err: err}, nil) {
				return
			}
		}
	}
	checked := stats.Parallel(0, values, func(r read) (read, error) {
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
		c.cfg.progress(Progress{Phase: Checking, Done: report.Items})
	}
	return report, nil
}

// notes are what there is to say of one item.
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

// item checks one item, as an extraction item unless it is of another harness.
func (c *checker) item(located dataset.Located) notes {
	var n notes
	for _, warning := range located.Warnings {
		n.warn(Reading, "", "%s", warning)
	}
	if err := dataset.ValidID(c.cfg.IDPrefix + located.ID); err != nil {
		n.problem(BadID, "id", "with the prefix %q it %v", c.cfg.IDPrefix, err)
	}
	if !c.foreign(&n, located.Item) {
		document, readable := n.input(&c.inputs, located.Item)
		if expected, ok := n.expected(located.Item); ok && readable {
			n.checkGold(document, expected)
		}
	}
	c.checkSchema(&n, "input", located.Input)
	c.checkSchema(&n, "expectedOutput", located.Expected)
	c.checkStored(&n, located.Item)
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
	for _, one := range cli.Separate(err) {
		n.problem(Foreign, "", "%v", one)
	}
	for _, text := range odd {
		n.warn(Reading, "", "%s", text)
	}
	return true
}

func (n *notes) input(inputs *extraction.Decoder, item dataset.Item) (extraction.Document, bool) {
	document, warnings, err := inputs.Document(item.Input)
	n.read(Input, "input", warnings, err)
	if err == nil && len(document.Objects) == 0 && len(document.Relationships) == 0 {
		n.warn(NoSchemas, "input", "has neither object_schemas nor relationship_schemas: nothing tells an extractor what to look for")
	}
	return document, err == nil
}

func (n *notes) expected(item dataset.Item) (extraction.Extraction, bool) {
	if item.Expected == nil {
		n.warn(NotAnnotated, "expectedOutput", "is absent: nothing of this item is scored")
		return extraction.Extraction{}, false
	}
	expected, warnings, err := extraction.DecodeExtraction(item.Expected)
	n.read(Expected, "expectedOutput", warnings, err)
	return expected, err == nil
}

// read notes what reading a field of the item said.
func (n *notes) read(kind Kind, field string, warnings []string, err error) {
	for _, text := range warnings {
		path, message := splitPath(text, field)
		n.warn(Reading, path, "%s", message)
	}
	for _, one := range cli.Separate(err) {
		path, message := splitPath(one.Error(), field)
		n.problem(kind, path, "%s", message)
	}
}

// splitPath takes "entities[0].name: is …" apart and puts the path below the
// item's field.
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

// CheckGold returns what is wrong or odd with an expected output, as it stands and
// beside its document: gold that is there twice, that contradicts itself, the schemas
// or the text. Linear in both.
func CheckGold(document extraction.Document, expected extraction.Extraction) []Finding {
	var n notes
	n.checkGold(document, expected)
	return slices.Concat(n.problems, n.warnings)
}

func (n *notes) checkGold(document extraction.Document, expected extraction.Extraction) {
	if expected.Entities == nil {
		n.warn(NotAnnotated, "expectedOutput.entities", "is absent: entity scores are not computed; write [] where there are none")
	}
	if expected.Relationships == nil {
		n.warn(NotAnnotated, "expectedOutput.relationships", "is absent: relationship scores are not computed; write [] where there are none")
	}
	n.checkEntities(document, expected.Entities)
	n.checkRelationships(document, expected)
}

// checkEntities looks for empty names, for entities that are there twice or of which
// neither name nor alias occurs in the text, case and white space aside, and for types
// that an extractor which keeps to the item's schemas can never give.
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
		earlier, again := first[key]
		switch {
		case key[0] == "":
			n.problem(EmptyName, path+".name", "is empty")
		case again:
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

// unknown reports whether there are known types and this is not one of them.
func unknown(known map[string]bool, kind string) bool {
	kind = textutil.FoldType(kind)
	return kind != "" && len(known) > 0 && !known[kind]
}

// entityNames leads from every name and alias, folded, to the name of its
// entity; of an alias that two entities share the first has it, and a name is
// never an alias. It is nil where entities are not annotated.
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

// checkRelationships looks at each relationship: whether it is complete, whether its
// type is one of the schemas' and they take its ends, and what it says or denies of earlier ones.
func (n *notes) checkRelationships(document extraction.Document, expected extraction.Extraction) {
	schemas, types := map[string]extraction.RelationshipSchema{}, map[string][]string{}
	for key, s := range document.Relationships {
		schemas[textutil.FoldType(key)], schemas[textutil.FoldType(s.Name)] = s, s
	}
	for _, e := range expected.Entities {
		name := textutil.FoldName(e.Name)
		types[name] = append(types[name], e.Type)
	}
	names, said := entityNames(expected.Entities), map[fact]saying{}
	for i, r := range expected.Relationships {
		path := fmt.Sprintf("expectedOutput.relationships[%d]", i)
		f := fact{
			n.checkEnd(path+".source_name", r.Source, r.SourceRef, names), textutil.FoldType(r.Type),
			n.checkEnd(path+".target_name", r.Target, r.TargetRef, names),
		}
		if f.kind == "" {
			n.problem(EmptyName, path+".relationship_type", "is empty")
		}
		if f.source != "" && f.kind != "" && f.target != "" {
			n.checkFact(said, f, i, path, fmt.Sprintf("%s(%s, %s)", r.Type, r.Source, r.Target))
		}
		switch schema, known := schemas[f.kind]; {
		case known:
			n.checkEndType(path+".source_name", r.Source, types[f.source], schema.SourceTypes)
			n.checkEndType(path+".target_name", r.Target, types[f.target], schema.TargetTypes)
		case f.kind != "" && len(schemas) > 0:
			n.warn(UnknownType, path+".relationship_type", "%q is not one of the relationship_schemas", r.Type)
		}
	}
}

// checkEndType looks whether an end that is listed has one of the types that a schema takes;
// none takes all. What has no type may be any.
func (n *notes) checkEndType(path, name string, types, takes []string) {
	fits := func(kind string) bool {
		kind = textutil.FoldType(kind)
		return kind == "" || slices.ContainsFunc(takes, func(taken string) bool { return textutil.FoldType(taken) == kind })
	}
	if len(types) > 0 && len(takes) > 0 && !slices.ContainsFunc(types, fits) {
		n.warn(EndType, path, "%q is of the type %q, and the relationship's schema takes %s there",
			name, types[0], textutil.First(cli.Each(takes, strconv.Quote), 5))
	}
}

// checkEnd returns the folded name of an end of a relationship; an alias stands for its
// entity. An end that no entity is listed for is allowed; often it is a misspelt name.
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

// fact is one statement, folded.
type fact struct{ source, kind, target string }

// saying is where a fact was stated, and whether in just this form.
type saying struct {
	index   int
	exactly bool
}

// checkFact looks whether an earlier relationship states the fact or denies it: one of
// a known type that is not symmetric cannot hold in both directions. It remembers the
// fact in all its forms.
func (n *notes) checkFact(said map[fact]saying, f fact, i int, path, written string) {
	earlier, again := said[f]
	if again && earlier.exactly {
		n.warn(Duplicate, path, "is relationships[%d] again: each copy must be found once more", earlier.index)
		return
	}
	if again {
		n.warn(Redundant, path, "%s says what relationships[%d] says: keep one, or recall halves", written, earlier.index)
	}
	inverse := inverses()[f.kind]
	denied, ok := said[fact{f.target, f.kind, f.source}]
	if ok && len(inverse) > 0 && !slices.Contains(inverse, f.kind) && f.source != f.target {
		n.warn(Contradicts, path, "%s denies relationships[%d]: both directions of one statement, and the type is not symmetric", written, denied.index)
	}
	said[f] = saying{i, true}
	for _, kind := range inverse {
		other := fact{f.target, kind, f.source}
		if _, ok := said[other]; !ok {
			said[other] = saying{i, false}
		}
	}
}

// inverses holds the relationship types that say the same the other way round, by
// type; a symmetric one is its own. They are those that scoring knows by default.
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
