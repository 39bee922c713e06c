// Package runstore keeps a run on disk: one SQLite file that is journal,
// outbox and result at once. It holds the header, every item as it was listed,
// every outcome as it was committed, what has been published of it, and the
// footer. It knows nothing of Langfuse, of models or of scorers.
//
// A run passes through it in five steps:
//
//  1. Create makes the file with its Header; Open takes it up again.
//  2. AddItems writes the items page by page while they are listed;
//     CompleteListing fixes the fingerprint.
//  3. Unrun hands out what was not run; Commit returns once an outcome cannot
//     be lost any more.
//  4. Unpublished hands out what was not acknowledged; Ack records what was.
//  5. Finish writes the footer, Close leaves one file that can be copied.
//
// One writer at a time: Create and Open hold a lock that dies with the
// process. Any number of readers (Load) may look on meanwhile, from any
// process. Memory is bounded everywhere: everything comes in pages.
//
//	path := runstore.Path(".experiment", "", "contracts", "baseline-v1")
//	run, err := runstore.Create(path, header)
//	…
//	err = run.AddItems(ctx, items, dataset.Hash)
//	err = run.Commit(ctx, outcome)
//	err = run.Finish(ctx, footer)
//	err = run.Close()
//
// A run leaves its file as plain JSON lines (Export) and comes back from them
// (Import); OpenAny reads either form.
package runstore
