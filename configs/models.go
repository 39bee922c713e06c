package configs

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
)

//go:embed models.yaml
var modelsFile []byte

// Model is what is known of a model; the zero value is one that can do
// everything and belongs to no provider.
type Model struct {
	// Provider is where a bare name goes: "openai" or "gemini"; "" if that is
	// not known.
	Provider string `yaml:"provider"`
	// NoTemperature, NoTopP and NoSeed: the parameter is not accepted.
	NoTemperature bool `yaml:"no_temperature"`
	NoTopP        bool `yaml:"no_top_p"`
	NoSeed        bool `yaml:"no_seed"`
	// MaxCompletionTokens: the limit is sent as max_completion_tokens.
	MaxCompletionTokens bool `yaml:"max_completion_tokens"`
	// NoSchema: answers cannot be held to a JSON Schema.
	NoSchema bool `yaml:"no_schema"`
}

// Models is what is known of models; the zero value knows nothing.
type Models struct {
	files []map[string]Model // asked in this order
}

// modelFile is a file of models as it is written.
type modelFile struct {
	Models map[string]Model `yaml:"models"`
}

// LoadModels reads a file of models in the form of models.yaml, or the
// built-in one alone if path is "". The built-in rows answer for what the file
// does not say. Unknown keys, names given twice, values of the wrong kind and
// unknown providers are errors; those of content are returned all at once.
func LoadModels(path string) (Models, error) {
	builtin, err := parseModels(modelsFile, "the built-in models")
	if err != nil {
		return Models{}, err
	}
	if path == "" {
		return Models{files: []map[string]Model{builtin}}, nil
	}
	text, err := read(path)
	if err != nil {
		return Models{}, err
	}
	own, err := parseModels(text, path)
	if err != nil {
		return Models{}, err
	}
	return Models{files: []map[string]Model{own, builtin}}, nil
}

// Lookup returns what is known of a model; false if nothing is, and then it is
// taken to do everything. The first file with a row that matches decides; in it
// the exact name, then the longest pattern. The provider is that of the first
// match that names one. The name is compared as it stands, capitals included.
func (m Models) Lookup(name string) (Model, bool) {
	var matches []Model
	for _, rows := range m.files {
		matches = append(matches, ranked(rows, name)...)
	}
	if len(matches) == 0 {
		return Model{}, false
	}
	best := matches[0]
	for _, row := range matches {
		if row.Provider != "" {
			best.Provider = row.Provider
			break
		}
	}
	return best, true
}

func parseModels(text []byte, where string) (map[string]Model, error) {
	var file modelFile
	if err := strict(text, where, &file, Model{}); err != nil {
		return nil, err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(file.Models)) {
		if err := checkPattern(name); err != nil {
			problems = append(problems, err)
		}
		switch provider := file.Models[name].Provider; provider {
		case "", "openai", "gemini":
		default:
			problems = append(problems, fmt.Errorf("%s: the provider is %.40q: it must be openai or gemini", name, provider))
		}
	}
	return file.Models, join(where, problems)
}
