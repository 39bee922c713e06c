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
// played, the route answers 404 with that text and needs no handler.
type route struct {
	method  string
	pattern string // segments in braces match any one segment
	handle  handler
	access  access
	off     map[Mode]string
}

const eventsOnlyText = "This endpoint is not available on deployments running in Langfuse v4 events_only mode. " +
	"Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"

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

		{post, "/api/public/v2/prompts", (*Server).createPrompt, keyPair, nil},
		{get, "/api/public/v2/prompts", (*Server).listPrompts, keyPair, nil},
		{get, "/api/public/v2/prompts/{name}", (*Server).getPrompt, keyPair, nil},
		{del, "/api/public/v2/prompts/{name}", (*Server).deletePrompt, keyPair, nil},
		{patch, "/api/public/v2/prompts/{name}/versions/{version}", (*Server).labelPrompt, keyPair, nil},
		{get, "/api/public/prompts", (*Server).getPromptByQuery, keyPair, nil},

		{get, "/api/public/dataset-run-items", nil, keyPair, legacy},
		{get, "/api/public/datasets/{name}/runs", nil, keyPair, legacy},
		{get, "/api/public/datasets/{name}/runs/{run}", nil, keyPair, legacy},
		{del, "/api/public/datasets/{name}/runs/{run}", nil, keyPair, legacy},
		{get, "/api/public/traces", nil, keyPair, legacy},
		{get, "/api/public/traces/{id}", nil, keyPair, legacy},
		{get, "/api/public/observations", nil, keyPair, legacy},
		{get, "/api/public/observations/{id}", nil, keyPair, legacy},
		{get, "/api/public/sessions", nil, keyPair, legacy},
		{get, "/api/public/sessions/{id}", nil, keyPair, legacy},
		{get, "/api/public/metrics", nil, keyPair, legacy},
		{get, "/api/public/scores", nil, keyPair, legacy},
		{get, "/api/public/scores/{id}", nil, keyPair, legacy},
		{get, "/api/public/v2/scores", nil, keyPair, legacy},
		{get, "/api/public/v2/scores/{id}", nil, keyPair, legacy},
	}
}
