package embedded

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"io"
	"time"

	"extraction-experiment/internal/textutil"
)

// parseInstant reads RFC 3339, or a bare date as its midnight in UTC.
func parseInstant(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// eachLeaf changes what of a decoded JSON value is no list and no object; a member has its key.
func eachLeaf(key string, v any, change func(key string, leaf any) any) any {
	switch node := v.(type) {
	case []any:
		for i := range node {
			node[i] = eachLeaf("", node[i], change)
		}
	case map[string]any:
		for key := range node {
			node[key] = eachLeaf(key, node[key], change)
		}
	default:
		return change(key, v)
	}
	return v
}

// iso writes milliseconds as the API writes instants.
func iso(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func isoOrNull(ms sql.NullInt64) any {
	if !ms.Valid {
		return nil
	}
	return iso(ms.Int64)
}

// nullable is how an absent text is written: as null.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// orNull is the value of a column that may be null.
func orNull(column driver.Valuer) any {
	v, _ := column.Value() // of sql.NullString and its like: there is no error
	return v
}

// jsonText passes stored JSON on as it is; nothing stored is null.
func jsonText(s string) any {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// maxDepth is how deep JSON may nest. The encoder refuses what the decoder took
// once it stands deeper inside of an answer, so a page with it could never be
// read again.
const maxDepth = 1000

// storable says whether a text is JSON that does not nest deeper.
func storable(raw []byte) bool {
	depth := textutil.JSONDepth(raw)
	return depth >= 0 && depth <= maxDepth
}

// decodeJSON reads one value and keeps numbers as they are written.
func decodeJSON(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return v, nil
}

// parsedText reads a text that is JSON as what it says; any other stays a text.
func parsedText(text string) any {
	if storable([]byte(text)) {
		if decoded, err := decodeJSON([]byte(text)); err == nil {
			return decoded
		}
	}
	return text
}

// asText writes a value as text: a text as it is, anything else as JSON.
func asText(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	text, err := textutil.MarshalJSON(v)
	if err != nil { // a number that JSON cannot write
		return ""
	}
	return string(text)
}

// joined is a list as JSON.
func joined(list []string) string {
	return asText(append([]string{}, list...))
}
