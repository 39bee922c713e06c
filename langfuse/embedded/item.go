package embedded

import (
	"database/sql"
	"errors"
)

// item is one version of a dataset item. A text of input, expected and metadata
// is JSON; null is an absent value.
type item struct {
	rowid                     int64
	id, datasetID, dataset    string
	status                    string
	input, expected, metadata sql.NullString
	sourceTrace, sourceSpan   string
	created, updated          int64
}

// itemColumns are read from items i and datasets d.
const itemColumns = `i.rowid, i.id, i.dataset_id, d.name, i.status, i.input, i.expected, i.metadata,
	i.source_trace, i.source_observation, i.created, i.updated`

func scanItem(rows *sql.Rows) (item, error) {
	var it item
	err := rows.Scan(&it.rowid, &it.id, &it.datasetID, &it.dataset, &it.status, &it.input, &it.expected, &it.metadata,
		&it.sourceTrace, &it.sourceSpan, &it.created, &it.updated)
	return it, err
}

func (it item) json() object {
	return object{
		"id": it.id, "status": it.status, "datasetId": it.datasetID, "datasetName": it.dataset,
		"input": rawOrNull(it.input), "expectedOutput": rawOrNull(it.expected), "metadata": rawOrNull(it.metadata),
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
	found, err := collect(q, scanItem, "SELECT "+itemColumns+
		" FROM items i JOIN datasets d ON d.id = i.dataset_id WHERE "+w.String()+" ORDER BY i.valid_from DESC LIMIT 1", w.args...)
	if err != nil || len(found) == 0 {
		return item{}, false, err
	}
	return found[0], true, nil
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
func (s *Server) listItems(c *call) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	at, pinned, err := c.instant("version")
	if err != nil {
		return reply{}, err
	}
	name := c.query.Get("datasetName")
	if pinned && name == "" {
		return reply{}, badQuery("version", "version requires datasetName")
	}
	var w where
	w.add("i.deleted = 0 AND i.status = 'ACTIVE'")
	w.validAt(at)
	if name != "" {
		d, exists, err := datasetByName(s.store.r, name)
		if err != nil {
			return reply{}, err
		}
		if !exists {
			return reply{}, notFound("Dataset not found")
		}
		w.add("i.dataset_id = ?", d.id)
	}
	if trace := c.query.Get("sourceTraceId"); trace != "" {
		w.add("i.source_trace = ?", trace)
		w.add("i.source_trace != ''")
	}
	if span := c.query.Get("sourceObservationId"); span != "" {
		w.add("i.source_observation = ?", span)
	}
	total, err := count(s.store.r, "SELECT count(*) FROM items i WHERE "+w.String(), w.args...)
	if err != nil {
		return reply{}, err
	}
	data, err := collect(s.store.r, func(rows *sql.Rows) (object, error) {
		it, err := scanItem(rows)
		return it.json(), err
	}, "SELECT "+itemColumns+" FROM items i JOIN datasets d ON d.id = i.dataset_id WHERE "+w.String()+
		" ORDER BY i.valid_from DESC, i.id LIMIT ? OFFSET ?", append(w.args, p.limit, p.offset())...)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}

// getItem answers GET /dataset-items/{id}, archived ones included.
func (s *Server) getItem(c *call) (reply, error) {
	it, exists, err := findItem(s.store.r, c.path["id"], 0)
	if err != nil {
		return reply{}, err
	}
	if !exists {
		return reply{}, notFound("Dataset item not found")
	}
	return ok(it.json())
}

// deleteItem answers DELETE /dataset-items/{id}: a version that says deleted.
// Earlier instants still show the item.
func (s *Server) deleteItem(c *call) (reply, error) {
	err := s.store.update(func(tx *transaction) error {
		it, exists, err := findItem(tx, c.path["id"], 0)
		if err != nil {
			return err
		}
		if !exists {
			return notFound("Dataset item not found")
		}
		now, err := supersede(tx, it.id, s.now())
		if err != nil {
			return err
		}
		it.input, it.expected, it.metadata = sql.NullString{}, sql.NullString{}, sql.NullString{}
		return insertVersion(tx, it, now, true)
	})
	if err != nil {
		return reply{}, err
	}
	return ok(object{"message": "Dataset item successfully deleted"})
}

// supersede ends the current version of an item and returns the instant at
// which the next one begins: now, or a millisecond after the last began, so
// that no version is ever hidden by a clock that stands still or goes back.
func supersede(tx *transaction, id string, now int64) (int64, error) {
	var last int64
	err := tx.QueryRow("SELECT valid_from FROM items WHERE id = ? AND valid_to IS NULL", id).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return now, nil
	}
	if err != nil {
		return 0, err
	}
	now = max(now, last+1)
	_, err = tx.Exec("UPDATE items SET valid_to = ?, updated = ? WHERE id = ? AND valid_to IS NULL", now, now, id)
	return now, err
}

func insertVersion(tx *transaction, it item, now int64, deleted bool) error {
	_, err := tx.Exec(`INSERT INTO items(id, dataset_id, valid_from, valid_to, deleted, status,
			source_trace, source_observation, created, updated, metadata, expected, input)
		VALUES(?,?,?,NULL,?,?,?,?,?,?,?,?,?)`,
		it.id, it.datasetID, now, deleted, it.status, it.sourceTrace, it.sourceSpan, now, now, it.metadata, it.expected, it.input)
	return err
}
