// Package configs reads the YAML files that people write for an experiment,
// and carries the ones that they may copy. Only commands know it: every other
// package has a Config of its own.
package configs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
)

// maxSize bounds a configuration file; larger ones are a mistake or an attack.
const maxSize = 1 << 20

// Experiment is the file given to --config. Every key is the flag of the same
// name, with "_" for "-"; what is left out has the flag's default.
type Experiment struct {
	Dataset     string `yaml:"dataset"`
	Name        string `yaml:"name"`
	Model       string `yaml:"model"`
	Pipeline    string `yaml:"pipeline"`
	Record      string `yaml:"record"`
	Prompt      string `yaml:"prompt"`
	PromptLabel string `yaml:"prompt_label"`
	// PromptVersion is a number; PromptFile a path.
	PromptVersion string            `yaml:"prompt_version"`
	PromptFile    string            `yaml:"prompt_file"`
	TwoStages     string            `yaml:"two_stages"`
	Var           []string          `yaml:"var"`
	Temperature   string            `yaml:"temperature"`
	TopP          string            `yaml:"top_p"`
	MaxTokens     string            `yaml:"max_tokens"`
	Seed          string            `yaml:"seed"`
	Trials        string            `yaml:"trials"`
	Concurrency   string            `yaml:"concurrency"`
	Timeout       string            `yaml:"timeout"` // as "90s" or "2m"
	RPM           string            `yaml:"rpm"`
	TPM           string            `yaml:"tpm"`
	Retries       string            `yaml:"retries"`
	Cache         string            `yaml:"cache"`
	BudgetUSD     string            `yaml:"budget_usd"`
	BudgetTokens  string            `yaml:"budget_tokens"`
	Limit         string            `yaml:"limit"`
	Item          []string          `yaml:"item"`
	Filter        []string          `yaml:"filter"`
	MaxFailures   string            `yaml:"max_failures"` // "3" or "5%"
	Gate          []string          `yaml:"gate"`         // rules, or files of rules
	Inconclusive  string            `yaml:"inconclusive"` // fail, pass or 6
	Description   string            `yaml:"description"`
	Metadata      map[string]string `yaml:"metadata"`
	Environment   string            `yaml:"environment"`
	// PublishScores is "all", or names with commas between; PublishMentions is true
	// or false.
	PublishScores   string `yaml:"publish_scores"`
	PublishMentions string `yaml:"publish_mentions"`
	Output          string `yaml:"output"`
	// Matrix makes a sweep: by flag, the values to try.
	Matrix map[string][]string `yaml:"matrix"`
	// Scorers are external evaluators whose scores are recorded beside the
	// built-in ones.
	Scorers []Scorer `yaml:"scorers"`
	// Scoring holds the options of docs/metrics.md by name.
	Scoring map[string]any `yaml:"scoring"`
}

// Scorer is one external evaluator: a script, an address or a model that
// judges. Paths are relative to the folder of the file.
type Scorer struct {
	Name     string   `yaml:"name"`
	Script   []string `yaml:"script"`
	URL      string   `yaml:"url"`
	Model    string   `yaml:"model"`
	Criteria string   `yaml:"criteria"`
	Timeout  string   `yaml:"timeout"` // of one evaluation, as "30s"
	// Env names variables of the environment that a script is to have although
	// they hold keys and the like, or steer this program.
	Env []string `yaml:"env"`
	// Certificate is the report that experiment conformance --output wrote.
	Certificate string `yaml:"certificate"`

	Prompt        string `yaml:"prompt"`
	PromptLabel   string `yaml:"prompt_label"`
	PromptVersion int    `yaml:"prompt_version"`
	PromptFile    string `yaml:"prompt_file"`
}

// Load reads an experiment file. Unknown keys, values of the wrong kind and a
// second document are errors that name file and line.
func Load(path string) (Experiment, error) {
	var e Experiment
	text, err := read(path)
	if err != nil {
		return e, err
	}
	if err := strict(text, path, &e, Scorer{}); err != nil {
		return Experiment{}, err
	}
	return e, nil
}

func read(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err = io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("reading %s: larger than %d bytes, which no configuration is", path, maxSize)
	}
	return text, err
}

// Lookup returns what the file says of a flag, as the words that one would
// give on the command line; nil if it says nothing.
func (e Experiment) Lookup(flag string) []string {
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == strings.ReplaceAll(flag, "-", "_") {
			return words(v.Field(i))
		}
	}
	return nil
}

func words(v reflect.Value) []string {
	switch value := v.Interface().(type) {
	case string:
		if value != "" {
			return []string{value}
		}
	case []string:
		return value
	case map[string]string:
		var pairs []string
		for k, text := range value {
			pairs = append(pairs, k+"="+text)
		}
		slices.Sort(pairs)
		return pairs
	}
	return nil
}
