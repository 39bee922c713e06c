package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// rewrite writes the items and reads them back.
func rewrite(t testing.TB, items []Item, format Format) []Item {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, format)
	noError(t, err)
	for _, item := range items {
		noError(t, w.Write(item))
	}
	noError(t, w.Close())
	var again []Item
	for located, err := range Read(&b, format, "again") {
		if err != nil {
			t.Fatalf("%v", err)
		}
		if len(located.Warnings) > 0 {
			t.Fatalf("%q reads back with %q", located.ID, located.Warnings)
		}
		again = append(again, located.Item)
	}
	return again
}

// valueGenerator generates any JSON value of that depth at most.
func valueGenerator(depth int) *rapid.Generator[any] {
	leaf := []*rapid.Generator[any]{
		rapid.String().AsAny(),
		rapid.Float64Range(-1e9, 1e9).AsAny(),
		rapid.Int64().AsAny(),
		rapid.Bool().AsAny(),
		rapid.SampledFrom([]string{"\r\n", "a\rb", "\"", ",", "\u2028", "<&>", "\x00", "\ufeff", ""}).AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaf...)
	}
	return rapid.OneOf(append(leaf,
		rapid.SliceOfN(valueGenerator(depth-1), 0, 3).AsAny(),
		rapid.MapOfN(rapid.String(), valueGenerator(depth-1), 0, 3).AsAny(),
	)...)
}

func rawValue(t *rapid.T, label string) json.RawMessage {
	raw, err := json.Marshal(valueGenerator(3).Draw(t, label))
	noError(t, err)
	if raw, err = Canonical(raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

var idGenerator = rapid.StringOfN(rapid.RuneFrom([]rune{'a', 'Z', '0', ' ', '"', ',', '/', '%', 'é', '漢', '😀', '\u2028', '#'}), 1, 20, -1)

func TestWriter_roundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ids := rapid.SliceOfNDistinct(idGenerator, 0, 4, rapid.ID).Draw(r, "ids")
		var items []Item
		for _, id := range ids {
			item := Item{ID: id, Input: rawValue(r, "input"), SourceTraceID: rapid.SampledFrom([]string{"", "t1"}).Draw(r, "trace")}
			if rapid.Bool().Draw(r, "gold") {
				item.Expected = rawValue(r, "expected")
			}
			if rapid.Bool().Draw(r, "extra") {
				item.Metadata = rawValue(r, "metadata")
			}
			items = append(items, item)
		}
		for _, format := range []Format{JSONL, JSON, CSV} {
			if diff := cmp.Diff(items, rewrite(t, items, format)); diff != "" {
				r.Fatalf("%s: %s", format, diff)
			}
		}
	})
}

func TestWriter_forms(t *testing.T) {
	items := []Item{
		{ID: "a", Input: json.RawMessage(`{ "t": "<é>" }`)},
		{ID: "b", Input: json.RawMessage(`1`), Expected: json.RawMessage(`[]`), Metadata: json.RawMessage(`{"k":"v"}`), SourceTraceID: "t", SourceObservationID: "o"},
	}
	want := map[Format]string{
		JSONL: `{"id":"a","input":{"t":"<é>"}}` + "\n" +
			`{"id":"b","input":1,"expectedOutput":[],"metadata":{"k":"v"},"sourceTraceId":"t","sourceObservationId":"o"}` + "\n",
		JSON: "[\n" + `{"id":"a","input":{"t":"<é>"}}` + ",\n" +
			`{"id":"b","input":1,"expectedOutput":[],"metadata":{"k":"v"},"sourceTraceId":"t","sourceObservationId":"o"}` + "\n]\n",
		CSV: "id,input,expected_output,metadata,source_trace_id,source_observation_id\n" +
			`a,"{""t"":""<é>""}",,,,` + "\n" + `b,1,[],"{""k"":""v""}",t,o` + "\n",
	}
	for format, text := range want {
		var b bytes.Buffer
		w, err := NewWriter(&b, format)
		noError(t, err)
		for _, item := range items {
			noError(t, w.Write(item))
		}
		if err := w.Write(Item{ID: "bad", Input: json.RawMessage(`{`)}); err == nil {
			t.Errorf("%s: a value that is not JSON was written", format)
		}
		noError(t, w.Close())
		if diff := cmp.Diff(text, b.String()); diff != "" {
			t.Errorf("%s: %s", format, diff)
		}
	}
	if _, err := NewWriter(&bytes.Buffer{}, "xml"); err == nil {
		t.Error("xml was accepted")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestWriter_closed checks that a second Close, as by defer, adds nothing, and that no item follows.
func TestWriter_closed(t *testing.T) {
	for _, format := range []Format{JSON, JSONL, CSV} {
		var out bytes.Buffer
		w, err := NewWriter(&out, format)
		noError(t, err)
		noError(t, w.Write(Item{ID: "a", Input: json.RawMessage(`1`)}))
		if w.Write(Item{ID: "a\xff"}) == nil {
			t.Errorf("%s: an id that is not UTF-8 was written", format)
		}
		noError(t, w.Close())
		text := out.String()
		noError(t, w.Close())
		if w.Write(Item{ID: "b"}) == nil || out.String() != text {
			t.Errorf("%s: after Close: %q", format, out.String())
		}
	}
}

func TestWriter_reportsWriteErrors(t *testing.T) {
	for _, format := range []Format{JSONL, JSON, CSV} {
		w, err := NewWriter(failingWriter{}, format)
		noError(t, err)
		err = w.Write(Item{ID: "a", Input: json.RawMessage("1")})
		if closed := w.Close(); err == nil && closed == nil {
			t.Errorf("%s: nobody noticed that nothing was written", format)
		}
	}
}

// TestRead_sharedData checks that the public sample data is read without a problem or warning.
func TestRead_sharedData(t *testing.T) {
	for name, want := range map[string]int{"documents60.jsonl": 60, "sentences22.jsonl": 22} {
		path := "../../shared/data/" + name
		if _, err := os.Stat(path); err != nil {
			t.Skipf("%s is not here", name)
		}
		var items []Item
		for located, err := range ReadFile(t.Context(), path) {
			noError(t, err)
			if len(located.Warnings) > 0 || located.DerivedID {
				t.Errorf("%s: line %d: %q", name, located.Line, located.Warnings)
			}
			items = append(items, located.Item)
		}
		if len(items) != want {
			t.Errorf("%s: %d items, want %d", name, len(items), want)
		}
		for _, format := range []Format{JSONL, JSON, CSV} {
			for i, again := range rewrite(t, items, format) {
				if mustHash(t, again) != mustHash(t, items[i]) {
					t.Errorf("%s: item %s changed in %s", name, again.ID, format)
				}
			}
		}
	}
}
