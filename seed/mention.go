package seed

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// isOffset reports whether a value is the place of a mention in the gold, which
// moves with the text instead. Texts, and the same keys elsewhere, are no places.
func isOffset(path []string, value any) bool {
	_, isNumber := value.(json.Number)
	place := strings.Join(path, ".")
	return isNumber && (place == "expectedoutput.entities.mentions.start" || place == "expectedoutput.entities.mentions.end")
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
	rendered, pieces := w.document.whole(&tokens{labels: w.tokens.labels, number: w.tokens.number, next: w.tokens.next, taken: w.tokens.taken, count: map[string]int{}})
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
