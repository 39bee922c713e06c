// Package scoring compares an extraction with what was expected, item by item: it returns counts,
// scores, matches, misses and reasons.
//
// It does no I/O, keeps no state between calls, and knows nothing about items, runs or Langfuse.
// It does not average: package outcome computes means and pooled values from the ratios.
//
// One call has these steps:
//
//  1. Normalise names and types, and number the distinct ones in the order of their text, so that no
//     result depends on the order of a list.
//  2. Find repeated entities and statements, and collapse them if the options say so.
//  3. Link what may match: equal names, similar names, and statements that say the same, directly or by
//     inverse.
//  4. Choose the best one-to-one assignment among the links.
//  5. Count, calculate the scores from the counts, and explain every match and every miss.
//
// Catalog defines the scores; docs/metrics.md describes them for users.
//
//	scorer, err := scoring.New(scoring.DefaultOptions())
//	if err != nil { … }
//	result := scorer.Score(expected, extracted)
//	for _, s := range result.Scores { fmt.Println(s.Name, s.Comment) }
//
// Fixed limits bound the work on hostile input (see options.go). If one is reached, the matching
// is still one-to-one and independent of the order of the lists, and Result.Warnings says what
// was left out.
package scoring

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Version identifies the meaning of the scores. It changes if the same input and options could
// give another count or score. Runs scored by different versions are not comparable.
const Version = "2"

// Scorer compares extractions with what was expected, pair by pair. The experiment.Scorer of a run
// is harness/extraction.Scorer, which has one. It is immutable and safe for concurrent use.
type Scorer struct {
	options       Options
	catalog       []Definition
	threshold     threshold
	canonicalType map[string]string                // see resolveAliases
	converses     map[string][]extraction.Converse // by normalised type
	buffers       sync.Pool                        // of *buffers
}

// New returns a scorer, or an error with exit code 64 that joins all problems of the options.
func New(o Options) (*Scorer, error) {
	t, err := o.check()
	if err != nil {
		return nil, err
	}
	s := &Scorer{options: o, catalog: Catalog(), threshold: t, canonicalType: resolveAliases(o.TypeAliases)}
	s.converses = extraction.Vocabulary{Inverse: o.Inverse, Symmetric: o.Symmetric}.Converses(s.typeText)
	return s, nil
}

// typeText returns the normalised form of a type; all aliases of a type have the same.
func (s *Scorer) typeText(raw string) string {
	text := textutil.FoldType(raw)
	if one, ok := s.canonicalType[text]; ok {
		return one
	}
	return text
}

// Converse reports whether a(x, y) states the same fact as b(y, x): the types are inverse, or the
// same symmetric one.
func (s *Scorer) Converse(a, b string) bool {
	b = s.typeText(b)
	return slices.ContainsFunc(s.converses[s.typeText(a)], func(c extraction.Converse) bool { return c.Type == b })
}

// resolveAliases maps each type of an alias table to the type that stands for it and all types
// connected with it: one that is no alias if there is any, and of several the first in
// alphabetical order.
func resolveAliases(aliases map[string]string) map[string]string {
	isAlias := map[string]bool{} // has every type of the table as a key
	for alias, to := range aliases {
		from, to := textutil.FoldType(alias), textutil.FoldType(to)
		isAlias[from], isAlias[to] = isAlias[from] || from != to, isAlias[to]
	}
	texts := slices.SortedFunc(maps.Keys(isAlias), func(a, b string) int {
		return cmp.Or(falseFirst(isAlias[a], isAlias[b]), cmp.Compare(a, b))
	})
	at := map[string]int{}
	for i, text := range texts {
		at[text] = i
	}
	set := newDisjointSet(len(texts))
	for alias, to := range aliases {
		set.join(at[textutil.FoldType(alias)], at[textutil.FoldType(to)])
	}
	one := map[string]string{}
	for i, text := range texts {
		one[text] = texts[set.find(i)]
	}
	return one
}

// falseFirst compares two bools; false is less than true.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// Score compares what was extracted with what was expected.
//
// A nil list of expected is not annotated: the scores of its family have no value. A nil list of
// extracted is empty. The ends of relationships are names; extraction.DecodeExtraction resolves
// references. The order of the lists changes only indices, and which spelling of a collapsed
// repetition is shown.
//
// The cost is about linear in the input if names are equal or far apart. Similar names are
// compared in pairs, within fixed limits; Result.Warnings reports a limit that was reached. Up to
// them, 10,000 unlike names of 20 characters on each side take about five seconds of a processor.
func (s *Scorer) Score(expected, extracted extraction.Extraction) Result {
	return newCall(s, expected, extracted, true).score()
}

// Measure is Score without explanations: matches and misses are not listed, and scores have no
// counts and, except for item_perfect, no comments.
func (s *Scorer) Measure(expected, extracted extraction.Extraction) Result {
	return newCall(s, expected, extracted, false).score()
}

func (c *call) score() Result {
	var r Result
	r.Duplicates = Duplicates{
		c.expected.repeatedEntities, c.extracted.repeatedEntities,
		c.expected.repeatedFacts, c.extracted.repeatedFacts,
	}
	if n := len(r.Duplicates.ExpectedEntities) + len(r.Duplicates.ExpectedRelationships); n > 0 && c.options.Dedupe != CollapseExact {
		c.warn("expected: %s; only one of those alike can match each extracted one", textutil.Counted(n, "repetition"))
	}
	if c.expected.given.Entities != nil {
		r.Counts.Entities = c.scoreEntities(&r)
	}
	if c.expected.given.Relationships != nil {
		r.Counts.Relationships = c.scoreRelationships(&r)
	}
	r.Scores = c.scoresOf(r.Counts)
	r.Warnings = c.warnings
	c.Scorer.buffers.Put(c.buffers)
	return r
}

// Reasons why a score has no value.
const (
	ItemFailed                = "the item failed"
	EntitiesNotAnnotated      = "the expected output does not annotate entities"
	RelationshipsNotAnnotated = "the expected output does not annotate relationships"
	NothingAnnotated          = "the expected output annotates neither entities nor relationships"
	NothingMatched            = "no entity was matched, so that no type can be judged"
	NoExpectedTypes           = "no matched entity has an expected type"
	NoTypedEntity             = "no expected entity has a type"
)

// scoresOf calculates all scores of the catalogue from the counts.
func (c *call) scoresOf(n Counts) []outcome.Score {
	scores, values := make([]outcome.Score, 0, len(c.catalog)+2), make([]float64, len(c.catalog))
	counts := n.Map()
	typed := slices.ContainsFunc(c.expected.entities, func(e entity) bool { return e.name != 0 && e.typ != 0 })
	for i, d := range c.catalog {
		s := outcome.Score{Name: d.Name, Boolean: d.Boolean, Reason: n.undefined(d, typed)}
		if s.Reason != "" {
			scores = append(scores, s)
			continue
		}
		if d.Family == ItemFamily {
			scoreItem(&s, scores)
		} else {
			s.Ratio, s.Vacuous = d.ratio(counts), n.vacuous(d.Family)
			if c.explains {
				s.Counts, s.Comment = d.countsOf(counts), d.comment(counts)
				if s.Vacuous {
					s.Comment = "nothing expected, nothing extracted"
				}
			}
		}
		s.Value = &values[i]
		switch {
		case s.Ratio.Den > 0:
			values[i] = float64(s.Ratio.Num) / float64(s.Ratio.Den)
		case s.Vacuous:
			values[i] = 1
		}
		scores = append(scores, s)
	}
	return scores
}

// undefined returns why a score has no value, or "". typed reports whether any expected entity has
// both a name and a type.
func (c Counts) undefined(d Definition, typed bool) string {
	switch {
	case d.Family == ItemFamily && c.Entities == nil && c.Relationships == nil:
		return NothingAnnotated
	case d.Family == RelationshipFamily && c.Relationships == nil:
		return RelationshipsNotAnnotated
	case d.Family == EntityFamily && c.Entities == nil:
		return EntitiesNotAnnotated
	case d.typed() && !typed && c.Entities.Expected > 0:
		return NoTypedEntity
	case d.Name != TypeAccuracy || c.Entities.TypeJudged > 0:
		return ""
	case c.Entities.Matched == 0:
		return NothingMatched
	}
	return NoExpectedTypes
}

// vacuous reports whether both sides of a family are empty.
func (c Counts) vacuous(f Family) bool {
	if f == EntityFamily {
		return c.Entities.Expected+c.Entities.Extracted == 0
	}
	return c.Relationships.Expected+c.Relationships.Extracted == 0
}

// scoreItem sets item_perfect from the scores before it.
func scoreItem(s *outcome.Score, before []outcome.Score) {
	s.Ratio, s.Comment, s.Vacuous = &outcome.Ratio{Num: 1, Den: 1}, "everything is right", true
	for _, name := range []string{EntityF1, RelationshipF1, TypeAccuracy} {
		part, _ := outcome.Lookup(before, name)
		if part.Value == nil {
			continue
		}
		s.Vacuous = s.Vacuous && part.Vacuous
		if part.Ratio.Num != part.Ratio.Den && s.Ratio.Num == 1 {
			s.Ratio.Num, s.Comment = 0, fmt.Sprintf("%s is %d/%d", name, part.Ratio.Num, part.Ratio.Den)
		}
	}
}

// Undelivered returns the scores of a failed item: those that its expected output defines,
// without a value, so that they count as zero. They include type_accuracy if an expected entity
// with a name has a type, and entity_typed_f1 and entity_strict_f1 also if no entity is expected.
func (s *Scorer) Undelivered(expected extraction.Extraction) []outcome.Score {
	typed := slices.ContainsFunc(expected.Entities, func(e extraction.Entity) bool {
		return s.typeText(e.Type) != "" && s.options.normalise(e.Name) != ""
	})
	var counts Counts
	if expected.Entities != nil {
		counts.Entities = &EntityCounts{Expected: int64(len(expected.Entities))}
		if typed {
			counts.Entities.TypeJudged = 1 // a possible count
		}
	}
	if expected.Relationships != nil {
		counts.Relationships = &RelationshipCounts{}
	}
	var scores []outcome.Score
	for _, d := range s.catalog {
		if counts.undefined(d, typed) == "" {
			scores = append(scores, outcome.Score{Name: d.Name, Boolean: d.Boolean, Reason: ItemFailed})
		}
	}
	return scores
}

// call is the state of one call of Score or Measure.
type call struct {
	*Scorer
	explains      bool
	names         *names
	types         *dictionary
	reversals     [][]reversal // by type
	expected      side
	extracted     side
	endNames      endNames
	nearestBudget budget
	warnings      []string
	*buffers
}

// buffers are memory that calls reuse one after the other. Results never refer to it.
type buffers struct {
	editor       editor
	transport    transport
	links        []link      // of the current family
	similarNames []similarTo // the result of findSimilar
}

// side is one of the two extractions, prepared for matching.
type side struct {
	label         string
	given         extraction.Extraction
	entities      []entity
	relationships []statement

	repeatedEntities, repeatedFacts []Duplicate
}

func newCall(s *Scorer, expected, extracted extraction.Extraction, explains bool) *call {
	names := &names{dictionary: newDictionary(s.options.normalise)}
	names.slots = make(map[string]int, len(expected.Entities)+len(extracted.Entities))
	c := &call{
		Scorer: s, explains: explains, names: names, types: newDictionary(s.typeText),
		expected:      side{label: "expected", given: expected},
		extracted:     side{label: "extracted", given: extracted},
		nearestBudget: budget{nearestAllowance},
	}
	if c.buffers, _ = s.buffers.Get().(*buffers); c.buffers == nil {
		c.buffers = &buffers{}
	}
	c.collect(&c.expected, true)
	c.collect(&c.extracted, false)
	c.names.close()
	c.types.close()
	names.numbers = newDisjointSet(len(names.texts)).parent
	c.reversals = c.reversalsOf()
	c.prepareEntities(&c.expected, true)
	c.prepareEntities(&c.extracted, false)
	c.endNames = newEndNames(names, c.expected.entities)
	c.prepareRelationships(&c.expected)
	c.prepareRelationships(&c.extracted)
	return c
}

// collect adds all names and types of a side to the dictionaries and keeps their slots in the
// entities and statements. prepareEntities and prepareRelationships replace the slots by numbers.
func (c *call) collect(s *side, aliases bool) {
	s.entities = make([]entity, len(s.given.Entities))
	for i, given := range s.given.Entities {
		s.entities[i] = entity{index: i, name: c.names.add(given.Name), typ: c.types.add(given.Type), partner: -1}
		if aliases {
			for _, alias := range given.Aliases {
				c.names.add(alias)
			}
		}
	}
	s.relationships = make([]statement, len(s.given.Relationships))
	forms := make([]form, len(s.given.Relationships))
	for i, r := range s.given.Relationships {
		forms[i] = form{c.names.add(r.Source), c.types.add(r.Type), c.names.add(r.Target)}
		s.relationships[i] = statement{i, forms[i : i+1 : i+1], -1}
	}
}

func (c *call) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}
