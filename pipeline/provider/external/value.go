package external

import (
	"encoding/json"
	"strings"
	"time"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// The limits of the values that a pipeline reports about itself.
const (
	maxTokens = 1e12
	maxCost   = 1e6 // USD
	maxName   = 200 // bytes
)

// text reads a short text; "" where there is none.
func (r reporter) text(path string, raw json.RawMessage) string {
	var s string
	if absent(raw) {
		return ""
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		r.warn("%s: expected a text", path)
		return ""
	}
	limit := maxName
	if strings.HasSuffix(path, ".error") {
		limit = outcome.MaxMessage
	}
	return printable.Cut(s, limit)
}

// usage reads {"input", "output", "cached", "reasoning"}, whole numbers of
// tokens.
func (r reporter) usage(path string, raw json.RawMessage) outcome.Usage {
	if absent(raw) {
		return outcome.Usage{}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		r.warn("%s: expected an object with input and output", path)
		return outcome.Usage{}
	}
	if absent(fields["input"]) && absent(fields["output"]) {
		r.warn("%s: it has neither input nor output, the numbers of tokens", path)
	}
	count := func(key string) int64 {
		n, ok := r.number(path+"."+key, fields[key], maxTokens)
		if ok && n != float64(int64(n)) {
			r.warn("%s.%s: expected a whole number", path, key)
			return 0
		}
		return int64(n)
	}
	return outcome.Usage{Input: count("input"), Output: count("output"), Cached: count("cached"), Reasoning: count("reasoning")}
}

// cost reads an amount; nil where it is unknown.
func (r reporter) cost(path string, raw json.RawMessage) *float64 {
	n, ok := r.number(path, raw, maxCost)
	if !ok {
		return nil
	}
	return &n
}

func (r reporter) number(path string, raw json.RawMessage, most float64) (float64, bool) {
	if absent(raw) {
		return 0, false
	}
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || n < 0 || n > most {
		r.warn("%s: expected a number from 0 to %.0f", path, most)
		return 0, false
	}
	return n, true
}

// instant reads a time of RFC 3339; nil where there is none.
func (r reporter) instant(path string, raw json.RawMessage) *time.Time {
	if absent(raw) {
		return nil
	}
	var at time.Time
	if err := json.Unmarshal(raw, &at); err != nil || at.Year() < 1970 || at.Year() > 9999 {
		r.warn("%s: expected a time such as 2026-01-31T12:00:00Z", path)
		return nil
	}
	return &at
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// present returns nil for null.
func present(raw json.RawMessage) json.RawMessage {
	if absent(raw) {
		return nil
	}
	return raw
}
