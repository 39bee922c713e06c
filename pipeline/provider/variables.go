package provider

import (
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/openai"
)

// Variable is an environment variable that Open reads.
type Variable struct {
	Name string
	// Secret says that the value may hold a key and must not be shown.
	Secret bool
}

// Variables returns what Open reads by Config.Getenv, in the order of a page.
func Variables() []Variable {
	return []Variable{
		{openai.EnvKey, true}, {openai.EnvBaseURL, false}, {envHeaders, true}, {envAPIType, false}, {envAzureVersion, false},
		{gemini.EnvKey, true}, {gemini.EnvOtherKey, true}, {gemini.EnvBaseURL, false},
	}
}
