// Package embedded is a server that speaks the public API of Langfuse over
// real HTTP and keeps everything in one SQLite file. It is what the commands
// use where no Langfuse account is configured, and what the tests talk to.
//
// It is not Langfuse: it has no user interface, no users, one project, one key
// pair, no model prices but those that are posted, no queue unless one is asked
// for. What Langfuse does a while after the answer is done here before the
// answer, so a write that was acknowledged can be read at once and survives the
// death of the process.
//
// It imports no client of this project. A server and a client that share types
// agree with each other and with nobody else; these two meet over HTTP only.
//
// A request takes these steps: the host is checked, the route is looked up in
// the table of routes.go and counted, the request fails where Faults say so, the
// key pair is checked, the table says whether the route exists in the mode that
// is played, what waits in the queue and is due is done, the handler reads its
// form or query, works in one transaction, and its reply or fault is written.
//
// Where the behaviour comes from: running servers of Langfuse 4.16 and 3.225 as
// they were seen in November 2026, and their published source where nothing was
// seen. Three deployments are played:
//
//   - ModeV4: a run exists only through the langfuse.experiment.* attributes of
//     spans, every root span of an item is listed, legacy reads answer 404, events
//     of traces are refused one by one, and POST /dataset-run-items answers with the
//     computed experiment id and stores nothing.
//   - ModeV3: a run exists through its run items, of which the newest per item
//     is read; a span is kept once whatever is sent; one bad span loses its whole
//     request behind a 200; experiments and v2/observations are 404.
//   - ModeV4Dual: both are written and both can be read.
//
// What a test wants besides is configured: Faults for slow, failing and limiting
// servers, IngestionDelay, DeleteDelay and MergeDelay for eventual consistency, Drop for a
// server that accepts and loses. Server.Requests counts what came;
// Server.Annotate, also as POST /api/embedded/annotations, sets what a person
// sets in the user interface: a score or correction with an author.
//
// Limits: request bodies of 1 MB, of 4.5 MB for dataset items and ingestion, of
// 64 MB for OTLP after decompression; JSON that nests 1000 deep. Pages are cut
// by rows and not by bytes, as in Langfuse: a page of 100 items of 4 MB is 400
// MB in memory, so ask for fewer at a time where items are big.
//
// Not played: metrics, media, pricing tiers, the delay of some ten minutes after
// which events of traces reach the experiments of a dual server (they are there
// at once), and the merging of more than two events of one trace that arrive out
// of order over several requests, where a field may keep the value of the oldest.
//
//	s, err := embedded.Open(embedded.Config{Path: "langfuse.db"})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	l, err := net.Listen("tcp", "127.0.0.1:4711")
//	if err != nil {
//		return err
//	}
//	return s.Serve(ctx, l)
package embedded
