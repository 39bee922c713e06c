package seed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/fold"
)

// gold checks an expected output against itself and against its document.
func (c *checker) gold(n *notes, document extraction.Document, expected extraction.Extraction) {
	if expected.Entities == nil {
		n.warn(NotAnnotated, "expectedOutput.entities", "is absent: entity scores are not computed; write [] where there are none")
	}
	if expected.Relationships == nil {
		n.warn(NotAnnotated, "expectedOutput.relationships", "is absent: relationship scores are not computed; write [] where there are none")
	}
	checkEntities(n, expected.Entities)
	checkMentions(n, document, expected.Entities)
	checkNames(n, document, expected.Entities)
	c.checkRelationships(n, expected)
	checkEnds(n, expected)
	checkTypes(n, document, expected)
}

func entityPath(i int) string { return fmt.Sprintf("expectedOutput.entities[%d]", i) }

func relationshipPath(i int) string { return fmt.Sprintf("expectedOutput.relationships[%d]", i) }

// checkEntities looks for empty names and entities that are there twice.
func checkEntities(n *notes, entities []extraction.Entity) {
	type key struct{ name, kind string }
	first := map[key]int{}
	for i, e := range entities {
		k := key{fold.Name(e.Name), fold.Type(e.Type)}
		if k.name == "" {
			n.problem(EmptyName, entityPath(i)+".name", "is empty")
			continue
		}
		if earlier, ok := first[k]; ok {
			n.warn(Duplicate, entityPath(i), "%q is entities[%d] again: each copy must be found once more", e.Name, earlier)
			continue
		}
		first[k] = i
	}
}

// checkRelationships looks for statements that are incomplete, or that say
// what an earlier one says. An alias stands for its entity.
func (c *checker) checkRelationships(n *notes, expected extraction.Extraction) {
	entity := entityNames(expected.Entities)
	end := func(name string) string {
		folded := fold.Name(name)
		return cmp.Or(entity[folded], folded)
	}
	first := map[fact]int{}
	for i, r := range expected.Relationships {
		f := fact{end(r.Source), fold.Type(r.Type), end(r.Target)}
		if !checkParts(n, i, r, f) {
			continue
		}
		if earlier, ok := first[f]; ok {
			n.warn(Duplicate, relationshipPath(i), "is relationships[%d] again: each copy must be found once more", earlier)
			continue
		}
		for _, other := range c.facts.equivalents(f) {
			if earlier, ok := first[other]; ok {
				n.warn(Redundant, relationshipPath(i), "%s(%s, %s) says what relationships[%d] says: keep one, or recall halves",
					r.Type, r.Source, r.Target, earlier)
				break
			}
		}
		for _, other := range c.facts.denials(f) {
			if earlier, ok := first[other]; ok {
				n.warn(Contradicts, relationshipPath(i), "%s(%s, %s) denies relationships[%d]: both directions of one statement, and the type is not symmetric",
					r.Type, r.Source, r.Target, earlier)
				break
			}
		}
		first[f] = i
	}
}

// entityNames leads from every name and alias, folded, to the name of its
// entity; of an alias that two entities share the first has it, and a name is
// never an alias.
func entityNames(entities []extraction.Entity) map[string]string {
	names := map[string]string{}
	for _, e := range entities {
		names[fold.Name(e.Name)] = fold.Name(e.Name)
	}
	for _, e := range entities {
		for _, alias := range e.Aliases {
			if folded := fold.Name(alias); names[folded] == "" {
				names[folded] = fold.Name(e.Name)
			}
		}
	}
	return names
}

func checkParts(n *notes, i int, r extraction.Relationship, f fact) bool {
	ok := true
	end := func(side, name, ref string) {
		switch {
		case name != "":
			return
		case ref != "":
			n.problem(EmptyName, relationshipPath(i)+"."+side, "refers to %q, which is the id of no entity", ref)
		default:
			n.problem(EmptyName, relationshipPath(i)+"."+side, "is empty")
		}
		ok = false
	}
	end("source_name", f.source, r.SourceRef)
	end("target_name", f.target, r.TargetRef)
	if f.kind == "" {
		n.problem(EmptyName, relationshipPath(i)+".relationship_type", "is empty")
		ok = false
	}
	return ok
}

// checkEnds looks for ends of relationships that are no listed entity. Scoring
// allows that; often it is a misspelt name.
func checkEnds(n *notes, expected extraction.Extraction) {
	if expected.Entities == nil {
		return
	}
	listed := entityNames(expected.Entities)
	for i, r := range expected.Relationships {
		if r.Source != "" && listed[fold.Name(r.Source)] == "" {
			n.warn(Unlisted, relationshipPath(i)+".source_name", "%q is neither name nor alias of a listed entity", r.Source)
		}
		if r.Target != "" && listed[fold.Name(r.Target)] == "" {
			n.warn(Unlisted, relationshipPath(i)+".target_name", "%q is neither name nor alias of a listed entity", r.Target)
		}
	}
}

// checkNames looks for entities of which neither name nor alias occurs in the
// text, case and white space aside.
func checkNames(n *notes, document extraction.Document, entities []extraction.Entity) {
	if len(entities) == 0 {
		return
	}
	text := fold.Name(document.Text)
	for i, e := range entities {
		names := append([]string{e.Name}, e.Aliases...)
		occurs := func(name string) bool { return strings.Contains(text, fold.Name(name)) }
		if fold.Name(e.Name) != "" && !slices.ContainsFunc(names, occurs) {
			n.warn(NotInText, entityPath(i)+".name", "%q does not occur in the document", e.Name)
		}
	}
}

// checkMentions compares the quotes of mentions with the document.
func checkMentions(n *notes, document extraction.Document, entities []extraction.Entity) {
	var text []rune
	for i, e := range entities {
		for k, m := range e.Mentions {
			if text == nil {
				text = []rune(document.Text)
			}
			path := fmt.Sprintf("%s.mentions[%d]", entityPath(i), k)
			if m.Start < 0 || m.End < m.Start || m.End > len(text) {
				n.warn(BadMention, path, "%d…%d lies outside the document of %d characters", m.Start, m.End, len(text))
				continue
			}
			if there := string(text[m.Start:m.End]); there != m.Quote {
				n.warn(BadMention, path, "quotes %q where the document has %q", cut(m.Quote), cut(there))
			}
		}
	}
}

func cut(s string) string {
	runes := []rune(s)
	if len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return s
}
