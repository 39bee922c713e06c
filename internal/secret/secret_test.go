package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"extraction-experiment/internal/secret"
)

func TestSecret_neverPrinted(t *testing.T) {
	const key = "sk-verysecret42"
	type holder struct{ Key secret.Secret }
	type private struct{ key secret.Secret }
	s := secret.New(key)
	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3s", "%T %v"} {
		for _, value := range []any{s, &s, holder{s}, &holder{s}, []secret.Secret{s}, map[string]secret.Secret{"a": s}} {
			printed = append(printed, fmt.Sprintf(verb, value))
		}
		for _, form := range []string{key, fmt.Sprintf("%x", key)} {
			if text := fmt.Sprintf(verb, private{s}); strings.Contains(text, form) {
				t.Errorf("%s of an unexported field shows the key: %q", verb, text)
			}
		}
	}
	encoded, err := json.Marshal(map[string]any{"a": s, "b": holder{s}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", holder{s})
	printed = append(printed, string(encoded), log.String(), s.String(), s.GoString())
	for _, text := range printed {
		if strings.Contains(text, key) || strings.Contains(text, fmt.Sprintf("%x", key)) || strings.Contains(text, fmt.Sprintf("%X", key)) {
			t.Errorf("the key shows in %q", text)
		}
	}
	if s.Reveal() != key || (secret.Secret{}).Reveal() != "" {
		t.Error("Reveal does not return the key")
	}
}
