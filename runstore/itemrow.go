package runstore

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

const sqlAddItem = "INSERT INTO item(seq, id, hash, input, expected, metadata, source, sum) VALUES(?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"

// itemRow is an item as the table takes it.
type itemRow struct {
	seq                               sql.NullInt64 // given by the table if not valid
	id, hash, input                   string
	expected, metadata, sourceColumns sql.NullString
}

// source is the form of the column of that name.
type source struct {
	Trace       string `json:"sourceTraceId,omitempty"`
	Observation string `json:"sourceObservationId,omitempty"`
}

func (r itemRow) bytes() int {
	return len(r.id) + len(r.input) + len(r.expected.String) + len(r.metadata.String)
}

func newItemRow(item Item) (itemRow, error) {
	row := itemRow{id: item.ID, hash: item.Hash, seq: sql.NullInt64{Int64: item.Seq, Valid: item.Seq != 0}}
	if item.ID == "" || !utf8.ValidString(item.ID) {
		return row, badItem(item.ID, errors.New("its id is empty or not UTF-8"))
	}
	input, err := compact("input", item.Input)
	if err != nil {
		return row, badItem(item.ID, err)
	}
	row.input = input.String
	if !input.Valid {
		row.input = "null"
	}
	if row.expected, err = compact("expected output", item.Expected); err != nil {
		return row, badItem(item.ID, err)
	}
	if row.metadata, err = compact("metadata", item.Metadata); err != nil {
		return row, badItem(item.ID, err)
	}
	if item.SourceTraceID != "" || item.SourceObservationID != "" {
		text, err := json.Marshal(source{item.SourceTraceID, item.SourceObservationID})
		if err != nil {
			return row, badItem(item.ID, err)
		}
		row.sourceColumns = sql.NullString{String: string(text), Valid: true}
	}
	if row.bytes() > maxValue {
		return row, badItem(item.ID, fmt.Errorf("it has %d bytes, more than %d", row.bytes(), maxValue))
	}
	return row, nil
}

func badItem(id string, err error) error { return fmt.Errorf("item %q: %w", id, err) }

// compact returns the value without white space; absent stays absent.
func compact(what string, raw json.RawMessage) (sql.NullString, error) {
	if len(raw) == 0 {
		return sql.NullString{}, nil
	}
	var b bytes.Buffer
	b.Grow(len(raw))
	if err := json.Compact(&b, raw); err != nil {
		return sql.NullString{}, fmt.Errorf("its %s is not JSON: %w", what, err)
	}
	return sql.NullString{String: b.String(), Valid: true}, nil
}

func nullable(s sql.NullString) []byte {
	if !s.Valid {
		return nil
	}
	return []byte(s.String)
}

func (t *tx) insertItem(row itemRow) error {
	sum := sumOfItem(row.id, row.hash, []byte(row.input), nullable(row.expected), nullable(row.metadata), nullable(row.sourceColumns))
	result, err := t.addItem.Exec(row.seq, row.id, row.hash, row.input, row.expected, row.metadata, row.sourceColumns, int64(sum))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return badItem(row.id, ErrDuplicate)
}
