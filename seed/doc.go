// Package seed fills datasets in Langfuse, with items from files and with items
// made of production traces that people validated, and looks after them: it
// checks items before anything is sent, writes only what changed, and archives
// and exports.
//
// It is no runner and does not score; what makes good gold is checked here,
// once, so that a run need not.
//
// The steps of File: check every item and name all problems with file, line
// and path; open or create the dataset; learn what is there (a few dozen bytes
// an item); write what is new or different; count the rest.
//
//	items := dataset.ReadFile(ctx, "items.jsonl")
//	result, err := seed.File(ctx, client, items, seed.Config{Dataset: "docs"})
//	fmt.Println(result.Created, result.Updated, result.Unchanged, result.Refused)
//
// The steps of FromTraces: select traces; read them with what people said of
// them; demand Evidence; make an item by the Mapping; take out what the
// Redaction says; then the steps of File.
//
//	selection := seed.Selection{Queue: "review", Since: lastWeek}
//	result, err := seed.FromTraces(ctx, client, server.Capabilities, selection, seed.TraceConfig{Config: seed.Config{Dataset: "docs"}})
package seed
