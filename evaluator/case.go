package evaluator

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Case is what an evaluator judges. Every field may be empty.
type Case struct {
	Question  string // what was asked
	Criteria  string // what a good answer does
	Candidate string // the answer that is judged
	Reference string // the answer that is expected

	InputFiles, GuidelineFiles []string

	// Item is set where the case is an item of an experiment.
	Item *Item
}

// Item is the dataset item behind a case, as JSON.
type Item struct {
	ID        string          `json:"id"`
	Input     json.RawMessage `json:"input,omitempty"`
	Expected  json.RawMessage `json:"expected,omitempty"`
	Extracted json.RawMessage `json:"extracted,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// request is the wire form: the names of the first generation, then those of
// the second; an evaluator reads the ones it knows.
type request struct {
	Question         string    `json:"question"`
	Criteria         string    `json:"criteria"`
	CandidateAnswer  string    `json:"candidate_answer"`
	ReferenceAnswer  string    `json:"reference_answer"`
	ExpectedMessages []message `json:"expected_messages"`
	InputMessages    []message `json:"input_messages"`
	OutputMessages   []message `json:"output_messages"`
	GuidelineFiles   []string  `json:"guideline_files"`
	InputFiles       []string  `json:"input_files"`

	Input          []message `json:"input"`
	Output         []message `json:"output"`
	Answer         string    `json:"answer"`
	ExpectedOutput []message `json:"expected_output"`

	Item *Item `json:"item,omitempty"`
}

// encode writes the case as one line of JSON with its end.
func (c Case) encode() ([]byte, error) {
	asked := []message{{"user", c.Question}}
	answered := []message{{"assistant", c.Candidate}}
	expected := []message{}
	if c.Reference != "" {
		expected = append(expected, message{"assistant", c.Reference})
	}
	r := request{
		Question: c.Question, Criteria: c.Criteria, CandidateAnswer: c.Candidate, ReferenceAnswer: c.Reference,
		ExpectedMessages: expected, InputMessages: asked, OutputMessages: answered,
		GuidelineFiles: append([]string{}, c.GuidelineFiles...), InputFiles: append([]string{}, c.InputFiles...),
		Input: asked, Output: answered, Answer: c.Candidate, ExpectedOutput: expected, Item: c.Item,
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("writing the request to the evaluator: %w", err)
	}
	return line.Bytes(), nil
}
