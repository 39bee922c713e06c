package tracking

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// maxField bounds one input or output on a span. With a few of them a span
// stays under what servers keep.
const maxField = 2 << 20

// field returns JSON fit for a span: absent is null, and a value too large for
// a server is replaced by its size, its hash and its beginning.
func field(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	if len(raw) <= maxField {
		return clean(string(raw))
	}
	const shown = 64 << 10
	sum := sha256.Sum256(raw)
	return string(encode(map[string]any{
		"truncated": true, "bytes": len(raw), "sha256": hex.EncodeToString(sum[:]),
		"begins": strings.ToValidUTF8(string(raw[:shown]), ""),
	}))
}

func fieldOrNone(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return field(raw)
}

// spoken is fieldOrNone, but for a text, such as a model's answer, which is
// shown as it is and not as JSON of a text.
func spoken(raw json.RawMessage) string {
	var text string
	if len(raw) > maxField || json.Unmarshal(raw, &text) != nil {
		return fieldOrNone(raw)
	}
	return clean(text)
}

// clean makes a text acceptable to every server: valid UTF-8.
func clean(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "�")
}

// encode marshals what always can be marshalled: maps of plain values.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func isObject(raw json.RawMessage) bool {
	return strings.HasPrefix(strings.TrimSpace(string(raw)), "{")
}
