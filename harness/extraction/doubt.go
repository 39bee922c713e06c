package extraction

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
	"extraction-experiment/seed"
)

// DoubtKind is a way in which gold may be wrong.
type DoubtKind string

// The kinds of doubt.
const (
	NotFound      DoubtKind = "not_found"     // the text has the name, but few systems find it
	NotInText     DoubtKind = "not_in_text"   // the text does not have the name
	NotInGold     DoubtKind = "not_in_gold"   // systems agree on an element that gold does not have
	OtherType     DoubtKind = "other_type"    // systems agree on another type; names stay
	OtherName     DoubtKind = "other_name"    // systems agree on a longer, shorter or similar name
	Reversed      DoubtKind = "reversed"      // systems agree on the other direction
	Contradiction DoubtKind = "contradiction" // gold contradicts itself or its schemas
)

// stance is what a system says about a claim.
type stance int8

const (
	silent  stance = iota // nothing
	against               // gold is right
	agrees                // the claim is right
	absent                // the item failed
)

// countStances counts each stance.
func countStances(stances []stance) (n [absent + 1]int) {
	for _, st := range stances {
		n[st]++
	}
	return n
}

// element is the compared part of an entity or a relationship. The name of a relationship is
// its source.
type element struct {
	what               string // scoring.FaultEntity or scoring.FaultRelationship
	name, kind, target string
	aliases            []string
}

func elementAt(lists *extraction.Extraction, what string, i int) element {
	if what == scoring.FaultEntity {
		e := lists.Entities[i]
		return element{what: what, name: e.Name, kind: e.Type, aliases: e.Aliases}
	}
	r := lists.Relationships[i]
	return element{what: what, name: r.Source, kind: r.Type, target: r.Target}
}

func (e element) entity() extraction.Entity { return extraction.Entity{Name: e.name, Type: e.kind} }

func (e element) relationship() extraction.Relationship {
	return extraction.Relationship{Source: e.name, Target: e.target, Type: e.kind}
}

// names returns the names that the text should have.
func (e element) names() []string {
	if e.what == scoring.FaultRelationship {
		return []string{e.name, e.target}
	}
	return append([]string{e.name}, e.aliases...)
}

// folded returns the form by which elements of systems are grouped.
func (e element) folded() string {
	folded := element{what: e.what, name: textutil.FoldName(e.name), kind: textutil.FoldType(e.kind), target: textutil.FoldName(e.target)}
	return folded.String()
}

// String returns the element for a person, or "" for nil.
func (e *element) String() string {
	switch {
	case e == nil:
		return ""
	case e.what == scoring.FaultRelationship:
		return fmt.Sprintf("%s(%s, %s)", e.kind, e.name, e.target)
	case e.kind == "":
		return e.name
	}
	return fmt.Sprintf("%s (%s)", e.name, e.kind)
}

// elementsOf iterates over entities and relationships, each with its index in its list.
func elementsOf(lists *extraction.Extraction) iter.Seq2[int, element] {
	return func(yield func(int, element) bool) {
		for i := range len(lists.Entities) + len(lists.Relationships) {
			what := scoring.FaultEntity
			if i >= len(lists.Entities) {
				what, i = scoring.FaultRelationship, i-len(lists.Entities)
			}
			if !yield(i, elementAt(lists, what, i)) {
				return
			}
		}
	}
}

// claim is one way in which the gold of an item may be wrong.
type claim struct {
	kind       DoubtKind
	expected   *element // element of gold; nil if gold lacks it
	index      int      // index of expected in its list
	occurrence int      // number of equal elements before it
	proposed   *element // replacement; nil removes the expected element
	suspect    bool     // gold itself gives a reason, so the prior is even
	reason     string   // for a contradiction
	stances    []stance
	others     []*element // by system: another element in place of the expected one, or nil
}

// subject returns the element of gold, or the one that gold lacks.
func (c claim) subject() *element { return cmp.Or(c.expected, c.proposed) }

// place returns the prefix of seed.Finding.Path for the element of gold.
func (c claim) place() string {
	list := "entities"
	if c.expected.what == scoring.FaultRelationship {
		list = "relationships"
	}
	return fmt.Sprintf("expectedOutput.%s[%d", list, c.index)
}

// comparison is gold and the outputs of the systems for one item.
type comparison struct {
	gold         extraction.Extraction
	expected     json.RawMessage          // gold as stored
	outputs      []*extraction.Extraction // nil if the system failed
	results      []scoring.Result
	faults       [][]scoring.Fault
	index        *extraction.Index
	pool         extraction.Extraction // elements beyond gold
	poolStances  map[string][][]stance // stances on the elements of pool, by element.what
	poolTypes    [][]string            // for each entity of pool, the types that systems gave
	rules        *scoring.Scorer
	goldFindings map[string]seed.Finding // findings about gold, by claim.place
	allowedTypes map[string][]string     // allowed types, folded, by element.what; empty allows all
}

// lacksType reports whether the schemas of the item do not have or allow the type of an
// element.
func (r *comparison) lacksType(e element) bool {
	kind, known := textutil.FoldType(e.kind), r.allowedTypes[e.what]
	return kind != "" && len(known) > 0 && !slices.Contains(known, kind)
}

func (r *comparison) contains(name string) bool {
	_, found := r.index.Locate(name, 0)
	return found
}

// addToPool adds the elements of a system beyond gold to those of other systems, matched like
// the scorer does.
func (r *comparison) addToPool(s int) {
	var extra extraction.Extraction
	for _, f := range r.faults[s] {
		if f.Cause != scoring.CauseSpurious || f.Extracted == nil {
			continue
		}
		e := elementAt(r.outputs[s], f.What, *f.Extracted)
		switch {
		case f.What == scoring.FaultRelationship && r.gold.Relationships != nil:
			extra.Relationships = append(extra.Relationships, e.relationship())
		// Gold may have the name with another type.
		case f.What == scoring.FaultEntity && r.gold.Entities != nil && !r.goldNames(e.name):
			extra.Entities = append(extra.Entities, e.entity())
		}
	}
	if len(extra.Entities)+len(extra.Relationships) == 0 {
		return
	}
	result := r.rules.Score(extraction.Extraction{Entities: orEmpty(r.pool.Entities), Relationships: orEmpty(r.pool.Relationships)}, extra)
	addStances := func(what string) { r.poolStances[what] = append(r.poolStances[what], r.stancesOf(s)) }
	for _, m := range result.Entities {
		r.poolStances[scoring.FaultEntity][m.ExpectedIndex][s] = agrees
		r.poolTypes[m.ExpectedIndex] = append(r.poolTypes[m.ExpectedIndex], extra.Entities[m.ExtractedIndex].Type)
	}
	for _, m := range result.Relationships {
		r.poolStances[scoring.FaultRelationship][m.ExpectedIndex][s] = agrees
	}
	for _, m := range result.SpuriousEntities {
		r.pool.Entities = append(r.pool.Entities, extra.Entities[m.Index])
		r.poolTypes = append(r.poolTypes, []string{extra.Entities[m.Index].Type})
		addStances(scoring.FaultEntity)
	}
	for _, m := range result.SpuriousRelationships {
		r.pool.Relationships = append(r.pool.Relationships, extra.Relationships[m.Index])
		addStances(scoring.FaultRelationship)
	}
}

// mostCommonType returns the type that most systems gave, among those that gold may have. On a tie
// it is the first.
func (r *comparison) mostCommonType(kinds []string) string {
	n := map[string]int{}
	for _, kind := range kinds {
		if kind = textutil.FoldType(kind); kind != "" && !r.lacksType(element{what: scoring.FaultEntity, kind: kind}) {
			n[kind]++
		}
	}
	return slices.MaxFunc(kinds, func(a, b string) int { return n[textutil.FoldType(a)] - n[textutil.FoldType(b)] })
}

// goldNames reports whether gold has an entity with this name or alias.
func (r *comparison) goldNames(name string) bool {
	name = textutil.FoldName(name)
	return slices.ContainsFunc(r.gold.Entities, func(e extraction.Entity) bool {
		return slices.Contains(foldedNames(e), name)
	})
}

// foldedNames returns the name and the aliases of an entity.
func foldedNames(e extraction.Entity) []string {
	return cli.Each(append([]string{e.Name}, e.Aliases...), textutil.FoldName)
}

// stancesOf returns the stances on a statement of only one system.
func (r *comparison) stancesOf(s int) []stance {
	list := make([]stance, len(r.outputs))
	for i, output := range r.outputs {
		list[i] = against
		if output == nil {
			list[i] = absent
		}
	}
	list[s] = agrees
	return list
}

// elements returns a claim for each element of gold, with the stance of each system and its
// other element.
func (r *comparison) elements() (list []claim) {
	before := map[string]int{}
	for index, e := range elementsOf(&r.gold) {
		c := claim{expected: &e, index: index, occurrence: before[e.String()]}
		for s := range r.outputs {
			st, other := r.stanceOn(s, e.what, index)
			c.stances, c.others = append(c.stances, st), append(c.others, other)
		}
		list = append(list, c)
		before[e.String()]++
	}
	return list
}

// stanceOn returns the stance of a system on the claim that an element of gold is wrong:
// against if the system has the element, agrees if it has nothing like it, silent with the
// other element that it has instead, absent if the item failed.
func (r *comparison) stanceOn(s int, what string, index int) (stance, *element) {
	if r.outputs[s] == nil {
		return absent, nil
	}
	for _, f := range r.faults[s] {
		if f.What != what || f.Expected == nil || *f.Expected != index || f.Extracted == nil {
			continue
		}
		other := elementAt(r.outputs[s], what, *f.Extracted)
		return silent, &other
	}
	matched := slices.ContainsFunc(r.results[s].Relationships, func(m scoring.RelationshipMatch) bool { return m.ExpectedIndex == index })
	if what == scoring.FaultEntity {
		matched = slices.ContainsFunc(r.results[s].Entities, func(m scoring.EntityMatch) bool { return m.ExpectedIndex == index })
	}
	if matched {
		return against, nil
	}
	return agrees, nil
}

// claims returns the ways in which the gold of the item may be wrong.
func (r *comparison) claims() []claim {
	var list []claim
	for _, gold := range r.elements() {
		changes := r.changes(gold)
		list = append(list, changes...)
		if c, ok := r.removal(gold, len(changes) > 0); ok {
			list = append(list, c)
		}
	}
	return append(list, r.additions()...)
}

// removal returns the claim that an element of gold should be removed. ok is true if gold
// itself gives a reason, or if fewer than half of the systems have it or another one in its
// place.
func (r *comparison) removal(gold claim, changed bool) (claim, bool) {
	c := gold
	c.kind, c.others = NotFound, nil
	finding, hasFinding := r.goldFindings[c.place()]
	switch {
	case hasFinding && !(changed && (finding.Kind == seed.UnknownType || finding.Kind == seed.EndType)):
		c.kind, c.reason, c.suspect = Contradiction, finding.Message, true
		return c, true
	case c.expected.what == scoring.FaultEntity && !slices.ContainsFunc(c.expected.names(), r.contains):
		c.kind, c.suspect = NotInText, true
		return c, true
	}
	n := countStances(c.stances)
	return c, n[agrees] > n[against]+n[silent]
}

// changes returns the claims that an element of gold should be replaced, one for each
// replacement of at least two systems.
func (r *comparison) changes(gold claim) []claim {
	systemsByForm, proposals := map[string][]int{}, map[string]*element{}
	for s, other := range gold.others {
		if other != nil {
			proposed := r.inPlaceOf(*other, *gold.expected)
			form := proposed.folded()
			systemsByForm[form] = append(systemsByForm[form], s)
			proposals[form] = cmp.Or(proposals[form], &proposed)
		}
	}
	var list []claim
	for form, systems := range systemsByForm {
		if len(systems) < 2 || form == gold.expected.folded() { // the second if only the type is missing
			continue
		}
		c := gold
		c.proposed = proposals[form]
		c.kind = kindOfChange(*gold.expected, *c.proposed)
		if r.lacksType(*c.proposed) || r.invents(*gold.expected, *c.proposed) {
			continue
		}
		goldKind := r.goldFindings[gold.place()].Kind
		c.suspect = gold.expected.what == scoring.FaultEntity && goldKind == seed.UnknownType ||
			c.kind == Reversed && goldKind == seed.EndType
		c.stances, c.others = slices.Clone(gold.stances), slices.Clone(gold.others)
		for s, st := range c.stances {
			switch {
			case slices.Contains(systems, s):
				c.stances[s], c.others[s] = agrees, nil
			case st == agrees:
				c.stances[s] = silent // the system has neither
			}
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b claim) int { return cmp.Compare(a.proposed.folded(), b.proposed.folded()) })
	return list
}

// invents reports whether a change introduces a name that the text does not have.
func (r *comparison) invents(gold, proposed element) bool {
	return slices.ContainsFunc([]string{proposed.name, proposed.target}, func(name string) bool {
		return !gold.hasEnd(name) && !r.contains(name)
	})
}

// inPlaceOf returns the element of gold with the changes of a system. A missing type stays, and
// so does a name if the system has another one of the same entity. What the system says with
// a symmetric or inverse type gets the type and direction of gold.
func (r *comparison) inPlaceOf(e, gold element) element {
	for _, name := range []*string{&e.name, &e.target} {
		for _, own := range []string{gold.name, gold.target} {
			if !gold.hasEnd(*name) && r.sameEntity(own, *name) {
				*name = own
			}
		}
	}
	if gold.what == scoring.FaultEntity {
		e.kind = cmp.Or(e.kind, gold.kind)
	} else if e.crosses(gold) && r.rules.Converse(gold.kind, e.kind) {
		e.name, e.target, e.kind = e.target, e.name, gold.kind
	}
	return e
}

// sameEntity reports whether two names are equal if folded, or an entity of gold has both.
func (r *comparison) sameEntity(a, b string) bool {
	a, b = textutil.FoldName(a), textutil.FoldName(b)
	return a == b || slices.ContainsFunc(r.gold.Entities, func(e extraction.Entity) bool {
		names := foldedNames(e)
		return slices.Contains(names, a) && slices.Contains(names, b)
	})
}

// hasEnd reports whether an element has a name, other than as an alias.
func (e element) hasEnd(name string) bool { return name == e.name || name == e.target }

// crosses reports whether a relationship has an end of gold in the other direction, and none in
// the same.
func (e element) crosses(gold element) bool {
	return (e.name == gold.target || e.target == gold.name) && e.name != gold.name && e.target != gold.target
}

// kindOfChange returns OtherName if a name changes, even if the type changes too.
func kindOfChange(gold, other element) DoubtKind {
	sameType := textutil.FoldType(gold.kind) == textutil.FoldType(other.kind)
	switch {
	case gold.what == scoring.FaultRelationship && sameType && other.crosses(gold):
		return Reversed
	case !sameType && gold.hasEnd(other.name) && gold.hasEnd(other.target):
		return OtherType
	}
	return OtherName
}

// additions returns the claims that gold lacks an element that at least two systems have.
func (r *comparison) additions() []claim {
	ends := map[string]bool{}
	for _, gold := range r.gold.Relationships {
		ends[textutil.FoldName(gold.Source)], ends[textutil.FoldName(gold.Target)] = true, true
	}
	var list []claim
	for i, e := range elementsOf(&r.pool) {
		stances := r.poolStances[e.what][i]
		if countStances(stances)[agrees] >= 2 && !r.lacksType(e) {
			suspect := e.what == scoring.FaultEntity && ends[textutil.FoldName(e.name)]
			list = append(list, claim{kind: NotInGold, proposed: &e, stances: stances, suspect: suspect})
		}
	}
	return list
}
