// Package gemini is the model behind the Gemini API of Google. It is a
// pipeline.Model: one request per call, no retries, no streaming, no automatic
// continuation; limits, repetitions, caches and prices are the business of
// decorators.
//
//	model, err := gemini.New(gemini.Config{Model: "gemini-2.5-flash", APIKey: secret.New(key)})
//	answer, err := model.Generate(ctx, pipeline.Request{Messages: messages})
//
// The request is POST {BaseURL}/v1beta/models/{Model}:generateContent with the
// key in the header x-goog-api-key. System messages become the system
// instruction, "assistant" becomes "model". Parameters are on the wire exactly
// as they are given, a temperature of 0 included, and are absent where they are
// nil; a schema goes out as responseJsonSchema with its keys in their order,
// because the model answers in that order.
//
// Thinking is billed as output: Usage.Output is candidates and thoughts
// together, Usage.Reasoning the thoughts among them. Usage.Input is the prompt,
// what was read from a cache included (Usage.Cached).
//
// The default HTTP client honours HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and for
// private certificates SSL_CERT_FILE and SSL_CERT_DIR (on macOS and Windows
// they belong into the system's store).
//
// Google's library starts one goroutine when the program begins
// (go.opencensus.io/stats/view) and says on standard error that both key
// variables are set where they are; neither can be switched off.
package gemini
