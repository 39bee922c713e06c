package embedded

import (
	"database/sql"
	"encoding/json"
	"math"
	"net/http"
	"net/url"

	"github.com/google/uuid"
)

// run is one row of runs: a dataset run of Langfuse 3.
type run struct {
	id, name, datasetID, dataset string
	description, metadata        sql.NullString
	created, updated             int64
}

// runColumns are read from runs r and datasets d.
const runColumns = "r.id, r.name, r.dataset_id, d.name, r.description, r.metadata, r.created, r.updated"

func scanRun(rows *sql.Rows) (run, error) {
	var r run
	err := rows.Scan(&r.id, &r.name, &r.datasetID, &r.dataset, &r.description, &r.metadata, &r.created, &r.updated)
	return r, err
}

func (r run) json() object {
	return object{"id": r.id, "name": r.name, "datasetId": r.datasetID, "datasetName": r.dataset,
		"description": orNull(r.description), "metadata": rawOrNull(r.metadata),
		"createdAt": iso(r.created), "updatedAt": iso(r.updated)}
}

// findOrCreateRun returns the id of the run that a link names. The first link
// fixes description and metadata; what later ones say of them is not heard.
func findOrCreateRun(tx *transaction, dataset string, l link) (string, error) {
	ids, err := collect(tx, scanText, "SELECT id FROM runs WHERE dataset_id = ? AND name = ?", dataset, l.run)
	if err != nil || len(ids) > 0 {
		return append(ids, "")[0], err
	}
	metadata, err := l.runMetadata()
	if err != nil {
		return "", err
	}
	id := uuid.NewString()
	_, err = tx.Exec("INSERT INTO runs(id, dataset_id, name, description, metadata, created, updated) VALUES(?,?,?,?,?,?,?)",
		id, dataset, l.run, l.description, metadata, l.created, l.created)
	return id, err
}

// runMetadata is the metadata of a new run: an object, into which anything else
// is wrapped, with the version of the dataset where the link has one.
func (l link) runMetadata() (string, error) {
	fields := object{}
	if l.metadata.Valid && json.Unmarshal([]byte(l.metadata.String), &fields) != nil {
		fields = object{"metadata": json.RawMessage(l.metadata.String)}
	}
	if l.version != 0 {
		fields["dataset_version"] = iso(l.version)
	}
	return encodeJSON(fields)
}

// name returns a part of the path that the server decodes a second time: a
// percent sign has to be sent as %2525.
func (c *call) name(key string) (string, error) { return decodedAgain(c.path[key]) }

func decodedAgain(text string) (string, error) {
	name, err := url.PathUnescape(text)
	if err != nil {
		return "", &fault{status: http.StatusInternalServerError,
			body: object{"message": "Internal Server Error", "error": "URI malformed"}}
	}
	return name, nil
}

// dataset finds the dataset that the path names.
func (s *Server) dataset(c *call) (dataset, error) {
	name, err := c.name("name")
	if err != nil {
		return dataset{}, err
	}
	d, exists, err := datasetByName(s.store.r, name)
	if err == nil && !exists {
		err = notFound("Dataset not found")
	}
	return d, err
}

// listRuns answers GET /datasets/{name}/runs, the newest first.
func (s *Server) listRuns(c *call) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	d, err := s.dataset(c)
	if err != nil {
		return reply{}, err
	}
	total, err := count(s.store.r, "SELECT count(*) FROM runs WHERE dataset_id = ?", d.id)
	if err != nil {
		return reply{}, err
	}
	data, err := collect(s.store.r, func(rows *sql.Rows) (object, error) {
		r, err := scanRun(rows)
		return r.json(), err
	}, "SELECT "+runColumns+` FROM runs r JOIN datasets d ON d.id = r.dataset_id WHERE r.dataset_id = ?
		ORDER BY r.created DESC, r.id LIMIT ? OFFSET ?`, d.id, p.limit, p.offset())
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}

// runOf finds the run that the path names.
func (s *Server) runOf(c *call, q querier) (run, error) {
	dataset, err := c.name("name")
	if err != nil {
		return run{}, err
	}
	name, err := c.name("run")
	if err != nil {
		return run{}, err
	}
	found, err := collect(q, scanRun, "SELECT "+runColumns+` FROM runs r JOIN datasets d ON d.id = r.dataset_id
		WHERE d.name = ? AND r.name = ?`, dataset, name)
	if err == nil && len(found) == 0 {
		err = notFound("Dataset run not found")
	}
	return append(found, run{})[0], err
}

// getRun answers GET /datasets/{name}/runs/{run}: the run and all its links.
func (s *Server) getRun(c *call) (reply, error) {
	r, err := s.runOf(c, s.store.r)
	if err != nil {
		return reply{}, err
	}
	out := r.json()
	out["datasetRunItems"], err = readLinks(s.store.r, r.id, page{1, math.MaxInt32})
	if err != nil {
		return reply{}, err
	}
	return ok(out)
}

// deleteRun answers DELETE /datasets/{name}/runs/{run}. Traces and scores stay.
func (s *Server) deleteRun(c *call) (reply, error) {
	err := s.store.update(func(tx *transaction) error {
		r, err := s.runOf(c, tx)
		if err != nil {
			return err
		}
		for _, table := range []string{"run_items WHERE run_id", "runs WHERE id"} {
			if _, err := tx.Exec("DELETE FROM "+table+" = ?", r.id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return reply{}, err
	}
	return ok(object{"message": "Dataset run successfully deleted"})
}
