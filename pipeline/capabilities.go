package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
)

// Capabilities says what a model cannot do, as data: nothing is guessed from a
// model's name. The zero value is a model that can do everything.
type Capabilities struct {
	// NoTemperature, NoTopP and NoSeed: the parameter is not accepted.
	NoTemperature bool `json:"no_temperature,omitempty" yaml:"no_temperature,omitempty"`
	NoTopP        bool `json:"no_top_p,omitempty" yaml:"no_top_p,omitempty"`
	NoSeed        bool `json:"no_seed,omitempty" yaml:"no_seed,omitempty"`
	// MaxCompletionTokens: the limit of tokens is sent as max_completion_tokens
	// and not as max_tokens. Only the OpenAI protocol knows the difference.
	MaxCompletionTokens bool `json:"max_completion_tokens,omitempty" yaml:"max_completion_tokens,omitempty"`
	// NoSchema: answers cannot be held to a JSON Schema; a request with one is
	// refused.
	NoSchema bool `json:"no_schema,omitempty" yaml:"no_schema,omitempty"`
	// InstructionOnly: like NoSchema, but a request with a schema is accepted
	// and the schema not sent, because the prompt states it. Whoever sets it
	// answers for the prompt.
	InstructionOnly bool `json:"instruction_only,omitempty" yaml:"instruction_only,omitempty"`
}

// SendsSchema reports whether a request's schema goes to the provider.
func (c Capabilities) SendsSchema() bool { return !c.NoSchema && !c.InstructionOnly }

// UnsupportedError says why a request cannot be sent to a model as it stands.
// It is a matter of configuration, not of the item.
type UnsupportedError struct {
	Problems []string // at least one
}

// Error lists all problems.
func (e *UnsupportedError) Error() string {
	return "the request cannot be sent as it stands: " + strings.Join(e.Problems, "; ")
}

// ExitCode is that of a wrong usage.
func (*UnsupportedError) ExitCode() int { return 64 }

// schemaName is what providers accept as the name of a schema.
var schemaName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Check refuses a request that the model cannot carry out, or that no model
// can: it returns nil or an *UnsupportedError with every problem. It changes
// and sends nothing. Upper limits that differ between servers (a temperature
// above 2, a context too long) are left to the server.
func (c Capabilities) Check(req Request) error {
	problems := c.parameterProblems(req.Parameters)
	problems = append(problems, messageProblems(req.Messages)...)
	if req.Schema != nil {
		if c.NoSchema && !c.InstructionOnly {
			problems = append(problems, "the model cannot be held to a JSON Schema: ask for the form in the prompt and send no schema")
		}
		problems = append(problems, schemaProblems(*req.Schema)...)
	}
	if len(problems) == 0 {
		return nil
	}
	return &UnsupportedError{Problems: problems}
}

// parameterProblems compares the parameters with what the model takes.
func (c Capabilities) parameterProblems(p Parameters) []string {
	var problems []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	if t := p.Temperature; t != nil {
		add(c.NoTemperature, "the model takes no temperature: leave it out (it is %v)", *t)
		add(!(*t >= 0) || math.IsInf(*t, 0), "the temperature is %v: it must be 0 or more", *t)
	}
	if v := p.TopP; v != nil {
		add(c.NoTopP, "the model takes no top_p: leave it out (it is %v)", *v)
		add(!(*v >= 0 && *v <= 1), "top_p is %v: it must be between 0 and 1", *v)
	}
	if p.Seed != nil {
		add(c.NoSeed, "the model takes no seed: leave it out (it is %d)", *p.Seed)
	}
	if p.MaxTokens != nil {
		add(*p.MaxTokens < 1, "the limit of tokens is %d: it must be 1 or more", *p.MaxTokens)
	}
	return problems
}

func messageProblems(messages []Message) []string {
	if len(messages) == 0 {
		return []string{"there is no message"}
	}
	var problems []string
	for i, m := range messages {
		switch m.Role {
		case "system", "user", "assistant":
		default:
			problems = append(problems, fmt.Sprintf("message %d has the role %.40q: it must be system, user or assistant", i+1, m.Role))
		}
	}
	return problems
}

func schemaProblems(s Schema) []string {
	var problems []string
	if !schemaName.MatchString(s.Name) {
		problems = append(problems, fmt.Sprintf("the schema's name %.80q must be 1 to 64 letters of A-Z a-z 0-9 _ -", s.Name))
	}
	if !json.Valid(s.JSON) || !bytes.HasPrefix(bytes.TrimSpace(s.JSON), []byte("{")) {
		problems = append(problems, "the schema is not a JSON object")
	}
	return problems
}
