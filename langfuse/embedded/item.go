package embedded

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"net/http"

	"github.com/google/uuid"

	"extraction-experiment/internal/textutil"
)

// item is one version of a dataset item. Input, expected and metadata are JSON.
type item struct {
	id, datasetID, dataset    string
	status                    string
	input, expected, metadata sql.NullString
	sourceTrace, sourceSpan   string
	created, updated          int64
}

// itemColumns lists the columns of items i.
const itemColumns = `i.id, i.dataset_id, (SELECT d.name FROM datasets d WHERE d.id = i.dataset_id), i.status, i.input, i.expected,
	i.metadata, i.source_trace, i.source_observation, i.created, i.updated`

func (it *item) columns() []any {
	return []any{&it.id, &it.datasetID, &it.dataset, &it.status, &it.input, &it.expected, &it.metadata,
		&it.sourceTrace, &it.sourceSpan, &it.created, &it.updated}
}

func (it item) json() object {
	return object{
		"id": it.id, "status": it.status, "datasetId": it.datasetID, "datasetName": it.dataset,
		"input": jsonOrNull(it.input.String), "expectedOutput": jsonOrNull(it.expected.String), "metadata": jsonOrNull(it.metadata.String),
		"sourceTraceId": textOrNull(it.sourceTrace), "sourceObservationId": textOrNull(it.sourceSpan),
		"createdAt": iso(it.created), "updatedAt": iso(it.updated), "mediaReferences": []any{},
	}
}

// findItem returns the item as it was at a time in milliseconds, or its current version if at is
// 0. It finds archived items, but not deleted ones.
func findItem(q querier, id string, at int64) (item, bool, error) {
	var w where
	w.add("i.id = ? AND i.deleted = 0", id)
	w.validAt(at)
	return queryRow(q, scanRow[item], "SELECT "+itemColumns+" FROM items i WHERE "+w.sql()+
		" ORDER BY i.valid_from DESC LIMIT 1", w.args...)
}

// requireItem returns the current version of an item, or a 404 error.
func requireItem(q querier, id string) (item, error) {
	it, exists, err := findItem(q, id, 0)
	if err == nil && !exists {
		err = notFound("Dataset item not found")
	}
	return it, err
}

// validAt selects the versions that were valid at a time in milliseconds; 0 means now.
func (w *where) validAt(at int64) {
	if at == 0 {
		w.add("i.valid_to IS NULL")
		return
	}
	w.add("i.valid_from <= ? AND (i.valid_to IS NULL OR i.valid_to > ?)", at, at)
}

// listItems answers GET /dataset-items with the active items, by version, newest first, then by
// id. With ?version it lists the items at that time, which later updates, archiving and deletions
// do not change.
func (s *Server) listItems(c *call) (any, error) {
	at, pinned := c.instant("version")
	name := c.query.Get("datasetName")
	if pinned && name == "" {
		c.reject(invalidQuery("version", "version requires datasetName"))
	}
	c.add("i.deleted = 0 AND i.status = 'ACTIVE'")
	c.validAt(at)
	if name != "" {
		d, err := requireDataset(s.store.r, name)
		c.reject(err)
		c.add("i.dataset_id = ?", d.id)
	}
	// The second condition makes the partial index usable.
	c.addIfSet("i.source_trace = ? AND i.source_trace != ''", c.query.Get("sourceTraceId"))
	const order = "i.valid_from DESC, i.id"
	if !pinned || at >= s.now() {
		return numberedPage(s, c, 50, scanObject(item.json), itemColumns, "items i", order)
	}
	number, limit := c.number("page", 1, math.MaxInt32), c.number("limit", 50, 100)
	if c.err != nil {
		return nil, c.err
	}
	rows, err := s.pastItems(c, order)
	if err != nil {
		return nil, err
	}
	pageRows := rows[min(len(rows), (number-1)*limit):min(len(rows), number*limit)]
	data, err := queryRows(s.store.r, scanObject(item.json), "SELECT "+itemColumns+
		" FROM json_each(?) k JOIN items i ON i.rowid = k.value ORDER BY k.key", asText(pageRows))
	return pageOf(data, number, limit, len(rows)), err
}

// pastItems returns the row ids of the items at a past time, which do not change unless the clock
// is set back. It keeps the result of the last query, eight bytes per row, because clients ask for
// one page after another, and SQLite would count the rows before each page.
func (s *Server) pastItems(c *call, order string) ([]int64, error) {
	query := fmt.Sprint(c.sql(), c.args)
	if last := s.pastCache.Load(); last != nil && last.query == query {
		return last.rows, nil
	}
	// A transaction under way may store versions of that time, also one of another process.
	if err := s.store.update(func(*transaction) error { return nil }); err != nil {
		return nil, err
	}
	rows, err := queryRows(s.store.r, scanValue[int64], "SELECT i.rowid FROM items i WHERE "+c.sql()+
		" ORDER BY "+order, c.args...)
	if err == nil {
		s.pastCache.Store(&pastList{query, rows})
	}
	return rows, err
}

type pastList struct {
	query string
	rows  []int64
}

// getItem answers GET /dataset-items/{id}, also for archived items.
func (s *Server) getItem(c *call) (any, error) {
	it, err := requireItem(s.store.r, c.path("id"))
	return it.json(), err
}

// deleteItem answers DELETE /dataset-items/{id}. It adds a version that is marked as deleted, so
// that the item is still found at earlier times.
func (s *Server) deleteItem(c *call) (any, error) {
	err := s.store.update(func(tx *transaction) error {
		it, err := requireItem(tx, c.path("id"))
		if err != nil {
			return err
		}
		it.input, it.expected, it.metadata = sql.NullString{}, sql.NullString{}, sql.NullString{}
		insertVersion(tx, &it, s.now(), true)
		return nil
	})
	return object{"message": "Dataset item successfully deleted"}, err
}

// insertVersion ends the current version of an item and stores the next one, which begins now, or
// a millisecond after the current one began if that is later. So a clock that stands still or
// goes back hides no version.
func insertVersion(tx *transaction, it *item, now int64, deleted bool) {
	validTo, _, err := queryRow(tx, scanValue[int64], `UPDATE items
		SET valid_to = max(?1, valid_from + 1), updated = max(?1, valid_from + 1)
		WHERE id = ?2 AND valid_to IS NULL RETURNING valid_to`, now, it.id)
	tx.err = cmp.Or(tx.err, err)
	now = max(now, validTo)
	it.created, it.updated = now, now
	tx.exec(`INSERT INTO items(id, dataset_id, valid_from, valid_to, deleted, status,
			source_trace, source_observation, created, updated, metadata, expected, input)
		VALUES(?,?,?,NULL,?,?,?,?,?,?,?,?,?)`,
		it.id, it.datasetID, now, deleted, it.status, it.sourceTrace, it.sourceSpan, now, now, it.metadata, it.expected, it.input)
}

// upsertItem answers POST /dataset-items. The id is the key, unique across all datasets of the
// project. Absent and null fields keep their value. Every request stores a new version, even if
// nothing changes.
func (s *Server) upsertItem(c *call) (any, error) {
	f := c.form(largeBody)
	id, apply := readItem(f)
	name := f.required("datasetName")
	if f.has("id") {
		f.checkLength("id", id, 1, 255)
	}
	var stored item
	err := s.update(f, func(tx *transaction) error {
		errMissing := notFound("Dataset %s not found for project %s", textutil.Cut(name, 300), DefaultProjectID)
		d, err := requireRow(tx, errMissing, scanRow[dataset], selectDataset, name)
		if err != nil {
			return err
		}
		if stored, err = mergeItem(tx, d, id, apply); err != nil {
			return err
		}
		schemas, err := d.schemas()
		if err != nil {
			return err
		}
		if problem := schemas.check(stored.input, stored.expected); problem != "" {
			return invalidRequest("Dataset item validation failed: %s", problem)
		}
		insertVersion(tx, &stored, s.now(), false)
		return nil
	})
	return stored.json(), err
}

// readItem reads a request about an item: its id, and what the request changes in the stored
// item. Fields that are absent or null change nothing.
func readItem(f *form) (id string, apply func(*item)) {
	id, status := f.text("id"), f.oneOf("status", "ACTIVE", "ARCHIVED")
	input, expected, metadata := readValue(f, "input"), readValue(f, "expectedOutput"), readValue(f, "metadata")
	trace, span := f.text("sourceTraceId"), f.text("sourceObservationId")
	return id, func(it *item) {
		it.status = cmp.Or(status, it.status)
		it.sourceTrace, it.sourceSpan = cmp.Or(trace, it.sourceTrace), cmp.Or(span, it.sourceSpan)
		it.input, it.expected = *cmp.Or(input, &it.input), *cmp.Or(expected, &it.expected)
		it.metadata = *cmp.Or(metadata, &it.metadata)
	}
}

// mergeItem applies a change to the item with the id, or to an empty item if there is none. An
// item without an id gets a new one.
func mergeItem(tx *transaction, d dataset, id string, apply func(*item)) (item, error) {
	it, exists, err := findItem(tx, id, 0)
	if err != nil {
		return item{}, err
	}
	if exists && it.datasetID != d.id {
		return item{}, newAPIError(http.StatusConflict, "LangfuseConflictError",
			"Dataset item with id %s already exists in another dataset of the project", []any{id})
	}
	if !exists {
		it = item{id: cmp.Or(id, uuid.NewString()), status: "ACTIVE"}
	}
	it.datasetID, it.dataset = d.id, d.name
	apply(&it)
	if id == "" && !it.input.Valid {
		return item{}, invalidRequest("Dataset item input cannot be null")
	}
	return it, nil
}
