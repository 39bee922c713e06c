package scoring

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// Reasons for which a score has no value.
const (
	ItemFailed                = "the item failed"
	EntitiesNotAnnotated      = "the expected output does not annotate entities"
	RelationshipsNotAnnotated = "the expected output does not annotate relationships"
	NothingAnnotated          = "the expected output annotates neither entities nor relationships"
	NothingMatched            = "no entity was matched, so that no type can be judged"
	NoExpectedTypes           = "no matched entity has an expected type"
	Untyped                   = "no expected entity has a type"
)

// scoresOf derives every score of the catalogue from the counts; typed says that
// an expected entity has a type.
func scoresOf(c Counts, typed bool) []outcome.Score {
	var scores []outcome.Score
	counts := c.Map()
	for _, d := range Catalog() {
		if d.Name == ItemPerfect {
			scores = append(scores, itemPerfect(c, scores))
			continue
		}
		s := outcome.Score{Name: d.Name}
		if reason := c.undefined(d, typed); reason != "" {
			s.Reason = reason
			scores = append(scores, s)
			continue
		}
		num, den := d.numerator(c), d.denominator(c)
		s.Ratio = &outcome.Ratio{Num: num, Den: den}
		s.Vacuous = c.vacuous(d.Family) && d.Name != TypeAccuracy
		value := quotient(num, den)
		s.Counts = map[string]int64{}
		s.Comment = d.comment
		for _, name := range d.counts {
			s.Counts[name] = counts[name]
			s.Comment = strings.ReplaceAll(s.Comment, "{"+name+"}", strconv.FormatInt(counts[name], 10))
		}
		if s.Vacuous {
			value = 1
			s.Comment = "nothing expected, nothing extracted"
		}
		s.Value = &value
		scores = append(scores, s)
	}
	return scores
}

// quotient is num/den, and 0 where den is 0: one side is empty, the other not.
func quotient(num, den int64) float64 {
	if den == 0 {
		return 0
	}
	return float64(num) / float64(den)
}

// undefined returns why a score has no value, or "".
func (c Counts) undefined(d Definition, typed bool) string {
	switch {
	case d.Family == RelationshipFamily && c.Relationships == nil:
		return RelationshipsNotAnnotated
	case d.Family == EntityFamily && c.Entities == nil:
		return EntitiesNotAnnotated
	case d.typed() && !typed && c.Entities.Expected > 0:
		return Untyped
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

// itemPerfect judges the item from the scores before it.
func itemPerfect(c Counts, scores []outcome.Score) outcome.Score {
	s := outcome.Score{Name: ItemPerfect, Boolean: true}
	if c.Entities == nil && c.Relationships == nil {
		s.Reason = NothingAnnotated
		return s
	}
	value := 1.0
	s.Comment, s.Vacuous = "everything is right", true
	for _, name := range []string{EntityF1, RelationshipF1, TypeAccuracy} {
		part, _ := outcome.Lookup(scores, name)
		if part.Value == nil {
			continue
		}
		s.Vacuous = s.Vacuous && part.Vacuous
		if part.Ratio.Num != part.Ratio.Den && value == 1 {
			value = 0
			s.Comment = fmt.Sprintf("%s is %d/%d", name, part.Ratio.Num, part.Ratio.Den)
		}
	}
	s.Value = &value
	s.Ratio = &outcome.Ratio{Num: int64(value), Den: 1}
	return s
}

// Undelivered returns the scores of an item that failed: those that its
// expected output would define, without a value, so that they can be counted
// as zero. type_accuracy is among them when an expected entity with a name has
// a type, entity_typed_f1 and entity_strict_f1 also when none is expected.
func (s *Scorer) Undelivered(expected extraction.Extraction) []outcome.Score {
	spellName := newSpeller(s.options)
	typed := slices.ContainsFunc(expected.Entities, func(e extraction.Entity) bool {
		return s.typeText(e.Type) != "" && spellName.text(e.Name) != ""
	})
	var scores []outcome.Score
	for _, d := range Catalog() {
		defined := expected.Entities != nil
		switch {
		case d.Name == TypeAccuracy:
			defined = typed
		case d.typed() && len(expected.Entities) > 0:
			defined = typed
		case d.Family == RelationshipFamily:
			defined = expected.Relationships != nil
		case d.Family == ItemFamily:
			defined = expected.Entities != nil || expected.Relationships != nil
		}
		if defined {
			scores = append(scores, outcome.Score{Name: d.Name, Boolean: d.Boolean, Reason: ItemFailed})
		}
	}
	return scores
}
