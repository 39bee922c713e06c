package embedded

import (
	"database/sql"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// strictly refuses query keys that a route does not know.
func (c *call) strictly(known ...string) error {
	for key := range c.query {
		if !slices.Contains(known, key) {
			return badData(issue{Code: "unrecognized_keys", Path: []any{}, Keys: []string{clip(key, 100)},
				Message: "Unrecognized key: " + clip(joined([]string{key}), 100)})
		}
	}
	return nil
}

const queueColumns = "id, name, description, configs, created, updated"

func scanQueue(rows *sql.Rows) (object, error) {
	var id, name, configs string
	var description sql.NullString
	var created, updated int64
	err := rows.Scan(&id, &name, &description, &configs, &created, &updated)
	return object{"id": id, "name": name, "description": orNull(description), "scoreConfigIds": jsonText(configs),
		"createdAt": iso(created), "updatedAt": iso(updated)}, err
}

func findQueue(q querier, id string) (object, error) {
	found, err := collect(q, scanQueue, "SELECT "+queueColumns+" FROM queues WHERE id = ?", id)
	if err == nil && len(found) == 0 {
		err = notFound("Annotation queue not found")
	}
	return append(found, nil)[0], err
}

// createQueue answers POST /annotation-queues. Names are unique, the score
// configurations have to exist.
func (s *Server) createQueue(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	name, description, configs := f.must("name"), nullText(f, "description"), f.texts("scoreConfigIds")
	if len(configs) == 0 && !f.failed("scoreConfigIds") {
		f.add("too_small", "scoreConfigIds", "Too small: expected array to have >=1 items")
	}
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	var made object
	err = s.store.update(func(tx *transaction) error {
		known, err := count(tx, "SELECT count(DISTINCT value) FROM json_each(?) WHERE value IN (SELECT id FROM score_configs)", joined(configs))
		if err != nil {
			return err
		}
		if known != len(slices.Compact(slices.Sorted(slices.Values(configs)))) {
			return invalid("At least one of the score config IDs cannot be found for the given project.")
		}
		taken, err := count(tx, "SELECT count(*) FROM queues WHERE name = ?", name)
		if err != nil {
			return err
		}
		if taken > 0 {
			return invalid("A queue with this name already exists.")
		}
		id, now := uuid.NewString(), s.now()
		if _, err := tx.Exec("INSERT INTO queues("+queueColumns+") VALUES(?,?,?,?,?,?)", id, name, description, joined(configs), now, now); err != nil {
			return err
		}
		made, err = findQueue(tx, id)
		return err
	})
	return reply{http.StatusOK, made}, err
}

// listQueues answers GET /annotation-queues, the newest first.
func (s *Server) listQueues(c *call) (reply, error) {
	if err := c.strictly("page", "limit"); err != nil {
		return reply{}, err
	}
	return s.listed(c, scanQueue, queueColumns, "queues", &where{}, "created DESC, id DESC")
}

// listed answers with one page of a table.
func (s *Server) listed(c *call, scan func(*sql.Rows) (object, error), columns, table string, w *where, order string) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	total, err := count(s.store.r, "SELECT count(*) FROM "+table+" WHERE "+w.String(), w.args...)
	if err != nil {
		return reply{}, err
	}
	data, err := collect(s.store.r, scan, "SELECT "+columns+" FROM "+table+" WHERE "+w.String()+" ORDER BY "+order+
		" LIMIT ? OFFSET ?", append(w.args, p.limit, p.offset())...)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}

// getQueue answers GET /annotation-queues/{id}.
func (s *Server) getQueue(c *call) (reply, error) {
	found, err := findQueue(s.store.r, c.path["id"])
	return reply{http.StatusOK, found}, err
}
