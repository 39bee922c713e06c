package html

import (
	"cmp"
	"encoding/json"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/report"
)

// markedText is a document divided by the marked places in it.
type markedText struct {
	Document []segment `json:"document"`
	Cut      int       `json:"cut,omitempty"` // number of omitted characters
}

// segment is a part of a document in which the same entities are mentioned. In JSON it is its
// text, or a list of the text and the indices of its entities for each extraction.
type segment struct {
	text     string
	entities [][]int // indices by extraction
}

// MarshalJSON encodes text without entities as a string, which is shorter.
func (s segment) MarshalJSON() ([]byte, error) {
	if len(s.entities) == 0 {
		return json.Marshal(s.text)
	}
	list := []any{s.text}
	for _, indices := range s.entities {
		list = append(list, append([]int{}, indices...))
	}
	return json.Marshal(list)
}

// maxSpans limits the marked places of one document.
const maxSpans = 20_000

// span is a place of an entity; from and to count code points.
type span struct {
	from, to, entity int
	extraction       int // index of the extraction
}

// highlight cuts a document and divides it into segments. An entity is marked where its mentions
// quote the document, or otherwise wherever one of its names occurs (extraction.Index.Ground).
// Each extraction gets an equal share of maxSpans.
func highlight(document string, maxChars int, extractions ...*extraction.Extraction) markedText {
	text, omitted := report.FirstRunes(document, maxChars)
	index := extraction.NewIndex(text)
	var spans []span
	for number, e := range extractions {
		if e == nil {
			continue
		}
		grounded, _, _ := index.Ground(extraction.Extraction{Entities: e.Entities})
		last := len(spans) + maxSpans/len(extractions)
		for i, entity := range grounded.Entities {
			for _, m := range entity.Mentions {
				if m.Start < m.End && len(spans) < last {
					spans = append(spans, span{m.Start, m.End, i, number})
				}
			}
		}
	}
	return markedText{splitSegments([]rune(text), spans, len(extractions)), omitted}
}

// splitSegments cuts the text wherever a span begins or ends. It takes O(n·log n + n·k) for n
// spans of which at most k overlap.
func splitSegments(text []rune, spans []span, extractions int) []segment {
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
			s.entities = make([][]int, extractions)
		}
		for _, o := range open {
			s.entities[o.extraction] = append(s.entities[o.extraction], o.entity)
		}
		for number := range s.entities {
			slices.Sort(s.entities[number])
			s.entities[number] = slices.Compact(s.entities[number])
		}
		segments = append(segments, s)
	}
	return segments
}
