package embedded

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator holds the compiled schemas of a dataset; nil where there is none.
type validator struct {
	input, expected *jsonschema.Schema
}

func newValidator(d dataset) (v validator, err error) {
	if d.inputSchema.Valid {
		if v.input, err = compileSchema(d.inputSchema.String); err != nil {
			return v, fmt.Errorf("reading the stored input schema: %w", err)
		}
	}
	if d.expectedSchema.Valid {
		if v.expected, err = compileSchema(d.expectedSchema.String); err != nil {
			return v, fmt.Errorf("reading the stored expected output schema: %w", err)
		}
	}
	return v, nil
}

// check holds an item's values against the schemas and describes what does not
// fit; an empty text means all does.
func (v validator) check(input, expected sql.NullString) (string, error) {
	var findings []string
	for _, part := range []struct {
		what   string
		schema *jsonschema.Schema
		value  sql.NullString
	}{{"Input", v.input, input}, {"Expected output", v.expected, expected}} {
		if part.schema == nil {
			continue
		}
		finding, err := checkValue(part.schema, part.value)
		if err != nil {
			return "", err
		}
		if finding != "" {
			findings = append(findings, part.what+" validation failed: "+finding)
		}
	}
	return strings.Join(findings, "; "), nil
}

func checkValue(schema *jsonschema.Schema, value sql.NullString) (string, error) {
	if !value.Valid {
		value.String = "null"
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(value.String))
	if err != nil {
		return "", err
	}
	var finding *jsonschema.ValidationError
	if err := schema.Validate(doc); errors.As(err, &finding) {
		return firstCause(finding), nil
	} else if err != nil {
		return "", err
	}
	return "", nil
}

// firstCause is the first line that names what is wrong, without the place, as
// Langfuse reports it.
func firstCause(e *jsonschema.ValidationError) string {
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	text := e.Error()
	if _, cause, found := strings.Cut(text, "': "); found {
		text = cause
	}
	return clip(text, 300)
}

// maxSchemaDetails is how many items a refused schema names.
const maxSchemaDetails = 10

// checkStoredItems holds the current items of a dataset against its schemas.
// Items pass one by one; in memory there are only those that are named.
func checkStoredItems(tx *transaction, d dataset) error {
	v, err := newValidator(d)
	if err != nil {
		return err
	}
	rows, err := tx.Query(`SELECT id, input, expected FROM items WHERE dataset_id = ? AND valid_to IS NULL AND deleted = 0`, d.id)
	if err != nil {
		return err
	}
	defer rows.Close()
	details, failed := []object{}, 0
	for rows.Next() {
		var id string
		var input, expected sql.NullString
		if err := rows.Scan(&id, &input, &expected); err != nil {
			return err
		}
		finding, err := v.check(input, expected)
		if err != nil {
			return err
		}
		if finding == "" {
			continue
		}
		if failed++; failed <= maxSchemaDetails {
			details = append(details, object{"datasetItemId": id, "message": finding})
		}
	}
	if err := rows.Err(); err != nil || failed == 0 {
		return err
	}
	text, err := encodeJSON(details)
	if err != nil {
		return err
	}
	return invalid("Schema validation failed for %d item(s). Details: %s", failed, text)
}
