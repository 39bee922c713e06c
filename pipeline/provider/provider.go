// Package provider opens what --model names: the baseline, models that are
// asked over HTTP, each provider by its protocol, and the recorded answers of one; and what
// --pipeline names, a team's own (External). A provider is added by its file and a row in the table.
// A model asks once for each call: repetitions, limits, caches and prices are the business
// of the decorators in package pipeline.
//
//	opened, err := provider.Open("openai/gpt-4o-mini", provider.Config{Getenv: os.Getenv})
package provider

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/pipeline"
)

// Config is what providers may need to open; the zero value is usable.
type Config struct {
	// Getenv reads keys and addresses, which come from the environment only;
	// nil reads nothing.
	Getenv func(string) string
	// Guess names the provider of a bare model name; nil knows none.
	Guess func(model string) (provider string, ok bool)
	// Capabilities says what a model cannot do; nil says that each can do all.
	Capabilities func(model string) pipeline.Capabilities
	// HTTPClient sends the requests; nil means each provider's own.
	HTTPClient *http.Client
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// Info says what was opened, as run metadata records it.
type Info struct {
	Provider string // "baseline", "openai"
	Model    string // "baseline", "gpt-4o-mini"
	Pipeline string // name and version of the pipeline: "baseline@1"; empty for a model
}

// Opened is what a spec names: an extractor of its own, or a model that the
// pipeline asks. Exactly one of the two is set.
type Opened struct {
	Info
	Extractor    pipeline.Extractor
	Model        pipeline.Model
	Capabilities pipeline.Capabilities // of the Model
	// Address and Key are those that the environment gives to a Model that is asked over HTTP;
	// an empty address is the provider's own.
	Address string
	Key     secret.Secret
}

// row is one provider.
type row struct {
	name      string
	rest      string // how a spec goes on: "", "/NAME"
	open      func(name string, cfg Config) (Opened, error)
	variables []string // of the environment, which open reads
}

// table lists the providers in the order in which they are shown.
func table() []row {
	return []row{
		{Baseline, "", openBaseline, nil},
		{OpenAI, "/NAME", openOpenAI, []string{envOpenAIKey, EnvOpenAIBaseURL, envHeaders, envAPIType, envAzureVersion}},
		{Gemini, "/NAME", openGemini, []string{envGeminiKey, envGoogleKey, envGeminiBaseURL}},
		{Recorded, "/FILE", openRecorded, nil},
	}
}

// find returns the provider of a kind of specs.
func find(kind string) (found row, ok bool) {
	at := slices.IndexFunc(table(), func(r row) bool { return strings.EqualFold(r.name, kind) })
	if at < 0 {
		return row{}, false
	}
	return table()[at], true
}

// Open returns what a spec names.
//
// A spec is "provider", "provider/name", or a bare model name whose provider
// can be guessed; the provider is read without regard to case and surrounding
// space, the name as it stands, with any further slashes. A spec that names no
// provider, lacks its name or has one too many is an error of exit code 64; a missing
// key and the like have exit code 64 too. Nothing is sent anywhere.
func Open(spec string, cfg Config) (Opened, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	if cfg.Capabilities == nil {
		cfg.Capabilities = func(string) pipeline.Capabilities { return pipeline.Capabilities{} }
	}
	bare := strings.TrimSpace(spec)
	kind, name, cut := strings.Cut(bare, "/")
	found, known := find(kind)
	if !known && cfg.Guess != nil {
		if guessed, ok := cfg.Guess(bare); ok {
			name, cut = bare, true
			found, known = find(guessed)
		}
	}
	if named := found.rest != ""; !known || named != cut || named && name == "" {
		return Opened{}, unknown(spec)
	}
	return found.open(name, cfg)
}

// opened makes a model that is asked over HTTP.
func (c Config) opened(provider string, make func(modelConfig) (pipeline.Model, error), cfg modelConfig) (Opened, error) {
	cfg.HTTPClient, cfg.Now, cfg.Capabilities = c.HTTPClient, c.Now, c.Capabilities(cfg.Model)
	model, err := make(cfg)
	if err != nil {
		return Opened{}, err
	}
	info := Info{Provider: provider, Model: cfg.Model}
	return Opened{Info: info, Model: model, Capabilities: cfg.Capabilities, Address: cfg.BaseURL, Key: cfg.APIKey}, nil
}

// unknown is the error of a spec that no provider takes; it names the nearest form
// if one is near, and all forms.
func unknown(spec string) error {
	var names, forms []string
	for _, r := range table() {
		names, forms = append(names, r.name), append(forms, r.name+r.rest)
	}
	kind, _, _ := strings.Cut(strings.TrimSpace(spec), "/")
	return cli.Usage("unknown model %q%s (there are: %s)", textutil.Cut(spec, 80), textutil.Hint(kind, names), strings.Join(forms, ", "))
}

// Variables names the environment variables that Open reads by Config.Getenv, in
// the order of a page.
func Variables() (names []string) {
	for _, r := range table() {
		names = append(names, r.variables...)
	}
	return names
}
