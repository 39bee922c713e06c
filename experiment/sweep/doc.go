// Package sweep says which runs a sweep is made of: one for every combination
// of the values that are to be tried, each with a name that a person can read.
// It is a pure function of the settings, so that a sweep that was interrupted
// finds its runs again without keeping anything beside them. It runs nothing.
//
//	cells, err := sweep.Cells(sweep.Config{Base: "nightly", Axes: []sweep.Axis{
//		{Flag: "model", Values: []string{"openai/gpt-4o", "openai/gpt-4o-mini"}},
//		{Flag: "temperature", Values: []string{"0", "0.7"}},
//	}})
//	// nightly-gpt-4o-t0, nightly-gpt-4o-t0.7, nightly-gpt-4o-mini-t0, nightly-gpt-4o-mini-t0.7
package sweep
