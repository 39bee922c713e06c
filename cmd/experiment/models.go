package main

import (
	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// The files that replace or complete what is built in about models.
const (
	envModels = "EXPERIMENT_MODELS_FILE"
	envPrices = "EXPERIMENT_PRICES_FILE"
)

// catalogue is what is known of models: what they cannot do, whose they are,
// and what they cost.
type catalogue struct {
	models configs.Models
	prices configs.Prices
}

func readCatalogue(getenv func(string) string) (catalogue, error) {
	models, err := configs.LoadModels(getenv(envModels))
	if err != nil {
		return catalogue{}, cli.Usage("%w", err)
	}
	prices, err := configs.LoadPrices(getenv(envPrices))
	if err != nil {
		return catalogue{}, cli.Usage("%w", err)
	}
	return catalogue{models, prices}, nil
}

// providerConfig tells providers what the environment and the data say.
func (c catalogue) providerConfig(getenv func(string) string) provider.Config {
	return provider.Config{
		Getenv: getenv,
		Guess: func(model string) (string, bool) {
			known, ok := c.models.Lookup(model)
			return known.Provider, ok && known.Provider != ""
		},
		Capabilities: func(model string) pipeline.Capabilities {
			known, _ := c.models.Lookup(model)
			return pipeline.Capabilities{
				NoTemperature: known.NoTemperature, NoTopP: known.NoTopP, NoSeed: known.NoSeed,
				MaxCompletionTokens: known.MaxCompletionTokens, InstructionOnly: known.NoSchema,
			}
		},
	}
}

// price is what a model costs, as the pipeline asks for it.
func (c catalogue) price(model string) (pipeline.Price, bool) {
	p, ok := c.prices.Lookup(model)
	return pipeline.Price{Input: p.Input, CachedInput: p.CachedInput, Output: p.Output, MaxInput: p.MaxInput}, ok
}
