package langfuse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestSecretIsNeverPrinted(t *testing.T) {
	const key = "sk-lf-verysecret42"
	config := Config{SecretKey: NewSecret(key)}
	client, err := New(Config{PublicKey: "pk", SecretKey: NewSecret(key)})
	if err != nil {
		t.Fatal(err)
	}
	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3s"} {
		printed = append(printed, fmt.Sprintf(verb, config.SecretKey), fmt.Sprintf(verb, config), fmt.Sprintf(verb, &config))
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, holder := range []any{client, *client, struct{ s Secret }{config.SecretKey}} {
			text := fmt.Sprintf(verb, holder)
			if strings.Contains(text, key) || strings.Contains(text, fmt.Sprintf("%x", key)) {
				t.Errorf("the secret of an unexported field shows in %q", text)
			}
		}
	}
	inJSON, err := json.Marshal(map[string]any{"a": config.SecretKey, "b": &config.SecretKey, "c": struct{ S Secret }{config.SecretKey}})
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(handler).Info("x", "secret", config.SecretKey, "config", config)
	}
	printed = append(printed, string(inJSON), logged.String(), config.SecretKey.String(), config.SecretKey.GoString())
	for _, text := range printed {
		for _, form := range []string{key, fmt.Sprintf("%x", key), fmt.Sprintf("%X", key), "sk-"} {
			if strings.Contains(text, form) {
				t.Errorf("the secret shows in %q", text)
			}
		}
		if !strings.Contains(text, "***") {
			t.Errorf("no *** in %q", text)
		}
	}
	if client.config.SecretKey.Reveal() != key {
		t.Error("the client lost its key")
	}
}
