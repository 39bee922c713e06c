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

// Baseline is the name of the extractor by rules, as --model takes it.
const Baseline = "baseline"

func openBaseline(_ string, cfg Config) (Opened, error) {
	info := Info{Provider: Baseline, Model: Baseline, Pipeline: Baseline + "@" + baselineVersion}
	return Opened{Info: info, Extractor: newBaseline(cfg.Now)}, nil
}

// baselineVersion changes whenever a rule changes, because every score does with it.
const baselineVersion = "2"

// baseline extracts entities and relationships by rules: the floor that every language
// model must beat. It is not a model, it learns nothing, and no rule or list in it was made
// from expected output. It is safe for concurrent use: all that it holds is only read.
//
// The steps: the text is cut into sentences and tokens; patterns take addresses
// and codes, quoted titles, dates and amounts; runs of capitalised words, and
// words beside a few cue words in scripts without capitals, become names.
// Evidence for kinds (person, organisation, place, …) becomes a type of the
// schema; cue words between two names become a relationship of the schema.
//
// The schema steers it: words of a type's name and description say which kinds
// the type takes, words of a relationship's name and description are cues, and
// source and target types are respected. Without types nothing is extracted.
type baseline struct {
	now func() time.Time
	*lexicon
}

// newBaseline returns the extractor; its result does not depend on the clock.
func newBaseline(now func() time.Time) *baseline {
	if now == nil {
		now = time.Now
	}
	return &baseline{now, newLexicon()}
}

// The bounds on what is kept of one document.
const (
	maxEntities      = 20_000
	maxMentions      = 100 // of one entity
	maxRelationships = 50_000
	maxWords         = 200_000 // different words that occur in lower case
)

// counts is what the call's output says about an extraction.
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
	types     []entityType
	wanted    [kinds]bool // by some type
	relations []relationType
	cueOf     map[string][]cueRef
	lower     map[string]bool // words that occur in lower case
	german    bool            // nouns are capitalised
	entities  []*entity
	byName    map[string]*entity
	facts     []fact
	subject   *entity // the person that a pronoun at the start of a sentence stands for
	counts    counts
}

// Extract finds the entities and relationships of a document.
//
// The result is a function of the document alone: the same document gives the
// same bytes. Entities are in the order of their first mentions, each name
// once; relationships in the order of the sentences that state them. Types are
// those of the schemas that AllowedTypes leaves; without any type nothing is
// extracted. Both lists are never nil.
//
// The one call that is returned is a span, "baseline-extract", whose output
// counts what was found. The only error is that of ctx, which is asked
// every few sentences.
//
// Time grows linearly with the text; memory with the number of entities, which
// is bounded, as are the mentions of each.
func (e *baseline) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	call := outcome.Call{Name: "baseline-extract", Kind: "span", Provider: Baseline, Model: Baseline, Attempts: 1, Started: e.now().UTC()}
	d := &document{baseline: e, lower: map[string]bool{}, byName: map[string]*entity{}, cueOf: map[string][]cueRef{}}
	d.readTypes(doc)
	d.readRelations(doc)
	found, err := d.read(ctx, doc.Text)
	call.Ended = e.now().UTC()
	if err != nil {
		call.Error = err.Error()
		return extraction.Extraction{}, []outcome.Call{call}, err
	}
	call.Output, _ = json.Marshal(d.counts) // they are numbers
	return found, []outcome.Call{call}, nil
}

// read passes over the text twice: for the words that it writes in lower case,
// then for names and what is said about them.
func (d *document) read(ctx context.Context, text string) (extraction.Extraction, error) {
	if len(d.types) == 0 {
		return d.result(), ctx.Err()
	}
	articles, words := 0, 0
	err := sentences(ctx, text, func(s *sentence) {
		for i, t := range s.tokens {
			if t.kind != lowerWord || len(d.lower) > maxWords || i+1 < len(s.tokens) && s.tokens[i+1].text == "@" {
				continue
			}
			d.lower[t.text] = true
			if words++; d.germanArticles[t.text] {
				articles++
			}
		}
	})
	if err != nil {
		return extraction.Extraction{}, err
	}
	d.german = articles*20 > words
	err = sentences(ctx, text, func(s *sentence) {
		d.counts.Sentences++
		d.relate(s, d.mentions(s))
	})
	return d.result(), err
}

// result writes what was found. An entity that no type takes is left out, and
// so is a relationship whose ends do not fit its schema.
func (d *document) result() extraction.Extraction {
	out := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	for _, e := range d.entities {
		if e.typed = d.typeOf(e); e.typed < 0 {
			continue
		}
		out.Entities = append(out.Entities, extraction.Entity{
			ID: "e" + strconv.Itoa(len(out.Entities)+1), Name: e.name, Type: d.types[e.typed].name, Aliases: e.aliases, Mentions: e.mentions,
		})
	}
	out.Relationships = append(out.Relationships, d.stated()...)
	d.counts.Entities, d.counts.Relationships = len(out.Entities), len(out.Relationships)
	return out
}

// relationType is a relationship of the schema.
type relationType struct {
	name     string
	schema   extraction.RelationshipSchema
	reversed bool // its name is in the passive, as acquired_by
}

// fact is a relationship that a sentence states. Where forward and backward fit
// the schema alike, it goes forward.
type fact struct {
	source, target *entity
	relation       int
}

// cueRef is a relationship that a cue speaks for; back says that it states it
// the other way round.
type cueRef struct {
	relation int
	back     bool
}

// readRelations makes the relationship types of a schema, in order of their names.
func (d *document) readRelations(doc extraction.Document) {
	for n, key := range slices.Sorted(maps.Keys(doc.Relationships)) {
		schema := doc.Relationships[key]
		words := splitWords(key)
		d.relations = append(d.relations, relationType{
			name: key, schema: schema, reversed: len(words) > 1 && words[len(words)-1] == "by",
		})
		add := func(back bool, cues ...string) {
			for _, cue := range cues {
				if ref := (cueRef{n, back}); !slices.Contains(d.cueOf[cue], ref) {
					d.cueOf[cue] = append(d.cueOf[cue], ref)
				}
			}
		}
		known := false
		for _, w := range words {
			for _, group := range d.cues {
				if slices.ContainsFunc(group.same, func(cue string) bool { return strings.HasPrefix(w, cue) }) {
					known = true
					add(false, group.same...)
					add(true, group.opposite...)
				}
			}
			if !d.stops[w] {
				add(false, stem(w))
			}
		}
		if known || len(words) > 1 {
			continue
		}
		for _, w := range splitWords(schema.Description) { // a name that says nothing
			if !d.stops[w] && d.schemaKinds[w] == 0 {
				add(false, stem(w))
			}
		}
	}
}

// A relationship is looked for between a name and the few that follow it, not
// across too many words.
const (
	reach   = 3  // names ahead
	between = 15 // tokens
	maxCue  = 40 // bytes
)

// relate notes what a sentence says about its names.
func (d *document) relate(s *sentence, found []mention) {
	if len(s.tokens) > 0 && d.subject != nil && d.pronouns[strings.ToLower(s.tokens[0].text)] {
		found = append([]mention{{0, 1, d.subject}}, found...)
	}
	for i, a := range found {
		if i == 0 && a.entity.evidence[person] > a.entity.evidence[org] {
			d.subject = a.entity
		}
		for _, b := range found[i+1 : min(len(found), i+1+reach)] {
			if b.from < a.to || b.from-a.to > between || a.entity == b.entity {
				break
			}
			d.pair(s, a, b)
		}
	}
}

// pair looks for cues between two names, and where that is little, in the few
// words around them, where some languages have their verb.
func (d *document) pair(s *sentence, a, b mention) {
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
		if passive != d.relations[n].reversed != found[n] {
			f.source, f.target = f.target, f.source
		}
		if len(d.facts) < maxRelationships {
			d.facts = append(d.facts, f)
		}
	}
}

// cuesIn returns the relationships that words speak for, and whether the other
// way round. A cue is the beginning of a word; where words are written without
// spaces it may be inside.
func (d *document) cuesIn(words []string) map[int]bool {
	found := map[int]bool{}
	for _, w := range words {
		for from := range w {
			for to := from + 1; to <= min(len(w), from+maxCue); to++ {
				for _, ref := range d.cueOf[w[from:to]] {
					if _, ok := found[ref.relation]; !ok {
						found[ref.relation] = ref.back
					}
				}
			}
			if w[0] < 0xE3 || from > maxCue { // not of Han characters
				break
			}
		}
	}
	return found
}

// cueText returns the words between two tokens, in lower case; characters that
// are written without spaces are one word.
func (d *document) cueText(s *sentence, from, to int) []string {
	var words []string
	for i := min(from, to); i < to; i++ {
		t := s.tokens[i]
		switch {
		case t.taken || t.kind == mark:
		case t.kind == otherWord && len(words) > 0 && i > from && s.tokens[i-1].to == t.from:
			words[len(words)-1] += t.text
		default:
			words = append(words, strings.ToLower(t.text))
		}
	}
	return words
}

// stated returns the facts that fit the schema with the types that their ends
// got, each once; where only the other direction fits, in that.
func (d *document) stated() []extraction.Relationship {
	var out []extraction.Relationship
	seen := map[fact]bool{}
	for _, f := range d.facts {
		r := d.relations[f.relation]
		may := func(e *entity, types []string) bool {
			return e.typed >= 0 && (len(types) == 0 || slices.Contains(types, d.types[e.typed].name))
		}
		fits := func(a, b *entity) bool { return may(a, r.schema.SourceTypes) && may(b, r.schema.TargetTypes) }
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
