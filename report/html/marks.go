package html

import (
	"cmp"
	"encoding/json"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/report"
)

// shownText is a document with the places that are marked in it.
type shownText struct {
	Document []segment `json:"document"`
	Cut      int       `json:"cut,omitempty"` // characters that are left out
}

// segment is a stretch of a document under which the same entities lie; those
// that overlap share segments. In JSON it is its text, or [text, indices of the
// first extraction, of the second, …].
type segment struct {
	text  string
	under [][]int // by extraction
}

// MarshalJSON writes plain text as a string, to save room.
func (s segment) MarshalJSON() ([]byte, error) {
	if len(s.under) == 0 {
		return json.Marshal(s.text)
	}
	list := []any{s.text}
	for _, indices := range s.under {
		list = append(list, append([]int{}, indices...))
	}
	return json.Marshal(list)
}

// mostSpans bounds the places that are highlighted in one document.
const mostSpans = 20_000

// span is a place of an entity; its ends count code points.
type span struct {
	from, to, entity int
	of               int // which extraction
}

// highlighted cuts a document and divides it into segments. The entities of the
// extractions are where their mentions quote the document, or else wherever a
// name of theirs does (extraction.Index.Ground). The extractions share the number of
// places, so that none marks all of them.
func highlighted(document string, most int, extractions ...*extraction.Extraction) shownText {
	text, left := report.FirstRunes(document, most)
	shown := shownText{Document: []segment{}, Cut: left}
	if text == "" {
		return shown
	}
	index := extraction.NewIndex(text)
	var spans []span
	for of, e := range extractions {
		if e == nil {
			continue
		}
		grounded, _ := index.Ground(extraction.Extraction{Entities: e.Entities})
		most := len(spans) + mostSpans/len(extractions)
		for i, entity := range grounded.Entities {
			for _, m := range entity.Mentions {
				if m.Start < m.End && len(spans) < most {
					spans = append(spans, span{m.Start, m.End, i, of})
				}
			}
		}
	}
	shown.Document = divide([]rune(text), spans, len(extractions))
	return shown
}

// divide cuts the text wherever a span begins or ends. Cost O(n·log n + n·k)
// for n spans of which at most k overlap.
func divide(text []rune, spans []span, extractions int) []segment {
	edges := []int{0, len(text)}
	for _, s := range spans {
		edges = append(edges, min(s.from, len(text)), min(s.to, len(text)))
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	segments := []segment{}
	var open []span
	for i := 0; i+1 < len(edges); i++ {
		from, to := edges[i], edges[i+1]
		for len(spans) > 0 && spans[0].from <= from {
			open, spans = append(open, spans[0]), spans[1:]
		}
		open = slices.DeleteFunc(open, func(s span) bool { return s.to <= from })
		s := segment{text: string(text[from:to])}
		if len(open) > 0 {
			s.under = make([][]int, extractions)
		}
		for _, o := range open {
			s.under[o.of] = append(s.under[o.of], o.entity)
		}
		for of := range s.under {
			slices.Sort(s.under[of])
			s.under[of] = slices.Compact(s.under[of])
		}
		segments = append(segments, s)
	}
	return segments
}
