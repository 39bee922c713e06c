package main

import (
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// providerConfig tells providers what the environment and the model data say.
func providerConfig(getenv func(string) string) provider.Config {
	return provider.Config{
		Getenv:       getenv,
		Guess:        func(string) (string, bool) { return "", false },
		Capabilities: func(string) pipeline.Capabilities { return pipeline.Capabilities{} },
	}
}
