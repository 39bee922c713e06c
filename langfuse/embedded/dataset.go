package embedded

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"extraction-experiment/internal/schema"
	"extraction-experiment/internal/textutil"
)

// dataset is one row of datasets.
type dataset struct {
	id, name                    string
	description, metadata       sql.NullString
	inputSchema, expectedSchema sql.NullString
	created, updated            int64
}

const datasetColumns = "id, name, description, metadata, input_schema, expected_schema, created, updated"

func (d *dataset) columns() []any {
	return []any{&d.id, &d.name, &d.description, &d.metadata, &d.inputSchema, &d.expectedSchema, &d.created, &d.updated}
}

// selectDataset is a query for the dataset of a name.
const selectDataset = "SELECT " + datasetColumns + " FROM datasets WHERE name = ?"

// findDataset returns the dataset of a name, if there is one.
func findDataset(q querier, name string) (dataset, bool, error) {
	return one(q, scanned[dataset], selectDataset, name)
}

// datasetByName is findDataset for one that has to be there.
func datasetByName(q querier, name string) (dataset, error) {
	return mustOne(q, notFound("Dataset not found"), scanned[dataset], selectDataset, name)
}

func (d dataset) json() object {
	return object{
		"id": d.id, "projectId": DefaultProjectID, "name": d.name,
		"description": orNull(d.description), "metadata": jsonText(d.metadata.String),
		"inputSchema": jsonText(d.inputSchema.String), "expectedOutputSchema": jsonText(d.expectedSchema.String),
		"createdAt": iso(d.created), "updatedAt": iso(d.updated),
	}
}

// upsertDataset answers POST /v2/datasets. The name is the key. Description and
// metadata that are absent or null stay; a schema that is null is cleared, one
// that is absent stays, a new one must hold for every current item.
func (s *Server) upsertDataset(c *call) (any, error) {
	f := c.form(smallBody)
	name, description, metadata := f.must("name"), f.nullText("description"), f.nullJSON("metadata")
	checkDatasetName(f, name)
	input, expected := f.raw("inputSchema"), f.raw("expectedOutputSchema")
	var d dataset
	err := s.update(f, func(tx *transaction) (err error) {
		var exists bool
		if d, exists, err = findDataset(tx, name); err != nil {
			return err
		}
		if !exists {
			d = dataset{id: uuid.NewString(), name: name, created: s.now()}
		}
		d.description, d.metadata = cmp.Or(description, d.description), cmp.Or(metadata, d.metadata)
		d.updated = s.now()
		if d.inputSchema, err = newSchema(d.inputSchema, input); err != nil {
			return err
		}
		if d.expectedSchema, err = newSchema(d.expectedSchema, expected); err != nil {
			return err
		}
		if exists && (input != nil || expected != nil) {
			if err := checkStoredItems(tx, d); err != nil {
				return err
			}
		}
		return saveDataset(tx, d)
	})
	return d.json(), err
}

func saveDataset(tx *transaction, d dataset) error {
	_, err := tx.Exec(`INSERT INTO datasets(`+datasetColumns+`) VALUES(?,?,?,?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET description = excluded.description, metadata = excluded.metadata,
			input_schema = excluded.input_schema, expected_schema = excluded.expected_schema, updated = excluded.updated`,
		d.columns()...)
	return err
}

func checkDatasetName(f *form, name string) {
	trimmed := strings.TrimSpace(name)
	switch {
	case trimmed == "":
		f.add("too_small", "name", "Dataset name is required")
	case regexp.MustCompile(`<[^>]*>`).MatchString(trimmed):
		f.add("custom", "name", "Text cannot contain HTML tags")
	case strings.HasPrefix(trimmed, "/"), strings.HasSuffix(trimmed, "/"), strings.Contains(trimmed, "//"):
		f.add("custom", "name", "Dataset name must not start or end with a slash or hold two in a row")
	}
}

// listDatasets answers GET /v2/datasets, newest first.
func (s *Server) listDatasets(c *call) (any, error) {
	return listed(s, c, 50, shown(dataset.json), datasetColumns, "datasets", &where{}, "created DESC, id")
}

// dataset finds the dataset that the path names.
func (s *Server) dataset(c *call) (dataset, error) {
	name := c.decodedAgain(c.path("name"))
	if err := c.err(); err != nil {
		return dataset{}, err
	}
	return datasetByName(s.store.r, name)
}

// getDataset answers GET /v2/datasets/{name}.
func (s *Server) getDataset(c *call) (any, error) {
	d, err := s.dataset(c)
	return d.json(), err
}

// newSchema returns the schema that a dataset has after a request: the old one
// where the field is absent, none where it is null, else the given one.
func newSchema(old sql.NullString, given json.RawMessage) (sql.NullString, error) {
	if given == nil {
		return old, nil
	}
	if string(given) == "null" {
		return sql.NullString{}, nil
	}
	text, err := textutil.CompactJSON(given)
	if err != nil {
		return old, err
	}
	if err := schema.Refused(text); err != nil {
		return old, invalid("Must be a valid JSON Schema: %s", textutil.Cut(err.Error(), 500))
	}
	return sql.NullString{String: string(text), Valid: true}, nil
}

// itemSchemas are those of the inputs and of the expected outputs of a dataset; nil is none.
type itemSchemas [2]*schema.Schema

// schemas reads the stored schemas.
func (d dataset) schemas() (compiled itemSchemas, err error) {
	for i, text := range []sql.NullString{d.inputSchema, d.expectedSchema} {
		if text.Valid {
			if compiled[i], err = schema.Compile([]byte(text.String)); err != nil {
				return compiled, fmt.Errorf("reading the stored schemas: %w", err)
			}
		}
	}
	return compiled, nil
}

// check describes what of an item does not fit; an empty text means all does.
func (s itemSchemas) check(input, expected sql.NullString) (string, error) {
	for i, value := range []sql.NullString{input, expected} {
		if s[i] == nil {
			continue
		}
		breaks, err := s[i].Check([]byte(cmp.Or(value.String, "null")))
		if err != nil {
			return "", err
		}
		if len(breaks) > 0 {
			what := []string{"Input", "Expected output"}[i]
			return what + " validation failed: " + textutil.Cut(breaks[0].Text, 300), nil
		}
	}
	return "", nil
}

// checkStoredItems holds the current items of a dataset against its schemas.
// Items pass one by one, and the first ten that do not fit are named.
func checkStoredItems(tx *transaction, d dataset) error {
	schemas, err := d.schemas()
	if err != nil {
		return err
	}
	var details []object
	_, err = collect(tx, func(rows *sql.Rows) (none struct{}, err error) {
		var id string
		var input, expected sql.NullString
		if err := rows.Scan(&id, &input, &expected); err != nil {
			return none, err
		}
		finding, err := schemas.check(input, expected)
		if finding != "" {
			details = append(details, object{"datasetItemId": id, "message": finding})
		}
		return none, err
	}, `SELECT id, input, expected FROM items WHERE dataset_id = ? AND valid_to IS NULL AND deleted = 0`, d.id)
	if err != nil || len(details) == 0 {
		return err
	}
	return invalid("Schema validation failed for %d item(s). Details: %s", len(details), asText(details[:min(10, len(details))]))
}

// Import puts a dataset with its items into the store, in one transaction, unless there
// is one of that name: items gives what would be the bodies of POST /dataset-items, and
// is asked only then. They are stored as if they had come a millisecond after each other.
func (s *Server) Import(name, description string, items func() ([]json.RawMessage, error)) error {
	if _, exists, err := findDataset(s.store.r, name); err != nil || exists {
		return err
	}
	bodies, err := items()
	if err != nil {
		return err
	}
	now := s.now()
	d := dataset{id: uuid.NewString(), name: name, created: now, updated: now, description: sql.NullString{String: description, Valid: true}}
	return s.store.update(func(tx *transaction) error {
		if _, exists, err := findDataset(tx, name); err != nil || exists {
			return err
		}
		if err := saveDataset(tx, d); err != nil {
			return err
		}
		for i, body := range bodies {
			f := newForm(body)
			it, err := mergeItem(tx, d, readItem(f))
			if err = errors.Join(err, f.err()); err != nil {
				return fmt.Errorf("importing item %d of dataset %s: %w", i+1, name, err)
			}
			if err := insertVersion(tx, &it, now-int64(len(bodies)-i), false); err != nil {
				return err
			}
		}
		return nil
	})
}
