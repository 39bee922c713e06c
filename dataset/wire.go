package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// field is one of the values of an item, as files spell its name.
type field string

const (
	fieldID          field = "id"
	fieldInput       field = "input"
	fieldText        field = "document_text"
	fieldExpected    field = "expectedOutput"
	fieldMetadata    field = "metadata"
	fieldTrace       field = "sourceTraceId"
	fieldObservation field = "sourceObservationId"
	fieldServer      field = "" // what Langfuse adds to an item it returns
)

// fieldOf is every accepted key. Keys that are not here go into the metadata.
func fieldOf(key string) (field, bool) {
	switch key {
	case "id":
		return fieldID, true
	case "input":
		return fieldInput, true
	case "document_text":
		return fieldText, true
	case "expectedOutput", "expected_output", "expected":
		return fieldExpected, true
	case "metadata":
		return fieldMetadata, true
	case "sourceTraceId", "source_trace_id":
		return fieldTrace, true
	case "sourceObservationId", "source_observation_id":
		return fieldObservation, true
	case "status", "datasetId", "datasetName", "createdAt", "updatedAt", "mediaReferences":
		return fieldServer, true
	}
	return "", false
}

// pathError is a problem inside one item, before file and line are known.
type pathError struct{ path, msg string }

func (e *pathError) Error() string { return e.path + ": " + e.msg }

func wrong(path field, format string, args ...any) error {
	return &pathError{string(path), fmt.Sprintf(format, args...)}
}

// decodeItem makes an item of the keys and values of one object or row. All
// problems are returned together.
func decodeItem(values map[string]json.RawMessage) (Located, error) {
	var (
		located  Located
		problems []error
		given    = map[field]string{}
		extra    = map[string]json.RawMessage{}
	)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		raw := values[key]
		f, known := fieldOf(key)
		switch {
		case !known:
			extra[key] = raw
		case isNull(raw):
		case f == fieldServer:
			if key == "status" && string(raw) != `"ACTIVE"` {
				located.Warnings = append(located.Warnings, fmt.Sprintf("status: %s is not used, the item counts as active", raw))
			}
		case given[f] != "":
			problems = append(problems, wrong(f, "is given twice, as %q and as %q", given[f], key))
		default:
			given[f] = key
			if err := set(&located.Item, f, raw); err != nil {
				problems = append(problems, err)
			}
		}
	}
	if given[fieldInput] != "" && given[fieldText] != "" {
		problems = append(problems, wrong(fieldText, "is given beside input: put the text into the input"))
	}
	if err := addMetadata(&located, extra); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return Located{}, err
	}
	return located, identify(&located)
}

func set(item *Item, f field, raw json.RawMessage) error {
	var err error
	switch f {
	case fieldID:
		item.ID, err = spelling(f, raw)
	case fieldInput:
		item.Input = raw
	case fieldText:
		if !bytes.HasPrefix(raw, []byte(`"`)) {
			return wrong(f, "expected a string")
		}
		item.Input = slices.Concat([]byte(`{"document_text":`), raw, []byte("}"))
	case fieldExpected:
		item.Expected = raw
	case fieldMetadata:
		item.Metadata = raw
	case fieldTrace:
		item.SourceTraceID, err = spelling(f, raw)
	case fieldObservation:
		item.SourceObservationID, err = spelling(f, raw)
	}
	return err
}

// spelling reads a string; a number stands for its spelling, so that 7 and "7"
// are one id.
func spelling(f field, raw json.RawMessage) (string, error) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String(), nil
	}
	return "", wrong(f, "expected a string")
}

// addMetadata moves the keys that are no item's into the metadata, and says so.
func addMetadata(located *Located, extra map[string]json.RawMessage) error {
	if len(extra) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(extra))
	quoted := fmt.Sprintf("%q", names)
	merged := map[string]json.RawMessage{}
	if located.Metadata != nil {
		if err := json.Unmarshal(located.Metadata, &merged); err != nil {
			return wrong(fieldMetadata, "must be an object to take the keys %s, which are none of an item", quoted)
		}
	}
	for _, name := range names {
		if _, taken := merged[name]; taken {
			return wrong(fieldMetadata, "has the key %q already, which also stands beside the metadata", name)
		}
		merged[name] = extra[name]
	}
	raw, err := marshal(merged)
	if err != nil {
		return wrong(fieldMetadata, "%v", err)
	}
	located.Metadata = raw
	located.Warnings = append(located.Warnings, fmt.Sprintf("the keys %s are none of an item and were put into its metadata", quoted))
	return nil
}

func isNull(raw []byte) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// marshal writes JSON without escaping for HTML: documents stay readable.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// compact writes JSON on one line; absent is the empty string.
func compact(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", err
	}
	return b.String(), nil
}
