package scoring

import (
	"fmt"

	"extraction-experiment/extraction"
)

// call is the state of one call of Score.
type call struct {
	*Scorer
	names     *names
	types     *dictionary
	matcher   *matcher
	expected  side
	extracted side
	aliasing  *aliasing
	nearest   budget
	warnings  []string
}

// side is one of the two extractions, prepared.
type side struct {
	word          string
	given         extraction.Extraction
	entities      []entity
	relationships []statement
}

func newCall(s *Scorer, expected, extracted extraction.Extraction) *call {
	names := newNames(s.options)
	c := &call{
		Scorer: s, names: names, types: newDictionary(s.typeText),
		matcher: &matcher{
			names: names, threshold: s.threshold,
			initials: s.options.Initials, digitsEqual: s.options.DigitsEqual,
		},
		expected:  side{word: "expected", given: expected},
		extracted: side{word: "extracted", given: extracted},
		nearest:   budget{nearestAllowance},
	}
	c.collect(expected, true)
	c.collect(extracted, false)
	c.names.close()
	c.types.close()
	c.prepareEntities(&c.expected, true)
	c.prepareEntities(&c.extracted, false)
	c.aliasing = newAliasing(c.expected.entities)
	c.prepareRelationships(&c.expected)
	c.prepareRelationships(&c.extracted)
	return c
}

// collect adds every name and type of one side to the dictionaries.
func (c *call) collect(e extraction.Extraction, aliases bool) {
	for _, entity := range e.Entities {
		c.names.add(entity.Name)
		c.types.add(entity.Type)
		if aliases {
			for _, alias := range entity.Aliases {
				c.names.add(alias)
			}
		}
	}
	for _, r := range e.Relationships {
		c.names.add(r.Source)
		c.names.add(r.Target)
		c.types.add(r.Type)
	}
}

func (c *call) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// counted writes a number with its noun: "1 entity", "3 entities".
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
