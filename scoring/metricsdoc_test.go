package scoring

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

// TestMetricsDoc checks that docs/metrics.md equals the catalogue and the tables.
func TestMetricsDoc(t *testing.T) {
	path := filepath.Join("..", "docs", "metrics.md")
	want := metricsDoc()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./scoring -run TestMetricsDoc -update", err)
	}
	if string(got) != want {
		t.Errorf("%s is stale; renew it with: go test ./scoring -run TestMetricsDoc -update", path)
	}
}

func TestCatalog(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Catalog() {
		if d.Meaning == "" || d.Family == "" {
			t.Errorf("%s has no meaning or no family", d.Name)
		}
		if seen[d.Name] {
			t.Errorf("%s is defined twice", d.Name)
		}
		seen[d.Name] = true
	}
}

func metricsDoc() string {
	var b strings.Builder
	b.WriteString("<!-- Generated from scoring/catalog.go by: go test ./scoring -run TestMetricsDoc -update -->\n\n")
	fmt.Fprintf(&b, "# Metrics\n\nScorer version %s. Every score is a quotient of whole counts of one item; ", Version)
	b.WriteString(docIntro)
	b.WriteString("\n## Scores\n\n| score | formula | range | 0/0 | source |\n|---|---|---|---|---|\n")
	for i, d := range Catalog() {
		source := "specification, Extraction Quality Metrics"
		if i >= 5 {
			source = "this project"
		}
		scale := "0 to 1 (ratio"
		if d.Boolean {
			scale = "0 or 1 (yes/no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s, higher is better) | %s | %s |\n", d.Name, d.formula(), scale, d.zeroOverZero(), source)
	}
	b.WriteString("\n")
	for _, d := range Catalog() {
		fmt.Fprintf(&b, "- `%s`: %s\n", d.Name, d.Meaning)
	}
	b.WriteString(docRules)
	b.WriteString("\n## Causes\n\nEverything that is missed, spurious or wrongly typed has one cause. A missed and a spurious thing\nthat explain each other are one fault.\n\n| cause | meaning |\n|---|---|\n")
	for _, c := range Causes() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Cause, c.Meaning)
	}
	b.WriteString("\n## Relation tables\n\nThe default tables (`specification`); `extended` adds those marked +.\n\n| type | inverse |\n|---|---|\n")
	spec, extended := SpecificationVocabulary(), ExtendedVocabulary()
	for i, p := range extended.Inverse {
		fmt.Fprintf(&b, "| %s`%s` | `%s` |\n", plusIf(i >= len(spec.Inverse)), p[0], p[1])
	}
	b.WriteString("\nSymmetric:")
	for i, s := range extended.Symmetric {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %s`%s`", plusIf(i >= len(spec.Symmetric)), s)
	}
	b.WriteString(".\n")
	fmt.Fprintf(&b, docLimits, searchAllowance/1_000_000, searchAllowance/edgeCost/1_000_000, assignAllowance/1_000_000, maxTokens)
	return b.String()
}

func plusIf(more bool) string {
	if more {
		return "+ "
	}
	return ""
}

const docIntro = `means, pooled values and what a failed item counts are made from them when a run is summarised. The score ` + "`error`" + ` (1 for a failed item, 0 otherwise) is recorded by the runner, not here.

An expected list that is absent or null is *not annotated*: the scores of its family have no value, and a reason. An expected list that is empty is *annotated, and there is none*. An extracted list that is absent counts as empty.

A score without a value is never recorded as a number. A value of 1 because nothing was expected and nothing extracted is marked *vacuous*; such items can lift a mean a good deal: where they are a tenth or more, their number and the mean of the others are shown below the scores, and always in the JSON of a summary, as *vacuous*.
`

const docRules = `
` + "`relationship_strict_f1`" + ` (ends of the right entity type) is not offered: which pairs match does not depend on the types of the ends, so among equally good assignments its value would be a matter of chance.

Counts behind the scores: ` + "`exact_entities`" + ` were matched with equal names (or an alias), ` + "`type_judged`" + ` were matched and have an expected type, ` + "`strict_entities`" + ` have an equal name and the correct type; ` + "`rel_exact`, `rel_inverse`, `rel_fuzzy` and `rel_inverse_fuzzy`" + ` are the ways in which correct relationships matched and add up to ` + "`correct_relationships`" + `. An entity of no expected type never counts as ` + "`type_correct`" + `; where no expected entity has a name and a type, ` + "`entity_typed_f1` and `entity_strict_f1`" + ` have no value.

## Names

Names are compared after NFKC, full case folding and NFKC again, with runs of white space made one space and the ends trimmed. Diacritics and punctuation stay. A byte that is not UTF-8 reads as U+FFFD. Types are spelled the same way, with each run of spaces, hyphens and underscores made one underscore.

### Similarity

` + "`(m - d) / m`" + `, where d is the Levenshtein distance in code points and m the length of the longer name. Two different names match if it *exceeds* the threshold, by default 0.85; the comparison is made in whole numbers. Equal names always match, with similarity 1. So one edit needs at least 7 characters, two need 14, three need 21: "Jon Smith" matches "John Smith" (9/10), "John D. Smith" does not (10/13 = 0.769), and "Apollo 11" does match "Apollo 12" (8/9): see ` + "`entity_exact_f1` and `digits_equal`" + `.

- An empty name never matches, and counts.
- An expected entity may have aliases. Equal to any of them is an exact match (kind ` + "`alias`" + `); otherwise the most similar of name and aliases decides. Aliases of extracted entities are ignored.
- ` + "`initials`" + ` (off): "J. Smith" matches "John Smith" with similarity 0.9, whatever the threshold, or more where plain similarity is higher. It is not exact. It adds to fuzzy matching and is off with it.

## One-to-one

Each entity, and each relationship, matches at most one of the other side. Among all such assignments the best is taken: for entities the one with the most equal names, then the most pairs, then the largest total similarity (in millionths, each rounded down), then the most equal types, the most equal types on equal names, and the fewest wrong types. Types decide between equally good names only. For relationships: the most exact, then the most exact or inverse, the most pairs, the largest total similarity of both ends, and the most of the same type.

The order of the lists changes no count and no score, and of equally good pairs the ones reported are chosen by their text. A second copy of something is wrong unless ` + "`dedupe`" + ` is ` + "`exact`" + `; copies are counted either way. A collapsed statement stands for all its wordings, and a collapsed entity has the aliases of all its copies.

## Relationships

| matchType | types | ends |
|---|---|---|
| exact | same | equal; of a symmetric type also swapped |
| inverse | inverse of each other | equal and swapped |
| fuzzy | same | each equal or similar, at least one not equal; of a symmetric type also swapped |
| inverse-fuzzy | inverse of each other | swapped, each equal or similar, at least one not equal |

The first that applies counts; all four are correct. A directed type with swapped ends, an inverse type with ends in place, an empty end or type, and an end given as a reference (` + "`source_ref`, `target_ref`" + `) that is not exactly the id or name of an entity are wrong, and count as extracted. Ends are compared by name. An end given by a name need not be listed as an entity; an end that is the name or an alias of an expected entity stands for all its names. Inverses are never chained.

## By type

A relationship that matches counts as extracted under the expected type, also if it states the inverse; an entity that matches an expected one of no type counts under ` + "`(no type)`" + `, whatever its own. Everything else counts under its own type, also an entity that matches one of another type, which is matched under none. So *extracted* is what the precision of a type is over, not how often the type was written. Failed items have no counts.

## Options

| option | default | meaning |
|---|---|---|
| normalise | nfkc_casefold | or ` + "`lower`" + ` (lower case by code point, white space as above), or ` + "`none`" + ` (as written); of names only |
| threshold | 0.85 | decimal text of a number from 0 to 1, at most 18 decimals |
| threshold_inclusive | false | equal to the threshold matches too |
| fold_diacritics | false | é equals e, й equals и; ø and ł, which do not decompose, and marks of other scripts than Latin, Greek and Cyrillic (Hebrew points, Arabic vowels) stay. Marks are dropped last: an accent that stands alone (´) leaves a space |
| fuzzy_entities | true | similar names match |
| fuzzy_relationships | true | similar ends match |
| initials | false | see above |
| digits_equal | false | names that are not equal match only if their digits, in order, are equal |
| inverse | specification | name of a table, list of pairs, or object; replaces the default |
| symmetric | specification | name of a table, or list; replaces the default |
| type_aliases | none | object from a type to the type that it is the same as, for entities and relationships; connected types are one |
| dedupe | none | or ` + "`exact`" + `: collapse equal name and type, and statements of the same fact, on both sides |
`

const docLimits = `
## Limits

Work is bounded by counted steps, so that hostile input cannot stall a run; reaching a limit is a warning on the item. Comparing names: %d million steps for entities and as many for relationships, or %d million similar pairs; names are taken from the shortest, and from where the steps are used up only equal names match; that place depends on which side is the expected one, so that swapping both sides may change the counts. Assignment: %d million steps; groups of similar names beyond that are matched best pair first, which is still one-to-one and independent of the order of the lists but may miss the best total. A name of more than %d words has no initials. The nearest misses are looked for within limits of their own; no score depends on them.
`

// formula returns what ratio computes. It finds the factor of each count by setting only that
// count to 1.
func (d Definition) formula() string {
	if len(d.denominator) == 0 {
		return "entity_f1 = 1 and relationship_f1 = 1, where annotated, and type_accuracy is 1 or undefined"
	}
	var above, below []string
	term := func(terms []string, factor int64, name string) []string {
		switch factor {
		case 0:
			return terms
		case 1:
			return append(terms, name)
		}
		return append(terms, fmt.Sprintf("%d·%s", factor, name))
	}
	for _, name := range append([]string{d.numerator}, d.denominator...) {
		r := d.ratio(map[string]int64{name: 1})
		above, below = term(above, r.Num, name), term(below, r.Den, name)
	}
	divisor := strings.Join(below, " + ")
	if len(below) > 1 {
		divisor = "(" + divisor + ")"
	}
	return strings.Join(above, " + ") + " / " + divisor
}

// zeroOverZero returns what the score is if its formula is 0/0.
func (d Definition) zeroOverZero() string {
	const one = "1 when nothing is expected and nothing extracted (marked vacuous), otherwise 0"
	switch {
	case d.Name == TypeAccuracy:
		return "undefined: no value, with a reason"
	case d.Name == ItemPerfect:
		return "undefined when neither family is annotated; vacuous when all that is annotated is"
	case d.typed():
		return one + "; no value, with a reason, where entities are expected and none has a name and a type"
	}
	return one
}
