package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/nearest"
)

// MaxCells bounds a sweep: more are a mistake, or nobody's to read.
const MaxCells = 100

// Axis is a setting with the values that are to be tried.
type Axis struct {
	Flag   string // one of Flags
	Values []string
}

// Setting is a value that a cell has of an axis.
type Setting struct{ Flag, Value string }

// Cell is one run of a sweep.
type Cell struct {
	Name     string
	Settings []Setting // in the order of Flags
	// Bare says that the model reads no prompt and no parameters: Settings has
	// the model only.
	Bare bool
}

// Config says what to try.
type Config struct {
	// Base is what every name begins with.
	Base string
	// Axes may come in any order; one of a single value is part of the names,
	// too, so that adding a value later changes no name.
	Axes []Axis
	// Bare reports whether a model reads no prompt and has no parameters: such a
	// model is one cell, because all its others would be the same run. Nil is
	// never.
	Bare func(model string) bool
}

// Cells returns the runs of a sweep, by model, then prompt, then parameters, in
// the order of the values. The same configuration always gives the same cells,
// and values that are added at the end of an axis leave the names of the others
// as they are.
//
// Errors, all at once: an unknown axis, one that is given twice or has no values,
// a value that is empty or there twice, names that are the same, more than
// MaxCells cells.
func Cells(cfg Config) ([]Cell, error) {
	axes, err := order(cfg.Axes)
	if err != nil {
		return nil, err
	}
	words, err := nameWords(axes)
	if err != nil {
		return nil, err
	}
	if n := product(axes); n > MaxCells {
		return nil, fmt.Errorf("the sweep has %d runs, more than %d: try fewer values at once", n, MaxCells)
	}
	var cells []Cell
	for settings := range combinations(axes) {
		cell := Cell{Settings: settings}
		if model := settings[0]; model.Flag == "model" && cfg.Bare != nil && cfg.Bare(model.Value) {
			cell = Cell{Settings: settings[:1:1], Bare: true}
		}
		cell.Name = name(cfg.Base, cell.Settings, words)
		if cell.Bare && slices.ContainsFunc(cells, func(c Cell) bool { return c.Bare && c.Settings[0] == cell.Settings[0] }) {
			continue
		}
		cells = append(cells, cell)
	}
	return cells, distinct(cells)
}

// order checks the axes and brings them into the order of Flags.
func order(given []Axis) ([]Axis, error) {
	var problems []error
	seen := map[string]bool{}
	for _, a := range given {
		switch {
		case !slices.Contains(Flags(), a.Flag):
			problems = append(problems, fmt.Errorf("%q cannot be swept%s; what can: %s", a.Flag, nearest.Hint(a.Flag, Flags()), strings.Join(Flags(), ", ")))
		case seen[a.Flag]:
			problems = append(problems, fmt.Errorf("%s is given twice", a.Flag))
		case len(a.Values) == 0:
			problems = append(problems, fmt.Errorf("%s has no values", a.Flag))
		}
		seen[a.Flag] = true
		for i, value := range a.Values {
			if strings.TrimSpace(value) == "" {
				problems = append(problems, fmt.Errorf("%s has an empty value", a.Flag))
			} else if slices.Contains(a.Values[:i], value) {
				problems = append(problems, fmt.Errorf("%s has the value %q twice", a.Flag, value))
			}
		}
	}
	if len(given) == 0 {
		problems = append(problems, errors.New("there is nothing to sweep"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	sorted := slices.Clone(given)
	slices.SortFunc(sorted, func(a, b Axis) int {
		return slices.Index(Flags(), a.Flag) - slices.Index(Flags(), b.Flag)
	})
	return sorted, nil
}

func product(axes []Axis) int {
	n := 1
	for _, a := range axes {
		if n *= len(a.Values); n > 1<<30 {
			return n
		}
	}
	return n
}

// combinations yields one value of each axis, the last axis changing fastest.
func combinations(axes []Axis) func(yield func([]Setting) bool) {
	return func(yield func([]Setting) bool) {
		for i := range product(axes) {
			settings := make([]Setting, len(axes))
			for k := len(axes) - 1; k >= 0; k-- {
				values := axes[k].Values
				settings[k] = Setting{axes[k].Flag, values[i%len(values)]}
				i /= len(values)
			}
			if !yield(settings) {
				return
			}
		}
	}
}

// distinct refuses cells of the same name.
func distinct(cells []Cell) error {
	var problems []error
	for i, c := range cells {
		if slices.ContainsFunc(cells[:i], func(e Cell) bool { return e.Name == c.Name }) {
			problems = append(problems, fmt.Errorf("two runs of the sweep would be called %q", c.Name))
		}
	}
	return errors.Join(problems...)
}
