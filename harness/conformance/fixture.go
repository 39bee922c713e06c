package conformance

import (
	"extraction-experiment/evaluator"
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
