package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/dataset"
	"extraction-experiment/evaluator"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// Label says what an evaluator must make of a fixture.
type Label string

// The labels.
const (
	// Pass must always score 1.
	Pass Label = "pass"
	// Fail must always score 0.
	Fail Label = "fail"
	// Ambiguous may vary within the bounds.
	Ambiguous Label = "ambiguous"
)

// Bounds are the least and the greatest score of an ambiguous fixture, both
// allowed.
type Bounds struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Fixture is one labelled case.
type Fixture struct {
	ID    string
	Label Label
	Case  evaluator.Case
	// Bounds of an ambiguous fixture; nil is not checked.
	Bounds *Bounds
}

// Spec says which evaluator a file of fixtures is for: a script, an address, a
// model with its prompt, or a score of the project's own catalogue.
type Spec struct {
	Script []string
	URL    string
	Model  string
	Scorer string

	Prompt, PromptLabel, PromptFile string
	PromptVersion                   int

	// Env names variables of the environment that a script is to have although
	// they hold keys and the like, or steer this program.
	Env []string
	// Line of the file is where the evaluator is named; 0 of other files.
	Line int
}

// Set is a file of fixtures.
type Set struct {
	Path      string
	Evaluator Spec
	Fixtures  []Fixture
	// Warnings are reasons to read the result with care.
	Warnings []string
}

// The limits of a file of fixtures.
const (
	maxFile     = 16 << 20 // bytes
	maxFixtures = 10_000
)

// Read reads a file of fixtures, YAML or JSON. The error has exit code 64 and
// lists everything that is wrong, with file and line; unknown keys, duplicate
// ids and YAML aliases are wrong too.
func Read(path string) (Set, error) {
	text, err := files.Read(context.Background(), path, maxFile)
	if err != nil {
		return Set{}, cli.Usage("reading the fixtures: %w", err)
	}
	return Parse(path, text)
}

// Parse reads the text of a file of fixtures; see Read.
func Parse(path string, text []byte) (Set, error) {
	var document, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	if err := documents.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return Set{}, cli.Usage("reading %s: %w", path, err)
	}
	r := &reader{path: path}
	if err := documents.Decode(&second); !errors.Is(err, io.EOF) {
		r.problem(max(second.Line, 1), "there is a second document (---), or what is none: put everything into one")
	}
	set := Set{Path: path}
	if len(document.Content) == 0 {
		return Set{}, cli.Usage("reading %s: it is empty; it needs evaluator and fixtures", path)
	}
	top := r.mapping(document.Content[0], "the file")
	set.Evaluator = r.spec(top)
	set.Fixtures = r.fixtures(top, document.Content[0].Line)
	top.end([]string{"evaluator", "fixtures"})
	set.Warnings = r.warnings
	if err := r.problems.Err(); err != nil {
		return Set{}, err
	}
	return set, nil
}

func (r *reader) spec(top fields) Spec {
	node := top.take("evaluator")
	if node == nil {
		r.problem(top.line, "evaluator is missing: give it a script, url, model or scorer")
		return Spec{}
	}
	f := r.mapping(node, "evaluator")
	script := f.take("script", "command")
	s := Spec{
		URL: f.text("url"), Model: f.text("model"), Scorer: f.text("scorer"),
		Prompt: f.text("prompt"), PromptLabel: f.text("prompt_label"), PromptFile: f.text("prompt_file"),
	}
	s.Env, s.Line = f.texts("env"), node.Line
	if script != nil {
		s.Script = r.texts(script, "evaluator.script")
	}
	if text := f.text("prompt_version"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			r.problem(node.Line, "evaluator.prompt_version: %q is no version", text)
		}
		s.PromptVersion = n
	}
	f.end([]string{"script", "command", "url", "model", "scorer", "prompt", "prompt_label", "prompt_version", "prompt_file", "env"})
	named := 0
	for _, is := range []bool{script != nil, s.URL != "", s.Model != "", s.Scorer != ""} {
		if is {
			named++
		}
	}
	switch {
	case named != 1:
		r.problem(node.Line, "evaluator: give exactly one of script, url, model and scorer")
	case script != nil && (len(s.Script) == 0 || s.Script[0] == ""):
		r.problem(script.Line, "evaluator.script: it names no program; write [program, argument, …]")
	}
	return s
}

func (r *reader) fixtures(top fields, line int) []Fixture {
	node := top.take("fixtures")
	if node == nil || node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		if node != nil {
			line = node.Line
		}
		r.problem(line, "fixtures: expected a list of at least one fixture")
		return nil
	}
	if len(node.Content) > maxFixtures {
		r.problem(node.Line, "fixtures: %d are more than %d", len(node.Content), maxFixtures)
		return nil
	}
	seen := map[string]int{}
	var list []Fixture
	for _, one := range node.Content {
		f := r.fixture(one)
		if first, twice := seen[f.ID]; twice && f.ID != "" {
			r.problem(one.Line, "the id %q is used by the fixture of line %d already", f.ID, first)
		}
		seen[f.ID] = one.Line
		list = append(list, f)
	}
	return list
}

func (r *reader) fixture(node *yaml.Node) Fixture {
	f := r.mapping(node, "a fixture")
	one := Fixture{ID: f.text("id"), Label: Label(f.text("label"))}
	if one.ID == "" {
		r.problem(node.Line, "the fixture has no id")
	}
	if !slices.Contains([]Label{Pass, Fail, Ambiguous}, one.Label) {
		r.problem(node.Line, "fixture %q: the label %q is none of pass, fail, ambiguous", one.ID, one.Label)
	}
	answer := f.take("candidate_answer", "answer")
	if answer == nil && node.Kind == yaml.MappingNode {
		r.problem(node.Line, "fixture %q: candidate_answer is missing (an empty text is an answer)", one.ID)
	}
	one.Case = evaluator.Case{
		Question: f.text("question"), Criteria: f.text("criteria"),
		Reference: f.text("expected_output", "reference_answer"), Candidate: r.scalar(answer, "candidate_answer"),
		InputFiles: f.texts("input_files"), GuidelineFiles: f.texts("guideline_files"),
	}
	one.Bounds = r.bounds(one, f.take("score_bounds"))
	if one.Label == Ambiguous && one.Bounds == nil {
		r.warn("fixture %q is ambiguous and has no score_bounds: no score can fail it", one.ID)
	}
	f.end([]string{"id", "label", "question", "criteria", "expected_output", "reference_answer", "candidate_answer", "answer", "score_bounds", "input_files", "guideline_files"})
	return one
}

// bounds reads [low, high] or {min, max}.
func (r *reader) bounds(one Fixture, node *yaml.Node) *Bounds {
	if node == nil {
		return nil
	}
	if one.Label != Ambiguous {
		r.warn("fixture %q has the label %s: its score_bounds are not used", one.ID, one.Label)
	}
	var pair []float64
	var named struct {
		Min *float64 `yaml:"min"`
		Max *float64 `yaml:"max"`
	}
	switch {
	case node.Kind == yaml.SequenceNode && node.Decode(&pair) == nil && len(pair) == 2:
	case node.Kind == yaml.MappingNode && node.Decode(&named) == nil && named.Min != nil && named.Max != nil:
		pair = []float64{*named.Min, *named.Max}
	default:
		r.problem(node.Line, "fixture %q: score_bounds: expected two numbers such as [0.2, 0.8]", one.ID)
		return nil
	}
	if !(pair[0] >= 0 && pair[0] <= pair[1] && pair[1] <= 1) {
		r.problem(node.Line, "fixture %q: score_bounds: %v are not two numbers from 0 to 1, the smaller first", one.ID, pair)
		return nil
	}
	return &Bounds{pair[0], pair[1]}
}

// reader takes a YAML tree apart and collects what is wrong with it.
type reader struct {
	path     string
	problems dataset.Problems
	warnings []string
}

func (r *reader) problem(line int, format string, args ...any) {
	r.problems.Add(&dataset.SyntaxError{File: r.path, Line: line, Msg: fmt.Sprintf(format, args...)})
}

func (r *reader) warn(format string, args ...any) {
	const most = 100
	if len(r.warnings) < most {
		r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
	}
}

// fields are the keys of one mapping that nobody has taken yet.
type fields struct {
	r    *reader
	name string
	line int
	left map[string]*yaml.Node
	keys []*yaml.Node
}

// mapping opens a mapping; anything else is a problem and reads as empty.
func (r *reader) mapping(node *yaml.Node, name string) fields {
	f := fields{r: r, name: name, line: node.Line, left: map[string]*yaml.Node{}}
	if node.Kind != yaml.MappingNode {
		r.problem(node.Line, "%s: expected keys with values", name)
		return f
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if _, twice := f.left[key.Value]; twice {
			r.problem(key.Line, "%s: the key %q is there twice", name, key.Value)
		}
		f.left[key.Value] = node.Content[i+1]
		f.keys = append(f.keys, key)
	}
	return f
}

// take returns the value of the first of these keys that is there and not null.
func (f fields) take(keys ...string) *yaml.Node {
	var found *yaml.Node
	for _, key := range keys {
		node := f.left[key]
		delete(f.left, key)
		if found == nil && node != nil && node.Tag != "!!null" {
			found = node
		}
	}
	return found
}

func (f fields) text(keys ...string) string { return f.r.scalar(f.take(keys...), keys[0]) }

func (f fields) texts(key string) []string {
	node := f.take(key)
	if node == nil {
		return nil
	}
	return f.r.texts(node, key)
}

// end names the keys that nobody took; known are those that might be meant.
func (f fields) end(known []string) {
	for _, key := range f.keys {
		if _, left := f.left[key.Value]; left {
			delete(f.left, key.Value)
			f.r.problem(key.Line, "%s: unknown key %q%s", f.name, key.Value, textutil.Hint(key.Value, known))
		}
	}
}

// scalar reads a text; numbers and booleans are read as they are spelled.
func (r *reader) scalar(node *yaml.Node, name string) string {
	switch {
	case node == nil:
		return ""
	case node.Kind == yaml.AliasNode:
		r.problem(node.Line, "%s: aliases are not read", name)
		return ""
	case node.Kind != yaml.ScalarNode:
		r.problem(node.Line, "%s: expected a text", name)
		return ""
	}
	return node.Value
}

func (r *reader) texts(node *yaml.Node, name string) []string {
	if node.Kind != yaml.SequenceNode {
		r.problem(node.Line, "%s: expected a list of texts", name)
		return nil
	}
	list := []string{}
	for _, one := range node.Content {
		list = append(list, r.scalar(one, name))
	}
	return list
}
