package evaluator

import (
	"bytes"
	"encoding/json"
	"strings"

	"extraction-experiment/internal/printable"
)

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// excerpt returns the beginning of hostile text as valid UTF-8.
func excerpt(text []byte) string {
	return printable.Cut(string(bytes.TrimSpace(text)), maxShown)
}

// inOneLine puts several problems behind one another.
func inOneLine(problems []error) string {
	var parts []string
	for _, err := range problems {
		if err != nil {
			parts = append(parts, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return strings.Join(parts, "; ")
}
