package seed

import (
	"encoding/json"
	"slices"
	"strings"

	"extraction-experiment/dataset"
)

// literal is a text or number inside a text that holds JSON.
type literal struct {
	path     []string // of lower-case keys, below that of the text
	text     string   // what it says
	from, to int      // where it stands, without the quotes of a text
}

// literals finds the texts and numbers of a text that holds a JSON object or
// list; of any other text there are none. Time is linear in the text.
func literals(text string) []literal {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return nil
	}
	if _, err := dataset.Decode([]byte(text)); err != nil {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var list []literal
	var open []opening
	for {
		start := int(decoder.InputOffset())
		token, err := decoder.Token()
		if err != nil { // the end: it is valid
			return list
		}
		end := int(decoder.InputOffset())
		top := len(open) - 1
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				open = append(open, opening{object: v == '{', isKey: v == '{'})
				continue
			}
			open = open[:top]
		case string, json.Number:
			if top >= 0 && open[top].isKey {
				open[top].key, open[top].isKey = v.(string), false
				continue
			}
			skipped := len(text[start:end]) - len(strings.TrimLeft(text[start:end], " \t\r\n,:"))
			one := literal{path: pathOf(open), text: spelled(v), from: start + skipped, to: end}
			if _, isText := v.(string); isText {
				one.from, one.to = one.from+1, one.to-1
			}
			list = append(list, one)
		}
		if top = len(open) - 1; top >= 0 {
			open[top].isKey = open[top].object // a value of it has ended
		}
	}
}

// opening is an object or list that has not ended yet.
type opening struct {
	object bool
	key    string // of the value that is read
	isKey  bool   // the next text is a key
}

func pathOf(open []opening) []string {
	var path []string
	for _, o := range open {
		if o.object {
			path = append(path, keyPath(o.key)...)
		}
	}
	return path
}

// keyPath is a key as a part of a path: telemetry writes the keys of nested
// objects with dots between them.
func keyPath(key string) []string { return strings.Split(strings.ToLower(key), ".") }

// collectInside looks for fields inside a text that holds JSON, as metadata
// does on some servers, and for what the patterns match once its escapes are
// read. What it finds is covered in place and becomes a secret. It returns the
// label of one of them, or 0.
func (w *redacting) collectInside(path []string, text string, c *cover) byte {
	var any byte
	for _, one := range literals(text) {
		full := slices.Concat(path, one.path)
		raw := text[one.from:one.to]
		label := w.r.fieldAround(full)
		if label != 0 {
			w.secrets = append(w.secrets, secret{one.text, label}, secret{raw, label})
		}
		if one.text != raw { // it has escapes
			w.r.matches(one.text, func(from, to int, matched byte) {
				w.secrets = append(w.secrets, secret{one.text[from:to], matched})
				label = meet(label, matched)
			})
		}
		if label = meet(label, w.collectInside(full, one.text, newCover(one.text))); label != 0 {
			first, last := c.within(one.from, one.to)
			c.mark(first, last, label)
			any = meet(any, label)
		}
	}
	return any
}
