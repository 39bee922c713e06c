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
	"extraction-experiment/langfuse"
)

// maxBody is the largest request that Langfuse takes for an item, in bytes
// (4.5 MiB): the item as JSON with the name of its dataset.
const maxBody = 4_718_592

// checkStored checks what becomes of the item on its way into Langfuse.
func (c *checker) checkStored(n *notes, item dataset.Item) {
	var body []byte
	if len(item.Input)+len(item.Expected)+len(item.Metadata) > maxBody/8 { // else it cannot be too large
		var err error
		if body, err = dataset.Marshal(c.cfg.upsert(item)); err != nil {
			n.problem(Syntax, "", "cannot be written as JSON: %v", err)
			return
		}
	}
	if len(body) > maxBody {
		n.problem(TooLarge, "", "is %.1f MB (%d bytes) as a request, Langfuse takes %d bytes: split the document",
			float64(len(body))/1e6, len(body), maxBody)
	}
	for _, field := range []struct {
		path string
		raw  json.RawMessage
	}{{"input", item.Input}, {"expectedOutput", item.Expected}, {"metadata", item.Metadata}} {
		plain, err := dataset.Canonical(field.raw)
		if err != nil {
			n.problem(Syntax, field.path, "%v", err)
		} else if field.raw != nil && !unaltered(plain) && !bytes.Equal(plain, storedForm(field.raw)) {
			n.warn(Altered, field.path, "Langfuse will store another value: it removes control characters, "+
				"reads a string at the top as JSON, and keeps 17 digits of a number")
		}
	}
}

// upsert is the item as it is sent.
func (c Config) upsert(item dataset.Item) langfuse.DatasetItem {
	return langfuse.DatasetItem{
		DatasetName: c.Dataset, ID: c.IDPrefix + item.ID, Status: langfuse.ItemActive,
		Input: item.Input, ExpectedOutput: item.Expected, Metadata: item.Metadata,
		SourceTraceID: item.SourceTraceID, SourceObservationID: item.SourceObservationID,
	}
}

// itemOf is a stored item as a file holds it: what is null is absent.
func itemOf(stored langfuse.DatasetItem) dataset.Item {
	present := func(raw json.RawMessage) json.RawMessage { return orNothing(raw, nil) }
	return dataset.Item{
		ID: stored.ID, Input: present(stored.Input), Expected: present(stored.ExpectedOutput), Metadata: present(stored.Metadata),
		SourceTraceID: stored.SourceTraceID, SourceObservationID: stored.SourceObservationID,
	}
}

// storedForm returns the canonical form of what Langfuse keeps of a value:
// control characters are removed from strings, a string at the top is read as
// JSON where it is JSON (the empty one is null), numbers become float64. Given
// what Langfuse returned, it gives the same again. A value that is not JSON
// counts as null.
func storedForm(raw json.RawMessage) []byte {
	if plain, err := dataset.Canonical(raw); err == nil && unaltered(plain) {
		return plain
	}
	return decodedStoredForm(raw)
}

// decodedStoredForm is storedForm of any value, which it takes apart.
func decodedStoredForm(raw json.RawMessage) []byte {
	v, err := dataset.Decode(raw)
	if err != nil {
		return []byte("null")
	}
	v = cleaned(v)
	text, isText := v.(string)
	if _, err := dataset.Decode([]byte(text)); isText && (err == nil || text == "") {
		return storedForm([]byte(text)) // read on the way there, and again on the way back
	}
	return dataset.CanonicalValue(v)
}

// unaltered reports whether a value in canonical form certainly is its stored form, which
// goes without taking it apart: it is not a string, and has no control character, no
// escape that may be one, and no number of more than 15 digits in a row.
func unaltered(canonical []byte) bool {
	digits, before := 0, byte(0)
	for _, b := range canonical {
		if digits++; b < '0' || b > '9' {
			digits = 0
		}
		if digits > 15 || b == 0x7f || before == 0xc2 && b < 0xa0 || before == '\\' && (b == 'b' || b == 'u') {
			return false
		}
		before = b
	}
	return canonical[0] != '"'
}

// cleaned removes what Langfuse removes anywhere inside a value.
func cleaned(v any) any {
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
			v[i] = cleaned(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = cleaned(v[key])
		}
	}
	return v
}

// digest stands for the content of an item in memory: 64 bits of the sha256 of
// the stored form of input, expected output, metadata, and of the ids of trace
// and observation; 0 for null.
type digest [5]uint64

func digestOf(item dataset.Item) digest {
	return digest{
		hash(storedForm(item.Input)), hash(storedForm(item.Expected)), hash(storedForm(item.Metadata)),
		hash([]byte(item.SourceTraceID)), hash([]byte(item.SourceObservationID)),
	}
}

func hash(value []byte) uint64 {
	if len(value) == 0 || string(value) == "null" {
		return 0
	}
	sum := sha256.Sum256(value)
	return binary.BigEndian.Uint64(sum[:8]) | 1 // never 0
}

// over reports whether writing the item over what is stored would change it, and the
// fields that are absent here: they change nothing, Langfuse keeps what it has.
func (d digest) over(stored digest) (changes bool, kept []string) {
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

// Export writes the active items of a dataset, sorted by id so that two exports
// of the same items are equal byte for byte. It returns how many items there
// were; the caller closes the writer. Until all are there, they lie in a temporary file,
// and only their ids in memory.
//
// Errors: langfuse.ErrNotFound for an unknown dataset, those of Langfuse, and
// of the writer.
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
		return 0, cli.Written(err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	var list []spooledItem
	var end int64
	out := bufio.NewWriter(file)
	for stored, err := range Stored(ctx, client, name) {
		if err != nil {
			return 0, err
		}
		p := spooledItem{Item: itemOf(stored), at: end}
		for i, value := range p.values() {
			p.sizes[i], _ = out.Write(*value) // an error comes back when it is flushed
			end += int64(p.sizes[i])
			*value = nil
		}
		list = append(list, p)
	}
	if err := out.Flush(); err != nil {
		return 0, cli.Written(err)
	}
	// Of an id that came twice, because somebody wrote while the list was read, the
	// first is taken: the newest.
	slices.SortStableFunc(list, func(a, b spooledItem) int { return cmp.Compare(a.ID, b.ID) })
	list = slices.CompactFunc(list, func(a, b spooledItem) bool { return a.ID == b.ID })
	for _, p := range list {
		for i, value := range p.values() {
			if p.sizes[i] > 0 {
				*value = make(json.RawMessage, p.sizes[i])
				if _, err := file.ReadAt(*value, p.at); err != nil {
					return 0, cli.Written(err)
				}
				p.at += int64(p.sizes[i])
			}
		}
		if err := w.Write(p.Item); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

// spooledItem is an item whose values are in a file, one behind the other.
type spooledItem struct {
	dataset.Item
	at    int64
	sizes [3]int // 0 is no value
}

func (p *spooledItem) values() []*json.RawMessage {
	return []*json.RawMessage{&p.Input, &p.Expected, &p.Metadata}
}

// Stored yields all active items of a dataset as they are now, in one version.
func Stored(ctx context.Context, client *langfuse.Client, name string) iter.Seq2[langfuse.DatasetItem, error] {
	return func(yield func(langfuse.DatasetItem, error) bool) {
		version, err := client.CurrentDatasetVersion(ctx, name)
		if err != nil {
			yield(langfuse.DatasetItem{}, err)
			return
		}
		client.ListDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: name, Version: version})(yield)
	}
}

// Archive takes items out of a dataset's listing; runs that were made with them
// keep them, and seeding them again brings them back. An item that is archived
// already is left alone.
//
// It goes through all ids, and returns what was done with each; the error then
// names those that could not be archived (unknown, or of another dataset), with
// exit code 64. Any other error ends it. Safe to repeat.
//
// API: GET and POST /api/public/dataset-items
func Archive(ctx context.Context, client *langfuse.Client, dataset string, ids []string) ([]Change, error) {
	var changes []Change
	var refused []error
	for _, id := range ids {
		change := Change{Item: id, Action: NotDone}
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
			_, err = client.SetDatasetItemStatus(ctx, dataset, id, langfuse.ItemArchived)
		}
		if err != nil {
			return changes, fmt.Errorf("archiving: %w", err)
		}
		if change.Action == NotDone {
			refused = append(refused, fmt.Errorf("item %q: %s", id, change.Reason))
		}
		changes = append(changes, change)
	}
	if err := errors.Join(refused...); err != nil {
		return changes, cli.Usage("archiving %d of %d items: %w", len(ids)-len(refused), len(ids), err)
	}
	return changes, nil
}

// Schemas are the JSON Schemas (draft 7, which Langfuse uses) of a dataset; nil
// is none.
type Schemas struct {
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expectedOutput"`
}

// ParseSchemas reads {"input": SCHEMA, "expectedOutput": SCHEMA}, of which
// either may be missing. The error has the exit code of malformed input.
func ParseSchemas(raw []byte) (s Schemas, err error) {
	decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&s); err != nil {
		return s, cli.Usage("reading the schemas: %w; expected {\"input\": SCHEMA, \"expectedOutput\": SCHEMA}", err)
	}
	return s, s.each(func(_ string, raw json.RawMessage) error { return schema.Refused(raw) })
}

// each gives the schemas that are there by the name of their field, and joins what is
// wrong with them, with the exit code of malformed input.
func (s Schemas) each(give func(field string, raw json.RawMessage) error) error {
	var problems []error
	for _, one := range []struct {
		field string
		raw   json.RawMessage
	}{{"input", s.Input}, {"expectedOutput", s.Expected}} {
		if isNothing(one.raw) {
			continue
		}
		if err := give(one.field, one.raw); err != nil {
			problems = append(problems, fmt.Errorf("the schema of %s: %w", one.field, err))
		}
	}
	return cli.WithCode(cli.ExitUsage, errors.Join(problems...))
}

// checkSchema validates what Langfuse would store of a field, and names the innermost
// causes: those that say what is wrong.
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
