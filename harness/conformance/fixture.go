package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/dataset"
	"extraction-experiment/evaluator"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// Label is the demand on the scores of a fixture.
type Label string

// Labels of fixtures.
const (
	// Pass: every score must be 1.
	Pass Label = "pass"
	// Fail: every score must be 0.
	Fail Label = "fail"
	// Ambiguous: scores may vary within the bounds.
	Ambiguous Label = "ambiguous"
)

// Bounds are the least and the greatest allowed score of an ambiguous fixture.
type Bounds struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Fixture is one labelled case.
type Fixture struct {
	ID    string
	Label Label
	Case  evaluator.Case
	// Bounds are those of an ambiguous fixture; nil allows every score.
	Bounds *Bounds
}

// Spec is the evaluator of a file of fixtures: a script, an address, a model with its prompt, or
// a score of this project.
type Spec struct {
	Script  []string `yaml:"script"`
	Command []string `yaml:"command"` // the same as Script
	URL     string   `yaml:"url"`
	Model   string   `yaml:"model"`
	Scorer  string   `yaml:"scorer"`

	Prompt        string `yaml:"prompt"`
	PromptLabel   string `yaml:"prompt_label"`
	PromptFile    string `yaml:"prompt_file"`
	PromptVersion int    `yaml:"prompt_version"`

	// Env names environment variables that the script gets although they are secrets or settings
	// of this program, which are withheld otherwise.
	Env []string `yaml:"env"`
	// Line is the line of the evaluator in the file; 0 if the Spec was not read by Parse.
	Line int `yaml:"-"`
}

// Set is a file of fixtures.
type Set struct {
	Path      string
	Evaluator Spec
	Fixtures  []Fixture
	// Warnings are reasons why the result may be misleading.
	Warnings []string
}

// Limits of a file of fixtures.
const (
	maxFile     = 16 << 20 // bytes
	maxFixtures = 10_000
)

// Read reads a file of fixtures, YAML or JSON. The error has exit code 64 and lists all problems
// with file and line. Unknown keys and duplicate ids are problems.
func Read(path string) (Set, error) {
	text, err := files.Read(context.Background(), path, maxFile)
	if err != nil {
		return Set{}, cli.Usage("reading the fixtures: %w", err)
	}
	return Parse(path, text)
}

// file is the form of a file of fixtures.
type file struct {
	Evaluator Spec         `yaml:"evaluator"`
	Fixtures  []fixtureRow `yaml:"fixtures"`
}

type fixtureRow struct {
	ID              string    `yaml:"id"`
	Label           string    `yaml:"label"`
	Question        string    `yaml:"question"`
	Criteria        string    `yaml:"criteria"`
	ExpectedOutput  string    `yaml:"expected_output"`
	ReferenceAnswer string    `yaml:"reference_answer"` // the same as expected_output
	CandidateAnswer *string   `yaml:"candidate_answer"`
	Answer          *string   `yaml:"answer"` // the same as candidate_answer
	ScoreBounds     []float64 `yaml:"score_bounds"`
	InputFiles      []string  `yaml:"input_files"`
	GuidelineFiles  []string  `yaml:"guideline_files"`
}

// Parse reads the text of a file of fixtures as Read does. path is for messages.
func Parse(path string, text []byte) (Set, error) {
	var f file
	var lines struct { // the positions of the values in f
		Evaluator yaml.Node
		Fixtures  []yaml.Node
	}
	r := &parser{path: path}
	r.problems.Add(textutil.DecodeYAML(text, path, &f, Spec{}, fixtureRow{}))
	if err := yaml.Unmarshal(text, &lines); err != nil || len(lines.Fixtures) != len(f.Fixtures) {
		if cmp.Or(r.problems.Err(), err) == nil {
			r.problem(1, "fixtures: an entry of the list is empty")
		}
		return Set{}, cmp.Or(r.problems.Err(), err)
	}
	set := Set{Path: path, Evaluator: r.spec(f.Evaluator, max(lines.Evaluator.Line, 1))}
	if len(f.Fixtures) == 0 || len(f.Fixtures) > maxFixtures {
		r.problem(1, "fixtures: expected a list of at least one and at most %d fixtures", maxFixtures)
		f.Fixtures = nil
	}
	first := map[string]int{}
	for i, row := range f.Fixtures {
		line := lines.Fixtures[i].Line
		if earlier, duplicate := first[row.ID]; duplicate && row.ID != "" {
			r.problem(line, "the id %q is used by the fixture of line %d already", row.ID, earlier)
		}
		first[row.ID] = line
		set.Fixtures = append(set.Fixtures, r.fixture(row, line))
	}
	if err := r.problems.Err(); err != nil {
		return Set{}, err
	}
	set.Warnings = r.warnings
	return set, nil
}

func (r *parser) spec(s Spec, line int) Spec {
	if !textutil.ExactlyOne(len(s.Script) > 0, len(s.Command) > 0, s.URL != "", s.Model != "", s.Scorer != "") {
		r.problem(line, "evaluator: give exactly one of script (or command), url, model and scorer")
	}
	s.Script, s.Line = append(s.Script, s.Command...), line
	return s
}

func (r *parser) fixture(row fixtureRow, line int) Fixture {
	candidate := cmp.Or(row.CandidateAnswer, row.Answer)
	if row.ID == "" {
		r.problem(line, "the fixture has no id")
	}
	label := Label(row.Label)
	if !slices.Contains([]Label{Pass, Fail, Ambiguous}, label) {
		r.problem(line, "fixture %q: the label %q is not one of pass, fail, ambiguous", row.ID, row.Label)
	}
	if row.CandidateAnswer != nil && row.Answer != nil {
		r.problem(line, "fixture %q: candidate_answer and answer are two names of one key: give one", row.ID)
	}
	if row.ExpectedOutput != "" && row.ReferenceAnswer != "" {
		r.problem(line, "fixture %q: expected_output and reference_answer are two names of one key: give one", row.ID)
	}
	if candidate == nil {
		r.problem(line, "fixture %q: candidate_answer is missing (an empty text is an answer)", row.ID)
		candidate = new(string)
	}
	fixture := Fixture{ID: row.ID, Label: label, Case: evaluator.Case{
		Question: row.Question, Criteria: row.Criteria, Reference: cmp.Or(row.ExpectedOutput, row.ReferenceAnswer), Candidate: *candidate,
		InputFiles: row.InputFiles, GuidelineFiles: row.GuidelineFiles,
	}}
	switch b := row.ScoreBounds; {
	case b == nil && fixture.Label == Ambiguous:
		r.warn("fixture %q is ambiguous and has no score_bounds: no score can fail it", fixture.ID)
	case b == nil:
	case len(b) != 2 || !(b[0] >= 0 && b[0] <= b[1] && b[1] <= 1):
		r.problem(line, "fixture %q: score_bounds: %v are not two numbers from 0 to 1, the smaller first", fixture.ID, b)
	case fixture.Label != Ambiguous:
		r.warn("fixture %q has the label %s: its score_bounds are not used", fixture.ID, fixture.Label)
	default:
		fixture.Bounds = &Bounds{b[0], b[1]}
	}
	return fixture
}

// parser collects the problems and warnings of a file.
type parser struct {
	path     string
	problems dataset.Problems
	warnings []string
}

func (r *parser) problem(line int, format string, args ...any) {
	r.problems.Add(&dataset.SyntaxError{File: r.path, Line: line, Msg: fmt.Sprintf(format, args...)})
}

func (r *parser) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}
