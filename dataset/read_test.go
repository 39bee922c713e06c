package dataset

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/testkit/suite"
)

var update = flag.Bool("update", false, "write the golden files anew")

// itemsText returns the items that Read yields as text, with a line for each item, warning and
// error.
func itemsText(text string, format Format) string {
	var b strings.Builder
	for located, err := range Read(strings.NewReader(text), format, "f") {
		if err != nil {
			fmt.Fprintf(&b, "error: %v\n", err)
			continue
		}
		fmt.Fprintf(&b, "%d: %s input=%s expected=%s metadata=%s trace=%s/%s derived=%t\n", located.Line, located.ID,
			located.Input, located.Expected, located.Metadata, located.SourceTraceID, located.SourceObservationID, located.DerivedID)
		for _, w := range located.Warnings {
			fmt.Fprintf(&b, "   warning: %s\n", w)
		}
	}
	return b.String()
}

// TestRead_golden reads every file of testdata/read and compares the result with the file of
// the same name with the suffix .golden.
func TestRead_golden(t *testing.T) {
	names, err := filepath.Glob("testdata/read/*")
	noError(t, err)
	tested := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".golden") {
			continue
		}
		tested++
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			noError(t, err)
			format, err := FormatOf(name)
			noError(t, err)
			got := itemsText(string(text), format)
			if *update {
				noError(t, os.WriteFile(name+".golden", []byte(got), 0o644))
			}
			want, err := os.ReadFile(name + ".golden")
			noError(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if tested < 6 {
		t.Errorf("only %d files in testdata/read", tested)
	}
}

func TestRead_variants(t *testing.T) {
	const one = "1: a input={\"x\":1} expected= metadata= trace=/ derived=false\n"
	tests := map[string]struct {
		format     Format
		text, want string
	}{
		"JSONL without a last line end":   {JSONL, `{"id":"a","input":{"x":1}}`, one},
		"JSONL with BOM and CRLF":         {JSONL, "\ufeff{\"id\":\"a\",\"input\":{\"x\":1}}\r\n\r\n", one},
		"JSONL of nothing":                {JSONL, "", ""},
		"JSONL with lines of spaces":      {JSONL, "{\"id\":\"a\",\"input\":{\"x\":1}}\n  \n\t\n", one},
		"JSON list":                       {JSON, `[{"id":"a","input":{"x":1}}]`, one},
		"JSON with BOM":                   {JSON, "\ufeff[{\"id\":\"a\",\"input\":{\"x\":1}}]\r\n", one},
		"JSON envelope":                   {JSON, `{"name":"n","list":[1,{"]":"}"}],"items":[{"id":"a","input":{"x":1}}],"n":-1}`, one},
		"JSON empty list":                 {JSON, "[ ]", ""},
		"JSON empty items":                {JSON, `{"items":[]}`, ""},
		"JSON brackets in strings":        {JSON, `[{"id":"a","input":"]}\"{["}]`, "1: a input=\"]}\\\"{[\" expected= metadata= trace=/ derived=false\n"},
		"CSV with BOM, CRLF and any case": {CSV, "\ufeffID,Input\r\na,\"{\"\"x\"\":1}\"\r\n", strings.Replace(one, "1:", "2:", 1)},
		"CSV with spaces in header, cell": {CSV, "id, input ,expected\na,\"{\"\"x\"\":1}\", \n", strings.Replace(one, "1:", "2:", 1)},
		"CSV header only":                 {CSV, "id,input\n", ""},
		"CSV metadata in any case":        {CSV, "id,input,METADATA.L\na,1,en\n", "2: a input=1 expected= metadata={\"L\":\"en\"} trace=/ derived=false\n"},
		"a number is an id":               {JSONL, `{"id":7,"input":1}`, "1: 7 input=1 expected= metadata= trace=/ derived=false\n"},
		"null is absent":                  {JSONL, `{"id":"a","input":{"x":1},"expected":null,"metadata":null}`, one},
		"what Langfuse adds is ignored":   {JSONL, `{"id":"a","input":{"x":1},"status":"ACTIVE","datasetId":"d","createdAt":"t"}`, one},
		"no input is for the harness":     {JSONL, `{"id":"a"}`, "1: a input= expected= metadata= trace=/ derived=false\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, itemsText(tt.text, tt.format)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRead_problems(t *testing.T) {
	tests := map[string]struct {
		format     Format
		text, want string
	}{
		"UTF-16":                {JSONL, "\xff\xfe{\x00", "f: line 1: byte 0xff is not valid UTF-8; convert the file to UTF-8"},
		"invalid UTF-8":         {JSON, "[\n{\"id\":\n\"\xff\"}]", "f: line 3: byte 0xff is not valid UTF-8"},
		"JSON of lines":         {JSON, "{\"id\":\"a\"}\n{}", "f: line 2: is not JSON: invalid character '{' after top-level value (column 1); a file with one object per line is named .jsonl"},
		"JSON and more":         {JSON, "[]\n[]", "f: line 2: is not JSON: invalid character '[' after top-level value"},
		"JSON cut short":        {JSON, `[{"id":"a"`, "f: line 1: is not JSON: unexpected end of JSON input"},
		"JSON empty":            {JSON, " \n", "f: line 1: the file is empty"},
		"JSON of a string":      {JSON, `"x"`, "f: line 1: expected a list of items, or an object"},
		"JSON missing comma":    {JSON, `[{"id":"a","input":1} {"id":"b"}]`, `f: line 1: is not JSON: invalid character '{' after array element`},
		"JSON empty element":    {JSON, `[,]`, `f: line 1: is not JSON: invalid character ','`},
		"JSON empty member":     {JSON, `{"a":,"items":[]}`, `f: line 1: is not JSON: invalid character ','`},
		"JSON two lists":        {JSON, `{"items":[],"items":[]}`, `f: line 1: expected a list of items, or an object with one list`},
		"key twice":             {JSONL, `{"id":"a","expected":[1],"expect\u0065d":{}}`, `f: line 1: the key "expected" is given twice`},
		"JSON items no list":    {JSON, `{"items":{}}`, `f: line 1: expected a list of items, or an object with one list`},
		"JSON key without mark": {JSON, `{items:[]}`, `f: line 1: is not JSON: invalid character 'i'`},
		"JSON no colon":         {JSON, `{"items",[]}`, `f: line 1: is not JSON: invalid character ',' after object key`},
		"CSV empty":             {CSV, "", "f: line 1: the file is empty: expected a header row"},
		"CSV column twice":      {CSV, "id,ID\n", `f: line 1: the column "ID" appears twice`},
		"CSV synonym twice":     {CSV, "expected,expected_output\n", `f: line 1: the column "expected_output" appears twice`},
		"CSV header not UTF-8":  {CSV, "id,in\xffput\n", "f: line 1: the header of column 2 is not valid UTF-8"},
		"CSV header not CSV":    {CSV, "id,in\"put\"\n", "f: line 1: is not CSV: bare \""},
		"CSV quote in a cell":   {CSV, "id,input\na\"b,1\n", "f: line 2: is not CSV: bare \""},
		"CSV no header":         {CSV, "id,,input\n", "f: line 1: column 2 has no header"},
		"CSV open quote":        {CSV, "id,input\na,\"1\n2\n", "f: line 2: is not CSV: extraneous or missing"},
		"CSV no text to move":   {CSV, "metadata,colour,input,id\n3,red,1,a\n", `f: line 2: metadata: must be an object to take the keys ["colour"]`},
		"id with a tab":         {JSONL, `{"id":"a\tb","input":1}`, `f: line 1: id: "a\tb" holds control characters`},
		"id too long":           {JSONL, `{"id":"` + strings.Repeat("ä", 256) + `","input":1}`, "f: line 1: id: has 256 characters, at most 255"},
		"id of a list":          {JSONL, `{"id":[],"input":1}`, "f: line 1: id: expected a string"},
		"text and input":        {JSONL, `{"input":1,"document_text":"x"}`, "f: line 1: document_text: is given together with input"},
		"unknown format":        {"xml", "<a/>", `"xml" tells no format of items`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range Read(strings.NewReader(tt.text), tt.format, "f") {
				if err == nil {
					continue
				}
				got = append(got, err.Error())
				var code interface{ ExitCode() int }
				if !errors.As(err, &code) || code.ExitCode() != 64 {
					t.Errorf("%v does not exit with 64", err)
				}
			}
			if !strings.HasPrefix(strings.Join(got, "\n"), tt.want) {
				t.Errorf("got %q, want it to begin with %q", got, tt.want)
			}
		})
	}
}

// TestRead_brokenReader checks that an error of the reader ends the sequence.
func TestRead_brokenReader(t *testing.T) {
	for format, text := range map[Format]string{
		JSONL: "{\"id\":\"a\",\"input\":1}\n", JSON: "[{\"id\":\"a\",\"input\":1}\n", CSV: "id,input\na,1\n",
	} {
		broken := errors.New("disk on fire")
		items, failures := 0, 0
		for _, err := range Read(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), format, "f") {
			if err == nil {
				items++
				continue
			}
			failures++
			if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "reading f: ") {
				t.Errorf("%s: got %v", format, err)
			}
		}
		if items != 1 || failures != 1 {
			t.Errorf("%s: %d items and %d errors, want one of each", format, items, failures)
		}
		failures = 0
		for item, err := range Read(iotest.ErrReader(broken), format, "f") {
			if failures++; !errors.Is(err, broken) || item.ID != "" || failures > 1 {
				t.Errorf("%s, at once: got %+v, %v", format, item, err)
			}
		}
		if failures == 0 {
			t.Errorf("%s, at once: no error", format)
		}
	}
}

// filler returns a reader of n bytes that are not in memory.
func filler(n int) io.Reader { return io.LimitReader(endless{}, int64(n)) }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestRead_large reads an item of 10 MB (2 MiB without suite.Full), and checks that an item beyond
// the limit is refused with its line and ends the sequence.
func TestRead_large(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{10 << 20, limit + 10} {
		tests := map[Format][3]string{
			JSONL: {"{\"id\":\"a\",\"input\":\"", "\"}\n", "{\"id\":\"b\",\"input\":1}\n"},
			JSON:  {"[{\"id\":\"a\",\"input\":\"", "\"},\n", "{\"id\":\"b\",\"input\":1}]"},
			CSV:   {"id,document_text\na,\"", "\"\n", "b,x\n"},
		}
		for format, text := range tests {
			if size > 2*limit && !suite.Full() {
				size = 2 * limit
			}
			r := io.MultiReader(strings.NewReader(text[0]), filler(size), strings.NewReader(text[1]+text[2]))
			var ids, problems []string
			items := Read(r, format, "f")
			if size == limit+10 {
				items = readItems(r, format, "f", limit)
			}
			for located, err := range items {
				if err != nil {
					problems = append(problems, err.Error())
					continue
				}
				ids = append(ids, located.ID)
			}
			got := strings.Join(ids, " ") + "|" + strings.Join(problems, "\n")
			want := "a b|"
			if size == limit+10 {
				want = "|f: line 1: the item is larger than 1 MiB"
				if format == CSV {
					want = "|f: line 2: the row is larger than 1 MiB: is a quote left open?"
				}
			}
			if got != want {
				t.Errorf("%s of %d bytes: got %q, want %q", format, size, got, want)
			}
		}
	}
}

// TestRead_limitOfRows checks that the limit is that of a row, not of all rows.
func TestRead_limitOfRows(t *testing.T) {
	const limit, rows = 8 << 10, 500
	text := "document_text,id\n"
	for i := range rows {
		text += fmt.Sprintf("%s,%d\n", strings.Repeat("x", 100), i)
	}
	read := 0
	for _, err := range readItems(strings.NewReader(text), CSV, "f", limit) {
		noError(t, err)
		read++
	}
	if read != rows {
		t.Errorf("%d rows", read)
	}
}

func TestReadFile(t *testing.T) {
	for name, want := range map[string]string{
		"testdata/none.jsonl": "reading items: open testdata/none.jsonl: ", "items.xlsx": "use .jsonl, .json or .csv",
	} {
		var got []string
		for _, err := range ReadFile(t.Context(), name) {
			got = append(got, fmt.Sprint(err))
		}
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	file := ReadFile(t.Context(), filepath.Join("testdata", "read", "good.jsonl"))
	for range 2 { // a file can be read again
		items := 0
		for located, err := range file {
			if err != nil || located.File == "" {
				t.Errorf("%+v: %v", located, err)
			}
			items++
		}
		if items != 3 {
			t.Errorf("%d items, want 3", items)
		}
	}
}

func TestProblems(t *testing.T) {
	var p Problems
	p.Add(nil)
	if p.Err() != nil || p.Len() != 0 {
		t.Errorf("nothing added, but %v", p.Err())
	}
	for i := range 103 {
		p.Add(&SyntaxError{File: "f", Line: i + 1, Msg: "bad"})
	}
	lines := strings.Split(p.Err().Error(), "\n")
	if len(lines) != 101 || lines[100] != "and 3 more problems" || p.Len() != 103 {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	if code := p.Err().(interface{ ExitCode() int }).ExitCode(); code != 64 {
		t.Errorf("exit code %d", code)
	}
	var syntax *SyntaxError
	if !errors.As(p.Err(), &syntax) || syntax.Line != 1 {
		t.Errorf("the first problem is not found in %v", p.Err())
	}
}

func fuzzRead(f *testing.F, format Format) {
	names, err := filepath.Glob("testdata/read/*." + string(format))
	noError(f, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		noError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var items []Item
		lines := bytes.Count(text, []byte("\n")) + 2
		for located, err := range Read(bytes.NewReader(text), format, "f") {
			var syntax *SyntaxError
			if err != nil && !errors.As(err, &syntax) {
				t.Fatalf("%v has no place", err)
			}
			if err != nil {
				if syntax.Line < 1 || syntax.Line > lines {
					t.Fatalf("line %d of %d: %v", syntax.Line, lines, err)
				}
				continue
			}
			if located.Line < 1 || located.Line > lines || ValidID(located.ID) != nil {
				t.Fatalf("%+v is not a good item", located)
			}
			if _, err := Hash(located.Item); err != nil {
				t.Fatalf("%+v has no hash: %v", located, err)
			}
			items = append(items, located.Item)
		}
		for _, out := range []Format{JSONL, JSON, CSV} {
			again := rewrite(t, items, out)
			if len(again) != len(items) {
				t.Fatalf("%d items came back as %d in %s", len(items), len(again), out)
			}
			for i := range items {
				if a, b := mustHash(t, items[i]), mustHash(t, again[i]); a != b || items[i].ID != again[i].ID {
					t.Fatalf("%s: %+v came back as %+v", out, items[i], again[i])
				}
			}
		}
	})
}

func FuzzReadJSONL(f *testing.F) { fuzzRead(f, JSONL) }
func FuzzReadJSON(f *testing.F)  { fuzzRead(f, JSON) }
func FuzzReadCSV(f *testing.F)   { fuzzRead(f, CSV) }
