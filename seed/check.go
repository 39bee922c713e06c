package seed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/schema"
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
	inverse map[string][]string       // the types that say the same the other way round
}

func newChecker(cfg Config) (*checker, error) {
	c := &checker{cfg: cfg, schemas: map[string]*schema.Schema{}, inverse: inverses()}
	return c, cfg.Schemas.each(func(field string, raw json.RawMessage) (err error) {
		c.schemas[field], err = schema.Compile(raw)
		return err
	})
}

// run checks all items.
func (c *checker) run(items iter.Seq2[dataset.Located, error]) (Report, error) {
	var report Report
	for located, err := range items {
		if syntax, ok := errors.AsType[*dataset.SyntaxError](err); ok {
			report.Problems.add(Finding{Kind: Syntax, File: syntax.File, Line: syntax.Line, Path: syntax.Path, Message: syntax.Msg})
			continue
		}
		if err != nil {
			return report, err
		}
		c.item(located).addTo(&report)
		c.cfg.progress(Progress{Phase: Checking, Done: report.Items})
	}
	return report, nil
}

// notes are the findings of one item.
type notes struct {
	located  dataset.Located
	problems []Finding
	warnings []Finding
}

func (n *notes) problem(kind Kind, path, format string, args ...any) {
	n.problems = append(n.problems, findingOf(n.located, kind, path, fmt.Sprintf(format, args...)))
}

func (n *notes) warn(kind Kind, path, format string, args ...any) {
	n.warnings = append(n.warnings, findingOf(n.located, kind, path, fmt.Sprintf(format, args...)))
}

func findingOf(located dataset.Located, kind Kind, path, message string) Finding {
	return Finding{Kind: kind, File: located.File, Line: located.Line, Item: located.ID, Path: path, Message: message}
}

func (n *notes) addTo(report *Report) {
	report.Items++
	if n.located.DerivedID {
		report.DerivedIDs++
	}
	report.Problems.add(n.problems...)
	report.Warnings.add(n.warnings...)
}

// item checks one item, as an extraction item unless it is of another harness.
func (c *checker) item(located dataset.Located) *notes {
	n := &notes{located: located}
	for _, warning := range located.Warnings {
		n.warn(Reading, "", "%s", warning)
	}
	if err := dataset.ValidID(c.cfg.IDPrefix + located.ID); err != nil {
		n.problem(BadID, "id", "with the prefix %q it %v", c.cfg.IDPrefix, err)
	}
	if !c.foreign(n, located.Item) {
		document, readable := c.input(n, located.Item)
		if expected, ok := c.expected(n, located.Item); ok && readable {
			c.checkGold(n, document, expected)
		}
	}
	c.checkSchema(n, "input", located.Input)
	c.checkSchema(n, "expectedOutput", located.Expected)
	c.checkStored(n, located.Item)
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

func (c *checker) input(n *notes, item dataset.Item) (extraction.Document, bool) {
	document, warnings, err := extraction.DecodeDocument(item.Input)
	if errors.Is(err, extraction.ErrNoText) {
		err = errors.New("input.document_text: is missing or blank: an item needs a text")
	}
	n.read(Input, "input", warnings, err)
	if err == nil && len(document.Objects) == 0 && len(document.Relationships) == 0 {
		n.warn(NoSchemas, "input", "has neither object_schemas nor relationship_schemas: nothing tells an extractor what to look for")
	}
	return document, err == nil
}

func (c *checker) expected(n *notes, item dataset.Item) (extraction.Extraction, bool) {
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

// checkGold checks an expected output against itself and against its document.
func (c *checker) checkGold(n *notes, document extraction.Document, expected extraction.Extraction) {
	if expected.Entities == nil {
		n.warn(NotAnnotated, "expectedOutput.entities", "is absent: entity scores are not computed; write [] where there are none")
	}
	if expected.Relationships == nil {
		n.warn(NotAnnotated, "expectedOutput.relationships", "is absent: relationship scores are not computed; write [] where there are none")
	}
	checkEntities(n, expected.Entities)
	checkNames(n, document, expected.Entities)
	names := entityNames(expected.Entities)
	c.checkRelationships(n, expected.Relationships, names)
	if expected.Entities != nil {
		checkEnds(n, expected.Relationships, names)
	}
	checkTypes(n, document, expected)
}

// CheckGold returns what is wrong or odd with an expected output, as it stands and
// beside its document: gold that is there twice, that contradicts itself, the schemas
// or the text. Linear in both.
func CheckGold(document extraction.Document, expected extraction.Extraction) []Finding {
	c, n := checker{inverse: inverses()}, notes{}
	c.checkGold(&n, document, expected)
	return slices.Concat(n.problems, n.warnings)
}

func entityPath(i int) string { return fmt.Sprintf("expectedOutput.entities[%d]", i) }

func relationshipPath(i int) string { return fmt.Sprintf("expectedOutput.relationships[%d]", i) }

// checkEntities looks for empty names and entities that are there twice.
func checkEntities(n *notes, entities []extraction.Entity) {
	first := map[[2]string]int{}
	for i, e := range entities {
		key := [2]string{textutil.FoldName(e.Name), textutil.FoldType(e.Type)}
		if key[0] == "" {
			n.problem(EmptyName, entityPath(i)+".name", "is empty")
		} else if earlier, ok := first[key]; ok {
			n.warn(Duplicate, entityPath(i), "%q is entities[%d] again: each copy must be found once more", e.Name, earlier)
		} else {
			first[key] = i
		}
	}
}

// checkNames looks for entities of which neither name nor alias occurs in the
// text, case and white space aside.
func checkNames(n *notes, document extraction.Document, entities []extraction.Entity) {
	text := textutil.FoldName(document.Text)
	occurs := func(name string) bool { return strings.Contains(text, textutil.FoldName(name)) }
	for i, e := range entities {
		if textutil.FoldName(e.Name) != "" && !occurs(e.Name) && !slices.ContainsFunc(e.Aliases, occurs) {
			n.warn(NotInText, entityPath(i)+".name", "%q does not occur in the document", e.Name)
		}
	}
}

// entityNames leads from every name and alias, folded, to the name of its
// entity; of an alias that two entities share the first has it, and a name is
// never an alias.
func entityNames(entities []extraction.Entity) map[string]string {
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

// fact is one statement, folded.
type fact struct{ source, kind, target string }

// checkRelationships looks for statements that are incomplete, or that say or
// deny what an earlier one says. An alias stands for its entity.
func (c *checker) checkRelationships(n *notes, list []extraction.Relationship, names map[string]string) {
	first := map[fact]int{}
	for i, r := range list {
		path := relationshipPath(i)
		source, target := textutil.FoldName(r.Source), textutil.FoldName(r.Target)
		f := fact{cmp.Or(names[source], source), textutil.FoldType(r.Type), cmp.Or(names[target], target)}
		before := len(n.problems)
		checkEnd(n, path+".source_name", f.source, r.SourceRef)
		checkEnd(n, path+".target_name", f.target, r.TargetRef)
		if f.kind == "" {
			n.problem(EmptyName, path+".relationship_type", "is empty")
		}
		if len(n.problems) > before {
			continue
		}
		if earlier, ok := first[f]; ok {
			n.warn(Duplicate, path, "is relationships[%d] again: each copy must be found once more", earlier)
			continue
		}
		said := fmt.Sprintf("%s(%s, %s)", r.Type, r.Source, r.Target)
		var equal []fact // the other ways to state it
		for _, kind := range c.inverse[f.kind] {
			equal = append(equal, fact{f.target, kind, f.source})
		}
		if earlier, ok := anyOf(first, equal); ok {
			n.warn(Redundant, path, "%s says what relationships[%d] says: keep one, or recall halves", said, earlier)
		}
		if earlier, ok := anyOf(first, c.denials(f)); ok {
			n.warn(Contradicts, path, "%s denies relationships[%d]: both directions of one statement, and the type is not symmetric", said, earlier)
		}
		first[f] = i
	}
}

func checkEnd(n *notes, path, name, ref string) {
	switch {
	case name != "":
	case ref != "":
		n.problem(EmptyName, path, "refers to %q, which is the id of no entity", ref)
	default:
		n.problem(EmptyName, path, "is empty")
	}
}

func anyOf(known map[fact]int, facts []fact) (int, bool) {
	for _, f := range facts {
		if i, ok := known[f]; ok {
			return i, true
		}
	}
	return 0, false
}

// inverses holds the relationship types that say the same the other way round, by
// type; a symmetric one is its own. They are those that scoring knows by default.
func inverses() map[string][]string {
	inverse := map[string][]string{}
	known := scoring.DefaultOptions()
	for _, kind := range known.Symmetric {
		inverse[textutil.FoldType(kind)] = []string{textutil.FoldType(kind)}
	}
	for _, pair := range known.Inverse {
		a, b := textutil.FoldType(pair[0]), textutil.FoldType(pair[1])
		inverse[a] = append(inverse[a], b)
		if a != b {
			inverse[b] = append(inverse[b], a)
		}
	}
	return inverse
}

// denials returns the statements that cannot hold beside the fact: those in the
// other direction. Of a type that the vocabulary does not have nothing is known.
func (c *checker) denials(f fact) []fact {
	inverse := c.inverse[f.kind]
	if len(inverse) == 0 || slices.Contains(inverse, f.kind) || f.source == f.target {
		return nil
	}
	others := []fact{{f.target, f.kind, f.source}}
	for _, kind := range inverse {
		others = append(others, fact{f.source, kind, f.target})
	}
	return others
}

// checkEnds looks for ends of relationships that are no listed entity. Scoring
// allows that; often it is a misspelt name.
func checkEnds(n *notes, list []extraction.Relationship, listed map[string]string) {
	for i, r := range list {
		for _, end := range [][2]string{{"source_name", r.Source}, {"target_name", r.Target}} {
			if end[1] != "" && listed[textutil.FoldName(end[1])] == "" {
				n.warn(Unlisted, relationshipPath(i)+"."+end[0], "%q is neither name nor alias of a listed entity", end[1])
			}
		}
	}
}

// checkTypes looks for types that an extractor which keeps to the item's
// schemas can never give.
func checkTypes(n *notes, document extraction.Document, expected extraction.Extraction) {
	var objects, relationships []string
	for key, s := range document.Objects {
		objects = append(objects, key, s.Name)
	}
	for key, s := range document.Relationships {
		relationships = append(relationships, key, s.Name)
	}
	known, allowed, stated := folded(objects), folded(document.AllowedTypes), folded(relationships)
	for i, e := range expected.Entities {
		if unknown(known, e.Type) {
			n.warn(UnknownType, entityPath(i)+".type", "%q is none of the object_schemas", e.Type)
		} else if unknown(allowed, e.Type) {
			n.warn(UnknownType, entityPath(i)+".type", "%q is none of the allowed_types", e.Type)
		}
	}
	for i, r := range expected.Relationships {
		if unknown(stated, r.Type) {
			n.warn(UnknownType, relationshipPath(i)+".relationship_type", "%q is none of the relationship_schemas", r.Type)
		}
	}
}

// unknown reports whether there are known types and this is none of them.
func unknown(known map[string]bool, kind string) bool {
	kind = textutil.FoldType(kind)
	return kind != "" && len(known) > 0 && !known[kind]
}

func folded(types []string) map[string]bool {
	set := map[string]bool{}
	for _, t := range types {
		set[textutil.FoldType(t)] = true
	}
	return set
}
