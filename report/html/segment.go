package html

import (
	"cmp"
	"encoding/json"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/pipeline/ground"
	"extraction-experiment/report"
)

// segment is a stretch of a document under which the same expected and
// extracted entities lie; entities that overlap share segments. In JSON it is
// its text, or [text, expected indices, extracted indices].
type segment struct {
	text                string
	expected, extracted []int
}

// MarshalJSON writes plain text as a string, to save room.
func (s segment) MarshalJSON() ([]byte, error) {
	if len(s.expected)+len(s.extracted) == 0 {
		return json.Marshal(s.text)
	}
	return json.Marshal([]any{s.text, append([]int{}, s.expected...), append([]int{}, s.extracted...)})
}

// mostSpans bounds the places that are highlighted in one document.
const mostSpans = 20_000

// span is a place of an entity; its ends count code points.
type span struct {
	from, to, entity int
	extracted        bool
}

// highlighted cuts the document and divides it into segments. Entities stand
// where their mentions quote the document, or else wherever a name of theirs
// does (ground.Index.Ground).
func highlighted(v report.ItemView, l limits) ([]segment, int) {
	text := cutOff(v.Text, l.text)
	left := charactersAfter(v.Text, l.text)
	if text == "" {
		return []segment{}, left
	}
	index := ground.NewIndex(text)
	spans := append(places(index, v.Expected, false), places(index, v.Extracted, true)...)
	return divide([]rune(text), spans[:min(len(spans), mostSpans)]), left
}

func cutOff(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for i := range s {
		if most == 0 {
			return s[:i]
		}
		most--
	}
	return s
}

func places(index *ground.Index, e *extraction.Extraction, extracted bool) []span {
	if e == nil {
		return nil
	}
	grounded, _ := index.Ground(extraction.Extraction{Entities: e.Entities})
	var spans []span
	for i, entity := range grounded.Entities {
		for _, m := range entity.Mentions {
			if m.Start < m.End {
				spans = append(spans, span{m.Start, m.End, i, extracted})
			}
		}
	}
	return spans
}

// divide cuts the text wherever a span begins or ends. Cost O(n·log n + n·k)
// for n spans of which at most k overlap.
func divide(text []rune, spans []span) []segment {
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
		for _, o := range open {
			if o.extracted {
				s.extracted = append(s.extracted, o.entity)
			} else {
				s.expected = append(s.expected, o.entity)
			}
		}
		slices.Sort(s.expected)
		slices.Sort(s.extracted)
		s.expected, s.extracted = slices.Compact(s.expected), slices.Compact(s.extracted)
		segments = append(segments, s)
	}
	return segments
}
