// Package answer reads what a language model answered into an extraction, and
// says what is wrong with it in words that can be sent back to the model. It
// asks no model: the question is package prompt, the asking package pipeline.
//
// Models are asked for one JSON object and answer with something near it. Parse
// takes the first JSON in the text that lists entities or relationships, in a
// code fence or between sentences, with trailing commas, comments, single
// quotes, Python's words, raw line breaks, or cut off in the middle; each repair
// is named in the Result. It never guesses: what is not clearly meant is a
// problem, with its line and column.
//
// The steps: Schema is sent with the request, or Instruction where the server
// takes no JSON Schema; Parse reads the answer; Normalise spells types as the
// document's schemas do; Validate names what breaks the schemas.
//
//	result, err := answer.Parse(response.Text)
//	var problem *answer.Error
//	if errors.As(err, &problem) { … send problem.Problems back … }
//	found := answer.Normalise(result.Extraction, doc)
//	problems := answer.Validate(found, doc)
package answer
