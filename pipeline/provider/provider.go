// Package provider opens what --model names: the baseline, a model of a provider over HTTP, or
// a recorded model; and what --pipeline names, a team's own pipeline (External). To add a
// provider, write its file and add a row to the table. A model sends one request for each call:
// retries, limits, caches and prices are decorators of package pipeline.
//
//	opened, err := provider.Open("openai/gpt-4o-mini", provider.Config{Getenv: os.Getenv})
package provider

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/pipeline"
)

// Config configures Open; the zero value is usable.
type Config struct {
	// Getenv reads keys and addresses, which come only from the environment; nil reads nothing.
	Getenv func(string) string
	// Guess returns the provider of a bare model name; nil knows none.
	Guess func(model string) (provider string, ok bool)
	// Capabilities says what a model cannot do; nil means that each model can do everything.
	Capabilities func(model string) pipeline.Capabilities
	// HTTPClient sends the requests; nil means the default client of each provider.
	HTTPClient *http.Client
	// NoKey allows the key to be missing, for a model that other machines ask.
	NoKey bool
}

// Info identifies what was opened, in the metadata of a run.
type Info struct {
	Provider string // "baseline", "openai"
	Model    string // "baseline", "gpt-4o-mini"
	Pipeline string // name and version of the pipeline: "baseline@1"; empty for a model
}

// Opened is what a spec names: an extractor, or a model for a Pipeline. Exactly one of
// Extractor and Model is set.
type Opened struct {
	Info
	Extractor    pipeline.Extractor
	Model        pipeline.Model
	Capabilities pipeline.Capabilities // of the Model
	// Address and Key come from the environment, for a Model over HTTP. An empty address means
	// the default one of the provider.
	Address string
	Key     secret.Secret
}

// row is one provider.
type row struct {
	name      string
	suffix    string // the rest of a spec: "", "/NAME"
	open      func(name string, cfg Config) (Opened, error)
	variables []string // environment variables that open reads
}

// table lists the providers in display order.
func table() []row {
	return []row{
		{Baseline, "", openBaseline, nil},
		{OpenAI, "/NAME", openOpenAI, []string{envOpenAIKey, EnvOpenAIBaseURL, envHeaders, envAPIType, envAzureVersion}},
		{Gemini, "/NAME", openGemini, []string{envGeminiKey, envGoogleKey, envGeminiBaseURL}},
		{Recorded, "/FILE", openRecorded, nil},
	}
}

// OfModels returns the names of the providers that have models by name, in display order.
func OfModels() (names []string) {
	for _, r := range table() {
		if r.suffix == "/NAME" {
			names = append(names, r.name)
		}
	}
	return names
}

// findProvider returns the provider of that name, in any case.
func findProvider(kind string) (provider row, ok bool) {
	for _, r := range table() {
		if strings.EqualFold(r.name, kind) {
			return r, true
		}
	}
	return row{}, false
}

// Open returns what a spec names.
//
// A spec is "provider", "provider/name", or a bare model name whose provider cfg.Guess knows.
// The provider is read without regard to case and surrounding space; the name is taken
// unchanged, with any further slashes. A spec with an unknown provider, without a required name
// or with a name too many is an error of exit code 64, and so is a missing key or another
// problem of the configuration. Nothing is sent.
func Open(spec string, cfg Config) (Opened, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	if cfg.Capabilities == nil {
		cfg.Capabilities = func(string) pipeline.Capabilities { return pipeline.Capabilities{} }
	}
	trimmed := strings.TrimSpace(spec)
	prefix, name, hasName := strings.Cut(trimmed, "/")
	provider, known := findProvider(prefix)
	if !known && cfg.Guess != nil {
		if guessed, ok := cfg.Guess(trimmed); ok {
			name, hasName = trimmed, true
			provider, known = findProvider(guessed)
		}
	}
	if takesName := provider.suffix != ""; !known || takesName != hasName || takesName && name == "" {
		return Opened{}, unknownSpec(spec)
	}
	return provider.open(name, cfg)
}

// openHTTP opens a model over HTTP.
func (c Config) openHTTP(provider string, newModel func(modelConfig) (pipeline.Model, error), cfg modelConfig) (Opened, error) {
	cfg.HTTPClient, cfg.Capabilities, cfg.NoKey = c.HTTPClient, c.Capabilities(cfg.Model), c.NoKey
	model, err := newModel(cfg)
	if err != nil {
		return Opened{}, err
	}
	info := Info{Provider: provider, Model: cfg.Model}
	return Opened{Info: info, Model: model, Capabilities: cfg.Capabilities, Address: cfg.BaseURL, Key: cfg.APIKey}, nil
}

// unknownSpec returns the error for a spec of no provider, with all forms and the nearest name.
func unknownSpec(spec string) error {
	var names, forms []string
	for _, r := range table() {
		names, forms = append(names, r.name), append(forms, r.name+r.suffix)
	}
	prefix, _, hasName := strings.Cut(strings.TrimSpace(spec), "/")
	hint := textutil.Hint(prefix, names)
	if hint == "" && !hasName && prefix != "" {
		hint = fmt.Sprintf("; did you mean %q?", OpenAI+"/"+textutil.Cut(prefix, 80))
	}
	if hint == "" && hasName {
		hint = "; a server that is compatible with OpenAI's is " + OpenAI + "/NAME with " + EnvOpenAIBaseURL
	}
	return cli.Usage("unknown model %q%s (there are: %s)", textutil.Cut(spec, 80), hint, strings.Join(forms, ", "))
}

// Variables returns the names of the environment variables that Open reads by Config.Getenv, in
// display order.
func Variables() []string {
	return slices.Concat(cli.Each(table(), func(r row) []string { return r.variables })...)
}
