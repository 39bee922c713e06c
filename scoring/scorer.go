package scoring

import (
	"maps"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/fold"
)

// Scorer compares extractions with what was expected. It is immutable and safe
// for concurrent use.
type Scorer struct {
	options   Options
	threshold threshold
	oneType   map[string]string          // types that are another's alias, normal spelling
	symmetric map[string]bool            // normal spelling
	inverse   map[string]map[string]bool // normal spelling, both ways
}

// New returns a scorer, or an *OptionsError with everything that is wrong.
func New(o Options) (*Scorer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t, err := parseThreshold(o.Threshold)
	if err != nil {
		return nil, &OptionsError{err}
	}
	t.inclusive = o.ThresholdInclusive
	s := &Scorer{options: o.clone(), threshold: t, oneType: oneTypeOf(o.TypeAliases)}
	s.symmetric = map[string]bool{}
	for _, name := range o.Symmetric {
		s.symmetric[s.typeText(name)] = true
	}
	s.inverse = map[string]map[string]bool{}
	for _, pair := range o.Inverse {
		a, b := s.typeText(pair[0]), s.typeText(pair[1])
		for _, p := range [][2]string{{a, b}, {b, a}} {
			if s.inverse[p[0]] == nil {
				s.inverse[p[0]] = map[string]bool{}
			}
			s.inverse[p[0]][p[1]] = true
		}
	}
	return s, nil
}

// Options returns the options of the scorer.
func (s *Scorer) Options() Options { return s.options.clone() }

// typeText brings a type into normal form; of aliases of one another, one
// stands for all.
func (s *Scorer) typeText(raw string) string {
	text := fold.Type(raw)
	if one, ok := s.oneType[text]; ok {
		return one
	}
	return text
}

// oneTypeOf says for each type of an alias table which type stands for it: of
// those connected, one that is nobody's alias, and the first of several.
func oneTypeOf(aliases map[string]string) map[string]string {
	isAlias := map[string]bool{}
	at := map[string]int{}
	for alias, to := range aliases {
		if fold.Type(alias) != fold.Type(to) {
			isAlias[fold.Type(alias)] = true
		}
		at[fold.Type(alias)], at[fold.Type(to)] = 0, 0
	}
	texts := slices.Sorted(maps.Keys(at))
	slices.SortStableFunc(texts, func(a, b string) int {
		switch {
		case isAlias[a] == isAlias[b]:
			return 0
		case isAlias[a]:
			return 1
		}
		return -1
	})
	for i, text := range texts {
		at[text] = i
	}
	set := newDisjointSet(len(texts))
	for alias, to := range aliases {
		set.join(at[fold.Type(alias)], at[fold.Type(to)])
	}
	one := map[string]string{}
	for i, text := range texts {
		one[text] = texts[set.find(i)]
	}
	return one
}

// Score compares what was extracted with what was expected.
//
// A nil list of expected is not annotated: its family of scores is undefined.
// A nil list of extracted is read as empty. The ends of relationships are
// names: references are resolved by extraction.DecodeExtraction. The order of
// the lists changes nothing but indices. Cost: about linear in the input where
// names are equal or far apart; similar names are compared pairwise, within
// fixed limits that Result.Warnings tells of.
func (s *Scorer) Score(expected, extracted extraction.Extraction) Result {
	c := newCall(s, expected, extracted)
	var r Result
	c.duplicates(&r.Duplicates)
	if expected.Entities != nil {
		r.Counts.Entities = c.scoreEntities(&r)
	}
	if expected.Relationships != nil {
		r.Counts.Relationships = c.scoreRelationships(&r)
	}
	r.Scores = scoresOf(r.Counts, c.typed())
	r.Warnings = c.warnings
	return r
}
