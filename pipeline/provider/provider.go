// Package provider is the table of what --model accepts: one row per provider,
// each with the function that opens it. It holds no extractor itself and keeps
// no state; a provider is added by adding a row.
//
//	opened, err := provider.Open("openai/gpt-4o-mini", provider.Config{Getenv: os.Getenv})
package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/baseline"
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/openai"
	"extraction-experiment/pipeline/provider/recorded"
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
	closer       io.Closer
}

// Close releases what was opened.
func (o Opened) Close() error {
	if o.closer == nil {
		return nil
	}
	return o.closer.Close()
}

// row is one provider.
type row struct {
	name string
	// form shows how a spec is written: "baseline", "openai/NAME".
	form string
	// about is one line for a person.
	about string
	// named says that a name must follow: "provider/name".
	named bool
	open  func(name string, cfg Config) (Opened, error)
}

// table lists the providers in the order in which they are shown.
func table() []row {
	return []row{
		{name: baseline.Name, form: baseline.Name, about: "rules without a model, the floor to beat", open: openBaseline},
		{name: "openai", form: "openai/NAME", named: true, about: "OpenAI and every compatible server (OPENAI_API_KEY, OPENAI_BASE_URL)", open: openOpenAI},
		{name: "gemini", form: "gemini/NAME", named: true, about: "the Gemini API (GEMINI_API_KEY, GOOGLE_API_KEY)", open: openGemini},
		{name: recorded.Name, form: "recorded/FILE", named: true, about: "the answers that --record wrote, without a network", open: openRecorded},
	}
}

// Open returns what a spec names.
//
// A spec is "provider", "provider/name", or a bare model name whose provider
// can be guessed; the provider is read without regard to case and surrounding
// space, the name as it stands, with any further slashes. A spec that names no
// provider, lacks its name or has one too many is an *UnknownError; a missing
// key and the like have exit code 64 too. Nothing is sent anywhere.
func Open(spec string, cfg Config) (Opened, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	kind, name, cut := strings.Cut(strings.TrimSpace(spec), "/")
	for _, r := range table() {
		if !strings.EqualFold(r.name, kind) {
			continue
		}
		if r.named != cut || r.named && name == "" {
			return Opened{}, unknown(spec)
		}
		return r.open(name, cfg)
	}
	if guessed, ok := guess(spec, cfg); ok {
		return guessed.open(strings.TrimSpace(spec), cfg)
	}
	return Opened{}, unknown(spec)
}

// guess finds the row of a bare model name.
func guess(spec string, cfg Config) (row, bool) {
	if cfg.Guess == nil {
		return row{}, false
	}
	kind, ok := cfg.Guess(strings.TrimSpace(spec))
	for _, r := range table() {
		if ok && r.named && r.name == kind {
			return r, true
		}
	}
	return row{}, false
}

// List returns the forms that Open accepts, each with a line about it.
func List() []string {
	var lines []string
	for _, r := range table() {
		lines = append(lines, r.form+": "+r.about)
	}
	return lines
}

func (c Config) capabilities(model string) pipeline.Capabilities {
	if c.Capabilities == nil {
		return pipeline.Capabilities{}
	}
	return c.Capabilities(model)
}

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

// maxShown bounds how much of a spec a message repeats, in bytes.
const maxShown = 80

// UnknownError is returned for a spec that no provider takes.
type UnknownError struct {
	Spec    string   // as it was given
	Nearest string   // the provider most like it; empty if none is
	Known   []string // every form
}

// Error names the spec, the nearest form if one is near, and all forms.
func (e *UnknownError) Error() string {
	hint := ""
	if e.Nearest != "" {
		hint = fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return fmt.Sprintf("unknown model %q%s (there are: %s)", textutil.Cut(e.Spec, maxShown), hint, strings.Join(e.Known, ", "))
}

// ExitCode is that of a wrong usage.
func (e *UnknownError) ExitCode() int { return 64 }

func unknown(spec string) *UnknownError {
	e := &UnknownError{Spec: spec}
	var names []string
	for _, r := range table() {
		e.Known, names = append(e.Known, r.form), append(names, r.name)
	}
	kind, _, _ := strings.Cut(strings.TrimSpace(spec), "/")
	e.Nearest = textutil.Nearest(kind, names)
	return e
}

// Variables names the environment variables that Open reads by Config.Getenv, in
// the order of a page.
func Variables() []string {
	return []string{
		openai.EnvKey, openai.EnvBaseURL, envHeaders, envAPIType, envAzureVersion,
		gemini.EnvKey, gemini.EnvOtherKey, gemini.EnvBaseURL,
	}
}
