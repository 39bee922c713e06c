package configs

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

//go:embed models.yaml
var modelsFile []byte

// Model has the properties of a model. The zero value accepts all parameters and has no provider.
type Model struct {
	// Provider is the provider of a name without one, like "openai"; "" is unknown.
	Provider string `yaml:"provider"`
	// NoTemperature, NoTopP and NoSeed report that the model does not accept the parameter.
	NoTemperature bool `yaml:"no_temperature"`
	NoTopP        bool `yaml:"no_top_p"`
	NoSeed        bool `yaml:"no_seed"`
	// MaxCompletionTokens reports that the limit must be sent as max_completion_tokens, not as
	// max_tokens.
	MaxCompletionTokens bool `yaml:"max_completion_tokens"`
	// NoSchema reports that answers cannot be constrained by a JSON Schema.
	NoSchema bool `yaml:"no_schema"`
}

// Models has the properties of models by name, file by file in the order of precedence.
type Models []map[string]Model

// modelFile is the form of a file of models.
type modelFile struct{ Models map[string]Model }

// LoadModels reads a file of models in the form of models.yaml, or only the built-in one if path
// is "". The built-in rows apply to models that the file does not match. Unknown keys, duplicate
// names, values of the wrong type and a Model.Provider that is not in providers are errors.
// Invalid names and providers are reported all at once.
func LoadModels(path string, providers []string) (Models, error) {
	return loadRows(modelsFile, "the built-in models", path, func(text []byte, where string) (map[string]Model, error) {
		return parseModels(text, where, providers)
	})
}

// loadRows reads the built-in rows and the file at path, whose rows take precedence. If path is
// "", there is no file.
func loadRows[T any](builtin []byte, name, path string, parse func(text []byte, where string) (map[string]T, error)) ([]map[string]T, error) {
	rows, err := parse(builtin, name)
	if err != nil || path == "" {
		return []map[string]T{rows}, err
	}
	text, err := files.Read(context.Background(), path, maxSize)
	if err != nil {
		return nil, err
	}
	own, err := parse(text, path)
	return []map[string]T{own, rows}, err
}

// Lookup returns the properties of a model, or false if none are known; the model is then assumed
// to accept everything. The first file with a matching row decides: its exact name, else its
// longest pattern. If that row has no provider, the next match with one sets it. Names are
// case-sensitive.
func (m Models) Lookup(name string) (Model, bool) {
	matches := matchingRows(m, name)
	if len(matches) == 0 {
		return Model{}, false
	}
	best := matches[0]
	for _, row := range matches {
		best.Provider = cmp.Or(best.Provider, row.Provider)
	}
	return best, true
}

func parseModels(text []byte, where string, providers []string) (map[string]Model, error) {
	var file modelFile
	if err := textutil.DecodeYAML(text, where, &file, Model{}); err != nil {
		return nil, err
	}
	var problems textutil.Problems
	for _, name := range slices.Sorted(maps.Keys(file.Models)) {
		provider := file.Models[name].Provider
		problems.Join(checkPattern(name))
		problems.Add(provider != "" && !slices.Contains(providers, provider),
			"%s: the provider is %.40q: it must be %s", name, provider, strings.Join(providers, " or "))
	}
	return file.Models, problems.In(where)
}

//go:embed prices.yaml
var pricesFile []byte

// Price is the price of a model, in USD per million tokens.
type Price struct {
	Input       float64
	CachedInput float64
	Output      float64
	// MaxInput is the number of input tokens up to which the price applies; 0 is no limit.
	MaxInput int64
}

// Prices has the prices of models by name, file by file in the order of precedence.
type Prices []map[string]Price

// priceFile is the form of a file of prices.
type priceFile struct {
	AsOf   string `yaml:"as_of"`
	Source string
	Prices map[string]priceRow
}

// priceRow is the form of a price. A nil pointer is a missing price, which differs from a price
// of 0.
type priceRow struct {
	Input       *float64 `yaml:"input"`
	CachedInput *float64 `yaml:"cached_input"`
	Output      *float64 `yaml:"output"`
	MaxInput    *int64   `yaml:"max_input"`
}

// LoadPrices reads a file of prices in the form of prices.yaml, or only the built-in one if path
// is "". The built-in prices apply to models that the file does not match.
//
// A file must have as_of, a date, and source. Each row must have input, cached_input and output.
// Unknown keys, duplicate names and values that are not numbers from 0 are errors. Invalid names,
// prices and dates are reported all at once.
func LoadPrices(path string) (Prices, error) {
	return loadRows(pricesFile, "the built-in prices", path, parsePrices)
}

// Lookup returns the price of a model, or false if none is known. The first file with a matching
// row decides: its exact name, else its longest pattern. Names are case-sensitive.
func (p Prices) Lookup(model string) (Price, bool) {
	if found := matchingRows(p, model); len(found) > 0 {
		return found[0], true
	}
	return Price{}, false
}

func parsePrices(text []byte, where string) (map[string]Price, error) {
	var file priceFile
	if err := textutil.DecodeYAML(text, where, &file, priceRow{}); err != nil {
		return nil, err
	}
	var problems textutil.Problems
	_, notDate := time.Parse(time.DateOnly, file.AsOf)
	problems.Add(notDate != nil, "as_of is %q: a date such as 2026-11-21 is expected", file.AsOf)
	problems.Add(strings.TrimSpace(file.Source) == "", "source is missing: say where the prices are from")
	rows := map[string]Price{}
	for _, name := range slices.Sorted(maps.Keys(file.Prices)) {
		row := file.Prices[name]
		price := func(key string, given *float64) float64 {
			v := *cmp.Or(given, new(0.0))
			problems.Add(given == nil, "%s: %s is missing", name, key)
			problems.Add(!(v >= 0 && v <= math.MaxFloat64), "%s: %s is %v: a price is 0 or more", name, key, v)
			return v
		}
		problems.Join(checkPattern(name))
		maxInput := cmp.Or(row.MaxInput, new(int64))
		problems.Add(row.MaxInput != nil && *maxInput < 1,
			"%s: max_input is %d: it must be 1 or more, or be left out", name, *maxInput)
		rows[name] = Price{
			price("input", row.Input), price("cached_input", row.CachedInput), price("output", row.Output), *maxInput,
		}
	}
	return rows, problems.In(where)
}

// maxName is the most bytes of a name or pattern of a model.
const maxName = 200

// matchingRows returns the rows that match a name, the best first: files in their order, within a
// file the exact name, then patterns that end in *, the longest first.
func matchingRows[T any](files []map[string]T, name string) []T {
	var found []T
	for _, rows := range files {
		if row, ok := rows[name]; ok && !strings.HasSuffix(name, "*") {
			found = append(found, row)
		}
		for end := min(len(name), maxName); end >= 0; end-- {
			if row, ok := rows[name[:end]+"*"]; ok {
				found = append(found, row)
			}
		}
	}
	return found
}

// checkPattern returns an error if the name or pattern of a model is invalid.
func checkPattern(pattern string) error {
	star := strings.Contains(strings.TrimSuffix(pattern, "*"), "*")
	if pattern == "" || len(pattern) > maxName || strings.TrimSpace(pattern) != pattern || star {
		return fmt.Errorf("the name %.40q is none: at most %d bytes, no space around it, and a * only at its end",
			pattern, maxName)
	}
	return nil
}
