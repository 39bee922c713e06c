// Package configs reads the YAML files that people write for an experiment,
// and carries the ones that they may copy. Only commands know it: every other
// package has a Config of its own.
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
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// maxSize bounds a configuration file; larger ones are a mistake or an attack.
const maxSize = 1 << 20

// Experiment is the file given to --config. Every key is the flag of the same
// name, with "_" for "-"; what is left out has the flag's default.
type Experiment struct {
	Dataset, Name, Model, Pipeline, Record, Prompt   string
	Temperature, Seed, Trials, Concurrency, RPM, TPM string
	Retries, Cache, Limit, Description, Output       string
	Timeout, Inconclusive, Environment               string // as "90s"; fail, pass or 6; of traces
	Var, Item, Filter, Gate                          []string
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
	PublishScores   string `yaml:"publish_scores"`   // "all", or names with commas between
	PublishMentions string `yaml:"publish_mentions"` // true or false

	// Matrix makes a sweep: by flag, the values to try.
	Matrix map[string][]string
	// Scorers are external evaluators whose scores are recorded beside the
	// built-in ones.
	Scorers []Scorer
	// Scoring holds the options of docs/metrics.md by name.
	Scoring map[string]any
	// Check is what experiment check does with the run.
	Check Check
}

// Check is what experiment check does with a run. Every key is the flag of the same
// name, with "_" for "-".
type Check struct {
	Base, Inconclusive, Metric, Comment, JUnit, HTML string
	Gate                                             []string

	CheckName      string `yaml:"check_name"`
	BaseMaxAge     string `yaml:"base_max_age"`
	RefreshBase    string `yaml:"refresh_base"` // dollars that running the base again may cost
	FailOn         string `yaml:"fail_on"`
	ClusterBy      string `yaml:"cluster_by"`
	CommentDetails string `yaml:"comment_details"`
}

// Lookup is as that of Experiment.
func (c Check) Lookup(flag string) []string { return lookup(c, flag) }

// Scorer is one external evaluator: a script, an address or a model that
// judges. Paths are relative to the folder of the file.
type Scorer struct {
	Name, URL, Model, Criteria, Prompt string
	Script                             []string
	Timeout                            string // of one evaluation, as "30s"
	// Env names variables of the environment that a script is to have although
	// they hold keys and the like, or steer this program.
	Env []string
	// Certificate is the report that experiment conformance --output wrote.
	Certificate string

	PromptLabel   string `yaml:"prompt_label"`
	PromptVersion int    `yaml:"prompt_version"`
	PromptFile    string `yaml:"prompt_file"`
}

// LoadGiven reads the file that --config names, else the variable EXPERIMENT_CONFIG, and
// returns its path; nothing where neither does.
func LoadGiven(path string, getenv func(string) string) (e Experiment, from string, err error) {
	path = cmp.Or(path, getenv("EXPERIMENT_CONFIG"))
	if path != "" {
		e, err = Load(path)
	}
	return e, path, err
}

// Load reads an experiment file. Unknown keys, values of the wrong kind and a
// second document are errors that name file and line.
func Load(path string) (Experiment, error) {
	var e Experiment
	err := decode(path, &e, Scorer{}, Check{})
	return e, err
}

// decode reads a file as textutil.DecodeYAML does.
func decode(path string, into any, rows ...any) error {
	text, err := files.Read(context.Background(), path, maxSize)
	if err != nil {
		return err
	}
	return textutil.DecodeYAML(text, path, into, rows...)
}

// Lookup returns what the file says of a flag, as the words that one would
// give on the command line; nil if it says nothing.
func (e Experiment) Lookup(flag string) []string { return lookup(e, flag) }

func lookup(of any, flag string) []string {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if cmp.Or(field.Tag.Get("yaml"), strings.ToLower(field.Name)) == strings.ReplaceAll(flag, "-", "_") {
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

// Gate is a file of rules that a candidate must keep to, as a repository keeps
// it. What a rule means, package compare knows.
type Gate struct {
	// Metric is the primary score; "" leaves it to the runs.
	Metric string `yaml:"metric"`
	// Inconclusive says what an inconclusive rule counts as: fail, pass or 6.
	Inconclusive string `yaml:"inconclusive"`
	// MinDelta and MaxRegressions are nil when the file does not say.
	MinDelta       *float64 `yaml:"min_delta"`
	MaxRegressions *int     `yaml:"max_regressions"`
	// Rules are texts such as "entity_f1 >= base - 0.02".
	Rules []string `yaml:"rules"`
}

// maxRules bounds the rules of one file.
const maxRules = 1000

// LoadGate reads a file of rules in the form of gate.yaml. Unknown keys, values
// of the wrong kind, a second document and a file without any rule are errors
// that name file and line; the rules that could be read are returned with them.
func LoadGate(path string) (Gate, error) {
	var g Gate
	if err := decode(path, &g); err != nil {
		return g, err // with what could be read, so that the caller finds what else is wrong
	}
	switch {
	case len(g.Rules) == 0 && g.MinDelta == nil && g.MaxRegressions == nil:
		return Gate{}, fmt.Errorf("reading %s: it has no rules; give rules, min_delta or max_regressions", path)
	case len(g.Rules) > maxRules:
		return Gate{}, fmt.Errorf("reading %s: %d rules are more than %d", path, len(g.Rules), maxRules)
	case g.MinDelta != nil && (math.IsNaN(*g.MinDelta) || math.IsInf(*g.MinDelta, 0)):
		return Gate{}, fmt.Errorf("reading %s: min_delta is not a finite number", path)
	}
	return g, nil
}

// ScoringJSON returns the scoring options of the file as JSON; {} if it has none.
func (e Experiment) ScoringJSON() ([]byte, error) {
	return optionsJSON(e.Scoring, "the scoring options")
}

// optionsJSON writes options as JSON; where begins the error.
func optionsJSON(options map[string]any, where string) ([]byte, error) {
	if len(options) == 0 {
		return []byte("{}"), nil
	}
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return raw, nil
}

// LoadScoring reads a file of scoring options, in YAML or JSON by its ending,
// and returns it as JSON; an empty file of YAML has none of them. A second
// document is an error. Which options there are, the scorer knows.
func LoadScoring(path string) ([]byte, error) {
	text, err := files.Read(context.Background(), path, maxSize)
	if err != nil {
		return nil, err
	}
	if end := strings.ToLower(filepath.Ext(path)); end != ".yaml" && end != ".yml" {
		return text, nil
	}
	var options map[string]any
	if err := textutil.DecodeYAML(text, path, &options); err != nil {
		return nil, err
	}
	return optionsJSON(options, "reading "+path)
}

// SampleName is the name of the dataset, in Langfuse and on the command line.
const SampleName = "extraction-eval"

// SampleDescription says in one line what the dataset is; it is what Langfuse shows
// beside the name.
const SampleDescription = "Invented documents in five languages, from two sentences to several pages, " +
	"annotated by hand with entities and relationships"

// SampleFile is the name of the data file in configs/sample.
const SampleFile = "extraction-eval.jsonl"

//go:embed sample/extraction-eval.jsonl
var sampleLines string

// OpenSample returns a reader of the built-in dataset extraction-eval: invented documents
// in several forms and languages, annotated by hand with the entities and relationships
// that a careful reader finds in them. It is not a benchmark: the items are few and public.
// The README in configs/sample is the annotation guideline. It reads the whole dataset from its beginning. Every call
// returns a reader of its own, which needs no closing; safe for concurrent use.
func OpenSample() io.Reader {
	return strings.NewReader(sampleLines)
}

// Benchmark is the file of "answers benchmark", YAML or JSON.
type Benchmark struct {
	Name     string             `yaml:"name"`
	Datasets []BenchmarkDataset `yaml:"datasets"`
	// Runs is how often each dataset is run; 0 means once.
	Runs int `yaml:"runs"`
	// OnError is best-effort (the default): the other datasets go on; or
	// fail-fast.
	OnError string         `yaml:"on_error"`
	Gates   BenchmarkGates `yaml:"gates"`
}

// BenchmarkDataset is one document with its questions.
type BenchmarkDataset struct {
	ID, Kind, PDF, Questions string
	Weight                   *float64 // nil is 1
}

// BenchmarkGates are bounds; a nil one asks for nothing.
type BenchmarkGates struct {
	MinScore       *float64 `yaml:"min_score"`       // of weighted_score
	MaxDrop        *float64 `yaml:"max_drop"`        // of weighted_score against the baseline
	MaxStddev      *float64 `yaml:"max_stddev"`      // of weighted_score over the runs
	MaxRegressions *int     `yaml:"max_regressions"` // questions that are worse than in the baseline
}

// Weighted is the weight of the dataset.
func (d BenchmarkDataset) Weighted() float64 {
	if d.Weight == nil {
		return 1
	}
	return *d.Weight
}

// LoadBenchmark reads a configuration; paths in it are relative to the file.
// Every problem is returned at once, with the file's name.
// The name may stand in for that of the file.
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
			*file = files.In(filepath.Dir(path), *file)
		}
	}
	c.Runs = max(1, c.Runs)
	return c, nil
}

// datasetIDs are fit for names of runs.
var datasetIDs = textutil.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$`)

func (c Benchmark) check() error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		add("name: is missing, here or as --name")
	} else if !datasetIDs().MatchString(c.Name) {
		add("name: %q is not a name: letters, digits, . _ and -", c.Name)
	}
	if len(c.Datasets) == 0 {
		add("datasets: there is none")
	}
	seen, total := map[string]bool{}, 0.0
	for i, d := range c.Datasets {
		at := fmt.Sprintf("datasets[%d]", i)
		if !datasetIDs().MatchString(d.ID) {
			add("%s.id: %q is not an id: letters, digits, . _ and -", at, d.ID)
		}
		if seen[d.ID] {
			add("%s.id: %q appears twice", at, d.ID)
		}
		seen[d.ID] = true
		if d.PDF == "" || d.Questions == "" {
			add("%s: pdf and questions are both needed", at)
		}
		if w := d.Weighted(); !(w >= 0 && w <= 1e6) {
			add("%s.weight: %g is not a number from 0 to 1e6", at, w)
		} else {
			total += w
		}
	}
	if len(c.Datasets) > 0 && total == 0 {
		add("datasets: the weights sum up to 0")
	}
	if c.Runs < 0 || c.Runs > 100 {
		add("runs: %d is not a number from 1 to 100", c.Runs)
	}
	if c.OnError != "" && c.OnError != "best-effort" && c.OnError != "fail-fast" {
		add("on_error: %q is neither best-effort nor fail-fast", c.OnError)
	}
	bounds := map[string]*float64{"min_score": c.Gates.MinScore, "max_drop": c.Gates.MaxDrop, "max_stddev": c.Gates.MaxStddev}
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		if value := bounds[name]; value != nil && !(*value >= 0 && *value <= 1) {
			add("gates.%s: %g is not a number from 0 to 1", name, *value)
		}
	}
	if most := c.Gates.MaxRegressions; most != nil && *most < 0 {
		add("gates.max_regressions: %d is negative", *most)
	}
	if c.Gates.MaxStddev != nil && c.Runs < 2 {
		add("gates.max_stddev: one run does not vary: set runs to 2 or more")
	}
	return errors.Join(problems...)
}
