package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
)

// sweepRunsOf returns the runs of a sweep: one for every combination of the values
// that flags (a,b), environment and matrix give; none where every setting has one
// value and there is no matrix. A flag or variable wins over the matrix.
func sweepRunsOf(s settings.Values, matrix map[string][]string, path string) ([]experiment.SweepSettings, error) {
	var axes []experiment.Axis
	several := len(matrix) > 0
	left := maps.Clone(matrix)
	for _, flag := range experiment.SweepFlags() {
		key := strings.ReplaceAll(flag, "-", "_")
		given := s[flag]
		values, inMatrix := matrix[key]
		delete(left, key)
		switch {
		case given.From == settings.FromDefault || given.From == settings.NotSet || given.From == path:
			if !inMatrix && (given.From != path || path == "") {
				continue
			}
			if !inMatrix {
				values = listed(given.Words)
			}
		default:
			values = listed(given.Words)
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
	bare := func(model string) bool { return system.IsBaseline(model) && s.Text("pipeline") == "" }
	return experiment.Matrix(experiment.SweepConfig{Base: s.Text("name"), Axes: axes, Bare: bare})
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
func readRuns(s settings.Values, sweepRuns []experiment.SweepSettings, scores []string) ([]runConfig, error) {
	p := &settings.Problems{}
	if len(sweepRuns) == 0 {
		cfg, err := readRun(s, scores)
		if cfg.html != "" {
			p.Add("--html is the page of a sweep; that of one run is written by: experiment report RUN --format html --output FILE")
		}
		return []runConfig{cfg}, errors.Join(err, p.Err())
	}
	p.Join(runs.CanWritePage(s.Text("html")))
	for _, flag := range []string{"record", "output"} {
		if s.Text(flag) != "" {
			p.Add("--%s is one file, and a sweep has %d runs: give it to single runs", flag, len(sweepRuns))
		}
	}
	if name := s.Text("name"); name == "" {
		p.Add("--name is missing: the names of the runs begin with it")
	} else {
		checkRunName(p, name)
	}
	var cfgs []runConfig
	limiters := map[string]*limit.Limiter{}
	for _, sweepRun := range sweepRuns {
		cfg, err := readRun(sweepRunSettings(s, sweepRun), scores)
		p.Join(cli.Separate(err)...)
		cfg.sweepRun, cfg.system.Limits.Limiters = true, limiters
		cfgs = append(cfgs, cfg)
	}
	return cfgs, cli.Distinct(p.Found...)
}

// of returns the settings of one run of a experiment.
func sweepRunSettings(s settings.Values, sweepRun experiment.SweepSettings) settings.Values {
	out := maps.Clone(s)
	if sweepRun.Bare {
		for _, flag := range aboutModels() {
			out[flag] = settings.Value{From: settings.NotSet}
		}
	}
	for _, setting := range sweepRun.Settings {
		out[setting.Flag] = settings.Value{Words: []string{setting.Value}, From: "sweep"}
	}
	out["name"] = settings.Value{Words: []string{sweepRun.Name}, From: "sweep"}
	return out
}
