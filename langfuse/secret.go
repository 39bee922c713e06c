package langfuse

import "extraction-experiment/internal/secret"

// Secret holds a key that must not be printed: every way of formatting it gives
// "***". The zero value is an empty key.
type Secret = secret.Secret

// NewSecret returns the secret that holds key.
func NewSecret(key string) Secret { return secret.New(key) }
