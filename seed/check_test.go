package seed

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestCheck_golden compares the findings about a file in which each line has another mistake with a
// golden file.
func TestCheck_golden(t *testing.T) {
	report, err := Check(dataset.ReadFile(t.Context(), "testdata/bad.jsonl"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d items, %d without an id\n\n%d problems\n", report.Items, report.DerivedIDs, report.Problems.Total)
	for _, f := range report.Problems.First {
		fmt.Fprintf(&b, "%-13s %s\n", f.Kind, f)
	}
	fmt.Fprintf(&b, "\n%d warnings\n", report.Warnings.Total)
	for _, f := range report.Warnings.First {
		fmt.Fprintf(&b, "%-13s %s\n", f.Kind, f)
	}
	const golden = "testdata/bad.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
	if code := cli.ExitCode(report.Err()); code != 64 {
		t.Errorf("exit code %d, want 64", code)
	}
}

func readJSONL(text string) func(func(dataset.Located, error) bool) {
	return func(yield func(dataset.Located, error) bool) {
		dataset.Read(strings.NewReader(text), dataset.JSONL, "f.jsonl")(yield)
	}
}

func TestCheck_keepsTheFirstAndCountsAll(t *testing.T) {
	var text strings.Builder
	for i := range 250 {
		fmt.Fprintf(&text, `{"id":"%d","input":{}}`+"\n", i)
	}
	report, err := Check(readJSONL(text.String()), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Problems.Total != 250 || len(report.Problems.First) != maxFindings || report.Problems.Kinds[Input] != 250 {
		t.Errorf("%d problems, %d kept, %v", report.Problems.Total, len(report.Problems.First), report.Problems.Kinds)
	}
	if !strings.HasSuffix(report.Err().Error(), "\nand 150 more problems") {
		t.Errorf("got %v", report.Err())
	}
}

func TestCheck_unreadable(t *testing.T) {
	_, err := Check(dataset.ReadFile(t.Context(), "testdata/none.jsonl"), Config{})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestCheck_large checks that a document of 4.7 MB that Langfuse would not accept is refused with
// its size.
func TestCheck_large(t *testing.T) {
	suite.Slow(t, "two items of 4.7 MB")
	for size, want := range map[int]string{
		langfuse.MaxItemBytes - 155: "f.jsonl: line 1: item a: is 4.7 MB (4718593 bytes) as a request, Langfuse takes 4718592 bytes: split the document",
		langfuse.MaxItemBytes - 156: "", // the request has 156 bytes around the text
	} {
		text := `{"id":"a","input":{"document_text":"` + strings.Repeat("x", size) + `","object_schemas":{"A":{}}},"expectedOutput":{"entities":[],"relationships":[]}}`
		report, err := Check(readJSONL(text), Config{Dataset: "docs"})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if report.Err() != nil {
			got = report.Err().Error()
		}
		if got != want || report.Warnings.Total != 0 {
			t.Errorf("%d bytes: got %q, want %q (%v)", size, got, want, report.Warnings.First)
		}
	}
}

// TestCheck_factsThroughAliases checks that an alias means its entity, so that the four
// relationships state one fact three times and its opposite once.
func TestCheck_factsThroughAliases(t *testing.T) {
	text := `{"id":"1","input":{"document_text":"Ann Lee and Bob Ray","object_schemas":{"P":{}}},"expectedOutput":{
		"entities":[{"name":"Ann Lee","aliases":["Ann"]},{"name":"Bob Ray","aliases":["Bob","ann"]}],
		"relationships":[{"source":"ANN","target":"Bob","type":"parent_of"},{"source":"Ann Lee","target":"Bob Ray","type":"parent_of"},
		{"source":"bob","target":"Ann","type":"child_of"},{"source":"Bob","target":"Ann","type":"parent_of"}]}}`
	report, err := Check(readJSONL(strings.ReplaceAll(text, "\n", "")), Config{})
	if err != nil || report.Err() != nil {
		t.Fatal(err, report.Err())
	}
	if diff := cmp.Diff(map[Kind]int{Duplicate: 1, Redundant: 1, Contradicts: 1}, report.Warnings.Kinds); diff != "" {
		t.Errorf("%s\n%v", diff, report.Warnings.First)
	}
}

func TestCheck_prefixTooLong(t *testing.T) {
	text := `{"id":"` + strings.Repeat("a", 255) + `","input":{"document_text":"x"}}`
	report, err := Check(readJSONL(text), Config{IDPrefix: "p-"})
	if err != nil || report.Problems.Kinds[BadID] != 1 {
		t.Errorf("%v %v", report.Problems, err)
	}
}

func TestSchemas(t *testing.T) {
	schemas, err := ParseSchemas([]byte(`{"input":{"type":"object","required":["document_text"],"properties":{"document_text":{},"document_type":{"enum":["a","b"]}}},
		"expectedOutput":{"type":"object","properties":{"entities":{"type":"array","items":{"type":"object","required":["type"],"properties":{"type":{},"name":{"type":"string","minLength":3}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	text := `{"id":"1","input":{"text":"Ann and Al","document_type":"c"},"expectedOutput":{"entities":[{"name":"Ann","type":"P"},{"name":"Al"}]}}`
	report, err := Check(readJSONL(text), Config{Schemas: schemas})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range report.Problems.First {
		if f.Kind != Schema {
			t.Errorf("unexpected: %s", f)
		}
		got[f.Path] = true
	}
	want := map[string]bool{"input": true, "input.document_type": true, "expectedOutput.entities[1]": true, "expectedOutput.entities[1].name": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, report.Err())
	}
}

func TestParseSchemas_problems(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                               "reading the schemas",
		`{"output":{}}`:                    `unknown field "output"`,
		`{"input":{"type":"number?"}}`:     "the schema of input",
		`{"input":{"$ref":"file:///etc"}}`: "no URLLoader registered",
		`{"input":{"description":"` + strings.Repeat("x", 10_000) + `"}}`: "characters, Langfuse takes 10000",
	} {
		_, err := ParseSchemas([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != 64 {
			t.Errorf("%.40s: got %v, want %q", text, err, want)
		}
	}
}

// TestParseSchemas_indented checks that white space between the tokens of a schema does not count,
// because Langfuse drops it.
func TestParseSchemas_indented(t *testing.T) {
	text := `{"input":{"type":` + strings.Repeat(" ", 10_000) + `"object","description":"` + strings.Repeat("é", 9_000) + `"}}`
	if _, err := ParseSchemas([]byte(text)); err != nil {
		t.Error(err)
	}
}

func TestStoredForm(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"absent":             {``, `null`},
		"null":               {`null`, `null`},
		"empty string":       {`""`, `null`},
		"number in a string": {`"123"`, `123`},
		"object in a string": {`"{\"a\": 1.0}"`, `{"a":1}`},
		"null in a string":   {`"null"`, `null`},
		"string in a string": {`"\"x\""`, `"x"`},
		"text":               {`"hard"`, `"hard"`},
		"nested string":      {`{"a":"123"}`, `{"a":"123"}`},
		"control characters": {`{"a\u0001":"x\u0000\u0007\t\n\f\r\u007f\u0085y"}`, `{"a\u0001":"x\t\n\f\ry"}`},
		"backspace":          {`{"a":"x\by"}`, `{"a":"xy"}`},
		"no letter":          {`{"a":"x\u0000y"}`, `{"a":"xy"}`},
		"delete":             {`{"a":"x\u007fy"}`, `{"a":"xy"}`},
		"next line":          {`{"a":"x\u0085y"}`, `{"a":"xy"}`},
		"large integer":      {`[12345678901234567890,1e400]`, `[12345678901234567000,1e+400]`},
		"not JSON":           {`{`, `null`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := storedForm(json.RawMessage(tt.in))
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if again := storedForm(got); string(again) != string(got) {
				t.Errorf("%s became %s", got, again)
			}
		})
	}
}

func FuzzCheck(f *testing.F) {
	text, err := os.ReadFile("testdata/bad.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		report, err := Check(readJSONL(string(text)), Config{Dataset: "d"})
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range append(report.Problems.First, report.Warnings.First...) {
			if finding.Line < 1 || finding.Message == "" || finding.Kind == "" {
				t.Fatalf("%+v says too little", finding)
			}
		}
	})
}

func FuzzStoredForm(f *testing.F) {
	f.Add([]byte(`"\"\\\"{\\\\\\\"a\\\\\\\":1}\\\"\""`))
	f.Add([]byte(`{"a":"\u0000"}`))
	f.Add([]byte(`{"b\u0001":["\\b\b\u007f\u0085é\udc00",-0,1e21,0.1,9007199254740993,123456789012345678e-3],"a":"\\u"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		once := storedForm(raw)
		if again := storedForm(once); string(once) != string(again) {
			t.Fatalf("%s became %s", once, again)
		}
	})
}
