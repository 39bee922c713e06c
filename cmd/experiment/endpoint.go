package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/openai"
	"extraction-experiment/pipeline/provider/recorded"
)

// endpointOf says which server the model is asked at: its host and the beginning
// of a hash of the address, which may hold more than a stranger should read;
// "default" for the provider's own, and empty where no server is asked.
func endpointOf(s outcome.System, getenv func(string) string) string {
	if s.Provider != openai.Name && s.Provider != gemini.Name || strings.HasPrefix(s.Pipeline, recorded.Name) {
		return ""
	}
	address := strings.TrimRight(strings.TrimSpace(addressOf(s.Provider, getenv)), "/")
	if address == "" {
		return "default"
	}
	host := ""
	if u, err := url.Parse(address); err == nil {
		u.User = nil // who asks is not where
		host, address = u.Host, u.String()
	}
	hash := sha256.Sum256([]byte(address))
	return host + "~" + hex.EncodeToString(hash[:4])
}

// addressOf is the address that the environment gives to a provider; "" is its
// own, or none.
func addressOf(provider string, getenv func(string) string) string {
	switch provider {
	case openai.Name:
		return getenv(openai.EnvBaseURL)
	case gemini.Name:
		return getenv(gemini.EnvBaseURL)
	}
	return ""
}
