package configs

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed prices.yaml
var pricesFile []byte

// Price is what a model costs, in USD per million tokens, and where that is
// from.
type Price struct {
	Input       float64
	CachedInput float64
	Output      float64
	// MaxInput is the number of input tokens up to which the price holds; 0
	// means that there is no such border.
	MaxInput int64
	AsOf     string // "2026-11-21"
	Source   string
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
// and what is no number are errors; those of content are returned all at once.
func LoadPrices(path string) (Prices, error) {
	builtin, err := parsePrices(pricesFile, "the built-in prices")
	if err != nil {
		return Prices{}, err
	}
	if path == "" {
		return Prices{files: []map[string]Price{builtin}}, nil
	}
	text, err := read(path)
	if err != nil {
		return Prices{}, err
	}
	own, err := parsePrices(text, path)
	if err != nil {
		return Prices{}, err
	}
	return Prices{files: []map[string]Price{own, builtin}}, nil
}

// Lookup returns the price of a model; false if none is known. The first file
// with a row that matches decides; in it the exact name, then the longest
// pattern. The name is compared as it stands, capitals included.
func (p Prices) Lookup(model string) (Price, bool) {
	for _, rows := range p.files {
		if found := ranked(rows, model); len(found) > 0 {
			return found[0], true
		}
	}
	return Price{}, false
}

func parsePrices(text []byte, where string) (map[string]Price, error) {
	var file priceFile
	if err := strict(text, where, &file, priceRow{}); err != nil {
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
		price := Price{Input: *row.Input, CachedInput: *row.CachedInput, Output: *row.Output, AsOf: file.AsOf, Source: file.Source}
		if row.MaxInput != nil {
			price.MaxInput = *row.MaxInput
		}
		rows[name] = price
	}
	return rows, join(where, problems)
}

func (r priceRow) check(name string) error {
	var problems []error
	for _, field := range []struct {
		key   string
		value *float64
	}{{"input", r.Input}, {"cached_input", r.CachedInput}, {"output", r.Output}} {
		switch v := field.value; {
		case v == nil:
			problems = append(problems, fmt.Errorf("%s: %s is missing", name, field.key))
		case !(*v >= 0) || math.IsInf(*v, 0):
			problems = append(problems, fmt.Errorf("%s: %s is %v: a price is 0 or more", name, field.key, *v))
		}
	}
	if r.MaxInput != nil && *r.MaxInput < 1 {
		problems = append(problems, fmt.Errorf("%s: max_input is %d: it must be 1 or more, or be left out", name, *r.MaxInput))
	}
	return errors.Join(problems...)
}
