// Package provider is the table of what --model accepts: one row per provider,
// each with the function that opens it. It holds no extractor itself and keeps
// no state; a provider is added by adding a row.
//
//	extractor, info, err := provider.Open("baseline", provider.Config{})
package provider

import (
	"strings"
	"time"

	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/baseline"
)

// Config is what providers may need to open; the zero value is usable.
type Config struct {
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// Info says what was opened, as run metadata records it.
type Info struct {
	Provider string // "baseline"
	Model    string // "baseline"
	Pipeline string // name and version of the pipeline: "baseline@1"
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
	open  func(name string, cfg Config) (pipeline.Extractor, Info, error)
}

// table lists the providers in the order in which they are shown.
func table() []row {
	return []row{
		{name: baseline.Name, form: baseline.Name, about: "rules without a model, the floor to beat", open: openBaseline},
	}
}

// Open returns the extractor that a spec names, and what it is.
//
// A spec is "provider" or "provider/name"; the provider is read without regard
// to case and surrounding space, the name as it stands, with any further
// slashes. A spec that names no provider, lacks its name or has one too many
// is an *UnknownError. Nothing is sent anywhere.
func Open(spec string, cfg Config) (pipeline.Extractor, Info, error) {
	kind, name, cut := strings.Cut(strings.TrimSpace(spec), "/")
	for _, r := range table() {
		if !strings.EqualFold(r.name, kind) {
			continue
		}
		if r.named != cut || r.named && name == "" {
			break
		}
		return r.open(name, cfg)
	}
	return nil, Info{}, unknown(spec)
}

// List returns the forms that Open accepts, each with a line about it.
func List() []string {
	var lines []string
	for _, r := range table() {
		lines = append(lines, r.form+": "+r.about)
	}
	return lines
}

func openBaseline(_ string, cfg Config) (pipeline.Extractor, Info, error) {
	extractor, err := baseline.New(baseline.Config{Now: cfg.Now})
	if err != nil {
		return nil, Info{}, err
	}
	return extractor, Info{Provider: baseline.Name, Model: baseline.Name, Pipeline: baseline.Name + "@" + baseline.Version}, nil
}
