// Package external is an extractor that asks a team's own pipeline: a program
// that answers JSON lines, kept running in as many processes as are needed, or
// an HTTP endpoint that is given the same JSON by POST. The protocol is
// docs/pipeline-protocol.md.
//
// It does not judge what was found, and it does not repeat a request: whether
// one may be repeated is said by the error. For each document it
//
//  1. writes the document, its schemas, the model and the parameters as one JSON
//     object, never the expected output,
//  2. asks the program or endpoint,
//  3. reads the extraction, and the calls, usage, cost and warnings that the
//     pipeline reports, within limits,
//  4. returns them, with one span of its own in front of the calls.
//
// A short example:
//
//	extractor, err := external.New(external.Config{Target: "./extract --flag", Concurrency: 4})
//	defer extractor.Close()
//	found, calls, err := extractor.Extract(ctx, doc)
package external
