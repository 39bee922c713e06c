package baseline

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/extraction"
)

// form says how a cue stands to the two ends.
type form uint8

const (
	between form = iota // between the ends
	verb                // as between, turned round by "by"
	noun                // one end is the noun of the other
	tight               // between the ends, both right beside it
)

// cue is a phrase that states a relation.
type cue struct {
	words    []string // stems
	relation int
	form     form
	forward  bool // the left end, the doer, the holder of the noun is the source
}

// relation is one relationship type of the schema.
type relation struct {
	name      string
	source    []bool // by type of the typing; nil allows any
	target    []bool
	disjoint  bool // no type may stand at both ends
	symmetric bool
	life      lifeEnd
	comma     bool
	forward   bool // the schema reads its concept from A to B
	country   bool // the target is a country by the relation's name
}

// grammar is the relationship schemas of an item, compiled: every cue is found
// by the beginning of its first word, so that a sentence is scanned once,
// whatever the number of relations.
type grammar struct {
	relations []relation
	index     map[string][]cue
	by        map[string]bool
	of        map[string]bool
}

func newGrammar(doc extraction.Document, t typing, lex *lexicon) *grammar {
	g := &grammar{
		index: map[string][]cue{},
		by:    set("by von durch par por da door vom"),
		of:    set("of von vom der des du de d' la at for bei für to в for à"),
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Relationships)) {
		schema := doc.Relationships[name]
		r := relation{name: name, source: ends(schema.SourceTypes, t), target: ends(schema.TargetTypes, t)}
		r.disjoint = disjoint(r.source, r.target)
		r.country = slices.ContainsFunc(schemaTokens(name), func(w string) bool { return slices.Contains(lex.kinds[w], country) })
		g.relations = append(g.relations, r)
		g.compile(len(g.relations)-1, schema, lex)
	}
	for key := range g.index {
		// The longest phrase first: "worked as" must not hide "worked as … for".
		slices.SortStableFunc(g.index[key], func(a, b cue) int { return len(b.words) - len(a.words) })
	}
	return g
}

// ends turns a list of type names into a set over the typing.
func ends(names []string, t typing) []bool {
	if len(names) == 0 {
		return nil
	}
	allowed := make([]bool, len(t.types))
	for i, ty := range t.types {
		allowed[i] = slices.Contains(names, ty.name)
	}
	return allowed
}

func disjoint(a, b []bool) bool {
	if a == nil || b == nil {
		return false
	}
	for i := range a {
		if a[i] && b[i] {
			return false
		}
	}
	return true
}

// compile finds the concept that a schema means, and the cues that follow from
// the words of the schema itself.
func (g *grammar) compile(r int, schema extraction.RelationshipSchema, lex *lexicon) {
	name := schemaTokens(g.relations[r].name)
	c, forward, ok := meaning(name, false, lex)
	if !ok {
		c, forward, ok = meaning(schemaTokens(schema.Name), false, lex)
	}
	if described := schemaTokens(schema.Description); !ok && !slices.Equal(described, name) {
		c, forward, ok = meaning(described, true, lex)
	}
	if !ok {
		g.derive(r, name)
		return
	}
	rel := &g.relations[r]
	rel.symmetric, rel.life, rel.comma, rel.forward = c.symmetric, c.life, c.comma, forward
	g.add(r, c.phrases, between, forward)
	g.add(r, c.back, between, !forward)
	g.add(r, c.verbs, verb, forward)
	g.add(r, c.backVerbs, verb, !forward)
	g.add(r, c.nouns, noun, forward)
	g.add(r, c.backNouns, noun, !forward)
	g.add(r, c.tight, tight, forward)
	if c.verbs == "" && c.nouns == "" {
		return
	}
	g.derive(r, name)
}

// meaning returns the concept with the longest name that occurs in the words,
// and whether its source is A. A name of one word must be the whole of the
// words, unless loose: then it must not be a word for a kind of entity, which
// descriptions are full of. Ties go to the concept that stands first.
func meaning(words []string, loose bool, lex *lexicon) (concept, bool, bool) {
	for _, name := range lex.conceptNames {
		if len(name.words) == 1 && len(words) > 1 && (!loose || len(lex.kinds[name.text]) > 0) {
			continue
		}
		if within(words, name.words) {
			return lex.concepts[name.concept], name.forward, true
		}
	}
	return concept{}, false, false
}

// within reports that phrase occurs in words as it stands, inflection aside.
func within(words, phrase []string) bool {
	for i := 0; i+len(phrase) <= len(words); i++ {
		j := 0
		for j < len(phrase) && (words[i+j] == phrase[j] || len(phrase) == 1 && len(words) == 1 && inflects(words[i], stem(phrase[0]))) {
			j++
		}
		if j == len(phrase) {
			return true
		}
	}
	return false
}

// derive makes cues of the words of a relation's own name: "regulated_by" of
// the verb, "capital_of" of the noun, "regulates" of the verb, "sponsor" of
// the noun whose holder is the target.
func (g *grammar) derive(r int, name []string) {
	if len(name) == 0 || len(name) > 5 {
		return
	}
	last := name[len(name)-1]
	body := strings.Join(name[:len(name)-1], " ")
	switch {
	case last == "by" && body != "":
		g.add(r, body, verb, false)
	case last == "of" && body != "":
		g.add(r, body, noun, true)
	case len(name) == 1 && (strings.HasSuffix(last, "s") || strings.HasSuffix(last, "ed")):
		g.add(r, last, verb, true)
	case len(name) == 1 && utf8.RuneCountInString(last) > 3:
		g.add(r, last, noun, false)
	case len(name) > 1 && (strings.HasSuffix(name[0], "s") || strings.HasSuffix(name[0], "ed")):
		g.add(r, strings.Join(name, " "), verb, true)
	case len(name) > 1:
		g.add(r, strings.Join(name, " "), between, true)
	}
}

// add files the phrases of a list.
func (g *grammar) add(r int, list string, f form, forward bool) {
	for _, phrase := range split(list) {
		c := cue{relation: r, form: f, forward: forward}
		for w := range strings.FieldsSeq(strings.ToLower(phrase)) {
			c.words = append(c.words, stem(w))
		}
		key := indexKey(c.words[0])
		g.index[key] = append(g.index[key], c)
	}
}

// indexKey is the beginning of a word that a cue is filed under: two signs of
// Han, three letters of anything else.
func indexKey(w string) string {
	r, _ := utf8.DecodeRuneInString(w)
	if spaceless(r) {
		return w[:runePrefix(w, 2)]
	}
	return w[:runePrefix(w, 3)]
}

// stem cuts the endings of English that inflection changes; other languages
// are matched by the beginning of the word alone.
func stem(w string) string {
	if len(w) < 5 || !latin(w) {
		return w
	}
	for _, ending := range []string{"ing", "es", "ed", "s", "e"} {
		if rest, ok := strings.CutSuffix(w, ending); ok && len(rest) >= 4 {
			return rest
		}
	}
	return w
}

// inflects reports that a word is the stem with at most three letters more.
func inflects(w, stem string) bool {
	if w == stem {
		return true
	}
	r, _ := utf8.DecodeRuneInString(stem)
	if spaceless(r) {
		return strings.Contains(w, stem)
	}
	n := utf8.RuneCountInString(stem)
	if n < 4 || !strings.HasPrefix(w, stem) {
		return false
	}
	extra := w[len(stem):]
	return utf8.RuneCountInString(extra) <= 3 && runLength(extra, unicode.IsLetter) == len(extra) && !agentive(stem, extra)
}

// agentive reports "found" + "er", which is another word than "founded".
func agentive(stem, extra string) bool {
	return latin(stem) && (extra == "er" || extra == "or" || extra == "ers" || extra == "ors" || extra == "ion")
}
