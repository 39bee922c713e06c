package runs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/configs"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// The usages of flags that several commands share.
const (
	GateUsage         = "judge by `RULE|FILE`, a rule or a YAML file of rules (docs/comparing.md); may be repeated"
	InconclusiveUsage = "count an inconclusive rule as `fail|pass|6`; 6 is an exit code of its own (default: fail)"
	ClusterByUsage    = "treat items with the same value of `KEY` in their metadata as dependent, since they share a source"
)

// ReadGate combines rules and files of rules to a gate, and returns the metric. flagMetric and
// inconclusive, if not empty, win over files, which otherwise must agree. The rules of all arguments
// count, and of min_delta and max_regressions the stricter ones. The error has all problems.
func ReadGate(words []string, flagMetric, inconclusive string) (gate compare.Gate, metric string, err error) {
	var problems []error
	primary, policy := agreed{key: "metric", value: flagMetric}, agreed{key: "inconclusive", value: inconclusive}
	for _, arg := range words {
		rules := []string{arg}
		if isRuleFile(arg) {
			file, err := configs.LoadGate(arg)
			problems = append(problems, err, primary.read(file.Metric, arg), policy.read(file.Inconclusive, arg))
			rules = file.Rules
			if least := file.MinDelta; least != nil {
				gate.MinDelta = new(max(*least, *cmp.Or(gate.MinDelta, least)))
			}
			if most := file.MaxRegressions; most != nil {
				gate.MaxRegressions = new(min(*most, *cmp.Or(gate.MaxRegressions, most)))
			}
		}
		for _, text := range rules {
			rule, err := parseRule(text)
			if problems = append(problems, err); err == nil {
				gate.Rules = append(gate.Rules, rule)
			}
		}
	}
	gate.Inconclusive = compare.Policy(policy.value)
	if err := errors.Join(problems...); err != nil {
		return gate, primary.value, cli.Usage("%w", err)
	}
	return gate, primary.value, nil
}

// agreed is a value that a flag has, or on which files agree. file is empty for a flag.
type agreed struct{ key, value, file string }

// read takes the value of a file, unless there is one; another one of another file is an error.
func (a *agreed) read(value, file string) error {
	if a.value == "" {
		a.value, a.file = value, file
	} else if a.file != "" && value != "" && value != a.value {
		return fmt.Errorf("%s is %s in %s, and %s in %s", a.key, a.value, a.file, value, file)
	}
	return nil
}

// parseRule parses a rule. The scores of this program are between 0 and 1: a rule about one
// of them that always holds or never holds is an error.
func parseRule(text string) (compare.Rule, error) {
	rule, err := compare.ParseRule(text)
	if err == nil && rule.Metric == harness.InventedRate {
		err = fmt.Errorf("rule %q: %s is not a score any more, it was 1 - %s: write %q", rule.Text, rule.Metric, scoring.GroundedRate, rule.Complement(scoring.GroundedRate))
	}
	if err != nil || !slices.Contains(ScoreOrder(), rule.Metric) {
		return rule, err
	}
	lower := append(Comparison().LowerIsBetter, outcome.ErrorScore)
	if err := rule.Decides(0, 1, slices.Contains(lower, rule.Metric)); err != nil {
		return rule, fmt.Errorf("rule %q: %w", rule.Text, err)
	}
	return rule, nil
}

// CheckMinDelta returns an error if differences of a score from 0 to 1 always keep a limit, or never; nil is none.
func CheckMinDelta(least *float64) error {
	if least != nil && (*least <= -1 || *least > 1) {
		return cli.Usage("min_delta %v decides nothing: a difference of scores lies from -1 to 1, and a point is 0.01",
			*least)
	}
	return nil
}

// isRuleFile reports whether an argument is a file of rules and not a rule: it exists, or
// its name has an extension of YAML, which no rule has.
func isRuleFile(word string) bool {
	info, err := os.Stat(word)
	return slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(word))) || err == nil && !info.IsDir()
}
