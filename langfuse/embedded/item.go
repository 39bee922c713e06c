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

// item is one version of a dataset item. A text of input, expected and metadata
// is JSON; null is an absent value.
type item struct {
	id, datasetID, dataset    string
	status                    string
	input, expected, metadata sql.NullString
	sourceTrace, sourceSpan   string
	created, updated          int64
}

// itemColumns are read from items i.
const itemColumns = `i.id, i.dataset_id, (SELECT d.name FROM datasets d WHERE d.id = i.dataset_id), i.status, i.input, i.expected,
	i.metadata, i.source_trace, i.source_observation, i.created, i.updated`

func (it *item) columns() []any {
	return []any{&it.id, &it.datasetID, &it.dataset, &it.status, &it.input, &it.expected, &it.metadata,
		&it.sourceTrace, &it.sourceSpan, &it.created, &it.updated}
}

func (it item) json() object {
	return object{
		"id": it.id, "status": it.status, "datasetId": it.datasetID, "datasetName": it.dataset,
		"input": jsonText(it.input.String), "expectedOutput": jsonText(it.expected.String), "metadata": jsonText(it.metadata.String),
		"sourceTraceId": nullable(it.sourceTrace), "sourceObservationId": nullable(it.sourceSpan),
		"createdAt": iso(it.created), "updatedAt": iso(it.updated), "mediaReferences": []any{},
	}
}

// findItem returns the item as it was at an instant, or as it is where at is
// zero. A deleted item is not found, an archived one is.
func findItem(q querier, id string, at int64) (item, bool, error) {
	var w where
	w.add("i.id = ? AND i.deleted = 0", id)
	w.validAt(at)
	return one(q, scanned[item], "SELECT "+itemColumns+" FROM items i WHERE "+w.String()+" ORDER BY i.valid_from DESC LIMIT 1", w.args...)
}

// mustItem is findItem for an item as it is, which has to be there.
func mustItem(q querier, id string) (item, error) {
	it, exists, err := findItem(q, id, 0)
	if err == nil && !exists {
		err = notFound("Dataset item not found")
	}
	return it, err
}

// validAt selects the versions that counted at an instant; zero means now.
func (w *where) validAt(at int64) {
	if at == 0 {
		w.add("i.valid_to IS NULL")
		return
	}
	w.add("i.valid_from <= ? AND (i.valid_to IS NULL OR i.valid_to > ?)", at, at)
}

// listItems answers GET /dataset-items: active items, newest version first,
// then by id. With ?version they are those of that instant, which later
// updates, archiving and deletions do not change.
func (s *Server) listItems(c *call) (any, error) {
	at, pinned := c.instant("version")
	name := c.query.Get("datasetName")
	if pinned && name == "" {
		c.blame(badQuery("version", "version requires datasetName"))
	}
	var w where
	w.add("i.deleted = 0 AND i.status = 'ACTIVE'")
	w.validAt(at)
	if name != "" {
		d, err := datasetByName(s.store.r, name)
		c.blame(err)
		w.add("i.dataset_id = ?", d.id)
	}
	// The second condition lets the partial index be used.
	w.given("i.source_trace = ? AND i.source_trace != ''", c.query.Get("sourceTraceId"))
	const order = "i.valid_from DESC, i.id"
	if !pinned || at >= s.now() {
		return listed(s, c, 50, shown(item.json), itemColumns, "items i", &w, order)
	}
	number, limit := c.number("page", 1, math.MaxInt32), c.number("limit", 50, 100)
	if err := c.err(); err != nil {
		return nil, err
	}
	rows, err := s.pastItems(&w, order)
	if err != nil {
		return nil, err
	}
	asked := rows[min(len(rows), (number-1)*limit):min(len(rows), number*limit)]
	data, err := collect(s.store.r, shown(item.json), "SELECT "+itemColumns+" FROM json_each(?) k JOIN items i ON i.rowid = k.value ORDER BY k.key", asText(asked))
	return pageOf(data, number, limit, len(rows)), err
}

// pastItems returns the rows of items that counted at a past instant, which nothing changes
// any more. Those of the last query are remembered, eight bytes each: who reads a dataset
// asks for one page after another, and each would be counted off from the first row.
func (s *Server) pastItems(w *where, order string) ([]int64, error) {
	query := fmt.Sprint(w.String(), w.args)
	if last := s.past.Load(); last != nil && last.query == query {
		return last.rows, nil
	}
	rows, err := collect(s.store.r, scanValue[int64], "SELECT i.rowid FROM items i WHERE "+w.String()+" ORDER BY "+order, w.args...)
	if err == nil {
		s.past.Store(&pastList{query, rows})
	}
	return rows, err
}

type pastList struct {
	query string
	rows  []int64
}

// getItem answers GET /dataset-items/{id}, archived ones included.
func (s *Server) getItem(c *call) (any, error) {
	it, err := mustItem(s.store.r, c.path("id"))
	return it.json(), err
}

// deleteItem answers DELETE /dataset-items/{id}: a version that says deleted.
// Earlier instants still show the item.
func (s *Server) deleteItem(c *call) (any, error) {
	err := s.store.update(func(tx *transaction) error {
		it, err := mustItem(tx, c.path("id"))
		if err != nil {
			return err
		}
		it.input, it.expected, it.metadata = sql.NullString{}, sql.NullString{}, sql.NullString{}
		return insertVersion(tx, &it, s.now(), true)
	})
	return object{"message": "Dataset item successfully deleted"}, err
}

// insertVersion ends the current version of an item and stores the next, which
// begins now, or a millisecond after the last began, so that no version is ever
// hidden by a clock that stands still or goes back.
func insertVersion(tx *transaction, it *item, now int64, deleted bool) error {
	ended, _, err := one(tx, scanValue[int64], `UPDATE items
		SET valid_to = max(?1, valid_from + 1), updated = max(?1, valid_from + 1)
		WHERE id = ?2 AND valid_to IS NULL RETURNING valid_to`, now, it.id)
	if err != nil {
		return err
	}
	now = max(now, ended)
	it.created, it.updated = now, now
	_, err = tx.Exec(`INSERT INTO items(id, dataset_id, valid_from, valid_to, deleted, status,
			source_trace, source_observation, created, updated, metadata, expected, input)
		VALUES(?,?,?,NULL,?,?,?,?,?,?,?,?,?)`,
		it.id, it.datasetID, now, deleted, it.status, it.sourceTrace, it.sourceSpan, now, now, it.metadata, it.expected, it.input)
	return err
}

// itemChange is what a request says about an item; a value that is nil keeps
// what is stored.
type itemChange struct {
	id, status                string
	input, expected, metadata *sql.NullString
	sourceTrace, sourceSpan   string
}

// upsertItem answers POST /dataset-items. The id is the key, unique over all
// datasets of the project. Absent and null fields keep their value, and every
// request writes a new version even if it changes nothing.
func (s *Server) upsertItem(c *call) (any, error) {
	f := c.form(largeBody)
	change, name := readItem(f), f.must("datasetName")
	if f.has("id") {
		f.sized("id", change.id, 1, 255)
	}
	var stored item
	err := s.update(f, func(tx *transaction) error {
		missing := notFound("Dataset %s not found for project %s", textutil.Cut(name, 300), DefaultProjectID)
		d, err := mustOne(tx, missing, scanned[dataset], selectDataset, name)
		if err != nil {
			return err
		}
		if stored, err = mergeItem(tx, d, change); err != nil {
			return err
		}
		schemas, err := d.schemas()
		if err != nil {
			return err
		}
		finding, err := schemas.check(stored.input, stored.expected)
		if err == nil && finding != "" {
			err = invalid("Dataset item validation failed: %s", finding)
		}
		if err != nil {
			return err
		}
		return insertVersion(tx, &stored, s.now(), false)
	})
	return stored.json(), err
}

func readItem(f *form) itemChange {
	return itemChange{
		id: f.text("id"), status: f.oneOf("status", "ACTIVE", "ARCHIVED"),
		input: readValue(f, "input"), expected: readValue(f, "expectedOutput"), metadata: readValue(f, "metadata"),
		sourceTrace: f.text("sourceTraceId"), sourceSpan: f.text("sourceObservationId"),
	}
}

// mergeItem lays a change over the stored item, or over an empty one.
func mergeItem(tx *transaction, d dataset, change itemChange) (item, error) {
	if change.id == "" {
		if change.input == nil || !change.input.Valid {
			return item{}, invalid("Dataset item input cannot be null")
		}
		change.id = uuid.NewString()
	}
	it, exists, err := findItem(tx, change.id, 0)
	if err != nil {
		return item{}, err
	}
	if exists && it.datasetID != d.id {
		return item{}, blame(http.StatusConflict, "LangfuseConflictError",
			"Dataset item with id %s already exists in another dataset of the project", []any{change.id})
	}
	if !exists {
		it = item{id: change.id, status: "ACTIVE"}
	}
	it.datasetID, it.dataset = d.id, d.name
	it.status = cmp.Or(change.status, it.status)
	it.sourceTrace = cmp.Or(change.sourceTrace, it.sourceTrace)
	it.sourceSpan = cmp.Or(change.sourceSpan, it.sourceSpan)
	it.input, it.expected = *cmp.Or(change.input, &it.input), *cmp.Or(change.expected, &it.expected)
	it.metadata = *cmp.Or(change.metadata, &it.metadata)
	return it, nil
}
