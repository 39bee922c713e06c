// Package cache keeps the answers of models in a folder, so that a request that
// was answered once is not paid again: by a run that is repeated with another
// scorer, by another run with the same prompt, by a process that runs at the
// same time. It is no record of a run; package recorded is that.
//
// An answer is found by the SHA-256 of everything that was asked: provider,
// address, model, messages, parameters, schema, and the trial, so that several
// answers to one question stay several. Each is a file of its own,
//
//	DIR/3f/3fa9….json
//
// with a checksum, written under another name and then renamed. A file that
// cannot be read, is cut, or does not match its checksum counts as missing and
// is written anew. Only usable answers are kept: no errors, no refusals, none
// that was cut. Prompts are not in the files, but answers are, so they are for
// their owner only.
//
//	folder, err := cache.Open("answers")
//	model = cache.Cached(model, folder, cache.Source{Provider: "openai", Model: "gpt-4o"})
//	// …
//	if err := folder.Err(); err != nil { /* some answers could not be kept */ }
package cache
