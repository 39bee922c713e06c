package embedded

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// runJSON is the SQL expression for a dataset run of Langfuse 3 in the API's form, from runs r.
const runJSON = `json_object('createdAt', ` + isoCreated + `, 'datasetId', r.dataset_id,
	'datasetName', (SELECT d.name FROM datasets d WHERE d.id = r.dataset_id), 'description', r.description, 'id', r.id,
	'metadata', json(r.metadata), 'name', r.name, 'updatedAt', ` + isoUpdated + `)`

// listRuns answers GET /datasets/{name}/runs, newest first.
func (s *Server) listRuns(c *call) (any, error) {
	d, err := s.pathDataset(c)
	if err != nil {
		return nil, err
	}
	c.add("r.dataset_id = ?", d.id)
	return numberedPage(s, c, 50, scanJSON, runJSON, "runs r", "r.created DESC, r.id")
}

// runColumn returns a column of the run that the path names, or a 404 error.
func runColumn(c *call, q querier, column string) (string, error) {
	dataset, name := c.decodeAgain(c.path("name")), c.decodeAgain(c.path("run"))
	if c.err != nil {
		return "", c.err
	}
	return requireRow(q, notFound("Dataset run not found"), scanValue[string], "SELECT "+column+` FROM runs r WHERE r.name = ?
		AND r.dataset_id = (SELECT id FROM datasets WHERE name = ?)`, name, dataset)
}

// getRun answers GET /datasets/{name}/runs/{run} with the run and all its links.
func (s *Server) getRun(c *call) (any, error) {
	text, err := runColumn(c, s.store.r, runJSON)
	if err != nil {
		return nil, err
	}
	run, _ := decodeJSON([]byte(text)) // SQLite wrote it
	out := run.(object)
	out["datasetRunItems"], err = queryRows(s.store.r, scanObject(link.json), "SELECT "+linkColumns+
		" FROM run_items i WHERE i.run_id = ? AND "+newestLink+" ORDER BY i.created DESC, i.seq DESC", out["id"])
	return out, err
}

// deleteRun answers DELETE /datasets/{name}/runs/{run}. Traces and scores stay.
func (s *Server) deleteRun(c *call) (any, error) {
	err := s.store.update(func(tx *transaction) error {
		id, err := runColumn(c, tx, "r.id")
		tx.exec("DELETE FROM run_items WHERE run_id = ?", id)
		tx.exec("DELETE FROM runs WHERE id = ?", id)
		return err
	})
	return object{"message": "Dataset run successfully deleted"}, err
}

// link adds an item to a run.
type link struct {
	id, runID, run    string
	description       sql.NullString
	metadata          string // a JSON object or ""
	item, trace, span string
	version, created  int64
}

const linkColumns = `i.id, i.run_id, (SELECT r.name FROM runs r WHERE r.id = i.run_id), i.item_id, i.trace_id, i.observation_id,
	i.created`

// newestLink is the condition that a link is the newest one of its run and item.
const newestLink = `NOT EXISTS (SELECT 1 FROM run_items n WHERE n.run_id = i.run_id AND n.item_id = i.item_id
	AND (n.created, n.seq) > (i.created, i.seq))`

func (l *link) columns() []any {
	return []any{&l.id, &l.runID, &l.run, &l.item, &l.trace, &l.span, &l.created}
}

func (l link) json() object {
	return object{"id": l.id, "datasetRunId": l.runID, "datasetRunName": l.run, "datasetItemId": l.item,
		"traceId": l.trace, "observationId": textOrNull(l.span), "createdAt": iso(l.created), "updatedAt": iso(l.created)}
}

// linkItem answers POST /dataset-run-items. It rejects unknown fields. The item must be active
// now or at datasetVersion, and the trace is required. In events_only mode it computes the
// experiment id and stores nothing. In other modes it creates the run if necessary, and every
// request adds a link.
func (s *Server) linkItem(c *call) (any, error) {
	f := c.form(smallBody)
	l := link{id: uuid.NewString(), run: f.required("runName"), item: f.required("datasetItemId"),
		description: f.nullText("runDescription"), trace: f.text("traceId"), span: f.text("observationId"), metadata: metadataOf(f)}
	l.version, _ = f.instant("datasetVersion")
	created, _ := f.instant("createdAt")
	l.created = cmp.Or(created, s.now())
	if l.trace == "" {
		f.addIssue("custom", "traceId", "traceId must be provided")
	}
	if err := f.rejectUnknown().err(); err != nil {
		return nil, err
	}
	it, exists, err := findItem(s.store.r, l.item, l.version)
	if err != nil {
		return nil, err
	}
	if !exists || it.status != "ACTIVE" {
		return nil, notFound("Dataset item not found")
	}
	if s.cfg.Mode.hasTraces() {
		err = s.storeLink(it, &l)
	} else {
		l.runID = experimentID(it.datasetID, l.run)
	}
	return l.json(), err
}

// storeLink creates the run immediately and enqueues the link.
func (s *Server) storeLink(it item, l *link) error {
	err := s.store.update(func(tx *transaction) (err error) {
		l.runID, err = findOrCreateRun(tx, it.datasetID, *l)
		return err
	})
	if err != nil || s.cfg.drops(DropRunItem, it.id) {
		return err
	}
	return s.enqueue(s.cfg.IngestionDelay, "link", []byte(asText([]any{l.id, l.runID, it.id, l.trace, l.span, l.created})))
}

// storeRunItem stores a link in the table.
func storeRunItem(tx *transaction, m message) error {
	var columns []any
	if err := json.Unmarshal(m.body, &columns); err != nil {
		return err
	}
	tx.exec("INSERT INTO run_items(id, run_id, item_id, trace_id, observation_id, created) VALUES(?,?,?,?,?,?)", columns...)
	return nil
}

// findOrCreateRun returns the id of the run of a link. The first link determines description and
// metadata. If the link has a dataset version, the metadata includes it.
func findOrCreateRun(tx *transaction, dataset string, l link) (string, error) {
	id, exists, err := queryRow(tx, scanValue[string],
		"SELECT id FROM runs WHERE dataset_id = ? AND name = ?", dataset, l.run)
	if err != nil || exists {
		return id, err
	}
	version := ""
	if l.version != 0 {
		version = asText(object{"dataset_version": iso(l.version)})
	}
	id = uuid.NewString()
	tx.exec("INSERT INTO runs(id, dataset_id, name, description, metadata, created, updated) VALUES(?,?,?,?,?,?,?)",
		id, dataset, l.run, l.description, mergeJSON(l.metadata, version), l.created, l.created)
	return id, nil
}

// listRunItems answers GET /dataset-run-items?datasetId&runName with the newest link of each
// item, newest first.
func (s *Server) listRunItems(c *call) (any, error) {
	for _, key := range []string{"datasetId", "runName"} {
		if !c.query.Has(key) {
			return nil, invalidQuery(key, "Invalid input: expected string, received undefined")
		}
	}
	id, err := requireRow(s.store.r, notFound("Dataset run not found for the given project and dataset id"), scanValue[string],
		"SELECT id FROM runs WHERE dataset_id = ? AND name = ?", c.query.Get("datasetId"), c.query.Get("runName"))
	if err != nil {
		return nil, err
	}
	c.add("i.run_id = ?", id)
	c.add(newestLink)
	return numberedPage(s, c, 50, scanObject(link.json), linkColumns, "run_items i", "i.created DESC, i.seq DESC")
}

// experimentID returns the id of a run: the first 16 hexadecimal digits of the SHA-256 of the
// JSON list of a constant, project, dataset and run name, encoded as in JavaScript.
func experimentID(dataset, run string) string {
	sum := sha256.Sum256([]byte(jsonStringify([]string{"langfuse-experiment-v1", DefaultProjectID, dataset, run})))
	return hex.EncodeToString(sum[:])[:16]
}

// jsonStringify encodes a list like JSON.stringify of JavaScript, which does not escape U+2028
// and U+2029.
func jsonStringify(list []string) string {
	return strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(jsonList(list))
}

// startWindow adds the time range of fromStartTime, which is required, and toStartTime.
func (c *call) startWindow() {
	if c.query.Get("fromStartTime") == "" {
		c.reject(invalidQuery("fromStartTime", "Invalid input: expected string, received undefined"))
	}
	c.between("o.start_ms", "fromStartTime", "toStartTime")
}

// experiment summarizes the spans of an experiment within a time range.
type experiment struct {
	id, name, description, dataset, metadata string
	start, end                               int64
	items                                    int
}

func (e *experiment) columns() []any {
	return []any{&e.id, &e.name, &e.description, &e.dataset, &e.metadata, &e.start, &e.end, &e.items}
}

// maxScores is the number of scores shown for an experiment or for one of its items.
const maxScores = 50

// listExperiments answers GET /experiments, latest start first. The number of items counts root
// spans, so an item with two attempts counts twice.
func (s *Server) listExperiments(c *call) (any, error) {
	c.allowKeys("fields", "limit", "cursor", "fromStartTime", "toStartTime", "id")
	groups, limit := c.fields(1, "core", "metadata", "scores"), c.number("limit", 50, 100)
	var having where
	c.startWindow()
	c.in("e.id", c.list("id"))
	if at, given := c.cursor(); given {
		having.add("(first, e.id) < (?, ?)", at.At, at.ID)
	}
	c.reject(s.requireV4("experiments")) // last, because an invalid query is 400 in Langfuse 3 too
	if c.err != nil {
		return nil, c.err
	}
	if err := s.settleExperiments(c.list("id"), groups["scores"]); err != nil {
		return nil, err
	}
	found, err := queryRows(s.store.r, scanRow[experiment], `SELECT e.id, e.name, e.description, e.dataset_id, e.metadata,
			min(o.start_ms) AS first, max(o.end_ms), sum(o.is_item_root)
		FROM experiments e CROSS JOIN observations o INDEXED BY observations_of_experiment
			ON o.experiment_id = e.id AND o.experiment_id != ''
		WHERE `+c.sql()+` GROUP BY e.id HAVING `+having.sql()+` ORDER BY first DESC, e.id DESC LIMIT ?`,
		slices.Concat(c.args, having.args, []any{limit + 1})...)
	if err != nil {
		return nil, err
	}
	last := func(e experiment) cursor { return cursor{At: e.start, ID: e.id} }
	return cursorPage(found, limit, object{}, last, func(e experiment) (out object, err error) {
		out = object{"id": e.id, "name": e.name, "description": textOrNull(e.description), "datasetId": e.dataset,
			"startTime": iso(e.start), "endTime": iso(e.end), "itemCount": e.items}
		if groups["metadata"] {
			out["metadata"] = jsonOrNull(flatJSON(attributes{"": e.metadata}, ""))
		}
		if groups["scores"] {
			out["scores"], err = s.newestScores(score.fullJSON, maxScores, "run_id = ? AND run_id != ''", e.id)
		}
		return out, err
	})
}

// listExperimentItems answers GET /experiment-items with the root span of every attempt of every
// item, latest start first. It shows the scores of the root span and its trace that are at most a
// day before its start or after its end.
func (s *Server) listExperimentItems(c *call) (any, error) {
	c.allowKeys("fields", "limit", "cursor", "fromStartTime", "toStartTime", "experimentId")
	groups := c.fields(2, "core", "dataset", "io", "metadata", "itemMetadata", "experimentMetadata", "scores")
	limit := c.number("limit", 50, 100)
	c.add("o.experiment_id != '' AND o.is_item_root = 1")
	c.startWindow()
	// The plus makes SQLite use the index on the start. The index on the experiment would sort
	// all items for each page.
	c.in("+o.experiment_id", c.list("experimentId"))
	c.reject(s.requireV4("experiment items")) // last, because an invalid query is 400 in Langfuse 3 too
	contents := groups["io"] || groups["metadata"]
	return s.observationPage(c, contents, limit, func(o observation) (out object, err error) {
		out = o.itemJSON(groups)
		if groups["scores"] {
			const day = 24 * 60 * 60 * 1000
			out["scores"], err = s.newestScores(score.fullJSON, maxScores, `trace_id = ? AND trace_id != '' AND observation_id IN ('', ?)
				AND timestamp BETWEEN ? AND ?`, o.trace, o.span, o.start-day, o.end+day)
		}
		return out, err
	})
}

func (o observation) itemJSON(groups map[string]bool) object {
	if groups["metadata"] || groups["itemMetadata"] || groups["experimentMetadata"] {
		o.expand()
	}
	return addGroups(object{"id": o.span, "traceId": o.trace, "startTime": iso(o.start), "endTime": o.endTime(),
		"level": o.level, "environment": o.environment, "experimentId": o.experiment, "experimentName": o.experimentName,
		"experimentItemId": o.experimentItem}, groups, map[string]object{
		"dataset": {"experimentDatasetId": textOrNull(o.experimentDataset),
			"experimentItemVersion": isoOrNull(o.experimentItemVersion)},
		"io": {"input": valueOrNull(o.input), "output": valueOrNull(o.output),
			"expectedOutput": valueOrNull(o.expected)},
		"metadata":     {"metadata": jsonOrNull(o.metadata)},
		"itemMetadata": {"experimentItemMetadata": jsonOrNull(o.experimentItemMetadata)},
		"experimentMetadata": {"experimentMetadata": jsonOrNull(o.experimentMetadata),
			"experimentDescription": textOrNull(o.experimentDescription)},
	})
}
