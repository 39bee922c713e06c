package gemini

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"extraction-experiment/internal/exchange"
	"extraction-experiment/internal/secret"
	"extraction-experiment/pipeline"
)

// Name is what this provider is called.
const Name = "gemini"

// DefaultBaseURL is the address of the Gemini API.
const DefaultBaseURL = "https://generativelanguage.googleapis.com"

// The variables that messages name. This package reads no environment; the
// first key variable comes before the second.
const (
	EnvKey      = "GEMINI_API_KEY"
	EnvOtherKey = "GOOGLE_API_KEY"
	EnvBaseURL  = "GOOGLE_GEMINI_BASE_URL"
)

// Config says which model to ask. Model and APIKey are required.
type Config struct {
	// Model is the name as the API knows it, with or without "models/".
	Model string
	// APIKey is sent in the header x-goog-api-key, never in the address.
	APIKey secret.Secret
	// BaseURL is the address before /v1beta. Empty: DefaultBaseURL.
	BaseURL string
	// Headers are sent with every request and replace those of the same name.
	// They may hold keys of gateways and are kept out of messages.
	Headers map[string]secret.Secret
	// HTTPClient sends the requests; it is copied, redirects are not followed.
	// Nil: a client with Go's default transport and without a timeout, because
	// the context given to Generate bounds the time.
	HTTPClient *http.Client
	// Capabilities says what the model cannot do. Zero: it can do everything.
	Capabilities pipeline.Capabilities
	// Now reads the clock, for a Retry-After that is a date. Nil: time.Now.
	Now func() time.Time
}

// New returns the model, or all problems of the configuration at once in an
// error with the exit code 64. Nothing is sent.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := exchange.BaseURL(cfg.BaseURL, EnvBaseURL)
	problems := []error{err, exchange.CheckKey(cfg.APIKey, EnvKey), exchange.CheckHeaders(cfg.Headers)}
	name := strings.TrimPrefix(cfg.Model, "models/")
	switch {
	case strings.TrimSpace(name) == "":
		problems = append(problems, errors.New("the model's name is missing"))
	case strings.ContainsAny(name, "?&#%{}\\: \t\r\n") || strings.Contains(name, ".."):
		problems = append(problems, errors.New("the model's name contains a character that no name has: it looks like gemini-2.5-flash"))
	}
	if cfg.APIKey.Reveal() == "" {
		problems = append(problems, errors.New("the key is missing: set "+EnvKey+" or "+EnvOtherKey))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := errors.Join(problems...); err != nil {
		return nil, &exchange.ConfigError{Provider: Name, Err: err}
	}
	mask := exchange.NewMask(cfg.APIKey, cfg.Headers)
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: cfg.APIKey.Reveal(), Backend: genai.BackendGeminiAPI,
		HTTPClient:  exchange.NewClient(cfg.HTTPClient, cfg.Headers, mask),
		HTTPOptions: genai.HTTPOptions{BaseURL: base, APIVersion: "v1beta"},
	})
	if err != nil {
		// The library's errors print its whole configuration.
		return nil, &exchange.ConfigError{Provider: Name, Err: errors.New(mask.Text(err.Error()))}
	}
	return &Model{
		client: client, name: cfg.Model, can: cfg.Capabilities,
		service: exchange.Service{
			Provider: Name, Model: cfg.Model, Base: base, KeyVariable: EnvKey + " (or " + EnvOtherKey + ")",
			BaseVariable: EnvBaseURL, Mask: mask, Now: cfg.Now,
		},
	}, nil
}
