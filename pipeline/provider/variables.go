package provider

import (
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/openai"
)

// Variables names the environment variables that Open reads by Config.Getenv, in
// the order of a page.
func Variables() []string {
	return []string{
		openai.EnvKey, openai.EnvBaseURL, envHeaders, envAPIType, envAzureVersion,
		gemini.EnvKey, gemini.EnvOtherKey, gemini.EnvBaseURL,
	}
}
