package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"extraction-experiment/pipeline"
)

// Source is whose answers are kept.
type Source struct {
	Provider string `json:"provider"`
	// Endpoint is the address of the server; empty for the provider's own.
	Endpoint string `json:"endpoint,omitempty"`
	Model    string `json:"model"`
}

// question is what a key is made of. To add a member is to lose what is cached.
type question struct {
	Format int `json:"format"`
	Source
	Trial   int              `json:"trial"`
	Request pipeline.Request `json:"request"`
}

// keyOf returns the SHA-256 of a question, in hexadecimal.
func keyOf(source Source, trial int, req pipeline.Request) (string, error) {
	raw, err := json.Marshal(question{format, source, trial, req})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
