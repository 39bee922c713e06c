package configs

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
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

// Model is what is known of a model; the zero value is one that can do
// everything and belongs to no provider.
type Model struct {
	// Provider is where a bare name goes, such as "openai"; "" if that is not known.
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
	rows, err := loadRows(modelsFile, "the built-in models", path, parseModels)
	return Models{rows}, err
}

// loadRows reads a file, whose rows come before the built-in ones; "" is not a file.
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

// Lookup returns what is known of a model; false if nothing is, and then it is
// taken to do everything. The first file with a row that matches decides; in it
// the exact name, then the longest pattern. The provider is that of the first
// match that names one. The name is compared as it stands, capitals included.
func (m Models) Lookup(name string) (Model, bool) {
	matches := ranked(m.files, name)
	if len(matches) == 0 {
		return Model{}, false
	}
	best := matches[0]
	for _, row := range matches {
		best.Provider = cmp.Or(best.Provider, row.Provider)
	}
	return best, true
}

// providers are those that take a name of a model.
var providers = []string{"openai", "gemini"}

func parseModels(text []byte, where string) (map[string]Model, error) {
	var file modelFile
	if err := textutil.DecodeYAML(text, where, &file, Model{}); err != nil {
		return nil, err
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(file.Models)) {
		if err := checkPattern(name); err != nil {
			problems = append(problems, err)
		}
		if provider := file.Models[name].Provider; provider != "" && !slices.Contains(providers, provider) {
			problems = append(problems, fmt.Errorf("%s: the provider is %.40q: it must be %s", name, provider, strings.Join(providers, " or ")))
		}
	}
	return file.Models, join(where, problems)
}

//go:embed prices.yaml
var pricesFile []byte

// Price is what a model costs, in USD per million tokens.
type Price struct {
	Input       float64
	CachedInput float64
	Output      float64
	// MaxInput is the number of input tokens up to which the price holds; 0
	// means that there is no such border.
	MaxInput int64
}

// Prices is price data; the zero value knows no price.
type Prices struct {
	files []map[string]Price // asked in this order
}

// priceFile is a file of prices as it is written. Its pointers tell a price of
// 0 from one that was forgotten.
type priceFile struct {
	AsOf   string              `yaml:"as_of"`
	Source string              `yaml:"source"`
	Prices map[string]priceRow `yaml:"prices"`
}

type priceRow struct {
	Input       *float64 `yaml:"input"`
	CachedInput *float64 `yaml:"cached_input"`
	Output      *float64 `yaml:"output"`
	MaxInput    *int64   `yaml:"max_input"`
}

// LoadPrices reads a file of prices in the form of prices.yaml, or the
// built-in one alone if path is "". The built-in prices answer for the models
// that the file does not match.
//
// A file must have as_of, a date, and source; every row must have input,
// cached_input and output. Unknown keys, names given twice, negative numbers
// and what is not a number are errors; those of content are returned all at once.
func LoadPrices(path string) (Prices, error) {
	rows, err := loadRows(pricesFile, "the built-in prices", path, parsePrices)
	return Prices{rows}, err
}

// Lookup returns the price of a model; false if none is known. The first file
// with a row that matches decides; in it the exact name, then the longest
// pattern. The name is compared as it stands, capitals included.
func (p Prices) Lookup(model string) (Price, bool) {
	if found := ranked(p.files, model); len(found) > 0 {
		return found[0], true
	}
	return Price{}, false
}

func parsePrices(text []byte, where string) (map[string]Price, error) {
	var file priceFile
	if err := textutil.DecodeYAML(text, where, &file, priceRow{}); err != nil {
		return nil, err
	}
	var problems []error
	if _, err := time.Parse(time.DateOnly, file.AsOf); err != nil {
		problems = append(problems, fmt.Errorf("as_of is %q: a date such as 2026-11-21 is expected", file.AsOf))
	}
	if strings.TrimSpace(file.Source) == "" {
		problems = append(problems, errors.New("source is missing: say where the prices are from"))
	}
	rows := map[string]Price{}
	for _, name := range slices.Sorted(maps.Keys(file.Prices)) {
		row := file.Prices[name]
		if err := errors.Join(checkPattern(name), row.check(name)); err != nil {
			problems = append(problems, err)
			continue
		}
		rows[name] = Price{*row.Input, *row.CachedInput, *row.Output, *cmp.Or(row.MaxInput, new(int64))}
	}
	return rows, join(where, problems)
}

func (r priceRow) check(name string) error {
	var problems []error
	prices := map[string]*float64{"input": r.Input, "cached_input": r.CachedInput, "output": r.Output}
	for _, key := range slices.Sorted(maps.Keys(prices)) {
		switch v := prices[key]; {
		case v == nil:
			problems = append(problems, fmt.Errorf("%s: %s is missing", name, key))
		case !(*v >= 0) || math.IsInf(*v, 0):
			problems = append(problems, fmt.Errorf("%s: %s is %v: a price is 0 or more", name, key, *v))
		}
	}
	if r.MaxInput != nil && *r.MaxInput < 1 {
		problems = append(problems, fmt.Errorf("%s: max_input is %d: it must be 1 or more, or be left out", name, *r.MaxInput))
	}
	return errors.Join(problems...)
}

// maxName is the longest name of a model or pattern, in bytes.
const maxName = 200

// ranked returns the rows that match a name, best first: those of the first file before
// those of the next; in a file the exact name, then the patterns that end in *, longer
// ones before shorter ones.
func ranked[T any](files []map[string]T, name string) []T {
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

// checkPattern says what is wrong with a model's name or pattern.
func checkPattern(pattern string) error {
	switch {
	case strings.TrimSpace(pattern) != pattern || pattern == "":
		return fmt.Errorf("the name %q is empty or has space around it", pattern)
	case len(pattern) > maxName:
		return fmt.Errorf("the name %.40q… is longer than %d bytes", pattern, maxName)
	case strings.Contains(strings.TrimSuffix(pattern, "*"), "*"):
		return fmt.Errorf("the name %q has a * that is not its last character", pattern)
	}
	return nil
}

// join names the file before all its problems; nil if there are none.
func join(where string, problems []error) error {
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("reading %s: %w", where, err)
	}
	return nil
}
