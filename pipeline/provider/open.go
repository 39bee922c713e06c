package provider

import (
	"encoding/json"

	"extraction-experiment/internal/secret"
	"extraction-experiment/pipeline/provider/baseline"
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/openai"
	"extraction-experiment/pipeline/provider/recorded"
)

// The variables of Azure, beside those that package openai names.
const (
	envAzureVersion = "OPENAI_API_VERSION"
	envAPIType      = "OPENAI_API_TYPE"
	// envHeaders holds headers that a gateway wants, as a JSON object.
	envHeaders = "OPENAI_EXTRA_HEADERS"
)

// HeadersError says that the extra headers cannot be read; it does not repeat
// them, as they may hold keys.
type HeadersError struct{}

// Error says what is expected.
func (HeadersError) Error() string {
	return envHeaders + ` is no JSON object of texts, such as {"X-Team": "knowledge"}`
}

// ExitCode returns 64.
func (HeadersError) ExitCode() int { return 64 }

func readHeaders(text string) (map[string]secret.Secret, error) {
	if text == "" {
		return nil, nil
	}
	var plain map[string]string
	if json.Unmarshal([]byte(text), &plain) != nil {
		return nil, HeadersError{}
	}
	headers := map[string]secret.Secret{}
	for name, value := range plain {
		headers[name] = secret.New(value)
	}
	return headers, nil
}

func openBaseline(_ string, cfg Config) (Opened, error) {
	extractor, err := baseline.New(baseline.Config{Now: cfg.Now})
	if err != nil {
		return Opened{}, err
	}
	info := Info{Provider: baseline.Name, Model: baseline.Name, Pipeline: baseline.Name + "@" + baseline.Version}
	return Opened{Info: info, Extractor: extractor}, nil
}

// openOpenAI reads the key and the address of the environment; OPENAI_API_TYPE
// azure asks for Azure's header, with the version of OPENAI_API_VERSION.
func openOpenAI(name string, cfg Config) (Opened, error) {
	capabilities := cfg.capabilities(name)
	headers, err := readHeaders(cfg.Getenv(envHeaders))
	if err != nil {
		return Opened{}, err
	}
	model, err := openai.New(openai.Config{
		Headers: headers, Model: name, APIKey: secret.New(cfg.Getenv(openai.EnvKey)), BaseURL: cfg.Getenv(openai.EnvBaseURL),
		Azure: cfg.Getenv(envAPIType) == "azure", APIVersion: cfg.Getenv(envAzureVersion),
		HTTPClient: cfg.HTTPClient, Capabilities: capabilities, Now: cfg.Now,
	})
	if err != nil {
		return Opened{}, err
	}
	return Opened{Info: Info{Provider: openai.Name, Model: name}, Model: model, Capabilities: capabilities}, nil
}

func openGemini(name string, cfg Config) (Opened, error) {
	key := cfg.Getenv(gemini.EnvKey)
	if key == "" {
		key = cfg.Getenv(gemini.EnvOtherKey)
	}
	capabilities := cfg.capabilities(name)
	model, err := gemini.New(gemini.Config{
		Model: name, APIKey: secret.New(key), BaseURL: cfg.Getenv(gemini.EnvBaseURL),
		HTTPClient: cfg.HTTPClient, Capabilities: capabilities, Now: cfg.Now,
	})
	if err != nil {
		return Opened{}, err
	}
	return Opened{Info: Info{Provider: gemini.Name, Model: name}, Model: model, Capabilities: capabilities}, nil
}

// openRecorded replays a cassette under the names of what was recorded.
func openRecorded(path string, cfg Config) (Opened, error) {
	model, err := recorded.Open(path)
	if err != nil {
		return Opened{}, err
	}
	source := model.Source()
	info := Info{Provider: source.Provider, Model: source.Model, Pipeline: recorded.Name}
	return Opened{Info: info, Model: model, Capabilities: cfg.capabilities(source.Model), closer: model}, nil
}
