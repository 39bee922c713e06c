package system

import (
	"errors"

	benches "extraction-experiment/harness/bench"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/pipeline/provider/external"
)

// Bench is what answers the cases of the bench.
type Bench struct {
	Answerer benches.Answerer // nil where what is stored answers
	Header   outcome.System
	Asks     Model
	Close    func() error
}

// OpenBench opens what a Config names: a team's own pipeline, a model, or an extractor
// that needs none. Without a name, what is stored answers.
func (o Opener) OpenBench(cfg Config) (Bench, error) {
	switch {
	case cfg.Pipeline != "":
		asks, err := external.New(external.Config{Target: cfg.Pipeline, Concurrency: cfg.Limits.Concurrency, Stderr: newStderr(o.Stderr), Token: o.Getenv(EnvPipelineToken)})
		if err != nil {
			return Bench{}, err
		}
		info := provider.Info{Provider: external.Name, Model: external.Name, Pipeline: asks.Target()}
		return Bench{Answerer: benches.External{Asker: asks}, Header: describe(info, Config{}, outcome.Prompt{}), Close: asks.Close}, nil
	case cfg.Model == "":
		return Bench{Close: func() error { return nil }}, nil
	}
	known, err := ReadCatalogue(o.Getenv)
	if err != nil {
		return Bench{}, err
	}
	opened, err := provider.Open(cfg.Model, known.ProviderConfig(o.Getenv))
	if err != nil {
		return Bench{}, refused(err)
	}
	s := Bench{Header: describe(opened.Info, Config{}, outcome.Prompt{}), Close: opened.Close}
	if opened.Model == nil {
		s.Answerer = benches.Extracting{Extractor: opened.Extractor}
		return s, nil
	}
	cfg.Limits.Retries = pipeline.DefaultTries - 1
	if s.Asks, err = o.within(opened, known, cfg.Limits); err != nil {
		return Bench{}, errors.Join(refused(err), opened.Close())
	}
	s.Answerer = benches.Asking{Model: s.Asks.Model, Name: opened.Info.Model, Provider: opened.Provider}
	asked := benches.Prompt()
	s.Header.Prompt = outcome.Prompt{Name: asked.Name + " (built in)", SHA256: asked.SHA256()}
	s.Header.Endpoint = EndpointOf(s.Header, o.Getenv)
	return s, nil
}
