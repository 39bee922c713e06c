package extraction

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
	"extraction-experiment/seed"
)

// DoubtKind says what may be wrong with gold.
type DoubtKind string

// The kinds of doubt.
const (
	NotFound      DoubtKind = "not_found"     // the text has it, and hardly a system finds it
	NotInText     DoubtKind = "not_in_text"   // the text does not have its name
	NotInGold     DoubtKind = "not_in_gold"   // systems agree on it, and gold does not have it
	OtherType     DoubtKind = "other_type"    // systems agree on another type
	OtherName     DoubtKind = "other_name"    // systems agree on a longer, shorter or similar name
	Reversed      DoubtKind = "reversed"      // systems agree on the other direction
	Contradiction DoubtKind = "contradiction" // gold contradicts itself or its schemas
)

// A stance is what a system says about a claim that gold is wrong.
type stance int8

const (
	silent  stance = iota // nothing
	against               // gold is right
	agrees                // the claim is right
	absent                // the item failed
)

// countOf counts stances by what they are.
func countOf(stances []stance) (n [absent + 1]int) {
	for _, st := range stances {
		n[st]++
	}
	return n
}

// element is what is compared of an entity, or of a relationship, whose source is its name.
type element struct {
	what               string // scoring.AnEntity or scoring.ARelationship
	name, kind, target string
	aliases            []string
}

func elementAt(of *extraction.Extraction, what string, i int) element {
	if what == scoring.AnEntity {
		e := of.Entities[i]
		return element{what: what, name: e.Name, kind: e.Type, aliases: e.Aliases}
	}
	r := of.Relationships[i]
	return element{what: what, name: r.Source, kind: r.Type, target: r.Target}
}

func (e element) entity() extraction.Entity { return extraction.Entity{Name: e.name, Type: e.kind} }

func (e element) relationship() extraction.Relationship {
	return extraction.Relationship{Source: e.name, Target: e.target, Type: e.kind}
}

// names are those that must be in the text.
func (e element) names() []string {
	if e.what == scoring.ARelationship {
		return []string{e.name, e.target}
	}
	return append([]string{e.name}, e.aliases...)
}

// folded is the form by which systems' elements are grouped.
func (e element) folded() string {
	folded := element{what: e.what, name: textutil.FoldName(e.name), kind: textutil.FoldType(e.kind), target: textutil.FoldName(e.target)}
	return folded.String()
}

// String is how a reader sees the element; "" where there is none.
func (e *element) String() string {
	switch {
	case e == nil:
		return ""
	case e.what == scoring.ARelationship:
		return fmt.Sprintf("%s(%s, %s)", e.kind, e.name, e.target)
	case e.kind == "":
		return e.name
	}
	return fmt.Sprintf("%s (%s)", e.name, e.kind)
}

// elementsOf goes through entities and relationships, each with its index in its list.
func elementsOf(of *extraction.Extraction) iter.Seq2[int, element] {
	return func(yield func(int, element) bool) {
		for i := range len(of.Entities) + len(of.Relationships) {
			what := scoring.AnEntity
			if i >= len(of.Entities) {
				what, i = scoring.ARelationship, i-len(of.Entities)
			}
			if !yield(i, elementAt(of, what, i)) {
				return
			}
		}
	}
}

// claim is one way in which the gold of an item may be wrong.
type claim struct {
	kind     DoubtKind
	expected *element // of gold; nil where gold lacks it
	index    int      // of expected in its list
	nth      int      // how many elements before it look the same
	proposed *element // what would replace the expected one; nil takes it out
	suspect  bool     // gold itself gives a reason: the prior is even
	reason   string   // of a contradiction
	stances  []stance
	others   []*element // by system: what it has in place of the expected one; nil without any
}

// about is the element of gold, or the one that it lacks.
func (c claim) about() *element { return cmp.Or(c.expected, c.proposed) }

// place is the beginning of paths to the element of gold, as findings have them.
func (c claim) place() string {
	list := "entities"
	if c.expected.what == scoring.ARelationship {
		list = "relationships"
	}
	return fmt.Sprintf("expectedOutput.%s[%d", list, c.index)
}

// reading is what the systems make of one item.
type reading struct {
	gold     extraction.Extraction
	expected json.RawMessage          // gold as it was written
	outputs  []*extraction.Extraction // nil: failed
	results  []scoring.Result
	faults   [][]scoring.Fault
	index    *extraction.Index
	pool     extraction.Extraction // what systems have and gold does not
	pooled   map[string][][]stance // of the pool, by what they are about
	kinds    [][]string            // of the pool's entities, the types that systems gave
	rules    *scoring.Scorer
	warned   map[string]seed.Finding // by claim.place
	types    map[string][]string     // those of the schemas that are allowed, folded; none are all
}

// lacks reports whether the schemas of the item do not have, or do not allow, the type of an
// element.
func (r *reading) lacks(e element) bool {
	kind, known := textutil.FoldType(e.kind), r.types[e.what]
	return kind != "" && len(known) > 0 && !slices.Contains(known, kind)
}

func (r *reading) contains(name string) bool {
	_, found := r.index.Locate(name, 0)
	return found
}

// addToPool joins what a system has beyond gold with what others had, as the
// scorer matches names.
func (r *reading) addToPool(s int) {
	var extra extraction.Extraction
	for _, f := range r.faults[s] {
		if f.Cause != scoring.CauseSpurious || f.Extracted == nil {
			continue
		}
		e := elementAt(r.outputs[s], f.What, *f.Extracted)
		switch {
		case f.What == scoring.ARelationship && r.gold.Relationships != nil:
			extra.Relationships = append(extra.Relationships, e.relationship())
		case f.What == scoring.AnEntity && r.gold.Entities != nil && !r.names(e.name): // or listed twice, under two types say
			extra.Entities = append(extra.Entities, e.entity())
		}
	}
	if len(extra.Entities)+len(extra.Relationships) == 0 {
		return
	}
	result := r.rules.Score(extraction.Extraction{Entities: orEmpty(r.pool.Entities), Relationships: orEmpty(r.pool.Relationships)}, extra)
	stand := func(what string) { r.pooled[what] = append(r.pooled[what], r.stated(s)) }
	for _, m := range result.Entities {
		r.pooled[scoring.AnEntity][m.ExpectedIndex][s] = agrees
		r.kinds[m.ExpectedIndex] = append(r.kinds[m.ExpectedIndex], extra.Entities[m.ExtractedIndex].Type)
	}
	for _, m := range result.Relationships {
		r.pooled[scoring.ARelationship][m.ExpectedIndex][s] = agrees
	}
	for _, m := range result.SpuriousEntities {
		r.pool.Entities = append(r.pool.Entities, extra.Entities[m.Index])
		r.kinds = append(r.kinds, []string{extra.Entities[m.Index].Type})
		stand(scoring.AnEntity)
	}
	for _, m := range result.SpuriousRelationships {
		r.pool.Relationships = append(r.pool.Relationships, extra.Relationships[m.Index])
		stand(scoring.ARelationship)
	}
}

// commonest is the type that most of the systems gave, of those that gold could have; of as many
// the first.
func (r *reading) commonest(kinds []string) string {
	n := map[string]int{}
	for _, kind := range kinds {
		if kind = textutil.FoldType(kind); kind != "" && !r.lacks(element{what: scoring.AnEntity, kind: kind}) {
			n[kind]++
		}
	}
	return slices.MaxFunc(kinds, func(a, b string) int { return n[textutil.FoldType(a)] - n[textutil.FoldType(b)] })
}

// names reports whether gold has an entity of that name or alias.
func (r *reading) names(name string) bool {
	name = textutil.FoldName(name)
	return slices.ContainsFunc(r.gold.Entities, func(e extraction.Entity) bool {
		return slices.ContainsFunc(append([]string{e.Name}, e.Aliases...), func(known string) bool { return textutil.FoldName(known) == name })
	})
}

// stated are the stances where one system says something and the others do not.
func (r *reading) stated(s int) []stance {
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

// elements are what gold says, with what each system has for it: the element
// itself, another one in its place, or nothing.
func (r *reading) elements() (list []claim) {
	before := map[string]int{}
	for index, e := range elementsOf(&r.gold) {
		c := claim{expected: &e, index: index, nth: before[e.String()]}
		for s := range r.outputs {
			st, other := r.found(s, e.what, index)
			c.stances, c.others = append(c.stances, st), append(c.others, other)
		}
		list = append(list, c)
		before[e.String()]++
	}
	return list
}

// found says what a system has for an element of gold: against is the element
// itself, agrees that it has nothing of the kind, silent another one.
func (r *reading) found(s int, what string, index int) (stance, *element) {
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
	if what == scoring.AnEntity {
		matched = slices.ContainsFunc(r.results[s].Entities, func(m scoring.EntityMatch) bool { return m.ExpectedIndex == index })
	}
	if matched {
		return against, nil
	}
	return agrees, nil
}

// claims are the ways in which the gold of the item may be wrong.
func (r *reading) claims() []claim {
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

// removal is the claim that an element of gold is none: where gold gives a reason
// itself, or where not half of the systems have it or something in its place.
func (r *reading) removal(gold claim, changed bool) (claim, bool) {
	c := gold
	c.kind, c.others = NotFound, nil
	warning, warned := r.warned[c.place()]
	switch {
	case warned && !(changed && (warning.Kind == seed.UnknownType || warning.Kind == seed.EndType)):
		c.kind, c.reason, c.suspect = Contradiction, warning.Message, true
		return c, true
	case c.expected.what == scoring.AnEntity && !slices.ContainsFunc(c.expected.names(), r.contains):
		c.kind, c.suspect = NotInText, true
		return c, true
	}
	n := countOf(c.stances)
	return c, n[agrees] > n[against]+n[silent]
}

// changes are the claims that something else is in an element's place: one
// for what at least two systems have there.
func (r *reading) changes(gold claim) []claim {
	by := map[string][]int{}
	for s, other := range gold.others {
		if other != nil {
			form := other.folded()
			by[form] = append(by[form], s)
		}
	}
	var list []claim
	for _, systems := range by {
		proposed := gold.others[systems[0]].inPlaceOf(*gold.expected)
		if len(systems) < 2 || proposed.folded() == gold.expected.folded() { // or it lacks the type alone
			continue
		}
		c := gold
		c.proposed, c.kind = &proposed, kindOfChange(*gold.expected, proposed)
		if r.lacks(proposed) || c.kind == OtherName && r.invents(*gold.expected, proposed) {
			continue
		}
		warned := r.warned[gold.place()].Kind
		c.suspect = c.kind == OtherType && gold.expected.what == scoring.AnEntity && warned == seed.UnknownType || c.kind == Reversed && warned == seed.EndType
		c.stances, c.others = slices.Clone(gold.stances), slices.Clone(gold.others)
		for s, st := range c.stances {
			switch {
			case slices.Contains(systems, s):
				c.stances[s], c.others[s] = agrees, nil
			case st == agrees:
				c.stances[s] = silent // has neither
			}
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b claim) int { return cmp.Compare(a.proposed.folded(), b.proposed.folded()) })
	return list
}

// invents reports whether a change names what the text does not have.
func (r *reading) invents(gold, proposed element) bool {
	missing := func(was, name string) bool {
		return textutil.FoldName(was) != textutil.FoldName(name) && !r.contains(name)
	}
	return missing(gold.name, proposed.name) || missing(gold.target, proposed.target)
}

// inPlaceOf is the element of gold as the systems have it: what they do not say of it
// stays.
func (e element) inPlaceOf(gold element) element {
	if gold.what == scoring.AnEntity {
		e.kind = cmp.Or(e.kind, gold.kind)
		if textutil.FoldName(e.name) == textutil.FoldName(gold.name) {
			e.name = gold.name
		}
	}
	return e
}

func kindOfChange(gold, other element) DoubtKind {
	switch {
	case textutil.FoldType(gold.kind) != textutil.FoldType(other.kind):
		return OtherType
	case gold.what == scoring.ARelationship && textutil.FoldName(gold.name) == textutil.FoldName(other.target):
		return Reversed
	}
	return OtherName
}

// additions are the claims that gold lacks something: what at least two systems
// have and gold does not.
func (r *reading) additions() []claim {
	ends := map[string]bool{}
	for _, gold := range r.gold.Relationships {
		ends[textutil.FoldName(gold.Source)], ends[textutil.FoldName(gold.Target)] = true, true
	}
	var list []claim
	for i, e := range elementsOf(&r.pool) {
		stances := r.pooled[e.what][i]
		if countOf(stances)[agrees] >= 2 && !r.lacks(e) {
			suspect := e.what == scoring.AnEntity && ends[textutil.FoldName(e.name)]
			list = append(list, claim{kind: NotInGold, proposed: &e, stances: stances, suspect: suspect})
		}
	}
	return list
}
