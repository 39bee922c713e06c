package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/bench/datasets"
	"extraction-experiment/cmd/internal/connect"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
	"extraction-experiment/runstore"
)

// benchRun runs the cases and prints what they come to.
func benchRun(c *urfave.Context, env cli.Env, _ []string) (err error) {
	cfg, err := benchConfig(c)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(c.Context, env.Stderr)
	defer signals.stop()
	cfg.Stop = signals.soft
	if c.String("model") != "" || c.String("pipeline") != "" {
		system, opening := benchSystem(ctx, c, env, cfg)
		if opening != nil {
			return signals.interrupted(opening)
		}
		defer func() { err = errors.Join(err, system.close()) }()
		cfg.Extractor, cfg.System = system.extractor, system.header
	}
	signals.working.Store(true)
	result, ran := benches.Run(ctx, cfg)
	if result.Run == "" {
		return alreadyThere(ran, cfg.Out)
	}
	problems := []error{ran, benchWrite(c, env, result)}
	if !c.Bool("json") {
		_, err := fmt.Fprintf(env.Stdout, "\n%s; experiment bench score %s judges it\n", cfg.Out, quote(cmp.Or(cfg.Name, cfg.Out)))
		problems = append(problems, cli.Written(err))
	}
	return errors.Join(problems...)
}

// alreadyThere explains that the run is there already.
func alreadyThere(err error, out string) error {
	if errors.Is(err, runstore.ErrExists) {
		return cli.Usage("the run %s is there already: choose another with --out", out)
	}
	return err
}

func benchConfig(c *urfave.Context) (benches.Config, error) {
	p := &problems{}
	cfg := benches.Config{
		Datasets: c.StringSlice("dataset"), Mode: benches.Mode(c.String("mode")), Options: benches.Options{Strict: c.Bool("strict")},
		Concurrency: p.count("concurrency", c.String("concurrency"), 1, 1000), Timeout: p.duration("timeout", c.String("timeout")),
		Runner: build.Version(),
	}
	if text := c.String("trials"); text != "" {
		cfg.Trials = p.count("trials", text, 1, 1000)
	}
	if c.String("model") != "" && c.String("pipeline") != "" {
		p.add("--model and --pipeline cannot both answer")
	}
	cfg.Out = c.String("out")
	if filepath.Ext(cfg.Out) != runstore.Extension {
		name := cfg.Out
		if name == "" {
			name = "bench-" + time.Now().UTC().Format("20060102-150405.000")
		}
		p.runName(name)
		cfg.Name, cfg.Out = name, runstore.Path(connect.Folder, "", "bench", name)
	}
	if err := errors.Join(p.found...); err != nil {
		return cfg, withCode(err)
	}
	if len(cfg.Datasets) > 0 {
		return cfg, nil
	}
	for _, file := range []struct{ name, text string }{{"smoke.jsonl", datasets.Smoke}, {"regression.jsonl", datasets.Regression}} {
		cases, err := benches.Parse(cfg.Options, file.name, strings.NewReader(file.text))
		if err != nil {
			return cfg, err
		}
		cfg.Cases = append(cfg.Cases, cases...)
	}
	return cfg, nil
}

// benchSystem opens what answers: a pipeline, or a model with the prompt that
// comes with the program, asked as patiently as a run asks it.
func benchSystem(ctx context.Context, c *urfave.Context, env cli.Env, bench benches.Config) (system, error) {
	cfg := systemConfig{model: c.String("model"), modelGiven: c.String("model") != "", pipeline: c.String("pipeline")}
	cfg.limits = limitsConfig{retries: pipeline.DefaultTries - 1, timeout: bench.Timeout, concurrency: bench.Concurrency, getenv: env.Getenv}
	if cfg.pipeline != "" || isBaseline(cfg.model) {
		return openSystem(ctx, nil, cfg, bench.Concurrency, env.Getenv)
	}
	return openBuiltinPrompt(cfg, prompt.Default(), env.Getenv)
}

func benchWrite(c *urfave.Context, env cli.Env, r benches.Report) error {
	if c.Bool("json") {
		return printJSON(env, r)
	}
	return cli.Written(r.WriteText(env.Stdout))
}
