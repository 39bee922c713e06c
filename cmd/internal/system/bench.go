package system

import (
	benches "extraction-experiment/bench"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// OpenBench opens what a Config names and answers the cases of the bench: a team's own
// pipeline, a model, or an extractor that needs none. Without a name it is nil, and what
// is stored answers.
func (o Opener) OpenBench(cfg Config) (benches.Answerer, System, error) {
	switch {
	case cfg.Pipeline != "":
		asks, err := provider.NewExternal(o.external(cfg.Pipeline, cfg.Limits, 0))
		if err != nil {
			return nil, System{}, err
		}
		info := provider.Info{Provider: provider.ExternalName, Model: provider.ExternalName, Pipeline: asks.Target()}
		return benches.External{Asker: asks}, System{Header: describe(info, Config{}, outcome.Prompt{}), Close: asks.Close}, nil
	case cfg.Model == "":
		return nil, System{Close: func() error { return nil }}, nil
	}
	cfg.Limits.Retries = pipeline.DefaultTries - 1
	s, err := o.OpenModel(cfg)
	if err != nil {
		return nil, System{}, err
	}
	if s.Asks.Model == nil {
		return benches.Extracting{Extractor: s.Extractor}, s, nil
	}
	asked := benches.Prompt()
	s.Header.Prompt = outcome.Prompt{Name: asked.Name + " (built in)", SHA256: asked.SHA256()}
	return benches.Asking{Model: s.Asks.Model, Name: s.Header.Model, Provider: s.Header.Provider}, s, nil
}
