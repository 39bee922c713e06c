package provider

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// Baseline is the name of the extractor by rules, as --model takes it.
const Baseline = "baseline"

// baselineVersion changes whenever a rule changes, because every score does with it.
const baselineVersion = "2"

// baseline extracts entities and relationships by rules: the floor that every language
// model must beat. It is no model, it learns nothing, and no rule or list in it was made
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
// same bytes. Entities stand in the order of their first mentions, each name
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
