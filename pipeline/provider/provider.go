// Package provider is the table of what --model accepts: one row per provider,
// each with the function that opens it. It holds no extractor itself and keeps
// no state; a provider is added by adding a row.
//
//	opened, err := provider.Open("openai/gpt-4o-mini", provider.Config{Getenv: os.Getenv})
package provider

import (
	"io"
	"net/http"
	"strings"
	"time"

	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/baseline"
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
