package seed

import (
	"errors"
	"fmt"
	"strings"

	"extraction-experiment/dataset"
)

// Config says how File seeds. Only Dataset is required.
type Config struct {
	// Dataset is the name of the dataset in Langfuse; it is created if absent.
	Dataset string
	// Description replaces that of the dataset; empty keeps it.
	Description string
	// Schemas replace those of the dataset; nil keeps them. Every item is
	// checked against those given here before anything is sent.
	Schemas Schemas
	// IDPrefix is put before every id. Ids are unique in a Langfuse project,
	// not only in a dataset.
	IDPrefix string
	// Vocabulary tells which gold relationships say the same.
	Vocabulary Vocabulary
	// Foreign is as in CheckConfig.
	Foreign func(item dataset.Item) (is bool, odd []string, err error)
	// KeepGoing seeds the good items of a file that has bad ones; otherwise a
	// bad item keeps the whole file from being written.
	KeepGoing bool
	// Similar names items whose documents are at least this similar, in (0,1],
	// to that of another item of the dataset; 0 looks for none. What it costs:
	// half a kilobyte of memory an item.
	Similar float64
	// KeepArchived leaves an item alone that somebody archived, with a warning;
	// otherwise it is made active again.
	KeepArchived bool
	// DryRun finds out what would be done and writes nothing.
	DryRun bool
	// Workers is how many items are written at a time; 0 is 4.
	Workers int
	// MaxFindings is as in CheckConfig.
	MaxFindings int
	// Progress, if set, is told after every step. It is never called
	// concurrently.
	Progress func(Progress)
	// Each, if set, is told what was done with each item, in the order in which
	// it was done. It is never called concurrently.
	Each func(Change)
}

// Phase is one of the steps of File.
type Phase string

// The phases, in their order.
const (
	Selecting Phase = "reading"   // reading traces
	Checking  Phase = "checking"  // reading and checking the file
	Comparing Phase = "comparing" // learning what the dataset has
	Writing   Phase = "writing"
)

// Progress says how far a phase has come; Total is 0 where it is not known.
type Progress struct {
	Phase       Phase
	Done, Total int
}

// Action is what was done with an item.
type Action string

// The actions.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged"
	Archived  Action = "archived"
	NotDone   Action = "refused"
)

// Change is what was done with one item, or in a dry run would be.
type Change struct {
	Item   string `json:"item"`           // id in Langfuse, with its prefix
	Line   int    `json:"line,omitempty"` // in the file
	Action Action `json:"action"`
	Reason string `json:"reason,omitempty"` // why it was refused, or what else to know
}

// validate returns all problems of the configuration at once.
func (c Config) validate() error {
	var problems []error
	if err := validDataset(c.Dataset); err != nil {
		problems = append(problems, err)
	}
	if c.IDPrefix != "" {
		if err := dataset.ValidID(c.IDPrefix); err != nil {
			problems = append(problems, fmt.Errorf("the id prefix %w", err))
		}
	}
	if !(c.Similar >= 0 && c.Similar <= 1) {
		problems = append(problems, fmt.Errorf("similar: %v is not between 0 and 1", c.Similar))
	}
	if c.Workers < 0 {
		problems = append(problems, fmt.Errorf("workers: %d is negative", c.Workers))
	}
	if err := errors.Join(problems...); err != nil {
		return &exitError{err, 64}
	}
	return nil
}

// validDataset says why Langfuse would refuse the name of a dataset.
func validDataset(name string) error {
	trimmed := strings.TrimSpace(name)
	switch {
	case trimmed == "":
		return errors.New("the name of the dataset is missing")
	case trimmed != name:
		return fmt.Errorf("the dataset name %q has white space at an end", name)
	case strings.HasPrefix(name, "/"), strings.HasSuffix(name, "/"), strings.Contains(name, "//"):
		return fmt.Errorf("the dataset name %q has a slash at an end, or two in a row: Langfuse makes folders of slashes", name)
	case strings.ContainsAny(name, "<>"):
		return fmt.Errorf("the dataset name %q has angle brackets, which Langfuse takes for HTML", name)
	}
	return nil
}

func (c Config) check() CheckConfig {
	return CheckConfig{Dataset: c.Dataset, IDPrefix: c.IDPrefix, Schemas: c.Schemas, Vocabulary: c.Vocabulary, Foreign: c.Foreign, MaxFindings: c.MaxFindings}
}

func (c Config) workers() int {
	if c.Workers == 0 {
		return 4
	}
	return c.Workers
}

func (c Config) progress(p Progress) {
	if c.Progress != nil {
		c.Progress(p)
	}
}
