package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/limit"
)

// cells returns the runs of a sweep: one for every combination of the values
// that flags (a,b), environment and matrix give; none where every setting has one
// value and there is no matrix. A flag or variable wins over the matrix.
func (s settings) cells(matrix map[string][]string, path string) ([]experiment.SweepSettings, error) {
	var axes []experiment.Axis
	several := len(matrix) > 0
	left := maps.Clone(matrix)
	for _, flag := range experiment.SweepFlags() {
		key := strings.ReplaceAll(flag, "-", "_")
		given := s[flag]
		values, inMatrix := matrix[key]
		delete(left, key)
		switch {
		case given.from == "default" || given.from == "not set" || given.from == path:
			if !inMatrix && (given.from != path || path == "") {
				continue
			}
			if !inMatrix {
				values = listed(given.words)
			}
		default:
			values = listed(given.words)
		}
		several = several || len(values) > 1
		axes = append(axes, experiment.Axis{Flag: flag, Values: values})
	}
	if !several {
		return nil, nil
	}
	for _, key := range slices.Sorted(maps.Keys(left)) { // the package says what can be swept
		axes = append(axes, experiment.Axis{Flag: strings.ReplaceAll(key, "_", "-"), Values: left[key]})
	}
	bare := func(model string) bool { return system.IsBaseline(model) && s.text("pipeline") == "" }
	return experiment.Matrix(experiment.SweepConfig{Base: s.text("name"), Axes: axes, Bare: bare})
}

// listed takes a list apart: a,b.
func listed(words []string) []string {
	var values []string
	for _, word := range words {
		for value := range strings.SplitSeq(word, ",") {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// aboutModels are the settings that mean nothing to a model that reads no prompt
// and has no parameters.
func aboutModels() []string {
	return append([]string{"prompt-file", "var", "two-stages", "rpm", "tpm", "cache", "budget-usd", "budget-tokens"}, experiment.SweepFlags()[1:]...)
}

// runConfigs reads the settings of every run and returns every problem once;
// scores are the names of those that the runs will have.
func (s settings) runConfigs(cells []experiment.SweepSettings, scores []string) ([]runConfig, error) {
	p := &problems{}
	if len(cells) == 0 {
		cfg, err := s.runConfig(scores)
		if cfg.html != "" {
			p.add("--html is the page of a sweep; that of one run is written by: experiment report RUN --format html --output FILE")
		}
		return []runConfig{cfg}, errors.Join(append([]error{err}, p.found...)...)
	}
	p.err(canWritePage(s.text("html")))
	for _, flag := range []string{"record", "output"} {
		if s.text(flag) != "" {
			p.add("--%s is one file, and a sweep has %d runs: give it to single runs", flag, len(cells))
		}
	}
	if name := s.text("name"); name == "" {
		p.add("--name is missing: the names of the runs begin with it")
	} else {
		p.runName(name)
	}
	var cfgs []runConfig
	limiters := map[string]*limit.Limiter{}
	for _, cell := range cells {
		cfg, err := s.of(cell).runConfig(scores)
		p.found = append(p.found, separate(err)...)
		cfg.cell, cfg.system.Limits.Limiters = true, limiters
		cfgs = append(cfgs, cfg)
	}
	return cfgs, errors.Join(distinct(p.found)...)
}

// of returns the settings of one run of a experiment.
func (s settings) of(cell experiment.SweepSettings) settings {
	out := maps.Clone(s)
	if cell.Bare {
		for _, flag := range aboutModels() {
			out[flag] = resolved{nil, "not set"}
		}
	}
	for _, setting := range cell.Settings {
		out[setting.Flag] = resolved{[]string{setting.Value}, "sweep"}
	}
	out["name"] = resolved{[]string{cell.Name}, "sweep"}
	return out
}
