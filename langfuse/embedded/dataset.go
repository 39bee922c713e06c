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

// dataset is a row of the table datasets.
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

// selectDataset is the query for a dataset by name.
const selectDataset = "SELECT " + datasetColumns + " FROM datasets WHERE name = ?"

// findDataset returns the dataset with the name and whether it exists.
func findDataset(q querier, name string) (dataset, bool, error) {
	return queryRow(q, scanRow[dataset], selectDataset, name)
}

// requireDataset returns the dataset with the name, or a 404 error.
func requireDataset(q querier, name string) (dataset, error) {
	return requireRow(q, notFound("Dataset not found"), scanRow[dataset], selectDataset, name)
}

func (d dataset) json() object {
	return object{
		"id": d.id, "projectId": DefaultProjectID, "name": d.name,
		"description": valueOrNull(d.description), "metadata": jsonOrNull(d.metadata.String),
		"inputSchema": jsonOrNull(d.inputSchema.String), "expectedOutputSchema": jsonOrNull(d.expectedSchema.String),
		"createdAt": iso(d.created), "updatedAt": iso(d.updated),
	}
}

// upsertDataset answers POST /v2/datasets. The name is the key. Description and metadata that are
// absent or null keep their value. A schema that is null is cleared, an absent one is kept, and
// every current item must satisfy a new one.
func (s *Server) upsertDataset(c *call) (any, error) {
	f := c.form(smallBody)
	name, description, metadata := f.required("name"), f.nullText("description"), f.nullJSON("metadata")
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
		if d.inputSchema, err = mergeSchema(d.inputSchema, input); err != nil {
			return err
		}
		if d.expectedSchema, err = mergeSchema(d.expectedSchema, expected); err != nil {
			return err
		}
		if exists && (input != nil || expected != nil) {
			if err := checkStoredItems(tx, d); err != nil {
				return err
			}
		}
		saveDataset(tx, d)
		return nil
	})
	return d.json(), err
}

func saveDataset(tx *transaction, d dataset) {
	tx.exec(`INSERT INTO datasets(`+datasetColumns+`) VALUES(?,?,?,?,?,?,?,?)
		ON CONFLICT(id) DO UPDATE SET description = excluded.description, metadata = excluded.metadata,
			input_schema = excluded.input_schema, expected_schema = excluded.expected_schema, updated = excluded.updated`,
		d.columns()...)
}

func checkDatasetName(f *form, name string) {
	trimmed := strings.TrimSpace(name)
	switch {
	case trimmed == "":
		f.addIssue("too_small", "name", "Dataset name is required")
	case regexp.MustCompile(`<[^>]*>`).MatchString(trimmed):
		f.addIssue("custom", "name", "Text cannot contain HTML tags")
	case strings.HasPrefix(trimmed, "/"), strings.HasSuffix(trimmed, "/"), strings.Contains(trimmed, "//"):
		f.addIssue("custom", "name", "Dataset name must not start or end with a slash or hold two in a row")
	}
}

// listDatasets answers GET /v2/datasets, newest first.
func (s *Server) listDatasets(c *call) (any, error) {
	return numberedPage(s, c, 50, scanObject(dataset.json), datasetColumns, "datasets", "created DESC, id")
}

// pathDataset returns the dataset that the path names, or a 404 error.
func (s *Server) pathDataset(c *call) (dataset, error) {
	name := c.decodeAgain(c.path("name"))
	if c.err != nil {
		return dataset{}, c.err
	}
	return requireDataset(s.store.r, name)
}

// getDataset answers GET /v2/datasets/{name}.
func (s *Server) getDataset(c *call) (any, error) {
	d, err := s.pathDataset(c)
	return d.json(), err
}

// mergeSchema returns the schema of a dataset after a request: the old one if the field is
// absent, none if it is null, else the sent one.
func mergeSchema(old sql.NullString, change json.RawMessage) (sql.NullString, error) {
	if change == nil {
		return old, nil
	}
	if string(change) == "null" {
		return sql.NullString{}, nil
	}
	text, _ := textutil.CompactJSON(change) // a form has valid JSON only
	if err := schema.CheckLangfuse(text); err != nil {
		return old, invalidRequest("Must be a valid JSON Schema: %s", textutil.Cut(err.Error(), 500))
	}
	return sql.NullString{String: string(text), Valid: true}, nil
}

// itemSchemas holds the schemas of the inputs and of the expected outputs of a dataset; nil means
// none.
type itemSchemas [2]*schema.Schema

// schemas compiles the stored schemas.
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

// check describes why an item does not satisfy the schemas; "" means that it does.
func (s itemSchemas) check(input, expected sql.NullString) string {
	for i, value := range []sql.NullString{input, expected} {
		if s[i] == nil {
			continue
		}
		violations, err := s[i].Check([]byte(cmp.Or(value.String, "null")))
		if err != nil {
			violations = []schema.Violation{{Text: err.Error()}}
		}
		if len(violations) > 0 {
			field := []string{"Input", "Expected output"}[i]
			return field + " validation failed: " + textutil.Cut(violations[0].Text, 300)
		}
	}
	return ""
}

// checkStoredItems checks the current items of a dataset against its schemas. It reads one item
// at a time, and its error names the first ten invalid items.
func checkStoredItems(tx *transaction, d dataset) error {
	schemas, err := d.schemas()
	if err != nil {
		return err
	}
	var details []object
	_, err = queryRows(tx, func(rows *sql.Rows) (none struct{}, err error) {
		it, err := scanRow[item](rows)
		if problem := schemas.check(it.input, it.expected); err == nil && problem != "" {
			details = append(details, object{"datasetItemId": it.id, "message": problem})
		}
		return none, err
	}, "SELECT "+itemColumns+" FROM items i WHERE dataset_id = ? AND valid_to IS NULL AND deleted = 0", d.id)
	if err != nil || len(details) == 0 {
		return err
	}
	return invalidRequest("Schema validation failed for %d item(s). Details: %s", len(details), asText(details[:min(10, len(details))]))
}

// ImportDataset stores a dataset with its items in one transaction. If a dataset with that name exists,
// it does nothing and does not call items. items returns the bodies of POST /dataset-items. The
// items are stored as if they had arrived one millisecond after each other. ImportDataset may be called
// again.
func (s *Server) ImportDataset(name, description string, items func() ([]json.RawMessage, error)) error {
	now := s.now()
	d := dataset{id: uuid.NewString(), name: name, created: now, updated: now, description: sql.NullString{String: description, Valid: true}}
	return s.store.update(func(tx *transaction) error {
		if _, exists, err := findDataset(tx, name); err != nil || exists {
			return err
		}
		bodies, err := items()
		if err != nil {
			return err
		}
		saveDataset(tx, d)
		for i, body := range bodies {
			f := newForm(body)
			id, apply := readItem(f)
			it, err := mergeItem(tx, d, id, apply)
			if err = errors.Join(err, f.err()); err != nil {
				return fmt.Errorf("importing item %d of dataset %s: %w", i+1, name, err)
			}
			insertVersion(tx, &it, now-int64(len(bodies)-i), false)
		}
		return nil
	})
}
