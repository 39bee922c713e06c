package embedded

import (
	"database/sql"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/google/uuid"
)

// dataset is one row of datasets. An empty text of a JSON column is null.
type dataset struct {
	id, name                    string
	description, metadata       sql.NullString
	inputSchema, expectedSchema sql.NullString
	created, updated            int64
}

const datasetColumns = "id, name, description, metadata, input_schema, expected_schema, created, updated"

func scanDataset(row interface{ Scan(...any) error }) (dataset, error) {
	var d dataset
	err := row.Scan(&d.id, &d.name, &d.description, &d.metadata, &d.inputSchema, &d.expectedSchema, &d.created, &d.updated)
	return d, err
}

func datasetByName(q querier, name string) (dataset, bool, error) {
	d, err := scanDataset(q.QueryRow("SELECT "+datasetColumns+" FROM datasets WHERE name = ?", name))
	if errors.Is(err, sql.ErrNoRows) {
		return d, false, nil
	}
	return d, err == nil, err
}

func (s *Server) datasetJSON(d dataset) object {
	return object{
		"id": d.id, "projectId": s.cfg.ProjectID, "name": d.name,
		"description": orNull(d.description), "metadata": rawOrNull(d.metadata),
		"inputSchema": rawOrNull(d.inputSchema), "expectedOutputSchema": rawOrNull(d.expectedSchema),
		"createdAt": iso(d.created), "updatedAt": iso(d.updated),
	}
}

// upsertDataset answers POST /v2/datasets. The name is the key. Description and
// metadata that are absent or null stay; a schema that is null is cleared, one
// that is absent stays, a new one must hold for every current item.
func (s *Server) upsertDataset(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	given := dataset{name: f.must("name"), description: nullText(f, "description"), metadata: nullJSON(f, "metadata")}
	checkDatasetName(f, given.name)
	input, expected := f.raw("inputSchema"), f.raw("expectedOutputSchema")
	if err := f.err(); err != nil {
		return reply{}, err
	}
	var stored dataset
	err = s.store.update(func(tx *transaction) error {
		old, exists, err := datasetByName(tx, given.name)
		if err != nil {
			return err
		}
		if !exists {
			old = dataset{id: uuid.NewString(), name: given.name, created: s.now()}
		}
		stored = mergeDataset(old, given, s.now())
		changed := input != nil || expected != nil
		if stored.inputSchema, err = newSchema(stored.inputSchema, input); err != nil {
			return err
		}
		if stored.expectedSchema, err = newSchema(stored.expectedSchema, expected); err != nil {
			return err
		}
		if exists && changed {
			if err := checkStoredItems(tx, stored); err != nil {
				return err
			}
		}
		return saveDataset(tx, stored)
	})
	if err != nil {
		return reply{}, err
	}
	return ok(s.datasetJSON(stored))
}

func mergeDataset(old, given dataset, now int64) dataset {
	if given.description.Valid {
		old.description = given.description
	}
	if given.metadata.Valid {
		old.metadata = given.metadata
	}
	old.updated = now
	return old
}

func saveDataset(tx *transaction, d dataset) error {
	_, err := tx.Exec(`INSERT INTO datasets(`+datasetColumns+`) VALUES(?,?,?,?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET description = excluded.description, metadata = excluded.metadata,
			input_schema = excluded.input_schema, expected_schema = excluded.expected_schema, updated = excluded.updated`,
		d.id, d.name, d.description, d.metadata, d.inputSchema, d.expectedSchema, d.created, d.updated)
	return err
}

func htmlTag() *regexp.Regexp { return regexp.MustCompile(`<[^>]*>`) }

func checkDatasetName(f *form, name string) {
	trimmed := strings.TrimSpace(name)
	switch {
	case trimmed == "":
		f.add("too_small", "name", "Dataset name is required")
	case htmlTag().MatchString(trimmed):
		f.add("custom", "name", "Text cannot contain HTML tags")
	case strings.HasPrefix(trimmed, "/"), strings.HasSuffix(trimmed, "/"), strings.Contains(trimmed, "//"):
		f.add("custom", "name", "Dataset name must not start or end with a slash or hold two in a row")
	}
}

// listDatasets answers GET /v2/datasets, newest first.
func (s *Server) listDatasets(c *call) (reply, error) {
	return s.listed(c, func(rows *sql.Rows) (object, error) {
		d, err := scanDataset(rows)
		return s.datasetJSON(d), err
	}, datasetColumns, "datasets", &where{}, "created DESC, id")
}

// getWholeDataset answers GET /datasets/{name}: the dataset with all its active
// items and the names of its runs, on one page. In events_only mode there are no
// runs to name, also where an earlier mode left some.
func (s *Server) getWholeDataset(c *call) (reply, error) {
	d, err := s.dataset(c)
	if err != nil {
		return reply{}, err
	}
	out := s.datasetJSON(d)
	out["items"], err = collect(s.store.r, func(rows *sql.Rows) (object, error) {
		it, err := scanItem(rows)
		return it.json(), err
	}, "SELECT "+itemColumns+` FROM items i JOIN datasets d ON d.id = i.dataset_id WHERE i.dataset_id = ? AND i.deleted = 0
		AND i.status = 'ACTIVE' AND i.valid_to IS NULL ORDER BY i.valid_from DESC, i.id`, d.id)
	if err != nil {
		return reply{}, err
	}
	if !s.cfg.Mode.legacy() {
		out["runs"] = []string{}
		return ok(out)
	}
	out["runs"], err = collect(s.store.r, scanText, "SELECT name FROM runs WHERE dataset_id = ? ORDER BY created DESC, id", d.id)
	if err != nil {
		return reply{}, err
	}
	return ok(out)
}

// getDataset answers GET /v2/datasets/{name}.
func (s *Server) getDataset(c *call) (reply, error) {
	d, err := s.dataset(c)
	if err != nil {
		return reply{}, err
	}
	return ok(s.datasetJSON(d))
}

func orNull(s sql.NullString) any {
	if !s.Valid {
		return nil
	}
	return s.String
}

func rawOrNull(s sql.NullString) any {
	if !s.Valid || s.String == "" {
		return nil
	}
	return json.RawMessage(s.String)
}

func nullText(f *form, key string) sql.NullString {
	return sql.NullString{String: f.text(key), Valid: f.has(key)}
}

func nullJSON(f *form, key string) sql.NullString {
	if !f.has(key) {
		return sql.NullString{}
	}
	return sql.NullString{String: string(f.raw(key)), Valid: true}
}
