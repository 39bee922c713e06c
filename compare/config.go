package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/outcome"
)

// Epsilon is up to what size a difference is none: a regression is a difference
// of an item below −Epsilon, and a value this near to a threshold is at it.
const Epsilon = 1e-9

// Config says how runs are compared. The zero value is usable.
type Config struct {
	// Metric is the primary score, the one that decides; "" is the primary
	// score of the base.
	Metric string
	// ClusterBy is a key of the items' metadata, with dots between nested
	// keys. Items of equal value share a source and are not independent. ""
	// takes every item for itself.
	ClusterBy string
	// Seed drives the permutation test and the bootstrap; 0 is 1.
	Seed uint64
	// Flips is how many combinations of signs are drawn where there are too
	// many for all; 0 is 10,000.
	Flips int
	// Changed is how many of the items that changed most are kept; 0 is 10,
	// negative none.
	Changed int
	// Order lists score names in the order in which they are shown; scores
	// that it does not name follow in alphabetical order.
	Order []string
	// LowerIsBetter names scores of which less is better; outcome.ErrorScore
	// always is.
	LowerIsBetter []string
	// Identities are keys of the runs' metadata that must be equal when either
	// run has them; of harness "answers" both must have them. Nil is
	// pdf_sha256 and questions_sha256.
	Identities []string
	// Matches lists what an explanation says was matched, one line each; nil
	// leaves matches out. Lines that say the same are the same match.
	Matches func(explanation json.RawMessage) ([]string, error)
	// Gate is judged for every candidate; the zero value judges nothing.
	Gate Gate
}

// Comparer compares runs. Safe for concurrent use if Config.Matches is.
type Comparer struct{ config Config }

// New checks the configuration and returns all that is wrong with it at once.
func New(cfg Config) (*Comparer, error) {
	var problems []error
	if cfg.Flips < 0 {
		problems = append(problems, fmt.Errorf("flips: %d is negative", cfg.Flips))
	}
	problems = append(problems, cfg.Gate.check())
	if cfg.Seed == 0 {
		cfg.Seed = 1
	}
	if cfg.Flips == 0 {
		cfg.Flips = 10_000
	}
	if cfg.Changed == 0 {
		cfg.Changed = 10
	}
	if cfg.Identities == nil {
		cfg.Identities = []string{outcome.PDFSHA256, outcome.QuestionsSHA256}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Comparer{cfg}, nil
}

// lower reports whether less of a score is better.
func (c Config) lower(score string) bool {
	return score == outcome.ErrorScore || slices.Contains(c.LowerIsBetter, score)
}
