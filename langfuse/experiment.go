package langfuse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"net/url"
	"strings"
	"time"

	"extraction-experiment/internal/textutil"
)

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

// ExperimentsQuery selects experiments; empty fields select all.
type ExperimentsQuery struct {
	From  time.Time // required: of the spans' start
	IDs   []string
	Limit int // of a page, at most 100; 0 is 64
}

// ListExperiments yields runs as v4 sees them, with metadata, the latest activity
// first. Only where Capabilities.NewReads. Retried; the first error ends the
// iteration: ErrEndpointGone on v3, *APIError, *ConnectionError.
//
// API: GET /api/public/experiments
func (c *Client) ListExperiments(ctx context.Context, q ExperimentsQuery) iter.Seq2[Run, error] {
	query := url.Values{"fields": {"core,metadata"}}
	setTime(query, "fromStartTime", q.From)
	setList(query, "id", q.IDs)
	type experiment struct {
		Run
		StartTime time.Time `json:"startTime"` // cut to the window that was asked for
		ItemCount Number    `json:"itemCount"`
	}
	run := func(e experiment) (Run, bool) {
		e.Run.Time, e.Run.ItemCount = e.StartTime, int(e.ItemCount)
		return e.Run, true
	}
	return convert(listCursor[experiment](ctx, c, "experiments", query, q.Limit, maxPageLimit), run, "experiments")
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

// ExperimentItemsQuery selects items of experiments; empty fields select all.
type ExperimentItemsQuery struct {
	From          time.Time // required: of the spans' start
	ExperimentIDs []string
	// IO adds input, output and expected output, which may be large.
	IO    bool
	Limit int // of a page, at most 100; 0 is 64
}

// ListExperimentItems yields the items of experiments with metadata and scores,
// the newest first. Only where Capabilities.NewReads. Reads show a span twice
// for a while when it was sent twice: count by (TraceID, ID). Retried; the first
// error ends the iteration.
//
// API: GET /api/public/experiment-items
func (c *Client) ListExperimentItems(ctx context.Context, q ExperimentItemsQuery) iter.Seq2[ExperimentItem, error] {
	fields := "core,dataset,metadata,itemMetadata,experimentMetadata,scores"
	if q.IO {
		fields += ",io"
	}
	query := url.Values{"fields": {fields}}
	setTime(query, "fromStartTime", q.From)
	setList(query, "experimentId", q.ExperimentIDs)
	return listCursor[ExperimentItem](ctx, c, "experiment-items", query, q.Limit, maxPageLimit)
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
