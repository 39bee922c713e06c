package embedded

import (
	"crypto/subtle"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"extraction-experiment/internal/textutil"
)

// handler answers a call. It returns the body of a 200 answer, or a response with another status,
// or an error, which is an *apiError if the request is to blame.
type handler func(*Server, *call) (any, error)

// access defines who may call a route and in which modes it exists.
type access int

const (
	keyPair    access = iota // basic authentication with the key pair; the inbox is settled first
	noSettle                 // like keyPair, but the route reads nothing from the inbox, or settles it itself
	noAuth                   // no authentication
	legacyOnly               // like keyPair, but 404 in ModeV4
)

// bucket names the routes that share a limit of requests; see Faults.RateLimit.
type bucket string

const (
	unlimited      bucket = "" // also routes that Langfuse does not have
	publicAPI      bucket = "public-api"
	legacyAPI      bucket = "public-api-legacy"
	datasetAPI     bucket = "datasets"
	ingestionAPI   bucket = "ingestion"
	queueAPI       bucket = "annotation-queues"
	scoreDeleteAPI bucket = "score-delete"
)

// route is a row of the route table. The pattern is one of http.ServeMux.
type route struct {
	pattern string
	handle  handler
	access  access
	bucket  bucket
}

// routes returns the table of all routes of the API.
func routes() []route {
	return []route{
		{"GET /api/public/health", (*Server).health, noAuth, unlimited},
		{"GET /api/public/projects", (*Server).projects, noSettle, unlimited},

		{"POST /api/public/v2/datasets", (*Server).upsertDataset, noSettle, datasetAPI},
		{"GET /api/public/v2/datasets", (*Server).listDatasets, noSettle, datasetAPI},
		{"GET /api/public/v2/datasets/{name}", (*Server).getDataset, noSettle, datasetAPI},
		{"POST /api/public/dataset-items", (*Server).upsertItem, noSettle, datasetAPI},
		{"GET /api/public/dataset-items", (*Server).listItems, noSettle, datasetAPI},
		{"GET /api/public/dataset-items/{id}", (*Server).getItem, noSettle, datasetAPI},
		{"DELETE /api/public/dataset-items/{id}", (*Server).deleteItem, noSettle, datasetAPI},

		{"POST /api/public/dataset-run-items", (*Server).linkItem, noSettle, datasetAPI},
		{"GET /api/public/dataset-run-items", (*Server).listRunItems, legacyOnly, datasetAPI},
		{"GET /api/public/datasets/{name}/runs", (*Server).listRuns, legacyOnly, datasetAPI},
		{"GET /api/public/datasets/{name}/runs/{run}", (*Server).getRun, legacyOnly, datasetAPI},
		{"DELETE /api/public/datasets/{name}/runs/{run}", (*Server).deleteRun, legacyOnly, datasetAPI},
		{"GET /api/public/experiments", (*Server).listExperiments, noSettle, publicAPI},
		{"GET /api/public/experiment-items", (*Server).listExperimentItems, keyPair, publicAPI},

		{"POST /api/public/otel/v1/traces", (*Server).exportSpans, noSettle, ingestionAPI},
		{"POST /api/public/ingestion", (*Server).ingest, noSettle, ingestionAPI},
		{"GET /api/public/v2/observations", (*Server).listObservations, keyPair, publicAPI},
		{"GET /api/public/observations/{id}", (*Server).getLegacyObservation, legacyOnly, legacyAPI},
		{"GET /api/public/traces", (*Server).listTraces, legacyOnly, legacyAPI},
		{"GET /api/public/traces/{id}", (*Server).getTrace, legacyOnly, legacyAPI},

		{"POST /api/public/scores", (*Server).createScore, noSettle, publicAPI},
		{"DELETE /api/public/scores/{id}", (*Server).deleteScore, noSettle, scoreDeleteAPI},
		{"GET /api/public/v3/scores", (*Server).listScores, keyPair, publicAPI},
		{"GET /api/public/v2/scores", (*Server).listLegacyScores, legacyOnly, publicAPI},

		{"POST /api/public/score-configs", (*Server).createScoreConfig, keyPair, publicAPI},
		{"GET /api/public/score-configs", (*Server).listScoreConfigs, keyPair, publicAPI},
		{"GET /api/public/score-configs/{id}", (*Server).getScoreConfig, keyPair, publicAPI},
		{"POST /api/public/annotation-queues", (*Server).createQueue, keyPair, queueAPI},
		{"GET /api/public/annotation-queues", (*Server).listQueues, keyPair, queueAPI},
		{"POST /api/public/annotation-queues/{id}/items", (*Server).createQueueItem, keyPair, queueAPI},
		{"GET /api/public/annotation-queues/{id}/items", (*Server).listQueueItems, keyPair, queueAPI},
		{"PATCH /api/public/annotation-queues/{id}/items/{item}", (*Server).updateQueueItem, keyPair, queueAPI},
		{"POST /api/public/comments", (*Server).createComment, keyPair, publicAPI},
		{"GET /api/public/comments", (*Server).listComments, keyPair, publicAPI},
		{"POST /api/embedded/annotations", (*Server).createAnnotation, keyPair, unlimited},       // not in Langfuse
		{"POST /api/embedded/datasets/{name}/run", (*Server).startRemoteRun, keyPair, unlimited}, // not in Langfuse

		{"POST /api/public/v2/prompts", (*Server).createPrompt, noSettle, unlimited},
		{"GET /api/public/v2/prompts", (*Server).listPrompts, noSettle, unlimited},
		{"GET /api/public/v2/prompts/{name}", (*Server).getPrompt, noSettle, unlimited},
		{"DELETE /api/public/v2/prompts/{name}", (*Server).deletePrompt, noSettle, unlimited},
		{"PATCH /api/public/v2/prompts/{name}/versions/{version}", (*Server).labelPrompt, noSettle, unlimited},
		{"GET /api/public/prompts", (*Server).getPromptByQuery, noSettle, unlimited},
	}
}

// newMux returns a mux with all routes.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	paths := map[string]bool{}
	for _, rt := range routes() {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, rt) })
		_, path, _ := strings.Cut(rt.pattern, " ")
		paths[path] = true
	}
	for path := range paths { // with another method
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			newAnswer(http.StatusMethodNotAllowed, object{"message": "Method not allowed", "error": "MethodNotAllowedError"}).write(w)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		htmlAnswer(http.StatusNotFound, "<!DOCTYPE html><html><head><title>404</title></head><body><h1>404</h1>"+
			"<p>This page could not be found.</p></body></html>").write(w)
	})
	return mux
}

// serveHTTP checks the host and dispatches to the API or to the pages.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback(r.Host) { // a web page that rebinds its name to this machine must not read the store
		newAnswer(http.StatusForbidden, object{
			"message": "This server answers requests for loopback hosts only, not for " + textutil.Cut(r.Host, 100)}).write(w)
		return
	}
	if pages := s.pages.Load(); pages != nil && !strings.HasPrefix(r.URL.Path, "/api/") {
		(*pages).ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// loopback reports whether a Host header, with or without port, names this machine.
func loopback(host string) bool {
	name := (&url.URL{Host: host}).Hostname()
	return strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
}

// serve answers a request, with faults if they are configured and the request may use the route.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	c := &call{r: r, w: w}
	work := func() response {
		body, err := s.handle(c, rt)
		return respond(body, err)
	}
	if faults := s.faults.Load(); faults != nil && s.authorise(r, rt) == nil {
		faults.serve(c, rt, s.cfg.Now(), work)
		return
	}
	work().write(w)
}

func (s *Server) handle(c *call, rt route) (any, error) {
	if err := s.authorise(c.r, rt); err != nil {
		return nil, err
	}
	if rt.access == legacyOnly && !s.cfg.Mode.hasTraces() {
		return nil, &apiError{http.StatusNotFound, object{"message": "This endpoint is not available on deployments running in " +
			"Langfuse v4 events_only mode. Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"}}
	}
	var err error
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return nil, invalidQuery("", "The query is not URL-encoded: "+err.Error())
	}
	s.requested.Store(true)
	if rt.access == keyPair || rt.access == legacyOnly {
		if err := s.settle(); err != nil {
			return nil, err
		}
	}
	return rt.handle(s, c)
}

// requireV4 returns the 404 error of Langfuse 3 for an API that came with Langfuse 4, or nil.
func (s *Server) requireV4(name string) error {
	if s.cfg.Mode.hasExperiments() {
		return nil
	}
	return notFound("The %s API is only available in a Langfuse v4 write mode. Learn more at: https://langfuse.com/docs/v4", name)
}

// authorise returns nil if the request may use the route, and Langfuse's 401 error otherwise.
func (s *Server) authorise(r *http.Request, rt route) error {
	message := "Invalid credentials. Confirm that you've configured the correct host."
	switch public, secret, isBasic := r.BasicAuth(); {
	case rt.access == noAuth:
		return nil
	case r.Header.Get("Authorization") == "":
		message = "No authorization header"
	case !isBasic:
		message = "Invalid authorization header"
	case public == DefaultPublicKey && subtle.ConstantTimeCompare([]byte(secret), []byte(s.cfg.SecretKey)) == 1:
		return nil
	}
	body := object{"message": message}
	if strings.HasSuffix(rt.pattern, "/ingestion") || strings.Contains(rt.pattern, "/prompts") {
		body["error"] = "UnauthorizedError"
	}
	return &apiError{http.StatusUnauthorized, body}
}

// health answers GET /health.
func (s *Server) health(*call) (any, error) {
	version := "4.16.0"
	if s.cfg.Mode == ModeV3 {
		version = "3.225.4"
	}
	return object{"status": "OK", "version": version}, nil
}

// projects answers GET /projects with the only project.
func (s *Server) projects(*call) (any, error) {
	project := object{
		"id": DefaultProjectID, "name": s.cfg.ProjectName, "metadata": object{},
		"organization": object{"id": "embedded", "name": "embedded"},
	}
	return object{"data": []any{project}}, nil
}

// object is a JSON object of an answer.
type object = map[string]any

// response is a complete answer. A handler returns one if the status is not 200.
type response struct {
	status      int
	contentType string
	body        []byte
}

// respond converts the results of a handler into an answer.
func respond(body any, err error) response {
	var apiErr *apiError
	switch ready, isReady := body.(response); {
	case errors.As(err, &apiErr):
		return newAnswer(apiErr.status, apiErr.body)
	case err != nil:
		return newAnswer(http.StatusInternalServerError, object{"message": "Internal Server Error", "error": err.Error()})
	case isReady:
		return ready
	}
	return newAnswer(http.StatusOK, body)
}

// newAnswer returns an answer with a string as plain text and any other body as JSON.
func newAnswer(status int, body any) response {
	if text, isText := body.(string); isText {
		return response{status, "text/plain; charset=utf-8", []byte(text)}
	}
	text, err := textutil.MarshalJSON(body)
	if err != nil {
		return newAnswer(http.StatusInternalServerError, err.Error())
	}
	return response{status, "application/json; charset=utf-8", append(text, '\n')}
}

func htmlAnswer(status int, html string) response {
	return response{status, "text/html; charset=utf-8", []byte(html)}
}

func (res response) write(w http.ResponseWriter) {
	if res.contentType != "" {
		w.Header().Set("Content-Type", res.contentType)
	}
	w.WriteHeader(res.status)
	_, _ = w.Write(res.body) // the client may be gone
}

// apiError is the answer to an invalid request. The body is an object, or a string for plain
// text.
type apiError struct {
	status int
	body   any
}

// Error returns the status and the body.
func (f *apiError) Error() string {
	return fmt.Sprintf("%d %v", f.status, f.body)
}

// issue is a problem with one field, in the form of Langfuse's validator.
type issue struct {
	Code    string   `json:"code"`
	Path    []any    `json:"path"`
	Message string   `json:"message"`
	Keys    []string `json:"keys,omitempty"`
}

func invalidData(issues ...issue) *apiError {
	return &apiError{http.StatusBadRequest, object{"message": "Invalid request data", "error": issues}}
}

func invalidQuery(key, message string) *apiError {
	return invalidData(issue{Code: "custom", Path: []any{key}, Message: message})
}

func newAPIError(status int, class, format string, args []any) *apiError {
	return &apiError{status, object{"message": fmt.Sprintf(format, args...), "error": class}}
}

func invalidRequest(format string, args ...any) *apiError {
	return newAPIError(http.StatusBadRequest, "InvalidRequestError", format, args)
}

func notFound(format string, args ...any) *apiError {
	return newAPIError(http.StatusNotFound, "LangfuseNotFoundError", format, args)
}

// iso formats milliseconds as the API formats timestamps.
func iso(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func isoOrNull(ms sql.NullInt64) any {
	if !ms.Valid {
		return nil
	}
	return iso(ms.Int64)
}

// textOrNull returns nil, which is encoded as null, for an empty string.
func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// valueOrNull returns the value of a nullable column.
func valueOrNull(column driver.Valuer) any {
	v, _ := column.Value() // sql.NullString and the other nullable types return no error
	return v
}

// jsonOrNull returns stored JSON unchanged, and nil for an empty string.
func jsonOrNull(s string) any {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// asText returns a string unchanged and any other value as JSON.
func asText(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	text, err := textutil.MarshalJSON(v)
	if err != nil { // a number that JSON cannot represent
		return ""
	}
	return string(text)
}

// jsonList encodes a list as JSON; nil becomes [].
func jsonList(list []string) string {
	return asText(append([]string{}, list...))
}
