package recorded

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

const head = `{"cassette":1,"provider":"openai","model":"gpt-4o"}` + "\n"

func TestOpen_problems(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "golden.cassette"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(golden), "\n")
	swap := func(old, now string) string { return lines[0] + strings.Replace(lines[3], old, now, 1) }
	tests := map[string]struct{ text, want string }{
		"empty":             {"", "it is empty"},
		"no cassette":       {"hello\n", "line 1: this is no cassette"},
		"a run file":        {`{"format":3}` + "\n", "line 1: this is no cassette"},
		"a later version":   {`{"cassette":2,"model":"m"}` + "\n", "line 1: the format is version 2"},
		"no model":          {`{"cassette":1}` + "\n", "line 1: the model's name"},
		"garbage":           {lines[0] + lines[1] + "garbage\n" + lines[2], "line 3: this is no exchange"},
		"cut in the middle": {lines[0] + lines[1][:100] + "\n" + lines[2], "line 2: this is no exchange: the JSON ends too early"},
		"cut at the end":    {lines[0] + lines[1] + lines[2][:100], "line 3: this is no exchange: the JSON ends too early; the recording was interrupted"},
		"two in a line":     {lines[0] + strings.TrimSpace(lines[1]) + lines[2], "line 2: this is no exchange: something follows"},
		"a changed prompt":  {swap("other", "OTHER"), "line 2: the key is not that of the request"},
		"another model":     {swap(`"model":"gpt-4o"`, `"model":"gpt-5"`), `line 2: the request is for the model "gpt-5"`},
		"n of 0":            {swap(`"n":1`, `"n":0`), "line 2: n is 0"},
		"twice":             {lines[0] + lines[1] + lines[3] + lines[1], "line 4: it has the same key and the same n (1) as line 2"},
		"no answer":         {swap(`"response":`, `"reply":`), `unknown field "reply"`},
		"no class":          {swap(`"class":"invalid_output"`, `"class":""`), "line 2: the error has no class"},
		"no request":        {head + `{"key":"","n":1}` + "\n", "line 2: the request cannot be read"},
		"neither":           {neither(), "line 2: there is neither"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.cassette")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path)
			if exitCode(err) != 64 || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	for _, path := range []string{t.TempDir(), "no/such/file"} {
		if _, err := Open(path); exitCode(err) != 64 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// neither is a cassette whose exchange has no answer.
func neither() string {
	text, sum, err := canonical("gpt-4o", ask("a"))
	if err != nil {
		panic(err)
	}
	return head + fmt.Sprintf(`{"key":"%x","n":1,"request":%s}`, sum, text) + "\n"
}

// TestOpen_edited: what a person's editor does to a file is no damage.
func TestOpen_edited(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "golden.cassette"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"last line feed gone": bytes.TrimSuffix(golden, []byte("\n")),
		"Windows":             bytes.ReplaceAll(golden, []byte("\n"), []byte("\r\n")),
		"empty lines":         bytes.ReplaceAll(golden, []byte("\n"), []byte("\n\n")),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			model := replay(t, path)
			response, err := model.Generate(t.Context(), ask("other"))
			if model.Len() != 3 || response.Usage.Input != 3 || outcome.FailureOf(err, "").Class != outcome.InvalidOutput {
				t.Errorf("%d exchanges, %+v, %v", model.Len(), response, err)
			}
		})
	}
}

func TestScan_longLine(t *testing.T) {
	const limit = 100_000 // above the size of the reader's buffer
	for size, want := range map[int]string{limit: "no exchange", limit + 1: "line 2: it is longer than 100000 bytes"} {
		_, err := scan(strings.NewReader(head+strings.Repeat("x", size-1)+"\n"), "x", limit)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
}

// TestReplay: whatever is recorded is replayed, in any text.
func TestReplay(t *testing.T) {
	folder, count := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		count++
		path := filepath.Join(folder, fmt.Sprint(count))
		tape, err := Create(path, source)
		if err != nil {
			rt.Fatal(err)
		}
		answers := rapid.SliceOfN(rapid.String(), 1, 8).Draw(rt, "answers")
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "\xff", "\ufffd!", "\u2028<&>"}), len(answers), len(answers)).Draw(rt, "texts")
		call := 0
		model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			call++
			return pipeline.Response{Text: answers[call-1], Attempts: call}, nil
		}), tape)
		for _, text := range texts {
			if _, err := model.Generate(t.Context(), ask(text)); err != nil {
				rt.Fatal(err)
			}
		}
		if err := tape.Close(); err != nil {
			rt.Fatal(err)
		}
		again, err := Open(path)
		if err != nil {
			rt.Fatal(err)
		}
		for i, text := range texts {
			got, err := again.Generate(t.Context(), ask(text))
			if err != nil || got != (pipeline.Response{Text: answers[i], Attempts: i + 1}) {
				rt.Fatalf("%d: got %+v, %v, want %q", i, got, err, answers[i])
			}
		}
		if err := again.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func FuzzScan(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "golden.cassette"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add([]byte(head))
	f.Add([]byte(neither()))
	f.Add(bytes.ReplaceAll(golden, []byte("\n"), []byte("\r\n\n")))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := scan(bytes.NewReader(text), "fuzz", 1<<20)
		if err != nil {
			if exitCode(err) != 64 {
				t.Fatalf("exit code of %v", err)
			}
			return
		}
		count := 0
		for sum, entries := range found.entries {
			for _, e := range entries {
				count++
				line, now, err := decode(text[e.offset:e.offset+int64(e.length)], found.source.Model)
				if err != nil || now != sum || line.N != e.n {
					t.Fatalf("line %d is in the index and cannot be read again: %v", e.line, err)
				}
				if line.Error != nil && outcome.FailureOf(line.Error.err(), "").Class != line.Error.Class {
					t.Fatalf("line %d: the class %q was lost", e.line, line.Error.Class)
				}
			}
		}
		if count != found.count || found.end > int64(len(text)) {
			t.Fatalf("%d entries of %d, end %d of %d", count, found.count, found.end, len(text))
		}
	})
}

// BenchmarkOpen opens a cassette of 1,000 exchanges of 20 KB.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x")
	tape, err := Create(path, source)
	if err != nil {
		b.Fatal(err)
	}
	model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: strings.Repeat("answer ", 1500)}, nil
	}), tape)
	for i := range 1000 {
		if _, err := model.Generate(b.Context(), ask(fmt.Sprint(i, strings.Repeat(" document", 1100)))); err != nil {
			b.Fatal(err)
		}
	}
	if err := tape.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(tape.size)
	b.ReportAllocs()
	for b.Loop() {
		model, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := model.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
