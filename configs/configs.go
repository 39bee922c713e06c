// Package configs reads the YAML files that users write for an experiment, and contains the
// examples that they can copy and the built-in dataset. Only commands import it: every other
// package has its own Config.
package configs

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// maxSize is the most bytes of a configuration file.
const maxSize = 1 << 20

// Experiment is the file of --config. Every key is the flag of the same name with "_" for "-". A
// missing key means the default of the flag.
type Experiment struct {
	Dataset, Name, Model, Pipeline, Record, Prompt   string
	Temperature, Seed, Trials, Concurrency, RPM, TPM string
	Retries, Cache, Limit, Description, Output       string
	Timeout, Inconclusive, Environment               string // "90s"; fail, pass or 6; that of the traces
	Var, Item, Filter, Gate                          List
	Metadata                                         map[string]string

	PromptLabel     string `yaml:"prompt_label"`
	PromptVersion   string `yaml:"prompt_version"` // a number
	PromptFile      string `yaml:"prompt_file"`    // a path
	TwoStages       string `yaml:"two_stages"`
	TopP            string `yaml:"top_p"`
	MaxTokens       string `yaml:"max_tokens"`
	BudgetUSD       string `yaml:"budget_usd"`
	BudgetTokens    string `yaml:"budget_tokens"`
	MaxFailures     string `yaml:"max_failures"`     // "3" or "5%"
	PublishScores   string `yaml:"publish_scores"`   // "all", or names separated by commas
	PublishMentions string `yaml:"publish_mentions"` // true or false

	// Matrix makes the run a sweep. It has the values to try, by flag.
	Matrix map[string][]string
	// Scorers are external evaluators. Their scores are recorded beside the built-in ones.
	Scorers []Scorer
	// Scoring has the scoring options of docs/metrics.md by name.
	Scoring Scoring
	// Check has the settings of experiment check.
	Check Check
}

// Scoring has scoring options by name.
type Scoring map[string]any

// UnmarshalYAML reads a threshold as the text that the file has, since a float64 would round it.
func (s *Scoring) UnmarshalYAML(unmarshal func(any) error) error {
	var exact struct {
		Threshold *string
		Others    map[string]any `yaml:",inline"`
	}
	err := unmarshal((*map[string]any)(s))
	if err == nil && unmarshal(&exact) == nil && exact.Threshold != nil {
		(*s)["threshold"] = *exact.Threshold
	}
	return err
}

// Check has the settings of experiment check. Every key is the flag of the same name with "_" for
// "-".
type Check struct {
	Base, Inconclusive, Metric, Comment, JUnit, HTML string
	Gate                                             List

	CheckName      string `yaml:"check_name"`
	BaseMaxAge     string `yaml:"base_max_age"`
	RefreshBase    string `yaml:"refresh_base"` // the most that running the base again may cost, in dollars
	FailOn         string `yaml:"fail_on"`
	ClusterBy      string `yaml:"cluster_by"`
	CommentDetails string `yaml:"comment_details"`
}

// List is a list of texts. In a file, one text is a list of one.
type List []string

// UnmarshalYAML reads a text or a list of texts.
func (l *List) UnmarshalYAML(unmarshal func(any) error) error {
	var one string
	if unmarshal(&one) == nil {
		*l = List{one}
		return nil
	}
	return unmarshal((*[]string)(l))
}

// Lookup returns the value of a flag as Experiment.Lookup does.
func (c Check) Lookup(flag string) []string { return lookup(c, flag) }

// Scorer is one external evaluator: a script, an address, or a model that judges. Paths are
// relative to the folder of the file.
type Scorer struct {
	Name, URL, Model, Criteria, Prompt string
	Script                             []string
	Timeout                            string // of one evaluation, like "30s"
	// Env names environment variables that the script gets although they are secrets or settings of
	// this program, which are withheld otherwise.
	Env []string
	// Certificate is the path of a report that experiment conformance --output wrote.
	Certificate string

	PromptLabel   string `yaml:"prompt_label"`
	PromptVersion int    `yaml:"prompt_version"`
	PromptFile    string `yaml:"prompt_file"`
}

// LoadGiven reads the file at path, or if that is "", the file that the variable
// EXPERIMENT_CONFIG names. It returns the path of the file, or nothing if neither is set.
func LoadGiven(path string, getenv func(string) string) (e Experiment, from string, err error) {
	from = cmp.Or(path, getenv("EXPERIMENT_CONFIG"))
	if from != "" {
		e, err = Load(from)
	}
	if err != nil && path == "" {
		err = fmt.Errorf("EXPERIMENT_CONFIG: %w", err)
	}
	return e, from, err
}

// Load reads an experiment file. Unknown keys, values of the wrong type and a second document are
// errors that name file and line.
func Load(path string) (Experiment, error) {
	var e Experiment
	err := decode(path, &e, Scorer{}, Check{})
	return e, err
}

// decode reads a file of at most maxSize bytes with textutil.DecodeYAML.
func decode(path string, into any, rows ...any) error {
	text, err := files.Read(context.Background(), path, maxSize)
	if err != nil {
		return err
	}
	return textutil.DecodeYAML(text, path, into, rows...)
}

// Lookup returns the value of a flag in the file as the words of a command line, or nil if the
// file does not set it.
func (e Experiment) Lookup(flag string) []string { return lookup(e, flag) }

func lookup(settings any, flag string) []string {
	v := reflect.ValueOf(settings)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if cmp.Or(field.Tag.Get("yaml"), strings.ToLower(field.Name)) == strings.ReplaceAll(flag, "-", "_") {
			return flagValues(v.Field(i))
		}
	}
	return nil
}

func flagValues(v reflect.Value) []string {
	switch value := v.Interface().(type) {
	case string:
		if value != "" {
			return []string{value}
		}
	case List:
		return value
	case map[string]string:
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			pairs = append(pairs, key+"="+value[key])
		}
		return pairs
	}
	return nil
}

// Gate is a file of rules that a candidate must keep. Package compare reads the rules.
type Gate struct {
	// Metric is the primary score; "" is that of the runs.
	Metric string `yaml:"metric"`
	// Inconclusive is what an inconclusive rule counts as: fail, pass or 6.
	Inconclusive string `yaml:"inconclusive"`
	// MinDelta and MaxRegressions are nil if the file does not set them.
	MinDelta       *float64 `yaml:"min_delta"`
	MaxRegressions *int     `yaml:"max_regressions"`
	// Rules are texts like "entity_f1 >= base - 0.02".
	Rules []string `yaml:"rules"`
}

// LoadGate reads a file of rules in the form of gate.yaml. Unknown keys, values of the wrong type
// and a second document are errors that name file and line, and the rules that could be read are
// returned with them. A file without any rule is an error, too.
func LoadGate(path string) (Gate, error) {
	var g Gate
	if err := decode(path, &g); err != nil {
		return g, err // with the readable rules, so that the caller can check them, too
	}
	if len(g.Rules) == 0 && g.MinDelta == nil && g.MaxRegressions == nil {
		return Gate{}, fmt.Errorf("reading %s: it has no rules; give rules, min_delta or max_regressions", path)
	}
	return g, nil
}

// ScoringJSON returns the scoring options of the file as JSON, or {} if there are none.
func (e Experiment) ScoringJSON() ([]byte, error) { return optionsJSON(e.Scoring) }

func optionsJSON(options Scoring) ([]byte, error) {
	if len(options) == 0 {
		return []byte("{}"), nil
	}
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("reading the scoring options: %w", err)
	}
	return raw, nil
}

// LoadScoring reads a file of scoring options, YAML or JSON by its extension, and returns them as
// JSON. An empty YAML file has no options. A second document is an error. The scorer checks the
// names of the options.
func LoadScoring(path string) ([]byte, error) {
	text, err := files.Read(context.Background(), path, maxSize)
	if err != nil {
		return nil, err
	}
	if end := strings.ToLower(filepath.Ext(path)); end != ".yaml" && end != ".yml" {
		return text, nil
	}
	var options Scoring
	if err := textutil.DecodeYAML(text, path, &options); err != nil {
		return nil, err
	}
	return optionsJSON(options)
}

// SampleName is the name of the built-in dataset, in Langfuse and on the command line.
const SampleName = "extraction-eval"

// SampleDescription describes the built-in dataset in one line, for Langfuse.
const SampleDescription = "Invented documents in five languages, from two sentences to several pages, " +
	"annotated by hand with entities and relationships"

//go:embed sample/extraction-eval.jsonl
var sampleLines string

// OpenSample returns a reader of the built-in dataset extraction-eval, from its beginning:
// invented documents in several forms and languages, with the entities and relationships that a
// careful reader finds in them, annotated by hand. It is not a benchmark, since the items are few
// and public. configs/sample/README.md has the annotation guideline. Each reader is independent
// and needs no closing; OpenSample is safe for concurrent use.
func OpenSample() io.Reader {
	return strings.NewReader(sampleLines)
}

// Benchmark is the file of experiment answers benchmark, YAML or JSON.
type Benchmark struct {
	Name     string             `yaml:"name"`
	Datasets []BenchmarkDataset `yaml:"datasets"`
	// Runs is the number of runs of each dataset; 0 is 1.
	Runs int `yaml:"runs"`
	// OnError is best-effort (the default), to continue with the other datasets, or fail-fast.
	OnError string         `yaml:"on_error"`
	Gates   BenchmarkGates `yaml:"gates"`
}

// BenchmarkDataset is a document with its questions.
type BenchmarkDataset struct {
	ID, Kind, PDF, Questions string
	Weight                   *float64 // nil is 1
}

// BenchmarkGates are bounds on the result; nil is no bound.
type BenchmarkGates struct {
	MinScore       *float64 `yaml:"min_score"`       // of weighted_score
	MaxDrop        *float64 `yaml:"max_drop"`        // of weighted_score against the baseline
	MaxStddev      *float64 `yaml:"max_stddev"`      // of weighted_score over the runs
	MaxRegressions *int     `yaml:"max_regressions"` // number of questions that are worse than in the baseline
}

// WeightOrDefault returns the weight of the dataset.
func (d BenchmarkDataset) WeightOrDefault() float64 {
	return *cmp.Or(d.Weight, new(1.0))
}

// LoadBenchmark reads a benchmark file and makes the paths in it relative to the file. name is
// the name of the benchmark if the file has none. The error joins all problems, with the path of
// the file.
func LoadBenchmark(path, name string) (Benchmark, error) {
	var c Benchmark
	if err := decode(path, &c, BenchmarkDataset{}, BenchmarkGates{}); err != nil {
		return c, err
	}
	c.Name = cmp.Or(c.Name, name)
	if err := c.check(); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	for i := range c.Datasets {
		for _, file := range []*string{&c.Datasets[i].PDF, &c.Datasets[i].Questions} {
			*file = files.Resolve(filepath.Dir(path), *file)
		}
	}
	c.Runs = max(1, c.Runs)
	return c, nil
}

// datasetIDs matches ids that are valid in names of runs.
var datasetIDs = textutil.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$`)

func (c Benchmark) check() error {
	var problems textutil.Problems
	add := problems.Add
	add(c.Name == "", "name: is missing, here or as --name")
	add(c.Name != "" && !datasetIDs().MatchString(c.Name),
		"name: %q is not a name: letters, digits, . _ and -", c.Name)
	add(len(c.Datasets) == 0, "datasets: there is none")
	seen, weighted := map[string]bool{}, false
	for i, d := range c.Datasets {
		at, weight := fmt.Sprintf("datasets[%d]", i), d.WeightOrDefault()
		add(!datasetIDs().MatchString(d.ID), "%s.id: %q is not an id: letters, digits, . _ and -", at, d.ID)
		add(seen[d.ID], "%s.id: %q appears twice", at, d.ID)
		add(d.PDF == "" || d.Questions == "", "%s: pdf and questions are both needed", at)
		add(!(weight >= 0 && weight <= 1e6), "%s.weight: %g is not a number from 0 to 1e6", at, weight)
		seen[d.ID], weighted = true, weighted || weight != 0
	}
	add(len(c.Datasets) > 0 && !weighted, "datasets: the weights sum up to 0")
	add(c.Runs < 0 || c.Runs > 100, "runs: %d is not a number from 1 to 100", c.Runs)
	policies := []string{"", "best-effort", "fail-fast"}
	add(!slices.Contains(policies, c.OnError), "on_error: %q is neither best-effort nor fail-fast", c.OnError)
	checkBound := func(name string, given *float64) {
		bound := *cmp.Or(given, new(0.0))
		add(!(bound >= 0 && bound <= 1), "gates.%s: %g is not a number from 0 to 1", name, bound)
	}
	checkBound("max_drop", c.Gates.MaxDrop)
	checkBound("max_stddev", c.Gates.MaxStddev)
	checkBound("min_score", c.Gates.MinScore)
	most := *cmp.Or(c.Gates.MaxRegressions, new(0))
	add(most < 0, "gates.max_regressions: %d is negative", most)
	add(c.Gates.MaxStddev != nil && c.Runs < 2, "gates.max_stddev: one run does not vary: set runs to 2 or more")
	return errors.Join(problems...)
}
