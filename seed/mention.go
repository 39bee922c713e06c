package seed

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// isOffset reports whether a path is that of a mention's place, which moves with
// the text instead.
func isOffset(path []string) bool {
	last := path[len(path)-1]
	return len(path) > 1 && path[len(path)-2] == "mentions" && (last == "start" || last == "end")
}

// movedMention is a mention and what it is in the new document.
type movedMention struct{ mention, now map[string]any }

// moveMentions finds where the quotes of mentions are in the new document.
func (w *redacting) moveMentions(path []string, value any) []movedMention {
	if path[0] != "expectedoutput" || !slices.Contains(w.keys, "mentions") || w.document == nil {
		return nil
	}
	var list []movedMention
	places := newOffsets(w.document.text)
	rendered, pieces := w.document.whole(&tokens{labels: w.tokens.labels, number: w.tokens.number, next: w.tokens.next, count: map[string]int{}})
	top, _ := value.(map[string]any)
	entities, _ := top["entities"].([]any)
	for _, entity := range entities {
		object, _ := entity.(map[string]any)
		mentions, _ := object["mentions"].([]any)
		for _, mention := range mentions {
			m, _ := mention.(map[string]any)
			start, end, ok := places.bytes(m["start"], m["end"])
			if !ok || w.document.text[start:end] != m["quote"] {
				continue
			}
			newStart, newEnd := moved(pieces, start, false), moved(pieces, end, true)
			count := func(text string) json.Number { return json.Number(strconv.Itoa(utf8.RuneCountInString(text))) }
			list = append(list, movedMention{m, map[string]any{
				"quote": rendered[newStart:newEnd], "start": count(rendered[:newStart]), "end": count(rendered[:newEnd])}})
		}
	}
	return list
}

// offsets leads from code points to bytes.
type offsets []int32

func newOffsets(text string) offsets {
	o := make(offsets, 0, len(text)+1)
	for at := range text {
		o = append(o, int32(at))
	}
	return append(o, int32(len(text)))
}

func (o offsets) bytes(start, end any) (int, int, bool) {
	from, errFrom := strconv.Atoi(spelled(start))
	to, errTo := strconv.Atoi(spelled(end))
	if errFrom != nil || errTo != nil || from < 0 || to < from || to >= len(o) {
		return 0, 0, false
	}
	return int(o[from]), int(o[to]), true
}
