package provider

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// Baseline is the name of the rule-based extractor for --model.
const Baseline = "baseline"

func openBaseline(string, Config) (Opened, error) {
	info := Info{Provider: Baseline, Model: Baseline, Pipeline: Baseline + "@" + baselineVersion}
	return Opened{Info: info, Extractor: &baseline{newLexicon()}}, nil
}

// baselineVersion changes with every change of a rule, because that changes all scores.
const baselineVersion = "2"

// baseline extracts entities and relationships by rules: every language model must beat it. It
// learns nothing, and no rule or list was made from expected output. It is safe for concurrent
// use, because it never changes.
//
// It cuts the text into sentences and tokens. Patterns find addresses and codes, quoted titles,
// dates and amounts. Runs of capitalised words become names, and so do words beside cue words
// in scripts without capitals. Evidence for kinds (person, organisation, place, …) selects a
// type of the schema. Cue words between two names select a relationship of the schema.
//
// The schema controls it: words in the name and description of a type say which kinds the type
// accepts, words in the name and description of a relationship are cues, and source and target
// types are respected. Without types nothing is extracted.
type baseline struct{ *lexicon }

// The bounds on the results of one document.
const (
	maxEntities      = 20_000
	maxMentions      = 100 // for each entity
	maxRelationships = 50_000
	maxWords         = 200_000 // different words in lower case
)

// counts is the output of the call.
type counts struct {
	Sentences     int `json:"sentences"`
	Mentions      int `json:"mentions"`
	Cues          int `json:"cue_hits"`
	Entities      int `json:"entities"`
	Relationships int `json:"relationships"`
}

// document is the state of one extraction.
type document struct {
	*baseline
	types      []entityType
	usedKinds  [numKinds]bool // kinds that some type accepts
	relations  []relationType
	cueIndex   map[string][]cueRef
	lowerWords map[string]bool // words that occur in lower case
	german     bool            // nouns are capitalised
	entities   []*entity
	byName     map[string]*entity
	facts      []fact
	subject    *entity // the person that a pronoun at the start of a sentence means
	counts     counts
}

// Extract finds the entities and relationships of a document.
//
// The result depends only on the document: the same document gives the same bytes. Entities are
// in the order of their first mentions, each name once; relationships are in the order of the
// sentences that state them. Types are those of the schemas that AllowedTypes permits; without
// any type nothing is extracted. Both lists are never nil.
//
// The only call is a span "baseline-extract", whose output counts the results. The only error
// is that of ctx, which is checked every few sentences.
//
// Time is linear in the text. Memory depends on the number of entities, which is bounded, as
// are the mentions of each.
func (e *baseline) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	call := outcome.Call{Name: "baseline-extract", Kind: "span", Provider: Baseline, Model: Baseline, Attempts: 1, Started: time.Now().UTC()}
	d := &document{baseline: e, lowerWords: map[string]bool{}, byName: map[string]*entity{},
		cueIndex: map[string][]cueRef{}}
	d.readTypes(doc)
	d.readRelations(doc)
	found, err := d.readText(ctx, doc.Text)
	call.Ended = time.Now().UTC()
	if err != nil {
		call.Error = err.Error()
		return extraction.Extraction{}, []outcome.Call{call}, err
	}
	call.Output, _ = json.Marshal(d.counts) // numbers always marshal
	return found, []outcome.Call{call}, nil
}

// readText reads the text twice: first for the words in lower case, then for names and
// relationships.
func (d *document) readText(ctx context.Context, text string) (extraction.Extraction, error) {
	if len(d.types) == 0 {
		return d.result(), ctx.Err()
	}
	articles, words := 0, 0
	err := eachSentence(ctx, text, func(s *sentence) {
		for i, t := range s.tokens {
			if t.kind != lowerWord || len(d.lowerWords) > maxWords || i+1 < len(s.tokens) && s.tokens[i+1].text == "@" {
				continue
			}
			d.lowerWords[t.text] = true
			if words++; d.germanArticles[t.text] {
				articles++
			}
		}
	})
	if err != nil {
		return extraction.Extraction{}, err
	}
	d.german = articles*20 > words
	err = eachSentence(ctx, text, func(s *sentence) {
		d.counts.Sentences++
		d.relate(s, d.mentions(s))
	})
	return d.result(), err
}

// result returns the extraction. It leaves out entities without a type, and relationships whose
// ends do not fit the schema.
func (d *document) result() extraction.Extraction {
	out := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	for _, e := range d.entities {
		if e.typeIndex = d.typeOf(e); e.typeIndex < 0 {
			continue
		}
		out.Entities = append(out.Entities, extraction.Entity{
			ID: "e" + strconv.Itoa(len(out.Entities)+1), Name: e.name, Type: d.types[e.typeIndex].name, Aliases: e.aliases, Mentions: e.mentions,
		})
	}
	out.Relationships = append(out.Relationships, d.statedRelations()...)
	d.counts.Entities, d.counts.Relationships = len(out.Entities), len(out.Relationships)
	return out
}

// relationType is a relationship type of the schema.
type relationType struct {
	name    string
	schema  extraction.RelationshipSchema
	passive bool // the name is passive, like acquired_by
}

// fact is a relationship that a sentence states. If both directions fit the schema, this one
// holds.
type fact struct {
	source, target *entity
	relation       int
}

// cueRef is a relationship that a cue indicates, in the opposite direction if inverse is true.
type cueRef struct {
	relation int
	inverse  bool
}

// readRelations makes the relationship types of a schema, in order of their names.
func (d *document) readRelations(doc extraction.Document) {
	for n, key := range slices.Sorted(maps.Keys(doc.Relationships)) {
		schema := doc.Relationships[key]
		words := splitWords(key)
		d.relations = append(d.relations, relationType{
			name: key, schema: schema, passive: len(words) > 1 && words[len(words)-1] == "by",
		})
		add := func(inverse bool, cues ...string) {
			for _, cue := range cues {
				if ref := (cueRef{n, inverse}); !slices.Contains(d.cueIndex[cue], ref) {
					d.cueIndex[cue] = append(d.cueIndex[cue], ref)
				}
			}
		}
		inGroup := false
		for _, w := range words {
			for _, group := range d.cues {
				if slices.ContainsFunc(group.same, func(cue string) bool { return strings.HasPrefix(w, cue) }) {
					inGroup = true
					add(false, group.same...)
					add(true, group.opposite...)
				}
			}
			if !d.stopWords[w] {
				add(false, stem(w))
			}
		}
		if inGroup || len(words) > 1 {
			continue
		}
		for _, w := range splitWords(schema.Description) { // the name alone is not enough
			if !d.stopWords[w] && d.schemaKinds[w] == 0 {
				add(false, stem(w))
			}
		}
	}
}

// Bounds on the search for a relationship between a name and those that follow.
const (
	maxNamesAhead = 3  // following names
	maxGap        = 15 // tokens between the names
	maxCue        = 40 // bytes of a cue
)

// relate records the relationships between the names of a sentence.
func (d *document) relate(s *sentence, found []mention) {
	if len(s.tokens) > 0 && d.subject != nil && d.pronouns[strings.ToLower(s.tokens[0].text)] {
		found = append([]mention{{0, 1, d.subject}}, found...)
	}
	for i, a := range found {
		if i == 0 && a.entity.evidence[person] > a.entity.evidence[org] {
			d.subject = a.entity
		}
		for _, b := range found[i+1 : min(len(found), i+1+maxNamesAhead)] {
			if b.from < a.to || b.from-a.to > maxGap || a.entity == b.entity {
				break
			}
			d.relatePair(s, a, b)
		}
	}
}

// relatePair searches for cues between two names, and, if there are few words between them, in
// the few words around them, where some languages have their verb.
func (d *document) relatePair(s *sentence, a, b mention) {
	words := d.cueText(s, a.to, b.from)
	if len(words) <= 4 {
		words = append(words, d.cueText(s, max(0, a.from-2), a.from)...)
		words = append(words, d.cueText(s, b.to, min(len(s.tokens), b.to+3))...)
	}
	passive := slices.ContainsFunc(words, func(w string) bool { return d.agents[w] })
	found := d.cuesIn(words)
	for _, n := range slices.Sorted(maps.Keys(found)) {
		d.counts.Cues++
		f := fact{a.entity, b.entity, n}
		if passive != d.relations[n].passive != found[n] {
			f.source, f.target = f.target, f.source
		}
		if len(d.facts) < maxRelationships {
			d.facts = append(d.facts, f)
		}
	}
}

// cuesIn returns the relationships that words indicate, with true for the opposite direction. A
// cue is the beginning of a word; in scripts without spaces it may be inside.
func (d *document) cuesIn(words []string) map[int]bool {
	found := map[int]bool{}
	for _, w := range words {
		for from := range w {
			for to := from + 1; to <= min(len(w), from+maxCue); to++ {
				for _, ref := range d.cueIndex[w[from:to]] {
					if _, ok := found[ref.relation]; !ok {
						found[ref.relation] = ref.inverse
					}
				}
			}
			if w[0] < 0xE3 || from > maxCue { // not Han characters
				break
			}
		}
	}
	return found
}

// cueText returns the words between two tokens in lower case. In scripts without spaces,
// adjacent characters form one word.
func (d *document) cueText(s *sentence, from, to int) []string {
	var words []string
	for i := min(from, to); i < to; i++ {
		t := s.tokens[i]
		switch {
		case t.inMention || t.kind == mark:
		case t.kind == otherWord && len(words) > 0 && i > from && s.tokens[i-1].to == t.from:
			words[len(words)-1] += t.text
		default:
			words = append(words, strings.ToLower(t.text))
		}
	}
	return words
}

// statedRelations returns the facts that fit the schema with the types of their ends, each
// once. A fact that only fits in the opposite direction is reversed.
func (d *document) statedRelations() []extraction.Relationship {
	var out []extraction.Relationship
	seen := map[fact]bool{}
	for _, f := range d.facts {
		r := d.relations[f.relation]
		accepts := func(e *entity, types []string) bool {
			return e.typeIndex >= 0 && (len(types) == 0 || slices.Contains(types, d.types[e.typeIndex].name))
		}
		fits := func(a, b *entity) bool { return accepts(a, r.schema.SourceTypes) && accepts(b, r.schema.TargetTypes) }
		if !fits(f.source, f.target) {
			f.source, f.target = f.target, f.source
		}
		if !fits(f.source, f.target) || seen[f] || seen[fact{f.target, f.source, f.relation}] {
			continue
		}
		seen[f] = true
		out = append(out, extraction.Relationship{Source: f.source.name, Target: f.target.name, Type: r.name})
	}
	return out
}
