package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/tracking"
)

// runSweep runs the missing parts of a sweep and then ranks its runs. It goes on after a run
// that has failures or does not pass its gate.
func (s session) runSweep(ctx context.Context, cfgs []runConfig, rules system.Rules) error {
	sweep := &experiment.Sweep{Langfuse: &s.lf.Langfuse, Resume: cfgs[0].Resume, Retry: cfgs[0].Retry, Note: s.note}
	labelled := labelledPrompts{}
	for _, cfg := range cfgs {
		labelled.add(*s.began(ctx, cfg))
	}
	for _, cfg := range cfgs {
		check := func(ctx context.Context) error {
			opened, err := s.opener().Open(ctx, labelled.pin(cfg.system))
			if err == nil {
				labelled.add(opened.Header.Prompt)
				err = opened.Close()
			}
			return err
		}
		sweep.Runs = append(sweep.Runs, experiment.SweepRun{Name: cfg.Header.Name, Dataset: cfg.Dataset, Trials: cfg.Header.Trials, Check: check})
	}
	err := sweep.Prepare(ctx)
	if err == nil {
		err = sweep.Pin(ctx)
	}
	if err != nil {
		return cli.JoinDistinct(cli.Unjoin(s.explain(err, harness.Name))...)
	}
	var problems []error
	ids := map[string]string{}
	for i, cfg := range cfgs {
		if s.signals.received() {
			return errors.Join(append(problems, s.sweepInterrupted(i, len(cfgs)))...)
		}
		if !cfg.quiet {
			fmt.Fprintf(s.env.Stderr, "run %d of %d: %s\n", i+1, len(cfgs), cfg.Header.Name)
		}
		var opened system.System
		cfg.system = labelled.pin(cfg.system)
		r, err := sweep.Run(ctx, i, s.extraction(cfg, rules, &opened))
		ids[cfg.Header.Name] = r.Summary.Run.ID
		err = s.finish(cfg, opened, r, err)
		problems = append(problems, err)
		switch cli.ExitCode(err) {
		case cli.ExitOK, cli.ExitGate, cli.ExitFailures, cli.ExitInconclusive:
		case cli.ExitInterrupted:
			_, unpublished := errors.AsType[*tracking.UnpublishedError](err)
			if unpublished && i+1 < len(cfgs) && !errors.Is(err, experiment.ErrInterrupted) {
				problems = append(problems, s.sweepInterrupted(i+1, len(cfgs))) // interrupted during publication
			}
			return errors.Join(problems...)
		default:
			return errors.Join(append(problems, fmt.Errorf("the sweep ends at run %d of %d, %s", i+1, len(cfgs), cfg.Header.Name))...)
		}
	}
	return errors.Join(append(problems, s.rank(ctx, sweep, cfgs[0], ids))...)
}

// labelledPrompts holds the prompts of a sweep by name and label. A label that moves during a sweep, or until
// it is resumed, stands for the version that the first run has: runs of one label differ in nothing else.
type labelledPrompts map[[2]string]outcome.Prompt

// add adds a prompt, unless the sweep has that label already.
func (l labelledPrompts) add(p outcome.Prompt) {
	key := [2]string{p.Name, p.Label}
	if _, known := l[key]; !known && p.Label != "" {
		l[key] = p
	}
}

// pin returns the configuration with the prompt that its label stands for, if that is known.
func (l labelledPrompts) pin(cfg system.Config) system.Config {
	key := [2]string{cmp.Or(cfg.Prompt.Name, pipeline.DefaultPromptName), cmp.Or(cfg.Prompt.Label, "production")}
	if p, known := l[key]; known && cfg.PromptFile == "" {
		cfg.Began = &p
	}
	return cfg
}

func (s session) sweepInterrupted(done, all int) error {
	return cli.Errorf(cli.ExitInterrupted, "%w: %d of %d runs are done; resume with: %s", experiment.ErrInterrupted, done, all, resumeCommand(s.env.Args))
}

// sweepRunsOf returns the runs of a sweep: one for every combination of the values in flags
// (a,b), environment and matrix. It returns none if every setting has one value and there is no
// matrix. A flag or variable takes precedence over the matrix, and an empty flag removes a setting.
// The values of the matrix are set in s.
func sweepRunsOf(s settings.Values, matrix map[string][]string, path string) ([]experiment.SweepSettings, error) {
	var axes []experiment.Axis
	isSweep := len(matrix) > 0
	unknown := maps.Clone(matrix)
	for _, flag := range experiment.SweepFlags() {
		key := strings.ReplaceAll(flag, "-", "_")
		value := s[flag]
		values, inMatrix := matrix[key]
		delete(unknown, key)
		unset := value.From == settings.FromDefault || value.From == settings.NotSet
		setAside := value.From == settings.FromFlag && s.Text(flag) == "" // --temperature=
		if unset && !inMatrix || setAside {
			continue
		}
		if !inMatrix || !unset && value.From != path {
			values = splitList(value.Words)
		} else {
			s[flag] = settings.Value{Words: []string{strings.Join(values, ",")}, From: path + " (matrix)"}
		}
		isSweep = isSweep || len(values) > 1
		axes = append(axes, experiment.Axis{Flag: flag, Values: values})
	}
	if !isSweep || len(axes)+len(unknown) == 0 {
		return nil, nil
	}
	for _, key := range slices.Sorted(maps.Keys(unknown)) { // Matrix refuses unknown keys
		flag := strings.ReplaceAll(key, "_", "-")
		s[flag] = settings.Value{From: path + " (matrix)"}
		axes = append(axes, experiment.Axis{Flag: flag, Values: unknown[key]})
	}
	bare := func(model string) bool { return system.IsBaseline(model) && s.Text("pipeline") == "" }
	combined, err := experiment.Matrix(experiment.SweepConfig{Base: s.Text("name"), Axes: axes, Bare: bare})
	return combined, (&settings.Problems{Problems: cli.Unjoin(err), Values: s}).Err()
}

// splitList splits comma-separated lists: a,b.
func splitList(words []string) []string {
	return cli.Each(strings.Split(strings.Join(words, ","), ","), strings.TrimSpace)
}

// readRuns returns the configuration of every run. The error contains every problem once. scores
// holds the names of the scores that the runs will have.
func readRuns(s settings.Values, sweepRuns []experiment.SweepSettings, scores []string) ([]runConfig, error) {
	p := &settings.Problems{Values: s}
	if len(sweepRuns) == 0 {
		cfg := readRun(p, s, scores)
		p.Add(cfg.html != "",
			"--html is the page of a sweep; that of one run is written by: experiment report RUN --format html --output FILE")
		p.Join(cfg.system.CheckBaseline())
		return []runConfig{cfg}, p.Err()
	}
	for _, flag := range []string{"record", "output"} {
		p.Add(s.Text(flag) != "",
			"--%s is one file, and a sweep has %d runs: give it to single runs", flag, len(sweepRuns))
	}
	p.Add(s.Text("name") == "", "--name is missing: the names of the runs begin with it")
	settings.CheckRunName(p, "name", s.Text("name"))
	var cfgs []runConfig
	limiters := map[string]*limit.Limiter{}
	for _, sweepRun := range sweepRuns {
		cfg := readRun(p, sweepRunSettings(s, sweepRun), scores)
		cfg.sweepRun, cfg.system.Bare, cfg.system.Limits.Limiters = true, sweepRun.Bare, limiters
		p.Join(cfg.system.CheckBaseline(), runs.CanWriteFile("--html", cfg.html, append(s.All("gate"), cfg.Dataset,
			s.Text("config"), cfg.system.PromptFile, cfg.system.Model)...))
		cfgs = append(cfgs, cfg)
	}
	return cfgs, p.Err()
}

// sweepRunSettings returns the settings of one run of a sweep.
func sweepRunSettings(s settings.Values, sweepRun experiment.SweepSettings) settings.Values {
	out := maps.Clone(s)
	if sweepRun.Bare { // the flags of prompts and parameters do not apply
		others := []string{"prompt-file", "var", "two-stages"}
		for _, flag := range append(others, experiment.SweepFlags()[1:]...) {
			out[flag] = settings.Value{From: settings.NotSet}
		}
	}
	for _, setting := range sweepRun.Settings {
		out[setting.Flag] = settings.Value{Words: []string{setting.Value}, From: s[setting.Flag].From}
	}
	out["name"] = settings.Value{Words: []string{sweepRun.Name}, From: "sweep"}
	return out
}

// leaderboard is the output of a sweep.
type leaderboard struct {
	compare.Leaderboard
	URL string `json:"url"` // the page of Langfuse that shows the runs side by side
}

// rank compares the runs of the sweep with each other and prints the leaderboard. ids has their ids
// in Langfuse, by name.
func (s session) rank(ctx context.Context, sweep *experiment.Sweep, cfg runConfig, ids map[string]string) (err error) {
	sources, closeAll, err := runs.Sources(ctx, s.env, sweep.Paths(), "", false)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return err
	}
	ranked, err := runs.Comparison().Rank(ctx, sources...)
	if errors.Is(err, context.Canceled) {
		return cli.Errorf(cli.ExitInterrupted, "stopped before the runs were compared; resume with: %s", resumeCommand(s.env.Args))
	}
	if err != nil {
		return err
	}
	for i, r := range ranked.Runs { // the runs share their rules
		if ranked.Runs[i].Gate, err = cfg.gate.JudgeRun(r.Summary); err != nil {
			return err
		}
	}
	board := leaderboard{Leaderboard: ranked, URL: s.compareURL(sweep.DatasetID(), ranked, ids)}
	page := func(w io.Writer) error { return html.Leaderboard(w, ranked) }
	return errors.Join(s.showBoard(cfg, board), cli.WriteFile(cfg.html, page), ranked.Err())
}

// compareURL returns the page that shows the runs side by side with the best as baseline, or ""
// if there is no such page.
func (s session) compareURL(dataset string, l compare.Leaderboard, idOf map[string]string) string {
	var ids []string
	for _, r := range l.Runs {
		if id := idOf[r.Summary.Run.Name]; id != "" {
			ids = append(ids, id)
		}
	}
	if s.lf.Embedded || dataset == "" || len(ids) < 2 {
		return ""
	}
	return langfuse.CompareURL(s.lf.Client.BaseURL(), s.lf.Server.Project.ID, dataset, ids...)
}

func (s session) showBoard(cfg runConfig, board leaderboard) error {
	if cfg.quiet && !cfg.json {
		return nil
	}
	name := func(i int) string { return board.Runs[i].Summary.Run.Name }
	commands := []string{"experiment show " + cli.Arguments(name(0))}
	if len(board.Runs) > 1 {
		commands = append(commands, "experiment compare "+cli.Arguments(name(1), name(0)))
	}
	return runs.Print(s.env, cfg.json, board, func(w io.Writer, b leaderboard, opt report.Options) error {
		opt.Where = append(commands, b.URL)
		return report.Leaderboard(w, b.Leaderboard, opt)
	})
}
