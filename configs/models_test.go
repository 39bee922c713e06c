package configs

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/pipeline"
)

var providers = []string{"openai", "gemini"}

// TestModel_capabilities checks that Model has the fields of pipeline.Capabilities.
func TestModel_capabilities(t *testing.T) {
	fields := func(s reflect.Type) (names []string) {
		for _, field := range reflect.VisibleFields(s) {
			if field.Name != "Provider" {
				names = append(names, field.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff(fields(reflect.TypeFor[pipeline.Capabilities]()), fields(reflect.TypeFor[Model]())); diff != "" {
		t.Error(diff)
	}
}

// TestLoadModels_builtin checks that every built-in row is found by a name that matches it, and
// has a provider.
func TestLoadModels_builtin(t *testing.T) {
	models, err := LoadModels("", providers)
	if err != nil {
		t.Fatal(err)
	}
	if len(models[0]) < 10 {
		t.Errorf("only %d rows", len(models[0]))
	}
	for name, row := range models[0] {
		got, ok := models.Lookup(strings.Replace(name, "*", "-x", 1))
		if !ok || got.Provider == "" {
			t.Errorf("%s: got %+v, %v: every name belongs to a provider", name, got, ok)
		}
		row.Provider = got.Provider
		if got != row {
			t.Errorf("%s: got %+v, want %+v", name, got, row)
		}
	}
}

func TestModels_Lookup(t *testing.T) {
	reasons := Model{Provider: "openai", NoTemperature: true, NoTopP: true, MaxCompletionTokens: true}
	noSchema := reasons
	noSchema.NoSchema = true
	builtin, err := LoadModels("", providers)
	if err != nil {
		t.Fatal(err)
	}
	own, err := LoadModels(writeFile(t, "models:\n  gpt-5*: {no_seed: true}\n  deploy-1: {provider: openai, max_completion_tokens: true}\n  '*': {provider: gemini, no_schema: true}\n"), providers)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		models Models
		name   string
		want   Model // zero: not known
	}{
		"plain":                         {builtin, "gpt-4o", Model{Provider: "openai"}},
		"exact without a provider":      {builtin, "gpt-4", Model{Provider: "openai", NoSchema: true}},
		"gpt-4.1 is not a gpt-4":        {builtin, "gpt-4.1", Model{Provider: "openai"}},
		"reasons":                       {builtin, "gpt-5-mini", reasons},
		"reasons only if asked to":      {builtin, "gpt-5.1", Model{Provider: "openai", MaxCompletionTokens: true}},
		"the same, dated":               {builtin, "gpt-5.4-mini-2026-03-17", Model{Provider: "openai", MaxCompletionTokens: true}},
		"never reasons":                 {builtin, "gpt-5-chat-latest", Model{Provider: "openai", MaxCompletionTokens: true}},
		"reasons again":                 {builtin, "gpt-5.5", reasons},
		"another of that number":        {builtin, "gpt-5.1-codex", reasons},
		"o3":                            {builtin, "o3", reasons},
		"longest":                       {builtin, "o1-mini-2024-09-12", noSchema},
		"gemini ignores temperatures":   {builtin, "gemini-3.6-flash", Model{Provider: "gemini", NoTemperature: true, NoTopP: true}},
		"gemini did not":                {builtin, "gemini-3.5-flash", Model{Provider: "gemini"}},
		"gemini":                        {builtin, "gemini-1.5-pro", Model{Provider: "gemini"}},
		"not known":                     {builtin, "llama3", Model{}},
		"empty":                         {builtin, "", Model{}},
		"own row replaces capabilities": {own, "deploy-1", Model{Provider: "openai", MaxCompletionTokens: true}},
		"own catch-all before built-in": {own, "gemini-1.5-pro", Model{Provider: "gemini", NoSchema: true}},
		"own provider for a silent row": {own, "gpt-5", Model{Provider: "gemini", NoSeed: true}},
		"zero value":                    {Models{}, "gpt-4o", Model{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := tt.models.Lookup(tt.name)
			if got != tt.want || ok != (tt.want != Model{}) {
				t.Errorf("got %+v %v, want %+v", got, ok, tt.want)
			}
		})
	}
}

func TestLoadModels_problems(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"unknown key":     {"models:\n  m: {no_temprature: true}\n", []string{"line 2", `did you mean "no_temperature"`}},
		"wrong kind":      {"models:\n  m: {no_seed: often}\n", []string{"line 2", "true or false"}},
		"wrong provider":  {"models:\n  m: {provider: acme}\n  a*b: {}\n", []string{`m: the provider is "acme"`, "only at its end"}},
		"twice":           {"models:\n  m: {}\n  m: {}\n", []string{"line 3"}},
		"a list":          {"models: [m]\n", []string{"line 1", "keys with values"}},
		"second document": {"models: {}\n---\nmodels: {}\n", []string{"second"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, tt.text)
			_, err := LoadModels(path, providers)
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
	if _, err := LoadModels("no/such/file.yaml", providers); err == nil {
		t.Error("a missing file is not an error")
	}
	if _, err := LoadModels(writeFile(t, ""), providers); err != nil {
		t.Errorf("an empty file says nothing, which is allowed: %v", err)
	}
}

func FuzzLoadModels(f *testing.F) {
	f.Add(string(modelsFile), "gpt-4o")
	f.Add("models: {'*': {provider: openai}}", "x")
	f.Fuzz(func(t *testing.T, text, name string) {
		rows, err := parseModels([]byte(text), "fuzz", providers)
		if err != nil {
			return
		}
		Models{rows}.Lookup(name)
	})
}
