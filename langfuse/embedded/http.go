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

// handler answers one call: with the body of a 200, with a response where the
// status is another one, or with an error that is a *fault where the caller is
// to blame.
type handler func(*Server, *call) (any, error)

// access says who may call a route, and where it exists.
type access int

const (
	keyPair access = iota // basic authentication with the key pair
	early                 // the key pair, and what waits in the inbox may wait longer
	anyone                // no authentication
	legacy                // the key pair, and 404 in ModeV4
)

// route is one row of the table; the pattern is one of http.ServeMux.
type route struct {
	pattern string
	handle  handler
	access  access
}

// routes returns the whole API.
func routes() []route {
	return []route{
		{"GET /api/public/health", (*Server).health, anyone},
		{"GET /api/public/projects", (*Server).projects, early},

		{"POST /api/public/v2/datasets", (*Server).upsertDataset, early},
		{"GET /api/public/v2/datasets", (*Server).listDatasets, early},
		{"GET /api/public/v2/datasets/{name}", (*Server).getDataset, early},
		{"POST /api/public/dataset-items", (*Server).upsertItem, early},
		{"GET /api/public/dataset-items", (*Server).listItems, early},
		{"GET /api/public/dataset-items/{id}", (*Server).getItem, early},
		{"DELETE /api/public/dataset-items/{id}", (*Server).deleteItem, early},

		{"POST /api/public/dataset-run-items", (*Server).linkItem, early},
		{"GET /api/public/dataset-run-items", (*Server).listRunItems, legacy},
		{"GET /api/public/datasets/{name}/runs", (*Server).listRuns, legacy},
		{"GET /api/public/datasets/{name}/runs/{run}", (*Server).getRun, legacy},
		{"DELETE /api/public/datasets/{name}/runs/{run}", (*Server).deleteRun, legacy},
		{"GET /api/public/experiments", (*Server).listExperiments, early},
		{"GET /api/public/experiment-items", (*Server).listExperimentItems, keyPair},

		{"POST /api/public/otel/v1/traces", (*Server).exportSpans, early},
		{"POST /api/public/ingestion", (*Server).ingest, early},
		{"GET /api/public/v2/observations", (*Server).listObservations, keyPair},
		{"GET /api/public/observations/{id}", (*Server).getLegacyObservation, legacy},
		{"GET /api/public/traces", (*Server).listTraces, legacy},
		{"GET /api/public/traces/{id}", (*Server).getTrace, legacy},

		{"POST /api/public/scores", (*Server).createScore, early},
		{"DELETE /api/public/scores/{id}", (*Server).deleteScore, early},
		{"GET /api/public/v3/scores", (*Server).listScores, keyPair},
		{"GET /api/public/v2/scores", (*Server).listLegacyScores, legacy},

		{"POST /api/public/score-configs", (*Server).createScoreConfig, keyPair},
		{"GET /api/public/score-configs", (*Server).listScoreConfigs, keyPair},
		{"GET /api/public/score-configs/{id}", (*Server).getScoreConfig, keyPair},
		{"POST /api/public/annotation-queues", (*Server).createQueue, keyPair},
		{"GET /api/public/annotation-queues", (*Server).listQueues, keyPair},
		{"POST /api/public/annotation-queues/{id}/items", (*Server).createQueueItem, keyPair},
		{"GET /api/public/annotation-queues/{id}/items", (*Server).listQueueItems, keyPair},
		{"PATCH /api/public/annotation-queues/{id}/items/{item}", (*Server).updateQueueItem, keyPair},
		{"POST /api/public/comments", (*Server).createComment, keyPair},
		{"GET /api/public/comments", (*Server).listComments, keyPair},
		{"POST /api/embedded/annotations", (*Server).createAnnotation, keyPair},       // not of Langfuse
		{"POST /api/embedded/datasets/{name}/run", (*Server).startRemoteRun, keyPair}, // nor is this one

		{"POST /api/public/v2/prompts", (*Server).createPrompt, early},
		{"GET /api/public/v2/prompts", (*Server).listPrompts, early},
		{"GET /api/public/v2/prompts/{name}", (*Server).getPrompt, early},
		{"DELETE /api/public/v2/prompts/{name}", (*Server).deletePrompt, early},
		{"PATCH /api/public/v2/prompts/{name}/versions/{version}", (*Server).labelPrompt, early},
		{"GET /api/public/prompts", (*Server).getPromptByQuery, early},
	}
}

// newMux returns what finds the route of a request.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range routes() {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, rt) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		page(http.StatusNotFound, "<!DOCTYPE html><html><head><title>404</title></head><body><h1>404</h1>"+
			"<p>This page could not be found.</p></body></html>").write(w)
	})
	return mux
}

// serveHTTP checks the host and tells the API from the pages.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !loopback(r.Host) { // a web page that rebinds its name to this machine must not read the store
		jsonAnswer(http.StatusForbidden, object{
			"message": "This server answers requests for loopback hosts only, not for " + textutil.Cut(r.Host, 100)}).write(w)
		return
	}
	if pages := s.pages.Load(); pages != nil && !strings.HasPrefix(r.URL.Path, "/api/") {
		(*pages).ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// loopback says whether a Host header names this machine, with or without port.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// serve answers a request, unless its turn to fail has come.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	c := &call{r: r, w: w}
	work := func() response {
		body, err := s.handle(c, rt)
		return respond(body, err)
	}
	if faults := s.faults.Load(); faults != nil {
		faults.serve(c, rt, s.cfg.Now(), work)
		return
	}
	work().write(w)
}

func (s *Server) handle(c *call, rt route) (any, error) {
	if err := s.authorise(c.r, rt); err != nil {
		return nil, err
	}
	if rt.access == legacy && !s.cfg.Mode.legacy() {
		return nil, &fault{http.StatusNotFound, object{"message": "This endpoint is not available on deployments running in " +
			"Langfuse v4 events_only mode. Learn more about Langfuse v4 at: https://langfuse.com/docs/v4"}}
	}
	var err error
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return nil, badQuery("", "The query is not URL-encoded: "+err.Error())
	}
	s.asked.Store(true)
	if rt.access == keyPair || rt.access == legacy {
		if err := s.settle(); err != nil {
			return nil, err
		}
	}
	return rt.handle(s, c)
}

// onlyV4 is what Langfuse 3 answers for an API that came with Langfuse 4.
func (s *Server) onlyV4(name string) error {
	if s.cfg.Mode.events() {
		return nil
	}
	return notFound("The %s API is only available in a Langfuse v4 write mode. Learn more at: https://langfuse.com/docs/v4", name)
}

// authorise lets a request through or says 401 the way Langfuse does.
func (s *Server) authorise(r *http.Request, rt route) error {
	if rt.access == anyone {
		return nil
	}
	unauthorised := func(message string) error {
		return &fault{http.StatusUnauthorized, object{"message": message}}
	}
	if r.Header.Get("Authorization") == "" {
		return unauthorised("No authorization header")
	}
	public, secret, isBasic := r.BasicAuth()
	if !isBasic {
		return unauthorised("Invalid authorization header")
	}
	if public != DefaultPublicKey || subtle.ConstantTimeCompare([]byte(secret), []byte(s.cfg.SecretKey)) == 0 {
		return unauthorised("Invalid credentials. Confirm that you've configured the correct host.")
	}
	return nil
}

// health answers GET /health.
func (s *Server) health(*call) (any, error) {
	version := "4.16.0"
	if s.cfg.Mode == ModeV3 {
		version = "3.225.4"
	}
	return object{"status": "OK", "version": version}, nil
}

// projects answers GET /projects: the one project of the key pair.
func (s *Server) projects(*call) (any, error) {
	project := object{
		"id": DefaultProjectID, "name": s.cfg.ProjectName, "metadata": object{},
		"organization": object{"id": "embedded", "name": "embedded"},
	}
	return object{"data": []any{project}}, nil
}

// object is a JSON object on its way out.
type object = map[string]any

// response is an answer as it is written, and what a handler returns where the status
// is not 200.
type response struct {
	status int
	kind   string // content type
	body   []byte
}

// respond makes the answer of what a handler returned.
func respond(body any, err error) response {
	var f *fault
	switch ready, isReady := body.(response); {
	case errors.As(err, &f):
		if text, isText := f.body.(string); isText {
			return response{f.status, "text/plain; charset=utf-8", []byte(text)}
		}
		return jsonAnswer(f.status, f.body)
	case err != nil:
		return jsonAnswer(http.StatusInternalServerError, object{"message": "Internal Server Error", "error": err.Error()})
	case isReady:
		return ready
	}
	return jsonAnswer(http.StatusOK, body)
}

func jsonAnswer(status int, body any) response {
	text, err := textutil.MarshalJSON(body)
	if err != nil {
		return response{http.StatusInternalServerError, "text/plain; charset=utf-8", []byte(err.Error())}
	}
	return response{status, "application/json; charset=utf-8", append(text, '\n')}
}

func page(status int, html string) response {
	return response{status, "text/html; charset=utf-8", []byte(html)}
}

func (res response) write(w http.ResponseWriter) {
	if res.kind != "" {
		w.Header().Set("Content-Type", res.kind)
	}
	w.WriteHeader(res.status)
	_, _ = w.Write(res.body) // a client that is gone by now cannot be told anything
}

// fault is an answer that blames the request: an object, or a plain text.
type fault struct {
	status int
	body   any
}

// Error describes the answer.
func (f *fault) Error() string {
	return fmt.Sprintf("%d %v", f.status, f.body)
}

// issue is one finding about one field, in the shape of Langfuse's validator.
type issue struct {
	Code    string   `json:"code"`
	Path    []any    `json:"path"`
	Message string   `json:"message"`
	Keys    []string `json:"keys,omitempty"`
}

func badData(issues ...issue) *fault {
	return &fault{http.StatusBadRequest, object{"message": "Invalid request data", "error": issues}}
}

func badQuery(key, message string) *fault {
	return badData(issue{Code: "custom", Path: []any{key}, Message: message})
}

func blame(status int, class, format string, args []any) *fault {
	return &fault{status, object{"message": fmt.Sprintf(format, args...), "error": class}}
}

func invalid(format string, args ...any) *fault {
	return blame(http.StatusBadRequest, "InvalidRequestError", format, args)
}

func notFound(format string, args ...any) *fault {
	return blame(http.StatusNotFound, "LangfuseNotFoundError", format, args)
}

// iso writes milliseconds as the API writes instants.
func iso(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func isoOrNull(ms sql.NullInt64) any {
	if !ms.Valid {
		return nil
	}
	return iso(ms.Int64)
}

// nullable is how an absent text is written: as null.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// orNull is the value of a column that may be null.
func orNull(column driver.Valuer) any {
	v, _ := column.Value() // of sql.NullString and its like: there is no error
	return v
}

// jsonText passes stored JSON on as it is; nothing stored is null.
func jsonText(s string) any {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// asText writes a value as text: a text as it is, anything else as JSON.
func asText(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	text, err := textutil.MarshalJSON(v)
	if err != nil { // a number that JSON cannot write
		return ""
	}
	return string(text)
}

// joined is a list as JSON.
func joined(list []string) string {
	return asText(append([]string{}, list...))
}
