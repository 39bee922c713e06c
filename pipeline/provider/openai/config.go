package openai

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	api "github.com/sashabaranov/go-openai"

	"extraction-experiment/internal/exchange"
	"extraction-experiment/internal/secret"
	"extraction-experiment/pipeline"
)

// Name is what this provider is called.
const Name = "openai"

// DefaultBaseURL is the address of OpenAI itself.
const DefaultBaseURL = "https://api.openai.com/v1"

// The variables that messages name. This package reads no environment.
const (
	EnvKey     = "OPENAI_API_KEY"
	EnvBaseURL = "OPENAI_BASE_URL"
)

// Config says which model of which server to ask. Model is required, and
// APIKey unless BaseURL names another server than OpenAI's.
type Config struct {
	// Model is the name as the server knows it; the deployment's name on Azure.
	Model string
	// APIKey is sent as "Authorization: Bearer …", on Azure as "api-key: …".
	// Empty: none is sent, as local servers want it.
	APIKey secret.Secret
	// BaseURL is the address before /chat/completions. Empty: DefaultBaseURL.
	BaseURL string
	// Azure sends the key in the header api-key. A BaseURL that ends in
	// /openai/v1 is used as it is; below any other the path is
	// /openai/deployments/{Model}/chat/completions, and APIVersion is required.
	Azure bool
	// APIVersion is sent as the query's api-version; only with Azure.
	APIVersion string
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

// azureV1 is the end of the address of Azure's API without deployments.
const azureV1 = "/openai/v1"

// New returns the model, or all problems of the configuration at once in an
// error with the exit code 64. Nothing is sent.
func New(cfg Config) (*Model, error) {
	if cfg.BaseURL == "" && !cfg.Azure {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := exchange.BaseURL(cfg.BaseURL, EnvBaseURL)
	problems := []error{err, exchange.CheckKey(cfg.APIKey, EnvKey), exchange.CheckHeaders(cfg.Headers)}
	if strings.TrimSpace(cfg.Model) == "" {
		problems = append(problems, errors.New("the model's name is missing"))
	}
	if cfg.APIKey.Reveal() == "" && (cfg.Azure || base == DefaultBaseURL) {
		problems = append(problems, errors.New("the key is missing: set "+EnvKey+", or "+EnvBaseURL+" to a server that needs none"))
	}
	if cfg.Azure && cfg.APIVersion == "" && !strings.HasSuffix(base, azureV1) {
		problems = append(problems, errors.New("Azure needs an api-version such as 2024-10-21, or a base URL that ends in "+azureV1))
	}
	if !cfg.Azure && cfg.APIVersion != "" {
		problems = append(problems, errors.New("an api-version is only sent to Azure"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, &exchange.ConfigError{Provider: Name, Err: err}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return newModel(cfg, base), nil
}

func newModel(cfg Config, base string) *Model {
	client := api.DefaultConfig(cfg.APIKey.Reveal())
	client.BaseURL, client.APIVersion = base, cfg.APIVersion
	mask := exchange.NewMask(cfg.APIKey, cfg.Headers)
	client.HTTPClient = exchange.NewClient(cfg.HTTPClient, cfg.Headers, mask)
	switch {
	case cfg.Azure && strings.HasSuffix(base, azureV1):
		client.APIType = api.APITypeCloudflareAzure // the key's header, no deployments
	case cfg.Azure:
		client.APIType = api.APITypeAzure
		client.BaseURL = strings.TrimSuffix(base, "/openai")
		client.AzureModelMapperFunc = func(string) string { return url.PathEscape(cfg.Model) }
	}
	return &Model{
		client: api.NewClientWithConfig(client), name: cfg.Model, can: cfg.Capabilities,
		service: exchange.Service{
			Provider: Name, Model: cfg.Model, Base: base, KeyVariable: EnvKey,
			BaseVariable: EnvBaseURL, Mask: mask, Now: cfg.Now,
		},
	}
}
