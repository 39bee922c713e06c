// Package langfuse is a client of the Langfuse public API on net/http: projects,
// datasets and their items, prompts, spans over OTLP, scores, experiments and
// observations, and a probe of what a server can do.
//
// It is not a tracing SDK: nothing is queued, sampled or sent in the
// background. Every method is one call (or one iterator over pages) that
// returns when the server has answered, so that the caller knows what arrived.
// It keeps no state but its configuration and is safe for concurrent use.
//
// The steps of a caller:
//
//  1. ConfigFromEnv reads the LANGFUSE_* variables; New validates.
//  2. Probe checks address, keys and version and returns a Server, whose
//     Capabilities decide everything that depends on the server's version or
//     mode.
//  3. Writing: CreateDatasetRunItem links a trace to a dataset item,
//     ExportSpans sends the trace, CreateScores its scores. All ids are the
//     caller's, so every one of these may be sent again unchanged.
//  4. Reading: the List methods are iterators over pages; one page is held in
//     memory at a time. Methods that take a Server or its Capabilities read
//     through whichever endpoint it has: GetRun, ListRunItems and ListRunScores
//     a run, ReadScores scores, GetTrace, ReadTraces and ListTraces traces. The
//     others are one endpoint, which not every server has.
//
// v4 keeps runs as experiments, v3 as runs of a dataset, and a server that is
// being migrated as both; these are a run's views (Capabilities.Views), and it is
// complete where it is complete in each.
//
// What Langfuse answers with success is queued, not stored: read it back, with
// patience (Wait), where it must be certain.
//
//	config, set, err := langfuse.ConfigFromEnv(os.LookupEnv)
//	if err != nil || !set {
//		return err
//	}
//	client, err := langfuse.New(config)
//	if err != nil {
//		return err
//	}
//	server, err := client.Probe(ctx)
//	if err != nil {
//		return err
//	}
//	fmt.Println(server.Project.Name, server.Version, server.Mode())
package langfuse
