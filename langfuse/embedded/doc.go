// Package embedded is a server that speaks the public API of Langfuse over
// real HTTP and keeps everything in one SQLite file. It is what the commands
// use where no Langfuse account is configured, and what the tests talk to.
//
// It is not Langfuse: it has no user interface, no users, one project, one key
// pair, no model prices, no queue. What Langfuse does a while after the answer
// is done here before the answer, so a write that was acknowledged can be read
// at once and survives the death of the process.
//
// It imports no client of this project. A server and a client that share types
// agree with each other and with nobody else; these two meet over HTTP only.
//
// A request takes these steps: the host is checked, the route is looked up in
// the table of routes.go, the key pair is checked, the table says whether the
// route exists in the mode that is played, the handler reads its form or query,
// works in one transaction, and its reply or fault is written.
//
// Where the behaviour comes from: Langfuse 4.16 in its default mode
// (events_only). A run exists only through the langfuse.experiment.* attributes
// of spans, legacy reads answer 404, and POST /dataset-run-items answers with
// the computed experiment id and stores nothing.
//
// Limits: request bodies of 1 MB, of 4.5 MB for dataset items and ingestion, of
// 64 MB for OTLP after decompression; JSON that nests 1000 deep. Pages are cut
// by rows and not by bytes, as in Langfuse: a page of 100 items of 4 MB is 400
// MB in memory, so ask for fewer at a time where items are big. There are no
// model prices: a cost is stored where the span brings one.
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
