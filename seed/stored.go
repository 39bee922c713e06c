package seed

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/schema"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// checkStored notes what Langfuse would refuse or alter when it stores the item.
func (c *checker) checkStored(n *notes, item dataset.Item) {
	body, err := textutil.MarshalJSON(c.cfg.upsert(item))
	if err != nil {
		n.problem(Syntax, "", "cannot be written as JSON: %v", err)
		return
	}
	if len(body) > langfuse.MaxItemBytes {
		n.problem(TooLarge, "", "is %.1f MB (%d bytes) as a request, Langfuse takes %d bytes: split the document",
			float64(len(body))/1e6, len(body), langfuse.MaxItemBytes)
	}
	for _, field := range []struct {
		path string
		raw  json.RawMessage
	}{{"input", item.Input}, {"expectedOutput", item.Expected}, {"metadata", item.Metadata}} {
		plain, err := dataset.Canonical(field.raw)
		if err != nil {
			n.problem(Syntax, field.path, "%v", err)
		} else if field.raw != nil && !bytes.Equal(plain, storedForm(field.raw)) {
			n.warn(Altered, field.path, "Langfuse will store another value: it removes control characters, "+
				"reads a string at the top as JSON, and keeps 17 digits of a number")
		}
	}
}

// upsert returns the item in the form in which it is sent.
func (c Config) upsert(item dataset.Item) langfuse.DatasetItem {
	return langfuse.DatasetItem{
		DatasetName: c.Dataset, ID: c.IDPrefix + item.ID, Status: langfuse.ItemActive,
		Input: item.Input, ExpectedOutput: item.Expected, Metadata: item.Metadata,
		SourceTraceID: item.SourceTraceID, SourceObservationID: item.SourceObservationID,
	}
}

// itemOf converts a stored item to the form of a file: null becomes absent.
func itemOf(stored langfuse.DatasetItem) dataset.Item {
	return dataset.Item{
		ID: stored.ID, Input: orDefault(stored.Input, nil), Expected: orDefault(stored.ExpectedOutput, nil),
		Metadata:      orDefault(stored.Metadata, nil),
		SourceTraceID: stored.SourceTraceID, SourceObservationID: stored.SourceObservationID,
	}
}

// storedForm returns the canonical form of the value that Langfuse stores: it removes control
// characters from strings, reads a string at the top as JSON if it is JSON (the empty string is
// null), and converts numbers to float64. For a value that Langfuse returned it gives the same
// form. An invalid value counts as null.
func storedForm(raw json.RawMessage) []byte {
	v, err := dataset.Decode(raw)
	if err != nil {
		return []byte("null")
	}
	v = clean(v)
	text, isText := v.(string)
	if _, err := dataset.Decode([]byte(text)); isText && (err == nil || text == "") {
		return storedForm([]byte(text)) // Langfuse decodes it when it stores it, and again when it returns it
	}
	return dataset.CanonicalValue(v)
}

// clean removes what Langfuse removes inside a value, and rounds numbers as it does.
func clean(v any) any {
	switch v := v.(type) {
	case string:
		return strings.Map(func(r rune) rune {
			if r < 0x20 && r != '\t' && r != '\n' && r != '\f' && r != '\r' || r >= 0x7f && r < 0xa0 {
				return -1
			}
			return r
		}, v)
	case json.Number:
		if f, err := strconv.ParseFloat(v.String(), 64); err == nil {
			return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
		}
	case []any:
		for i := range v {
			v[i] = clean(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = clean(v[key])
		}
	}
	return v
}

// digest represents the content of an item in memory: 64 bits of the sha256 of the stored forms of
// input, expected output and metadata, and of the ids of trace and observation. 0 stands for null.
type digest [5]uint64

func digestOf(item dataset.Item) digest {
	return digest{
		hash(storedForm(item.Input)), hash(storedForm(item.Expected)), hash(storedForm(item.Metadata)),
		hash([]byte(item.SourceTraceID)), hash([]byte(item.SourceObservationID)),
	}
}

func hash(value []byte) uint64 {
	if textutil.AbsentJSON(value) {
		return 0
	}
	sum := sha256.Sum256(value)
	return binary.BigEndian.Uint64(sum[:8]) | 1 // never 0
}

// changesOver reports whether writing the item over the stored one would change it, and which
// fields are absent in the item and kept by Langfuse.
func (d digest) changesOver(stored digest) (changes bool, kept []string) {
	for i := range d {
		changes = changes || d[i] != 0 && d[i] != stored[i]
	}
	for i, name := range []string{"input", "expectedOutput", "metadata"} {
		if d[i] == 0 && stored[i] != 0 {
			kept = append(kept, name)
		}
	}
	return changes, kept
}

// Export writes the active items of a dataset, sorted by id, so that two exports of the same items
// are equal byte for byte. It returns the number of items. The caller closes the writer. Export
// keeps the items in a temporary file until it has read all, and only their ids in memory.
//
// Errors: langfuse.ErrNotFound for an unknown dataset, and errors of Langfuse, the temporary file
// and the writer.
//
// API: GET /api/public/health, GET /api/public/dataset-items
func Export(ctx context.Context, client *langfuse.Client, name string, w *dataset.Writer) (n int, err error) {
	defer func() {
		if err != nil {
			n, err = 0, fmt.Errorf("exporting: %w", err)
		}
	}()
	file, err := os.CreateTemp("", "items-*")
	if err != nil {
		return 0, cli.WriteError(err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	type spooledItem struct {
		id     string
		offset int64
		size   int
	}
	var list []spooledItem
	var end int64
	out := bufio.NewWriter(file)
	for stored, err := range StoredItems(ctx, client, name) {
		if err != nil {
			return 0, err
		}
		text, err := textutil.MarshalJSON(itemOf(stored))
		if err != nil {
			return 0, err
		}
		_, _ = out.Write(text) // Flush returns the error
		list = append(list, spooledItem{stored.ID, end, len(text)})
		end += int64(len(text))
	}
	if err := out.Flush(); err != nil {
		return 0, cli.WriteError(err)
	}
	// An id is listed twice if it was written during the listing. The first one is the newest.
	slices.SortStableFunc(list, func(a, b spooledItem) int { return cmp.Compare(a.id, b.id) })
	list = slices.CompactFunc(list, func(a, b spooledItem) bool { return a.id == b.id })
	for _, p := range list {
		text, item := make([]byte, p.size), dataset.Item{}
		if _, err := file.ReadAt(text, p.offset); err != nil {
			return 0, cli.WriteError(err)
		}
		if err := json.Unmarshal(text, &item); err != nil {
			return 0, err
		}
		item.Input = orDefault(item.Input, nil) // null stands for an absent one
		if err := w.Write(item); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

// StoredItems yields all active items of a dataset as of the time of the call, in one version.
func StoredItems(ctx context.Context, client *langfuse.Client, name string) iter.Seq2[langfuse.DatasetItem, error] {
	return func(yield func(langfuse.DatasetItem, error) bool) {
		version, err := client.CurrentDatasetVersion(ctx, name)
		if err != nil {
			yield(langfuse.DatasetItem{}, err)
			return
		}
		client.ListDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: name, Version: version})(yield)
	}
}

// Archive removes items from a dataset's listing. Runs that used them keep them, and seeding them
// again reactivates them. Archive leaves archived items alone.
//
// It processes all ids and returns a change for each. The error then names the ids that could not
// be archived (unknown, or of another dataset), with exit code 4. Any other error ends the call
// early. Archive can be repeated.
//
// API: GET and POST /api/public/dataset-items
func Archive(ctx context.Context, client *langfuse.Client, dataset string, ids []string) ([]Change, error) {
	var changes []Change
	var refused []error
	for _, id := range ids {
		change := Change{Item: id, Action: RefusedAction}
		found, err := client.GetDatasetItem(ctx, id)
		switch {
		case id == "":
			change.Reason, err = "the id is empty", nil
		case errors.Is(err, langfuse.ErrNotFound):
			change.Reason, err = "there is no such item", nil
		case err != nil:
		case found.DatasetName != dataset:
			change.Reason = fmt.Sprintf("it belongs to the dataset %q", found.DatasetName)
		case found.Status == langfuse.ItemArchived:
			change.Action = Unchanged
		default:
			change.Action = Archived
			_, err = client.UpsertDatasetItem(ctx, langfuse.DatasetItem{DatasetName: dataset, ID: id, Status: langfuse.ItemArchived})
		}
		if err != nil {
			return changes, fmt.Errorf("archiving: %w", err)
		}
		if change.Action == RefusedAction {
			refused = append(refused, fmt.Errorf("item %q: %s", id, change.Reason))
		}
		changes = append(changes, change)
	}
	if err := errors.Join(refused...); err != nil {
		return changes, cli.Errorf(cli.ExitFailures, "archiving %d of %d items: %w", len(ids)-len(refused), len(ids), err)
	}
	return changes, nil
}

// Schemas are the JSON Schemas of a dataset (draft 7, which Langfuse uses); nil for none.
type Schemas struct {
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expectedOutput"`
}

// withSchemasOf returns the configuration with the schemas of the dataset where it has none.
func (c Config) withSchemasOf(d langfuse.Dataset) Config {
	c.Schemas = Schemas{orDefault(c.Schemas.Input, d.InputSchema), orDefault(c.Schemas.Expected, d.ExpectedOutputSchema)}
	return c
}

// ParseSchemas parses {"input": SCHEMA, "expectedOutput": SCHEMA}; both are optional. The error has
// the exit code of malformed input.
func ParseSchemas(raw []byte) (s Schemas, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&s); err != nil {
		return s, cli.Usage("reading the schemas: %w; expected {\"input\": SCHEMA, \"expectedOutput\": SCHEMA}", err)
	}
	return s, s.forEach(func(_ string, raw json.RawMessage) error { return schema.CheckLangfuse(raw) })
}

// forEach calls fn for each schema with the name of its field, and joins the errors, with the
// exit code of malformed input.
func (s Schemas) forEach(fn func(field string, raw json.RawMessage) error) error {
	var problems []error
	for _, entry := range []struct {
		field string
		raw   json.RawMessage
	}{{"input", s.Input}, {"expectedOutput", s.Expected}} {
		if isEmptyValue(entry.raw) {
			continue
		}
		if err := fn(entry.field, entry.raw); err != nil {
			problems = append(problems, fmt.Errorf("the schema of %s: %w", entry.field, err))
		}
	}
	return cli.WithCode(cli.ExitUsage, errors.Join(problems...))
}

// checkSchema validates a field against the schema of the dataset and notes the innermost causes of
// a failure.
func (c *checker) checkSchema(n *notes, field string, raw json.RawMessage) {
	s := c.schemas[field]
	if s == nil || raw == nil {
		return
	}
	breaks, err := s.Check(raw)
	if err != nil {
		n.problem(Schema, field, "%v", err)
	}
	for _, b := range breaks {
		path := field
		for _, token := range b.Path {
			if _, err := strconv.Atoi(token); err == nil {
				path += "[" + token + "]"
			} else {
				path += "." + token
			}
		}
		n.problem(Schema, path, "breaks the dataset's schema: %s", b.Text)
	}
}
