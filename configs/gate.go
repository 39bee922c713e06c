package configs

import (
	"fmt"
	"math"
)

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
	text, err := read(path)
	if err != nil {
		return Gate{}, err
	}
	var g Gate
	if err := strict(text, path, &g); err != nil {
		return g, err // with what could be read, so that the caller finds what else is wrong
	}
	switch {
	case len(g.Rules) == 0 && g.MinDelta == nil && g.MaxRegressions == nil:
		return Gate{}, fmt.Errorf("reading %s: it has no rules; give rules, min_delta or max_regressions", path)
	case len(g.Rules) > maxRules:
		return Gate{}, fmt.Errorf("reading %s: %d rules are more than %d", path, len(g.Rules), maxRules)
	case g.MinDelta != nil && (math.IsNaN(*g.MinDelta) || math.IsInf(*g.MinDelta, 0)):
		return Gate{}, fmt.Errorf("reading %s: min_delta is no finite number", path)
	}
	return g, nil
}
