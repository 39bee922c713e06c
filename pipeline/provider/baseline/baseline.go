package baseline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// Name is the name of the extractor, as --model takes it.
const Name = "baseline"

// Version changes whenever a rule changes, because every score does with it.
const Version = "1"

// Config configures an extractor; the zero value is ready to use.
type Config struct {
	// Now reads the clock for the times of the call; nil means time.Now. The
	// result does not depend on it.
	Now func() time.Time
}

// Extractor finds entities and relationships by rules. It is safe for
// concurrent use: all that it holds is only read.
type Extractor struct {
	now  func() time.Time
	lex  *lexicon
	han  hanRules
	cues map[string]kind
}

// New returns an extractor. It has no error to report today; the signature is
// the one that all providers share.
func New(cfg Config) (*Extractor, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Extractor{now: cfg.Now, lex: newLexicon(), han: newHanRules(), cues: arabicCues()}, nil
}

// reading is the state of one extraction.
type reading struct {
	*Extractor
	words    words
	typing   typing
	grammar  *grammar
	register *register
	facts    []fact
	topics   topics
	counts   counts
}

// counts is what the call's output says about an extraction.
type counts struct {
	Sentences     int            `json:"sentences"`
	Mentions      map[string]int `json:"mentions_by_rule"`
	Cues          int            `json:"cue_hits"`
	Entities      int            `json:"entities"`
	Relationships int            `json:"relationships"`
	Language      string         `json:"language,omitempty"`
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
// counts what each rule found. The only error is that of ctx, which is asked
// every few sentences.
//
// Time grows linearly with the text, and with the number of cue phrases that
// occur in it; memory with the number of mentions, bounded per entity, and
// with the number of different words, bounded as well.
func (e *Extractor) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	call := outcome.Call{Name: "baseline-extract", Kind: "span", Provider: Name, Model: Name, Attempts: 1, Started: e.now().UTC()}
	b := &reading{Extractor: e, typing: newTyping(doc, e.lex), register: newRegister()}
	b.grammar = newGrammar(doc, b.typing, e.lex)
	b.words.usage = map[string]usage{}
	b.counts.Mentions = map[string]int{}
	found, err := b.read(ctx, doc.Text)
	call.Ended = e.now().UTC()
	if err != nil {
		call.Error = err.Error()
		return extraction.Extraction{}, []outcome.Call{call}, err
	}
	output, err := json.Marshal(b.counts)
	if err != nil {
		return extraction.Extraction{}, []outcome.Call{call}, fmt.Errorf("describing the baseline extraction: %w", err)
	}
	call.Output = output
	return found, []outcome.Call{call}, nil
}

// read passes over the text twice: for its words, then for its names and what
// is said about them.
func (b *reading) read(ctx context.Context, text string) (extraction.Extraction, error) {
	if len(b.typing.types) == 0 {
		return extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}, ctx.Err()
	}
	err := b.each(ctx, text, func(_ int, toks []token) { b.words.count(toks) })
	if err != nil {
		return extraction.Extraction{}, err
	}
	b.words.settle(b.lex)
	b.counts.Language = b.words.language
	p := &page{text: text}
	err = b.each(ctx, text, func(n int, toks []token) {
		b.counts.Sentences++
		b.sentence(p, n, toks)
	})
	if err != nil {
		return extraction.Extraction{}, err
	}
	return b.result(), nil
}

// each calls do with every sentence, and stops when ctx is done.
func (b *reading) each(ctx context.Context, text string, do func(n int, toks []token)) error {
	s := newSentences(text, b.lex)
	for n := 0; ; n++ {
		if n%64 == 0 && ctx.Err() != nil {
			return fmt.Errorf("extracting with the baseline: sentence %d: %w", n+1, ctx.Err())
		}
		toks, ok := s.next()
		if !ok {
			return nil
		}
		do(n, toks)
	}
}

// sentence runs every rule over one sentence; what an earlier rule took, a
// later one leaves.
func (b *reading) sentence(p *page, n int, toks []token) {
	p.toks, p.number, p.mentions = toks, n, p.mentions[:0]
	p.used = append(p.used[:0], make([]bool, len(toks))...)
	b.codes(p)
	b.quoted(p)
	b.calendarHan(p)
	b.dates(p)
	b.unspaced(p)
	b.arabic(p)
	b.numbers(p, true)
	b.names(p)
	b.numbers(p, false)
	b.offices(p)
	p.sort()
	b.enter(p)
	b.relate(p)
}
