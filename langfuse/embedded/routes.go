package embedded

import "net/http"

// handler answers one call: a reply, or an error that is a *fault where the
// caller is to blame.
type handler func(*Server, *call) (reply, error)

// access says who may call a route.
type access int

const (
	keyPair   access = iota // basic authentication with the key pair
	publicKey               // that, or the public key alone as a bearer token
	anyone                  // no authentication
)

// route is one row of the table. Where off has a text for the mode that is
// played, the route answers 404 with that text and needs no handler. Without
// text and handler the route does not exist in that mode.
type route struct {
	method  string
	pattern string // segments in braces match any one segment
	handle  handler
	access  access
	off     map[Mode]string
}

const eventsOnlyText = "This endpoint is not available on deployments running in Langfuse v4 events_only mode. " +
	"Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"

// onlyV4Text is what Langfuse 3 answers for an API that came with Langfuse 4.
func onlyV4Text(name string) string {
	return "The " + name + " API is only available in a Langfuse v4 write mode. Learn more at: https://langfuse.com/docs/v4"
}

// routes returns the whole API. A mode is a column of this table: give it a
// text in off where it lacks a route, and a handler where it has one.
func routes() []route {
	get, post, patch, del := http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	legacy := map[Mode]string{ModeV4: eventsOnlyText}
	return []route{
		{get, "/api/public/health", (*Server).health, anyone, nil},
		{get, "/api/public/ready", (*Server).health, anyone, nil},
		{get, "/api/public/projects", (*Server).projects, keyPair, nil},

		{post, "/api/public/v2/datasets", (*Server).upsertDataset, keyPair, nil},
		{get, "/api/public/v2/datasets", (*Server).listDatasets, keyPair, nil},
		{get, "/api/public/v2/datasets/{name}", (*Server).getDataset, keyPair, nil},
		{get, "/api/public/datasets/{name}", (*Server).getWholeDataset, keyPair, nil},
		{post, "/api/public/dataset-items", (*Server).upsertItem, keyPair, nil},
		{get, "/api/public/dataset-items", (*Server).listItems, keyPair, nil},
		{get, "/api/public/dataset-items/{id}", (*Server).getItem, keyPair, nil},
		{del, "/api/public/dataset-items/{id}", (*Server).deleteItem, keyPair, nil},
		{post, "/api/public/dataset-run-items", (*Server).linkItem, keyPair, nil},

		{post, "/api/public/otel/v1/traces", (*Server).exportSpans, keyPair, nil},
		{post, "/api/public/ingestion", (*Server).ingest, keyPair, nil},
		{get, "/api/public/v2/observations", (*Server).listObservations, keyPair, nil},
		{get, "/api/public/experiments", (*Server).listExperiments, keyPair, nil},
		{get, "/api/public/experiment-items", (*Server).listExperimentItems, keyPair, nil},

		{post, "/api/public/scores", (*Server).createScore, publicKey, nil},
		{del, "/api/public/scores/{id}", (*Server).deleteScore, keyPair, nil},
		{get, "/api/public/v3/scores", (*Server).listScores, keyPair, nil},
		{post, "/api/public/score-configs", (*Server).createScoreConfig, keyPair, nil},
		{get, "/api/public/score-configs", (*Server).listScoreConfigs, keyPair, nil},
		{get, "/api/public/score-configs/{id}", (*Server).getScoreConfig, keyPair, nil},

		{patch, "/api/public/score-configs/{id}", (*Server).updateScoreConfig, keyPair, nil},
		{post, "/api/public/annotation-queues", (*Server).createQueue, keyPair, nil},
		{get, "/api/public/annotation-queues", (*Server).listQueues, keyPair, nil},
		{get, "/api/public/annotation-queues/{id}", (*Server).getQueue, keyPair, nil},
		{post, "/api/public/annotation-queues/{id}/items", (*Server).createQueueItem, keyPair, nil},
		{get, "/api/public/annotation-queues/{id}/items", (*Server).listQueueItems, keyPair, nil},
		{get, "/api/public/annotation-queues/{id}/items/{item}", (*Server).getQueueItem, keyPair, nil},
		{patch, "/api/public/annotation-queues/{id}/items/{item}", (*Server).updateQueueItem, keyPair, nil},
		{del, "/api/public/annotation-queues/{id}/items/{item}", (*Server).deleteQueueItem, keyPair, nil},
		{post, "/api/embedded/annotations", (*Server).createAnnotation, keyPair, nil}, // not of Langfuse
		{post, "/api/public/comments", (*Server).createComment, keyPair, nil},
		{get, "/api/public/comments", (*Server).listComments, keyPair, nil},
		{get, "/api/public/comments/{id}", (*Server).getComment, keyPair, nil},
		{post, "/api/public/models", (*Server).createModel, keyPair, nil},
		{get, "/api/public/models", (*Server).listModels, keyPair, nil},
		{get, "/api/public/models/{id}", (*Server).getModel, keyPair, nil},
		{del, "/api/public/models/{id}", (*Server).deleteModel, keyPair, nil},

		{post, "/api/public/v2/prompts", (*Server).createPrompt, keyPair, nil},
		{get, "/api/public/v2/prompts", (*Server).listPrompts, keyPair, nil},
		{get, "/api/public/v2/prompts/{name}", (*Server).getPrompt, keyPair, nil},
		{del, "/api/public/v2/prompts/{name}", (*Server).deletePrompt, keyPair, nil},
		{patch, "/api/public/v2/prompts/{name}/versions/{version}", (*Server).labelPrompt, keyPair, nil},
		{get, "/api/public/prompts", (*Server).getPromptByQuery, keyPair, nil},

		{get, "/api/public/dataset-run-items", (*Server).listRunItems, keyPair, legacy},
		{get, "/api/public/datasets/{name}/runs", (*Server).listRuns, keyPair, legacy},
		{get, "/api/public/datasets/{name}/runs/{run}", (*Server).getRun, keyPair, legacy},
		{del, "/api/public/datasets/{name}/runs/{run}", (*Server).deleteRun, keyPair, legacy},
		{get, "/api/public/traces", (*Server).listTraces, keyPair, legacy},
		{get, "/api/public/traces/{id}", (*Server).getTrace, keyPair, legacy},
		{del, "/api/public/traces", (*Server).deleteManyTraces, keyPair, nil},
		{del, "/api/public/traces/{id}", (*Server).deleteTrace, keyPair, nil},
		{get, "/api/public/observations", (*Server).listLegacyObservations, keyPair, legacy},
		{get, "/api/public/observations/{id}", (*Server).getLegacyObservation, keyPair, legacy},
		{get, "/api/public/sessions", (*Server).listSessions, keyPair, legacy},
		{get, "/api/public/sessions/{id}", (*Server).getSession, keyPair, legacy},
		{get, "/api/public/metrics", nil, keyPair, legacy},
		{get, "/api/public/scores", (*Server).listLegacyScores, keyPair, legacy},
		{get, "/api/public/scores/{id}", (*Server).getLegacyScore, keyPair, legacy},
		{get, "/api/public/v2/scores", (*Server).listLegacyScores, keyPair, legacy},
		{get, "/api/public/v2/scores/{id}", (*Server).getLegacyScore, keyPair, legacy},
	}
}
