package seed

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// MaxBody is the largest request that Langfuse takes for an item, in bytes
// (4.5 MiB): the item as JSON with the name of its dataset.
const MaxBody = 4_718_592

// stored checks what becomes of the item on its way into Langfuse.
func (c *checker) stored(n *notes, item dataset.Item) {
	body, err := marshal(c.upsert(item))
	if err != nil {
		n.problem(Syntax, "", "cannot be written as JSON: %v", err)
		return
	}
	if len(body) > MaxBody {
		n.problem(TooLarge, "", "is %.1f MB (%d bytes) as a request, Langfuse takes %d bytes: split the document", float64(len(body))/1e6, len(body), MaxBody)
	}
	for _, field := range []struct {
		path string
		raw  json.RawMessage
	}{{"input", item.Input}, {"expectedOutput", item.Expected}, {"metadata", item.Metadata}} {
		if field.raw == nil {
			continue
		}
		v, err := dataset.Decode(field.raw)
		if err != nil {
			n.problem(Syntax, field.path, "%v", err)
			continue
		}
		plain := dataset.CanonicalValue(v)
		if !bytes.Equal(plain, dataset.CanonicalValue(asStored(v))) {
			n.warn(Altered, field.path, "Langfuse will store another value: it removes control characters, reads a string at the top as JSON, and keeps 17 digits of a number")
		}
	}
}

// upsert is the item as it is sent.
func (c *checker) upsert(item dataset.Item) langfuse.DatasetItemUpsert {
	return langfuse.DatasetItemUpsert{
		DatasetName:         c.cfg.Dataset,
		ID:                  c.cfg.IDPrefix + item.ID,
		Input:               item.Input,
		ExpectedOutput:      item.Expected,
		Metadata:            item.Metadata,
		SourceTraceID:       item.SourceTraceID,
		SourceObservationID: item.SourceObservationID,
		Status:              langfuse.ItemActive,
	}
}

// marshal writes JSON as the client does.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// storedForm returns the canonical form of what Langfuse keeps of a value:
// control characters are removed from strings, a string at the top is read as
// JSON where it is JSON (the empty one is null), numbers become float64. Given
// what Langfuse returned, it gives the same again. A value that is no JSON
// counts as null.
func storedForm(raw json.RawMessage) []byte {
	v, err := dataset.Decode(raw)
	if err != nil {
		return []byte("null")
	}
	return dataset.CanonicalValue(asStored(v))
}

// asStored turns a value into what Langfuse keeps of it; v is changed.
func asStored(v any) any {
	v = cleaned(v)
	for { // a string in a string is read on the way there and again on the way back
		text, isText := v.(string)
		if !isText {
			return v
		}
		inner, err := dataset.Decode([]byte(text))
		switch {
		case err == nil:
			v = cleaned(inner)
		case text == "":
			return nil
		default:
			return text
		}
	}
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
		f, err := strconv.ParseFloat(v.String(), 64)
		if err != nil || math.IsInf(f, 0) {
			return v
		}
		return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
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

// shape stands for the content of an item in memory: 64 bits of the sha256 of
// each field's stored form, 0 for null.
type shape struct{ input, expected, metadata, trace, observation uint64 }

func shapeOf(input, expected, metadata json.RawMessage, trace, observation string) shape {
	return shape{
		input: short(storedForm(input)), expected: short(storedForm(expected)), metadata: short(storedForm(metadata)),
		trace: short([]byte(trace)), observation: short([]byte(observation)),
	}
}

func short(value []byte) uint64 {
	if len(value) == 0 || string(value) == "null" {
		return 0
	}
	sum := sha256.Sum256(value)
	return binary.BigEndian.Uint64(sum[:8]) | 1 // never 0
}

// changes reports whether writing the item over what is stored would change
// it. An absent field changes nothing: Langfuse keeps what it has.
func (s shape) changes(stored shape) bool {
	differ := func(new, old uint64) bool { return new != 0 && new != old }
	return differ(s.input, stored.input) || differ(s.expected, stored.expected) || differ(s.metadata, stored.metadata) ||
		differ(s.trace, stored.trace) || differ(s.observation, stored.observation)
}

// kept names the fields that are absent here and stay in Langfuse.
func (s shape) kept(stored shape) []string {
	var names []string
	for _, f := range []struct {
		name     string
		new, old uint64
	}{{"input", s.input, stored.input}, {"expectedOutput", s.expected, stored.expected}, {"metadata", s.metadata, stored.metadata}} {
		if f.new == 0 && f.old != 0 {
			names = append(names, f.name)
		}
	}
	return names
}
