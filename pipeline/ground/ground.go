package ground

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/extraction"
)

// mostMentions bounds the mentions that are found for one entity by its names.
const mostMentions = 100

// Report says which entities stand in the document; each is in exactly one of
// the first three lists, by name, in the order of the extraction.
type Report struct {
	// Grounded entities have a name or an alias that occurs.
	Grounded []string
	// Quoted entities have none that occurs, but a quote that does.
	Quoted []string
	// Invented entities have neither.
	Invented []string
	// Lost are the quotes that do not occur, each as often as it was given.
	Lost []string
}

// Ground locates the mentions of an extraction in the text of its document and
// returns a copy with spans that quote the document; see Index.Ground.
func Ground(e extraction.Extraction, text string) (extraction.Extraction, Report) {
	return NewIndex(text).Ground(e)
}

// Ground returns a copy of the extraction in which every mention is a span of
// the document, and says what does not occur in it.
//
// A mention whose offsets quote the document is kept; one with good offsets and
// no quote gets the quote. Any other is looked for by Locate, close to the start
// that it claims, and removed if it does not occur. Equal mentions are one. An
// entity that has none left is given the places of its name and aliases, marked
// as looked up, compared as Locate does: whole words only (in scripts that divide words by
// white space), the longer of two that overlap, at most the first 100 of those
// that are looked at. An inflected form of a name is another word.
//
// Ends of relationships that are no entities are not looked at. Time is linear
// in document and extraction but for logarithms, and bounded for any names.
func (x *Index) Ground(e extraction.Extraction) (extraction.Extraction, Report) {
	var report Report
	e.Entities = slices.Clone(e.Entities)
	for i := range e.Entities {
		one := &e.Entities[i]
		var spans []extraction.Span
		for _, given := range one.Mentions {
			if span, ok := x.mention(given); ok {
				spans = append(spans, span)
			} else {
				report.Lost = append(report.Lost, given.Quote)
			}
		}
		named := x.named(*one)
		switch {
		case len(named) > 0:
			report.Grounded = append(report.Grounded, one.Name)
		case len(spans) > 0:
			report.Quoted = append(report.Quoted, one.Name)
		default:
			report.Invented = append(report.Invented, one.Name)
		}
		if len(spans) == 0 {
			spans = named
		}
		one.Mentions = distinct(spans)
	}
	return e, report
}

// mention returns where a given mention stands.
func (x *Index) mention(given extraction.Span) (extraction.Span, bool) {
	there, ok := x.Slice(given.Start, given.End)
	if ok && there != "" && (given.Quote == "" || given.Quote == there) {
		return extraction.Span{Quote: there, Start: given.Start, End: given.End, LookedUp: given.LookedUp}, true
	}
	span, match := x.Locate(given.Quote, given.Start)
	span.LookedUp = given.LookedUp
	return span, match != None
}

// named returns where the name or an alias stands as whole words, in order and
// without overlap.
func (x *Index) named(e extraction.Entity) []extraction.Span {
	seen := map[string]bool{}
	var spans []extraction.Span
	for i := -1; i < len(e.Aliases); i++ {
		name := e.Name
		if i >= 0 {
			name = e.Aliases[i]
		}
		needle := fold(name).text
		if len(needle) == 0 || seen[string(needle)] {
			continue
		}
		seen[string(needle)] = true
		found := 0
		for _, s := range x.tolerant(needle, 0) {
			if !x.wholeWords(s) {
				continue
			}
			if span, ok := x.span(s); ok {
				span.LookedUp = true
				spans = append(spans, span)
				found++
			}
			if found == mostMentions {
				break
			}
		}
	}
	slices.SortFunc(spans, func(a, b extraction.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	end := 0
	spans = slices.DeleteFunc(spans, func(s extraction.Span) bool {
		if s.Start < end {
			return true
		}
		end = s.End
		return false
	})
	return spans[:min(len(spans), mostMentions)]
}

// wholeWords reports whether no word goes on over an end of the stretch.
func (x *Index) wholeWords(s stretch) bool {
	if before, size := utf8.DecodeLastRuneInString(x.text[:s.from]); size > 0 {
		if first, _ := utf8.DecodeRuneInString(x.text[s.from:]); !divides(before, first) {
			return false
		}
	}
	after, size := utf8.DecodeRuneInString(x.text[s.to:])
	last, _ := utf8.DecodeLastRuneInString(x.text[:s.to])
	return size == 0 || divides(last, after)
}

// distinct returns spans once each, in the order of the document.
func distinct(spans []extraction.Span) []extraction.Span {
	slices.SortFunc(spans, func(a, b extraction.Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), strings.Compare(a.Quote, b.Quote))
	})
	return slices.Compact(spans)
}
