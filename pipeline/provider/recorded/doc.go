// Package recorded keeps the exchanges with a model in a file, a cassette, and
// answers from one without a network, so that a whole run can be repeated to
// the byte. It is no cache: a request that was not recorded is an error, and
// the model is never asked in its place.
//
// A cassette is JSON Lines. The first line says what was recorded:
//
//	{"cassette":1,"provider":"openai","model":"gpt-4o"}
//
// Every other line is one exchange:
//
//	{"key":"9f86…","n":1,"request":{"model":…,"messages":…,"parameters":…},"response":{…}}
//
// with an "error" beside or in place of the response where the model failed.
// The key is the SHA-256 of the request as it stands in the line, n counts
// equal requests. Only what a pipeline.Request and a pipeline.Response hold is
// written: no address, no header, no key. Prompts, documents and answers are
// in it, so the file is for its owner only.
//
//	tape, err := recorded.Create("run.cassette", recorded.Source{Provider: "openai", Model: "gpt-4o"})
//	model = recorded.Record(model, tape) // then tape.Close()
//
//	model, err := recorded.Open("run.cassette") // then model.Close()
//
// Record around retries, not inside them: then an exchange is the final answer
// with its number of attempts, and a replay waits for nothing.
package recorded
