package prompt

import (
	_ "embed" // the text of the built-in prompt
)

// DefaultName is the name of the built-in prompt, and the one that is asked for
// where no other is named.
const DefaultName = "extraction"

//go:embed default_system.txt
var defaultSystem string

//go:embed default_user.txt
var defaultUser string

// Default returns the built-in prompt: what to extract and how to write it, for
// models with and without JSON Schema, in a message of the system, and schemas
// and document in one of the user.
func Default() Template {
	return Template{
		Name: DefaultName,
		Messages: []Message{
			{Role: System, Content: defaultSystem},
			{Role: User, Content: defaultUser},
		},
	}
}
