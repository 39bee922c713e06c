package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeFile writes a text to a new file and returns its path.
func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const priceHead = "as_of: 2026-01-02\nsource: contract\n"

// TestLoadPrices_builtin checks that every built-in row is found by a name that matches it, and
// that a cached token never costs more than another.
func TestLoadPrices_builtin(t *testing.T) {
	prices, err := LoadPrices("")
	if err != nil {
		t.Fatal(err)
	}
	rows := prices[0]
	if len(rows) < 20 {
		t.Errorf("only %d rows", len(rows))
	}
	for name, row := range rows {
		got, ok := prices.Lookup(strings.Replace(name, "*", "99-99", 1))
		if !ok || got != row {
			t.Errorf("%s: got %+v, want %+v", name, got, row)
		}
		if row.CachedInput > row.Input || row.Output < row.Input {
			t.Errorf("%s: odd row %+v", name, row)
		}
	}
}

// TestLoadPrices_page checks that the prices in docs/models.md are a file of prices.
func TestLoadPrices_page(t *testing.T) {
	page, err := os.ReadFile("../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	prices, err := LoadPrices(writeFile(t, block))
	if err != nil {
		t.Fatal(err)
	}
	if p, known := prices.Lookup("claude-sonnet-4"); !known || p.Output != 15 {
		t.Errorf("got %+v, %t", p, known)
	}
}

func TestPrices_Lookup(t *testing.T) {
	own := writeFile(t, priceHead+"prices:\n  local-*: {input: 0, cached_input: 0, output: 0}\n"+
		"  gpt-4o*: {input: 1, cached_input: 1, output: 2}\n  gpt-4o-x: {input: 3, cached_input: 3, output: 4, max_input: 5}\n")
	withOwn, err := LoadPrices(own)
	if err != nil {
		t.Fatal(err)
	}
	builtin, err := LoadPrices("")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		prices Prices
		model  string
		input  float64 // below 0: not known
	}{
		"exact":                               {builtin, "gpt-4o", 2.5},
		"pattern":                             {builtin, "gpt-4o-2024-08-06", 2.5},
		"exact beats pattern":                 {builtin, "gpt-4o-2024-05-13", 5},
		"a relative is not known":             {builtin, "gpt-4o-audio-preview", -1},
		"capitals count":                      {builtin, "GPT-4o", -1},
		"a pattern is not a name":             {builtin, "gpt-4o-2024", -1},
		"empty":                               {builtin, "", -1},
		"own pattern before built-in exact":   {withOwn, "gpt-4o", 1},
		"own longest":                         {withOwn, "gpt-4o-x", 3},
		"own free":                            {withOwn, "local-llama", 0},
		"built-in where the own says nothing": {withOwn, "o3", 2},
		"zero value":                          {Prices{}, "gpt-4o", -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := tt.prices.Lookup(tt.model)
			if ok != (tt.input >= 0) || ok && got.Input != tt.input {
				t.Errorf("got %+v %v, want input %v", got, ok, tt.input)
			}
		})
	}
	if got, _ := withOwn.Lookup("gpt-4o-x"); got != (Price{Input: 3, CachedInput: 3, Output: 4, MaxInput: 5}) {
		t.Errorf("got %+v", got)
	}
}

func TestLoadPrices_problems(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"unknown key":      {priceHead + "prices:\n  m: {inputs: 1}\n", []string{"line 4", `unknown key "inputs"`, `did you mean "input"`}},
		"unknown top key":  {priceHead + "price: {}\n", []string{"line 3", `unknown key "price"`}},
		"negative":         {priceHead + "prices:\n  m: {input: -1, cached_input: 0, output: 0}\n", []string{"m: input is -1"}},
		"not a number":     {priceHead + "prices:\n  m: {input: .nan, cached_input: .inf, output: 0}\n", []string{"m: input is NaN", "m: cached_input is +Inf"}},
		"text":             {priceHead + "prices:\n  m: {input: free}\n", []string{"line 4", "where a number is expected"}},
		"all at once":      {"prices:\n  m: {input: 1}\n  a*b: {input: 1, cached_input: 1, output: 1}\n", []string{"as_of is", "source is missing", "cached_input is missing", "output is missing", "only at its end"}},
		"no border":        {priceHead + "prices:\n  m: {input: 1, cached_input: 1, output: 1, max_input: 0}\n", []string{"max_input is 0"}},
		"twice":            {priceHead + "prices:\n  m: {input: 1, cached_input: 1, output: 1}\n  m: {input: 1, cached_input: 1, output: 1}\n", []string{"line 5"}},
		"second document":  {priceHead + "---\nprices: {}\n", []string{"second"}},
		"empty":            {"", []string{"as_of is"}},
		"row is a number":  {priceHead + "prices:\n  m: 3\n", []string{"line 4", "keys with values"}},
		"row of null":      {priceHead + "prices:\n  m:\n", []string{"m: input is missing"}},
		"name with spaces": {priceHead + "prices:\n  ' m': {input: 1, cached_input: 1, output: 1}\n", []string{"space around"}},
		"long name":        {priceHead + "prices:\n  " + strings.Repeat("m", maxName+1) + ": {input: 1, cached_input: 1, output: 1}\n", []string{"at most 200 bytes"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, tt.text)
			_, err := LoadPrices(path)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(tt.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "configs.") {
				t.Errorf("%q speaks of Go", err)
			}
		})
	}
	if _, err := LoadPrices(filepath.Join(t.TempDir(), "missing.yaml")); err == nil {
		t.Error("a missing file is not an error")
	}
}

func FuzzLoadPrices(f *testing.F) {
	f.Add(string(pricesFile), "gpt-4o")
	f.Add(priceHead+"prices: {'*': {input: 1, cached_input: 1, output: 2}}", "x")
	f.Fuzz(func(t *testing.T, text, model string) {
		rows, err := parsePrices([]byte(text), "fuzz")
		if err != nil {
			return
		}
		price, ok := Prices{rows}.Lookup(model)
		if ok && (!(price.Input >= 0) || !(price.CachedInput >= 0) || !(price.Output >= 0)) {
			t.Fatalf("%+v was let through", price)
		}
	})
}
