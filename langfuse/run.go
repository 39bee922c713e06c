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
	"net/url"
	"strings"
	"time"

	"extraction-experiment/internal/textutil"
)

// RunRef identifies a run.
type RunRef struct {
	DatasetID, Name string
	// ID is the id of the run (the experiment id). Empty: the run is found by DatasetID and
	// Name, which costs one more request if the server generates ids.
	ID string
	// DatasetName is needed only for the description and metadata of GetRun in ViewRuns.
	DatasetName string
	// Since is the earliest start of the run's spans in ViewExperiments. It makes the search
	// cheaper for the server. Zero: no limit.
	Since time.Time
}

// Run is a run of a dataset, as one view of the server shows it.
type Run struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	DatasetID   string          `json:"datasetId"`
	Description string          `json:"description"`
	Metadata    json.RawMessage `json:"metadata"`
	// Time is when the run was created (ViewRuns) or when its first span started
	// (ViewExperiments).
	Time time.Time `json:"createdAt"`
	// ItemCount is the number of items in ViewRuns, and the number of root spans in
	// ViewExperiments, which includes every attempt of an item. ListRuns leaves it 0 in
	// ViewRuns.
	ItemCount int `json:"-"`
}

// MetadataTexts returns the values of metadata by key: strings unquoted, null as an empty text,
// everything else as JSON. The result is empty if metadata is not an object.
func MetadataTexts(metadata json.RawMessage) map[string]string {
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

// errNoRun returns the error for a run that a view does not show.
func errNoRun(ref RunRef, view View) error {
	return fmt.Errorf("run %q in the view of %s: %w", cmp.Or(ref.Name, ref.ID), view, ErrNotFound)
}

// GetRun returns a run as a view shows it. Any run name works, because names are not sent in a
// path or in a comma-separated list. In ViewRuns the description and metadata need
// ref.DatasetName, which is sent in a path; without it they are empty. Retried; errors:
// ErrNotFound (the run does not exist, or not yet), ErrEndpointGone (the server lacks the
// view), *UsageError (the dataset name cannot be sent in a path), *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-run-items and /datasets/{name}/runs, or GET
// /api/public/experiments
func (c *Client) GetRun(ctx context.Context, server Server, view View, ref RunRef) (Run, error) {
	if view == ViewRuns {
		return c.getDatasetRun(ctx, ref)
	}
	id, err := c.RunID(ctx, server, ref)
	if err != nil {
		return Run{}, err
	}
	runs := c.ListExperiments(ctx, cmp.Or(ref.Since, time.Unix(0, 0)), id)
	for run, err := range convert(runs, keepAll[Run], "run %q", cmp.Or(ref.Name, id)) {
		return run, err
	}
	return Run{}, errNoRun(ref, view)
}

// RunID returns the id of a run: ref.ID if it is set, otherwise the id that the server has
// stored with the run's items, otherwise the id that v4 computes. Only on servers that store
// nothing but run items (ModeLegacy) is a missing run ErrNotFound; otherwise a result does not
// mean that the run exists. Retried; other errors: *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-run-items
func (c *Client) RunID(ctx context.Context, server Server, ref RunRef) (string, error) {
	if ref.ID != "" {
		return ref.ID, nil
	}
	if ref.DatasetID == "" || ref.Name == "" {
		return "", usageError("a run is named by its id, or by the id of its dataset and its name")
	}
	if server.LegacyReads {
		found, err := c.getDatasetRun(ctx, RunRef{DatasetID: ref.DatasetID, Name: ref.Name})
		if err == nil || !errors.Is(err, ErrNotFound) || !server.NewReads {
			return found.ID, err
		}
	}
	return ExperimentID(server.Project.ID, ref.DatasetID, ref.Name), nil
}

// getDatasetRun finds a run in ViewRuns by its newest item.
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

// listDatasetRuns yields the runs of a dataset in ViewRuns. The server decodes this path twice,
// so names with a slash or a percent sign are escaped twice. This also works with proxies that
// reject an escaped slash.
func (c *Client) listDatasetRuns(ctx context.Context, datasetName string) iter.Seq2[Run, error] {
	segment := url.PathEscape(datasetName)
	if !pathSafe(datasetName) {
		segment = url.PathEscape(segment)
	}
	return listPages[Run](ctx, c, "datasets/"+segment+"/runs", url.Values{}, maxPageLimit)
}

// ListRuns yields the runs of a dataset as a view shows them, with their metadata, in no
// particular order. Retried; the first error ends the iteration: ErrEndpointGone (the server
// lacks the view), *UsageError (the dataset name cannot be sent in a path), *APIError,
// *ConnectionError.
//
// API: GET /api/public/datasets/{name}/runs, or GET /api/public/experiments
func (c *Client) ListRuns(ctx context.Context, view View, dataset Dataset) iter.Seq2[Run, error] {
	if view == ViewRuns {
		return c.listDatasetRuns(ctx, dataset.Name)
	}
	ofDataset := func(run Run) (Run, bool) { return run, run.DatasetID == dataset.ID }
	return convert(c.ListExperiments(ctx, time.Unix(0, 0)), ofDataset, "runs of dataset %q", dataset.Name)
}

// RunItem is one item of a run, as one view of the server shows it.
type RunItem struct {
	ItemID        string `json:"datasetItemId"`
	TraceID       string `json:"traceId"`
	ObservationID string `json:"observationId"` // of the root span; empty if the link has none
	// Time is when the link was created (ViewRuns) or when the root span started
	// (ViewExperiments).
	Time time.Time `json:"createdAt"`
	// Level is the level of the root span, ERROR if the item failed. It is empty in ViewRuns.
	Level string `json:"-"`
}

// link is a run item as the server stores it in ViewRuns.
type link struct {
	RunItem
	DatasetRunID string `json:"datasetRunId"`
}

// ListRunItems yields the items of a run as a view shows them. ViewRuns has one RunItem per
// dataset item, from its newest link. ViewExperiments has one RunItem per root span, so an item
// has one for each attempt. ListRunItems yields a span once even if the server temporarily
// returns it twice, and a link once even if it moves to another page during the iteration. It
// yields nothing for a run that does not exist. Retried; the first error ends the iteration:
// ErrEndpointGone (the server lacks the view), *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-run-items, or GET /api/public/experiment-items
func (c *Client) ListRunItems(ctx context.Context, server Server, view View, ref RunRef) iter.Seq2[RunItem, error] {
	items := c.listRoots(ctx, server, ref)
	if view == ViewRuns {
		items = c.listLinks(ctx, ref)
	}
	return unique(items, func(i RunItem) [3]string { return [3]string{i.ItemID, i.TraceID, i.ObservationID} })
}

func (c *Client) listLinks(ctx context.Context, ref RunRef) iter.Seq2[RunItem, error] {
	query := url.Values{"datasetId": {ref.DatasetID}, "runName": {ref.Name}}
	links := convert(listPages[RunItem](ctx, c, "dataset-run-items", query, maxPageLimit), keepAll[RunItem], "items of run %q", ref.Name)
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

// unique yields the first item of each key, and all errors.
func unique[T any, K comparable](items iter.Seq2[T, error], key func(T) K) iter.Seq2[T, error] {
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

// DatasetRunItemCreate is a link between a trace and a dataset item, as part of a run.
type DatasetRunItemCreate struct {
	RunName string `json:"runName"`
	// RunDescription and Metadata take effect only in the first call of a run. Send the same
	// values in every call.
	RunDescription string            `json:"runDescription,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	DatasetItemID  string            `json:"datasetItemId"`
	// TraceID is required. The trace need not exist yet.
	TraceID       string `json:"traceId"`
	ObservationID string `json:"observationId,omitempty"`
	// DatasetVersion is the version at which the items were listed, formatted by FormatTime. It
	// allows links to items that have been archived since. Leave it empty unless
	// Capabilities.DatasetVersions is true, because older servers reject the key.
	DatasetVersion string `json:"datasetVersion,omitempty"`
}

// CreateDatasetRunItem sends the link and returns the id of the run, which v3 and v4-dual
// generate and which equals ExperimentID on v4. On v4 in its default mode, the server stores
// nothing and only computes the id. Retried and safe to repeat: a repetition creates another
// row, but reads return only the newest. Errors: ErrNotFound (the item or dataset is unknown,
// or the item is archived and no version is given), ErrEndpointGone (v4.0; use ExperimentID),
// *APIError, *ConnectionError.
//
// API: POST /api/public/dataset-run-items
func (c *Client) CreateDatasetRunItem(ctx context.Context, item DatasetRunItemCreate) (runID string, err error) {
	if item.RunName == "" || item.DatasetItemID == "" || item.TraceID == "" {
		return "", usageError("a dataset run item needs a run name, a dataset item id and a trace id")
	}
	stored, err := call[link](ctx, c, post("dataset-run-items"), item, "linking item %q to run %q",
		item.DatasetItemID, item.RunName)
	return stored.DatasetRunID, err
}

// ExperimentID returns the id that Langfuse v4 computes for a run: the first 16 hexadecimal
// digits of the SHA-256 sum of JSON.stringify(["langfuse-experiment-v1", projectID, datasetID,
// runName]) in JavaScript.
//
// Each byte of runName that is not valid UTF-8 counts as U+FFFD, because the requests of this
// client contain U+FFFD in its place.
func ExperimentID(projectID, datasetID, runName string) string {
	// Strings cannot fail.
	text, _ := textutil.MarshalJSON([]string{"langfuse-experiment-v1", projectID, datasetID, runName})
	sum := sha256.Sum256([]byte(jsonStringify.Replace(string(text))))
	return hex.EncodeToString(sum[:])[:16]
}

// jsonStringify removes the escapes that encoding/json writes and JSON.stringify does not.
var jsonStringify = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029", `\ufffd`, "\ufffd")

// ListExperiments yields runs as v4 stores them, with metadata, the latest activity first. It
// selects runs with spans that start at from or later; if ids are given, only those runs. It
// requires Capabilities.NewReads. Retried; the first error ends the iteration: ErrEndpointGone
// (v3), *APIError, *ConnectionError.
//
// API: GET /api/public/experiments
func (c *Client) ListExperiments(ctx context.Context, from time.Time, ids ...string) iter.Seq2[Run, error] {
	query := url.Values{"fields": {"core,metadata"}, "fromStartTime": {FormatTime(from)}}
	setList(query, "id", ids)
	type experiment struct {
		Run
		StartTime time.Time `json:"startTime"` // never before fromStartTime
		ItemCount Number    `json:"itemCount"`
	}
	run := func(e experiment) (Run, bool) {
		e.Run.Time, e.Run.ItemCount = e.StartTime, int(e.ItemCount)
		return e.Run, true
	}
	return convert(listCursor[experiment](ctx, c, "experiments", query, 0, maxPageLimit), run, "experiments")
}

// ExperimentItem is one item of a run as v4 stores it: the root span of one attempt. An item
// has one ExperimentItem for each attempt.
type ExperimentItem struct {
	ID               string          `json:"id"` // of the root span
	TraceID          string          `json:"traceId"`
	StartTime        time.Time       `json:"startTime"`
	EndTime          time.Time       `json:"endTime"`
	Level            string          `json:"level"` // ERROR if the attempt failed
	ItemID           string          `json:"experimentItemId"`
	DatasetVersion   time.Time       `json:"experimentItemVersion"`
	Input            json.RawMessage `json:"input"`  // see DecodeJSON
	Output           json.RawMessage `json:"output"` // see DecodeJSON
	ExpectedOutput   json.RawMessage `json:"expectedOutput"`
	Metadata         json.RawMessage `json:"metadata"`
	ExperimentFields json.RawMessage `json:"experimentMetadata"`
	// Scores are at most 50 scores of the trace and of its root span, within a day of the
	// trace. ListScores returns all.
	Scores []Score `json:"scores"`
}

// ListExperimentItems yields the items of an experiment that start at from or later, with all
// fields, the newest first. It requires Capabilities.NewReads. A span that was sent twice may
// temporarily appear twice: count by (TraceID, ID). Retried; the first error ends the
// iteration.
//
// API: GET /api/public/experiment-items
func (c *Client) ListExperimentItems(ctx context.Context, from time.Time, id string) iter.Seq2[ExperimentItem, error] {
	return c.experimentItems(ctx, from, id, "core,dataset,metadata,itemMetadata,experimentMetadata,scores,io")
}

func (c *Client) experimentItems(ctx context.Context, from time.Time, id, fields string) iter.Seq2[ExperimentItem, error] {
	query := url.Values{"fields": {fields}, "fromStartTime": {FormatTime(from)}, "experimentId": {id}}
	return listCursor[ExperimentItem](ctx, c, "experiment-items", query, maxPageLimit, maxPageLimit)
}

// DecodeJSON returns the JSON value of an input or output. Some endpoints return the value
// itself, others a JSON string that contains the value. DecodeJSON returns a string that does not
// contain JSON unchanged, and nil for nil.
func DecodeJSON(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) != nil || !json.Valid([]byte(text)) {
		return raw
	}
	return json.RawMessage(text)
}

// The functions below return addresses of the web interface. base is Client.BaseURL. All other
// parameters are ids, not names. The pages exist on v3 and v4, except for that of
// ExperimentsURL.

// RunURL returns the address of the page of one run. v4 redirects it to the results of the
// experiment.
func RunURL(base, projectID, datasetID, runID string) string {
	return pageURL(base, projectID, "datasets", datasetID, "runs", runID)
}

// CompareURL returns the address of the page that compares runs of one dataset. The first run
// is the base.
func CompareURL(base, projectID, datasetID string, runIDs ...string) string {
	return pageURL(base, projectID, "datasets", datasetID, "compare") + "?" + url.Values{"runs": runIDs}.Encode()
}

// ExperimentsURL returns the address of the list of all experiments of a project. Only v4 has
// this page.
func ExperimentsURL(base, projectID string) string {
	return pageURL(base, projectID, "experiments")
}

// pageURL returns the address of a page of the web interface. It escapes the segments.
func pageURL(base string, segments ...string) string {
	address := strings.TrimRight(base, "/") + "/project"
	for _, segment := range segments {
		address += "/" + url.PathEscape(segment)
	}
	return address
}
