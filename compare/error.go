package compare

import (
	"errors"
	"fmt"
	"strings"

	"extraction-experiment/internal/nearest"
)

// IncompatibleError says that a candidate cannot be compared with the base.
type IncompatibleError struct {
	Candidate  string
	Mismatches []Mismatch
}

// Error lists everything that differs, one per line.
func (e *IncompatibleError) Error() string {
	lines := []string{fmt.Sprintf("%s cannot be compared with the base:", e.Candidate)}
	for _, m := range e.Mismatches {
		lines = append(lines, m.String())
	}
	return strings.Join(lines, "\n")
}

// ExitCode is that of runs that cannot be compared.
func (e *IncompatibleError) ExitCode() int { return 2 }

// GateError says that a candidate did not pass its gate.
type GateError struct {
	Candidate string
	Result    GateResult
}

// Error names the rules that were not kept.
func (e *GateError) Error() string {
	var failed, unclear []string
	for _, r := range e.Result.Rules {
		switch r.Answer {
		case Fail:
			failed = append(failed, r.Rule)
		case Inconclusive:
			unclear = append(unclear, r.Rule)
		}
	}
	var parts []string
	if len(failed) > 0 {
		parts = append(parts, "failed "+strings.Join(failed, ", "))
	}
	if len(unclear) > 0 {
		parts = append(parts, "inconclusive "+strings.Join(unclear, ", "))
	}
	return fmt.Sprintf("%s does not pass the gate: %s", e.Candidate, strings.Join(parts, "; "))
}

// ExitCode is 1, or 6 for an inconclusive gate where that is asked for.
func (e *GateError) ExitCode() int { return e.Result.ExitCode() }

// Err returns why the comparison is no success: candidates that cannot be
// compared (exit code 2) or did not pass their gate (1 or 6); nil if all did.
func (c Comparison) Err() error {
	var problems []error
	for _, r := range c.Candidates {
		name := r.Candidate.Summary.Run.Name
		switch {
		case len(r.Incompatible) > 0:
			problems = append(problems, &IncompatibleError{name, r.Incompatible})
		case r.Gate != nil && r.Gate.ExitCode() != 0:
			problems = append(problems, &GateError{name, *r.Gate})
		}
	}
	return errors.Join(problems...)
}

// MetricError says that a score that was asked for is in no outcome.
type MetricError struct {
	Metric string
	Known  []string
}

// Error names the scores that there are.
func (e *MetricError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("no item of the runs has a score %q, or any other", e.Metric)
	}
	return fmt.Sprintf("no item of the runs has a score %q; there are: %s", e.Metric, strings.Join(e.Known, ", "))
}

// ExitCode is that of wrong usage.
func (e *MetricError) ExitCode() int { return 64 }

// KeyError says that no item has the metadata that items are clustered by.
type KeyError struct {
	Key   string
	Known []string // the first keys that the items have
}

// Error names the keys that there are.
func (e *KeyError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("cluster-by: no item has %q in its metadata, and none has any other key", e.Key)
	}
	return fmt.Sprintf("cluster-by: no item has %q in its metadata (there are: %s)%s", e.Key, strings.Join(e.Known, ", "), nearest.Hint(e.Key, e.Known))
}

// ExitCode is that of wrong usage.
func (e *KeyError) ExitCode() int { return 64 }
