package main

import (
	"errors"
	"os"
	"time"

	urfave "github.com/urfave/cli/v2"

	benches "extraction-experiment/harness/bench"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/pipeline/provider/external"
)

// benchSystem is what answers the cases.
type benchSystem struct {
	answerer benches.Answerer
	header   outcome.System
	asks     asker
	close    func() error
}

// openBenchSystem opens what the flags name: a team's own pipeline, a model, or
// an extractor that needs none. Without a name, what is stored answers.
func openBenchSystem(c *urfave.Context, getenv func(string) string, concurrency int, timeout time.Duration) (benchSystem, error) {
	switch {
	case c.String("pipeline") != "":
		return openBenchPipeline(c.String("pipeline"), getenv, concurrency)
	case c.String("model") == "":
		return benchSystem{close: func() error { return nil }}, nil
	}
	known, err := readCatalogue(getenv)
	if err != nil {
		return benchSystem{}, err
	}
	opened, err := provider.Open(c.String("model"), known.providerConfig(getenv))
	if err != nil {
		return benchSystem{}, withCode(err)
	}
	s := benchSystem{header: describe(opened.Info, systemConfig{}, outcome.Prompt{}), close: opened.Close}
	if opened.Model == nil {
		s.answerer = benches.Extracting{Extractor: opened.Extractor}
		return s, nil
	}
	s.asks, err = within(opened, known, limitsConfig{retries: pipeline.DefaultTries - 1, concurrency: concurrency, timeout: timeout, getenv: getenv})
	if err == nil {
		s.answerer, err = benches.NewAsking(benches.AskingConfig{Model: s.asks.Model, Name: opened.Info.Model, Provider: opened.Provider})
	}
	if err != nil {
		return benchSystem{}, errors.Join(withCode(err), opened.Close())
	}
	asked := benches.Prompt()
	s.header.Prompt = outcome.Prompt{Name: asked.Name + " (built in)", SHA256: asked.SHA256()}
	s.header.Endpoint = endpointOf(s.header, getenv)
	return s, nil
}

func openBenchPipeline(target string, getenv func(string) string, concurrency int) (benchSystem, error) {
	asker, err := external.NewAsker(external.Config{Target: target, Concurrency: concurrency, Stderr: newPlain(os.Stderr), Token: getenv(envPipelineToken)})
	if err != nil {
		return benchSystem{}, err
	}
	info := provider.Info{Provider: external.Name, Model: external.Name, Pipeline: asker.Target()}
	return benchSystem{answerer: benches.External{Asker: asker}, header: describe(info, systemConfig{}, outcome.Prompt{}), close: asker.Close}, nil
}
