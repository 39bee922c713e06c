package langfuse

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"extraction-experiment/internal/textutil"
)

// RunRef says which run is meant.
type RunRef struct {
	DatasetID, Name string
	// ID of the run (the experiment id). Empty: found by DatasetID and Name,
	// which costs a request where the server makes ids up.
	ID string
	// DatasetName is needed only for the description and metadata of GetRun in
	// ViewRuns.
	DatasetName string
	// Since bounds the start of the run's spans in ViewExperiments, which makes
	// the search cheaper for the server. Zero: no bound.
	Since time.Time
}

// Run is a run of a dataset, as one view of the server shows it.
type Run struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	DatasetID   string          `json:"datasetId"`
	Description string          `json:"description"`
	Metadata    json.RawMessage `json:"metadata"`
	// Time is when it was created (ViewRuns) or its first span started.
	Time time.Time `json:"createdAt"`
	// ItemCount is what the view counts: in ViewRuns one per item, in
	// ViewExperiments one per root span, that of an item run again included.
	// ListRuns leaves it 0 in ViewRuns.
	ItemCount int `json:"-"`
}

// Texts returns the values of metadata by key: texts as they are, everything else as
// JSON; none where it is not an object.
func Texts(metadata json.RawMessage) map[string]string {
	var values map[string]json.RawMessage
	texts := map[string]string{}
	if json.Unmarshal(metadata, &values) != nil {
		return texts
	}
	for key, value := range values {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		texts[key] = text
	}
	return texts
}

// errNoRun is returned for a run that a view does not show.
func errNoRun(ref RunRef, view View) error {
	return fmt.Errorf("run %q in the view of %s: %w", cmp.Or(ref.Name, ref.ID), view, ErrNotFound)
}

// GetRun returns a run as a view shows it. Names are never part of a path or of
// a list with commas, so that any name works; description and metadata in
// ViewRuns are the exception, which are left out without ref.DatasetName.
// Retried; errors: ErrNotFound (not there, or not yet), ErrEndpointGone (the
// server lacks the view), *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-run-items and /datasets/{name}/runs, or
// GET /api/public/experiments
func (c *Client) GetRun(ctx context.Context, server Server, view View, ref RunRef) (Run, error) {
	if view == ViewRuns {
		return c.getDatasetRun(ctx, ref)
	}
	id, err := c.RunID(ctx, server, ref)
	if err != nil {
		return Run{}, err
	}
	for found, err := range c.ListExperiments(ctx, cmp.Or(ref.Since, time.Unix(0, 0)), id) {
		if err != nil {
			return Run{}, fmt.Errorf("run %q: %w", cmp.Or(ref.Name, id), err)
		}
		return found, nil
	}
	return Run{}, errNoRun(ref, view)
}

// RunID returns the id of a run: ref.ID if it is set, else the one that the
// server stored with the run's items, else the one that v4 computes. It does not
// mean that the run exists, unless the server keeps run items only: then
// ErrNotFound says that it does not.
//
// API: GET /api/public/dataset-run-items
func (c *Client) RunID(ctx context.Context, server Server, ref RunRef) (string, error) {
	if ref.ID != "" {
		return ref.ID, nil
	}
	if ref.DatasetID == "" || ref.Name == "" {
		return "", errors.New("langfuse: a run is named by its id, or by the id of its dataset and its name")
	}
	if server.LegacyReads {
		found, err := c.getDatasetRun(ctx, RunRef{DatasetID: ref.DatasetID, Name: ref.Name})
		if err == nil || !errors.Is(err, ErrNotFound) || !server.NewReads {
			return found.ID, err
		}
	}
	return ExperimentID(server.Project.ID, ref.DatasetID, ref.Name), nil
}

// getDatasetRun reads a run through the newest of its items, by query.
func (c *Client) getDatasetRun(ctx context.Context, ref RunRef) (Run, error) {
	query := url.Values{"datasetId": {ref.DatasetID}, "runName": {ref.Name}, "limit": {"1"}, "page": {"1"}}
	newest, err := call[page[link]](ctx, c, get("dataset-run-items", query), nil, "run %q", ref.Name)
	if err != nil {
		return Run{}, err
	}
	if len(newest.Data) == 0 {
		return Run{}, errNoRun(ref, ViewRuns)
	}
	run := Run{
		ID: newest.Data[0].DatasetRunID, Name: ref.Name, DatasetID: ref.DatasetID,
		Time: newest.Data[0].Time, ItemCount: int(newest.Meta.TotalItems),
	}
	if ref.DatasetName == "" {
		return run, nil
	}
	for candidate, err := range c.listDatasetRuns(ctx, ref.DatasetName) {
		if err != nil {
			return Run{}, fmt.Errorf("description and metadata of run %q: %w", ref.Name, err)
		}
		if candidate.ID == run.ID {
			candidate.ItemCount = run.ItemCount
			return candidate, nil
		}
	}
	return run, nil
}

// listDatasetRuns yields the runs of a dataset from the tables of v3. The server
// decodes this path twice, so names with a slash or a percent sign are escaped
// twice, which also takes them past proxies that refuse an escaped slash.
func (c *Client) listDatasetRuns(ctx context.Context, datasetName string) iter.Seq2[Run, error] {
	segment := url.PathEscape(datasetName)
	if !pathSafe(datasetName) {
		segment = url.PathEscape(segment)
	}
	if datasetName == "" || datasetName == "." || datasetName == ".." {
		err := fmt.Errorf("langfuse: %q cannot stand in a path, which is how this server is asked for a run: "+
			"give the dataset another name", datasetName)
		return func(yield func(Run, error) bool) { yield(Run{}, &UsageError{err}) }
	}
	return listPages[Run](ctx, c, "datasets/"+segment+"/runs", url.Values{}, maxPageLimit)
}

// ListRuns yields the runs of a dataset as a view shows them, with their metadata, in
// no promised order. Retried; the first error ends the iteration: ErrEndpointGone where
// the server lacks the view, *APIError, *ConnectionError.
//
// API: GET /api/public/datasets/{name}/runs, or GET /api/public/experiments
func (c *Client) ListRuns(ctx context.Context, view View, dataset Dataset) iter.Seq2[Run, error] {
	if view == ViewRuns {
		return c.listDatasetRuns(ctx, dataset.Name)
	}
	turn := func(run Run) (Run, bool) { return run, run.DatasetID == dataset.ID }
	return convert(c.ListExperiments(ctx, time.Unix(0, 0)), turn, "runs of dataset %q", dataset.Name)
}

// RunItem is one item of a run, as one view of the server shows it.
type RunItem struct {
	ItemID        string `json:"datasetItemId"`
	TraceID       string `json:"traceId"`
	ObservationID string `json:"observationId"` // of the root span; may be empty where a link names none
	// Time is when the link was made (ViewRuns) or the root span started.
	Time time.Time `json:"createdAt"`
	// Level is that of the root span, ERROR where the item failed; empty in
	// ViewRuns.
	Level string `json:"-"`
}

// link is an item of a run as the server stores it.
type link struct {
	RunItem
	DatasetRunID string `json:"datasetRunId"`
}

// ListRunItems yields the items of a run as a view shows them: in ViewRuns one
// per item, that of the newest link; in ViewExperiments one per root span, so
// that an item that was run again is there once per attempt. A span that the
// server shows twice for a while comes once, and so does a link that moves to
// another page while it is read. A run that is not there yields nothing.
// Retried; the first error ends the iteration: ErrEndpointGone where the server
// lacks the view, *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-run-items, or GET /api/public/experiment-items
func (c *Client) ListRunItems(ctx context.Context, server Server, view View, ref RunRef) iter.Seq2[RunItem, error] {
	items := c.listRoots(ctx, server, ref)
	if view == ViewRuns {
		items = c.listLinks(ctx, ref)
	}
	return onceEach(items, func(i RunItem) [3]string { return [3]string{i.ItemID, i.TraceID, i.ObservationID} })
}

func (c *Client) listLinks(ctx context.Context, ref RunRef) iter.Seq2[RunItem, error] {
	query := url.Values{"datasetId": {ref.DatasetID}, "runName": {ref.Name}}
	links := convert(listPages[RunItem](ctx, c, "dataset-run-items", query, maxPageLimit), every[RunItem], "items of run %q", ref.Name)
	return func(yield func(RunItem, error) bool) {
		for link, err := range links {
			if errors.Is(err, ErrNotFound) || !yield(link, err) {
				return
			}
		}
	}
}

func (c *Client) listRoots(ctx context.Context, server Server, ref RunRef) iter.Seq2[RunItem, error] {
	return func(yield func(RunItem, error) bool) {
		id, err := c.RunID(ctx, server, ref)
		if err != nil {
			yield(RunItem{}, err)
			return
		}
		roots := c.experimentItems(ctx, cmp.Or(ref.Since, time.Unix(0, 0)), id, "core,dataset")
		convert(roots, func(e ExperimentItem) (RunItem, bool) {
			return RunItem{ItemID: e.ItemID, TraceID: e.TraceID, ObservationID: e.ID, Time: e.StartTime, Level: e.Level}, true
		}, "items of run %q", cmp.Or(ref.Name, id))(yield)
	}
}

// onceEach leaves out what is there again, by its key.
func onceEach[T any, K comparable](items iter.Seq2[T, error], key func(T) K) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		seen := map[K]bool{}
		for item, err := range items {
			k := key(item)
			if err == nil && seen[k] {
				continue
			}
			seen[k] = true
			if !yield(item, err) {
				return
			}
		}
	}
}

// DatasetRunItemCreate links a trace to a dataset item under the name of a run.
type DatasetRunItemCreate struct {
	RunName string `json:"runName"`
	// RunDescription and Metadata count in the first call of a run only: send
	// the same ones every time.
	RunDescription string            `json:"runDescription,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	DatasetItemID  string            `json:"datasetItemId"`
	// TraceID is required; the trace need not exist yet.
	TraceID       string `json:"traceId"`
	ObservationID string `json:"observationId,omitempty"`
	// DatasetVersion is the version the items were listed at, as FormatTime writes it:
	// with it an item that was archived meanwhile can still be linked. Leave it empty
	// unless Capabilities.DatasetVersions, as older servers refuse the key.
	DatasetVersion string `json:"datasetVersion,omitempty"`
}

// CreateDatasetRunItem sends the link and returns the id of the run: made up by v3 and
// dual servers, equal to ExperimentID on v4. Sent again it makes another row of which
// reads keep the newest, so it is safe to repeat; retried. On v4 in its default
// mode nothing is stored and the answer holds the computed run id. Errors:
// ErrNotFound (item or dataset unknown, or archived and no version given),
// ErrEndpointGone (v4.0, where ExperimentID computes the id), *APIError,
// *ConnectionError.
//
// API: POST /api/public/dataset-run-items
func (c *Client) CreateDatasetRunItem(ctx context.Context, item DatasetRunItemCreate) (runID string, err error) {
	if item.RunName == "" || item.DatasetItemID == "" || item.TraceID == "" {
		return "", errors.New("langfuse: a dataset run item needs a run name, a dataset item id and a trace id")
	}
	r := request{method: http.MethodPost, path: "dataset-run-items"}
	stored, err := call[link](ctx, c, r, item, "linking item %q to run %q", item.DatasetItemID, item.RunName)
	if err == nil && stored.DatasetRunID == "" {
		err = fmt.Errorf("linking item %q to run %q: %w", item.DatasetItemID, item.RunName,
			c.answered(r, http.StatusOK, nil, "the answer holds no datasetRunId"))
	}
	return stored.DatasetRunID, err
}

// ExperimentID returns the id that Langfuse v4 computes for a run: the first 16
// hexadecimal digits of SHA-256 over the text that JavaScript's JSON.stringify
// gives for ["langfuse-experiment-v1", projectID, datasetID, runName].
//
// Bytes of runName that are not UTF-8 count as U+FFFD each, which is what this
// client's requests turn them into on the way to the server.
func ExperimentID(projectID, datasetID, runName string) string {
	text, _ := textutil.MarshalJSON([]string{"langfuse-experiment-v1", projectID, datasetID, runName}) // strings can always be written
	sum := sha256.Sum256([]byte(likeJavaScript.Replace(string(text))))
	return hex.EncodeToString(sum[:])[:16]
}

// likeJavaScript takes back what encoding/json escapes and JSON.stringify does not.
var likeJavaScript = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029", `\ufffd`, "\ufffd")

// ListExperiments yields runs as v4 sees them, with metadata, the latest activity
// first: those of the ids, or all, with spans that start at an instant or later. Only
// where Capabilities.NewReads. Retried; the first error ends the iteration:
// ErrEndpointGone on v3, *APIError, *ConnectionError.
//
// API: GET /api/public/experiments
func (c *Client) ListExperiments(ctx context.Context, from time.Time, ids ...string) iter.Seq2[Run, error] {
	query := url.Values{"fields": {"core,metadata"}, "fromStartTime": {FormatTime(from)}}
	setList(query, "id", ids)
	type experiment struct {
		Run
		StartTime time.Time `json:"startTime"` // cut to the window that was asked for
		ItemCount Number    `json:"itemCount"`
	}
	run := func(e experiment) (Run, bool) {
		e.Run.Time, e.Run.ItemCount = e.StartTime, int(e.ItemCount)
		return e.Run, true
	}
	return convert(listCursor[experiment](ctx, c, "experiments", query, 0, maxPageLimit), run, "experiments")
}

// ExperimentItem is one item of a run as v4 sees it: the root span of one
// attempt. An item that was run again is there once per attempt.
type ExperimentItem struct {
	ID               string          `json:"id"` // of the root span
	TraceID          string          `json:"traceId"`
	StartTime        time.Time       `json:"startTime"`
	EndTime          time.Time       `json:"endTime"`
	Level            string          `json:"level"` // ERROR where it failed
	ItemID           string          `json:"experimentItemId"`
	DatasetVersion   time.Time       `json:"experimentItemVersion"`
	Input            json.RawMessage `json:"input"`  // see DecodeIO
	Output           json.RawMessage `json:"output"` // likewise
	ExpectedOutput   json.RawMessage `json:"expectedOutput"`
	Metadata         json.RawMessage `json:"metadata"`
	ExperimentFields json.RawMessage `json:"experimentMetadata"`
	// Scores are those of the trace and its root within a day of it, at most
	// 50; see ListScores for all.
	Scores []Score `json:"scores"`
}

// ListExperimentItems yields the items of an experiment with all that there is of
// them, the newest first, from an instant on. Only where Capabilities.NewReads. Reads
// show a span twice for a while when it was sent twice: count by (TraceID, ID). Retried;
// the first error ends the iteration.
//
// API: GET /api/public/experiment-items
func (c *Client) ListExperimentItems(ctx context.Context, from time.Time, id string) iter.Seq2[ExperimentItem, error] {
	return c.experimentItems(ctx, from, id, "core,dataset,metadata,itemMetadata,experimentMetadata,scores,io")
}

func (c *Client) experimentItems(ctx context.Context, from time.Time, id, fields string) iter.Seq2[ExperimentItem, error] {
	query := url.Values{"fields": {fields}, "fromStartTime": {FormatTime(from)}, "experimentId": {id}}
	return listCursor[ExperimentItem](ctx, c, "experiment-items", query, maxPageLimit, maxPageLimit)
}

// DecodeIO returns what an input or output holds. Some reads give the JSON
// itself, others a string that contains it; a string that is not JSON is
// returned as it is. Nothing (absent) is nil.
func DecodeIO(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) != nil || !json.Valid([]byte(text)) {
		return raw
	}
	return json.RawMessage(text)
}

// The functions below return addresses of the web interface. base is the
// server's address (Client.BaseURL), its sub-path included; the rest are ids,
// not names. All forms but ExperimentsURL exist on v3 and on v4.

// RunURL returns the page of one run; v4 redirects it to the experiment's
// results.
func RunURL(base, projectID, datasetID, runID string) string {
	return pageURL(base, projectID, "datasets", datasetID, "runs", runID)
}

// CompareURL returns the page that sets runs of one dataset side by side; the
// first is the baseline.
func CompareURL(base, projectID, datasetID string, runIDs ...string) string {
	return pageURL(base, projectID, "datasets", datasetID, "compare") + "?" + url.Values{"runs": runIDs}.Encode()
}

// ExperimentsURL returns the list of all experiments of a project, which only
// v4 has.
func ExperimentsURL(base, projectID string) string {
	return pageURL(base, projectID, "experiments")
}

// pageURL joins escaped segments.
func pageURL(base string, segments ...string) string {
	address := strings.TrimRight(base, "/") + "/project"
	for _, segment := range segments {
		address += "/" + url.PathEscape(segment)
	}
	return address
}
