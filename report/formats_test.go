package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/joshdk/go-junit"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// tricky tries to end a cell, a column, a comment, an element, a code span and a command, and to
// mention a user.
const tricky = "=1+1,\"two\"\r\nthree | four``` ` @octocat <img src=x onerror=x> ]]> & ::error::forged %0A [link](http://x)\n::error::forged"

// sampleRun returns a run of three items: a scored one, a failed one and a tricky one.
func sampleRun() Run {
	h := outcome.Header{Name: "gpt-prompt-3", Started: began, Trials: 1, Dataset: outcome.Dataset{Name: "extraction-eval"},
		System: outcome.System{Model: "gpt-4o-mini", Prompt: outcome.Prompt{Name: "extract", Version: 3}}, Scorer: outcome.Scorer{Primary: "entity_f1"}}
	items := []ItemView{itemView(), itemView(), itemView()}
	items[0].Outcome.Trial, items[0].Outcome.Started = 1, began
	items[0].Outcome.Causes = []outcome.Cause{{What: "entity", Name: "missed", Count: 2}}
	failure := outcome.Failure{Class: outcome.Timeout, Message: "no answer within 30s"}
	items[1].Outcome = outcome.Outcome{Item: "doc-06", Trial: 1, Attempt: 1, Class: failure.Class, Latency: 30 * time.Second,
		Scores: []outcome.Score{{Name: "entity_f1"}}, Detail: outcome.Detail{Failure: &failure}}
	odd := outcome.Failure{Class: "odd " + tricky, Message: tricky}
	items[2].Run, items[2].Dataset = tricky, tricky
	items[2].Outcome = outcome.Outcome{Item: tricky, Trial: 2, Attempt: 1, Class: odd.Class,
		Scores: []outcome.Score{{Name: tricky, Value: new(-0.5)}}, Detail: outcome.Detail{Failure: &odd, Warnings: []string{tricky, "+2"}}}
	return runOf(h, items)
}

func runOf(h outcome.Header, items []ItemView) Run {
	sum := outcome.NewSummariser(h, outcome.SummaryConfig{})
	for _, v := range items {
		sum.Add(v.Outcome)
	}
	s := sum.Summary()
	s.Finish(outcome.Footer{Status: outcome.Complete, Planned: len(items)})
	s.Run.URL = "https://langfuse.example.com/run?a=1&b=<2>"
	return Run{Summary: s, Items: eachItem(items, nil)}
}

func eachItem(items []ItemView, end error) iter.Seq2[*ItemView, error] {
	return func(yield func(*ItemView, error) bool) {
		for _, v := range items {
			if !yield(&v, nil) {
				return
			}
		}
		if end != nil {
			yield(nil, end)
		}
	}
}

// runFormats has the formats of whole runs, by the name of their golden file.
var runFormats = map[string]func(io.Writer, []Run) error{
	"run.csv": CSV, "run.md": Markdown, "run.junit.xml": JUnit, "run.github.txt": GitHub, "run.jsonl": JSONL,
}

func TestFormats_golden(t *testing.T) {
	for name, write := range runFormats {
		golden(t, name, printed(t, func(w io.Writer) error { return write(w, []Run{sampleRun()}) }))
	}
	golden(t, "runs.md", printed(t, func(w io.Writer) error { return Markdown(w, []Run{sampleRun(), sampleRun()}) }))
}

func TestFormats_errors(t *testing.T) {
	broken := sampleRun()
	broken.Items = eachItem([]ItemView{itemView()}, errFull)
	for name, write := range runFormats {
		if err := write(brokenWriter{}, []Run{sampleRun()}); !errors.Is(err, errFull) {
			t.Errorf("%s: a full disk: %v", name, err)
		}
		if name == "run.md" || name == "run.github.txt" {
			continue // they read no items
		}
		if err := write(io.Discard, []Run{broken}); !errors.Is(err, errFull) || strings.Contains(err.Error(), "writing") {
			t.Errorf("%s: a run that breaks off: %v", name, err)
		}
	}
}

// TestFormats_itemByItem checks that the report of 2,000 items is written while they are read.
func TestFormats_itemByItem(t *testing.T) {
	for name, write := range map[string]func(io.Writer, []Run) error{"csv": CSV, "junit": JUnit, "jsonl": JSONL} {
		var b bytes.Buffer
		run := sampleRun()
		most, last := 0, 0 // bytes between two items
		run.Items = func(yield func(*ItemView, error) bool) {
			for range 2000 {
				most, last = max(most, b.Len()-last), b.Len()
				if !yield(new(itemView()), nil) {
					return
				}
			}
		}
		if err := write(&b, []Run{run}); err != nil || most > 10_000 || b.Len()-last > 10_000 {
			t.Errorf("%s: %v, %d bytes at once, %d at the end", name, err, most, b.Len()-last)
		}
	}
}

// TestCSV_failed checks that a failed item has no number of faults, and that costs, which are sums of products, are
// without the digits of rounding.
func TestCSV_failed(t *testing.T) {
	good, bad := itemView(), itemView()
	good.Outcome.Causes = []outcome.Cause{{What: "entity", Name: "missed", Count: 2}}
	good.Outcome.CostUSD, bad.Outcome.CostUSD = new(.00005684999999999999), new(1234.5)
	bad.Outcome.Class, bad.Outcome.Failure = outcome.Timeout, &outcome.Failure{Class: outcome.Timeout}
	bad.Outcome.Causes = nil
	text := printed(t, func(w io.Writer) error { return CSV(w, []Run{runOf(outcome.Header{}, []ItemView{good, bad})}) })
	table, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(table) != 3 {
		t.Fatal(table, err)
	}
	cost, faults := slices.Index(table[0], "cost_usd"), slices.Index(table[0], "faults_entity_missed")
	want := []string{"5.685e-05", "1234.5", "2", ""}
	if got := []string{table[1][cost], table[2][cost], table[1][faults], table[2][faults]}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCSV_tokens checks that unknown numbers of tokens are empty, and not 0 as those of an item that asked no model.
func TestCSV_tokens(t *testing.T) {
	none, unknown := itemView(), itemView()
	none.Outcome.Usage, unknown.Outcome.Usage = outcome.Usage{}, outcome.Usage{}
	none.Outcome.CostUSD, unknown.Outcome.CostUSD = new(0.0), nil
	text := printed(t, func(w io.Writer) error { return CSV(w, []Run{runOf(outcome.Header{}, []ItemView{none, unknown})}) })
	table, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(table) != 3 {
		t.Fatal(table, err)
	}
	at := slices.Index(table[0], "input_tokens")
	if got := slices.Concat(table[1][at:at+3], table[2][at:at+3]); !slices.Equal(got, []string{"0", "0", "0", "", "", ""}) {
		t.Errorf("%q", got)
	}
}

// TestCSV_everyField checks that any text is read back unchanged, and that no field is a formula
// for a spreadsheet.
func TestCSV_everyField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[=+\-@'"\t\r\n, a]{0,6}`))
		v := itemView()
		v.Run, v.Dataset, v.Outcome.Item = texts.Draw(t, "run"), texts.Draw(t, "dataset"), texts.Draw(t, "item")
		failure := outcome.Failure{Class: outcome.Class("c" + texts.Draw(t, "class")), Message: texts.Draw(t, "message")}
		v.Outcome.Class, v.Outcome.Failure = failure.Class, &failure
		v.Outcome.Warnings = []string{texts.Draw(t, "warning")}
		text := printed(t, func(w io.Writer) error { return CSV(w, []Run{runOf(outcome.Header{}, []ItemView{v})}) })
		table, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil || len(table) != 2 {
			t.Fatal(table, err)
		}
		row := table[1]
		got := []string{}
		for _, i := range []int{0, 1, 2, 5, 6, len(row) - 1} {
			if row[i] != "" && strings.ContainsRune("=+-@\t\r\n", rune(row[i][0])) {
				t.Errorf("a spreadsheet would calculate %q", row[i])
			}
			got = append(got, strings.TrimPrefix(row[i], "'"))
		}
		want := []string{v.Run, v.Dataset, v.Outcome.Item, string(failure.Class), failure.Message, v.Outcome.Warnings[0]}
		for i := range want { // the reader of the standard library makes one of the two
			want[i] = strings.ReplaceAll(want[i], "\r\n", "\n")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestJUnit_publicParser reads the report with a public parser. Three items have not run.
func TestJUnit_publicParser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scored, failed := itemView(), itemView()
		scored.Outcome.Item, scored.Dataset = rapid.String().Draw(t, "item"), rapid.String().Draw(t, "dataset")
		failure := outcome.Failure{Class: outcome.Class("c" + rapid.String().Draw(t, "class")), Message: "m" + rapid.String().Draw(t, "message")}
		failed.Outcome.Class, failed.Outcome.Failure = failure.Class, &failure
		run := runOf(outcome.Header{Name: "r"}, []ItemView{scored, failed})
		run.Summary.Items.Planned = 5
		suites, err := junit.Ingest([]byte(printed(t, func(w io.Writer) error { return JUnit(w, []Run{run}) })))
		if err != nil || len(suites) != 1 || len(suites[0].Tests) != 3 {
			t.Fatalf("%v %+v", err, suites)
		}
		if totals := suites[0].Totals; totals.Tests != 3 || totals.Failed != 2 || totals.Passed != 1 {
			t.Errorf("totals are %+v", totals)
		}
		one, two := suites[0].Tests[0], suites[0].Tests[1]
		if want := strings.ToValidUTF8(textutil.Line(scored.Outcome.Item), "�") + " #2"; legalXML(want) != one.Name || one.Status != junit.StatusPassed {
			t.Errorf("name %q, want %q; %s", one.Name, want, one.Status)
		}
		if two.Status != junit.StatusFailed || two.Message != legalXML(textutil.Line(failure.Message)) {
			t.Errorf("%s, message %q, want %q", two.Status, two.Message, failure.Message)
		}
		if three := suites[0].Tests[2]; three.Status != junit.StatusFailed || three.Message != "3 results missing: experiment run --resume continues the run" {
			t.Errorf("%s, %q", three.Status, three.Message)
		}
		if one.Duration != 1234*time.Millisecond {
			t.Errorf("it took %s", one.Duration)
		}
	})
}

// legalXML replaces the two printable characters that XML does not allow.
func legalXML(s string) string {
	return strings.NewReplacer("\ufffe", "\ufffd", "\uffff", "\ufffd").Replace(s)
}

func TestGitHub_noForgedCommands(t *testing.T) {
	got := printed(t, func(w io.Writer) error { return GitHub(w, []Run{sampleRun()}) })
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "::error title=") && !strings.HasPrefix(line, "::notice title=") {
			t.Errorf("a line of its own: %q", line)
		}
		if strings.Count(line, "title=") != 1 || strings.Contains(strings.SplitN(line, "::", 3)[1], "forged::") {
			t.Errorf("forged: %q", line)
		}
	}
}

func TestGitHub_atMostTenErrors(t *testing.T) {
	var items []ItemView
	for i := range 30 {
		v := itemView()
		v.Outcome.Item = strings.Repeat("x", i+1)
		v.Outcome.Class, v.Outcome.Failure = outcome.Timeout, &outcome.Failure{Class: outcome.Timeout, Message: "late"}
		items = append(items, v)
	}
	sum := outcome.NewSummariser(outcome.Header{Name: "r"}, outcome.SummaryConfig{Messages: 100})
	for _, v := range items {
		sum.Add(v.Outcome)
	}
	got := printed(t, func(w io.Writer) error { return GitHub(w, []Run{{Summary: sum.Summary()}}) })
	if n := strings.Count(got, "::error"); n != 10 {
		t.Errorf("%d errors", n)
	}
	if !strings.Contains(got, "::error title=r::and 21 more failed items\n") { // 30 - 9
		t.Error(got)
	}
}

// TestCode checks that only its own fence ends a code span, whatever it contains.
func TestCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching("[`a |]{0,8}")).Draw(t, "text")
		got := code(s)
		if textutil.Line(s) == "" {
			if got != "(none)" {
				t.Fatal(got)
			}
			return
		}
		fence := got[:len(got)-len(strings.TrimLeft(got, "`"))]
		inner, ok := strings.CutSuffix(strings.TrimPrefix(got, fence), fence)
		if !ok || fence == "" || strings.HasPrefix(inner, "`") || strings.HasSuffix(inner, "`") || strings.ContainsAny(inner, "\n\r") {
			t.Fatalf("%q", got)
		}
		for _, run := range strings.FieldsFunc(inner, func(r rune) bool { return r != '`' }) {
			if len(run) == len(fence) {
				t.Fatalf("%q ends early", got)
			}
		}
	})
}

func TestWebLink(t *testing.T) {
	for raw, want := range map[string]string{
		"https://x.example/a?b=1": "https://x.example/a?b=1", "http://127.0.0.1:4711/p": "http://127.0.0.1:4711/p",
		"javascript:alert(1)": "", "data:text/html,x": "", "": "", "//x.example": "", "https://": "", "file:///etc/passwd": "", "https://x.example/<b>": "https://x.example/%3Cb%3E",
	} {
		if got, ok := WebLink(raw); got != want || ok != (want != "") {
			t.Errorf("%q became %q, %v", raw, got, ok)
		}
	}
}

func TestJSONL_lines(t *testing.T) {
	got := printed(t, func(w io.Writer) error { return JSONL(w, []Run{sampleRun(), sampleRun()}) })
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines", len(lines))
	}
	var back ItemView
	if err := json.Unmarshal([]byte(lines[5]), &back); err != nil || back.Outcome.Item != tricky {
		t.Errorf("%v %q", err, back.Outcome.Item)
	}
}

// renderedReport is what a public renderer with the extensions of GitHub finds in a report.
type renderedReport struct {
	Tables [][]string // the words of the first row
	Rows   int        // of all tables, the first ones left out
	Links  []string
	HTML   []string
}

func rendered(t rapid.TB, source []byte) renderedReport {
	var p renderedReport
	renderer := goldmark.New(goldmark.WithExtensions(extension.GFM))
	root := renderer.Parser().Parse(text.NewReader(source))
	width := 0
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *east.TableHeader:
			width = n.ChildCount()
			var words []string
			for cell := n.FirstChild(); cell != nil; cell = cell.NextSibling() {
				words = append(words, string(cell.Text(source))) //nolint:staticcheck // plain words
			}
			p.Tables = append(p.Tables, words)
		case *east.TableRow:
			p.Rows++
			if n.ChildCount() != width {
				t.Fatalf("a row of %d cells in a table of %d:\n%s", n.ChildCount(), width, source)
			}
		case *ast.Link:
			p.Links = append(p.Links, string(n.Destination))
		case *ast.AutoLink:
			p.Links = append(p.Links, string(n.URL(source)))
		case *ast.Image:
			p.Links = append(p.Links, "image "+string(n.Destination))
		case *ast.RawHTML:
			p.HTML = append(p.HTML, string(n.Segments.Value(source)))
		case *ast.HTMLBlock:
			p.HTML = append(p.HTML, strings.TrimSpace(string(n.Lines().Value(source))))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompareMarkdown_rendered checks that tables and folded parts are rendered as such.
func TestCompareMarkdown_rendered(t *testing.T) {
	source := printed(t, func(w io.Writer) error { return CompareMarkdown(w, comparison(), Options{}) })
	got := rendered(t, []byte(source))
	want := renderedReport{
		Tables: [][]string{
			{"", "rule", "reason"},
			{"score", "base", "candidate", "difference", "95 % interval", "p (Holm)", "+/-/=", "n"},
			{"score", "base", "candidate", "difference", "95 % interval", "n"},
			{"score", "no → yes", "yes → no", "both", "neither", "p (McNemar)"},
			{"mean, p50 and p95 of the items"},
			{"type", "expected", "matched", "extracted", "base F1", "cand. F1", "difference"},
			{"type", "expected", "matched", "extracted", "base F1", "cand. F1", "difference"},
			{"item", "base", "candidate", "difference", "what changed"},
		},
		Rows: strings.Count(string(source), "\n| ") - 2*8, // lines with bars, without each head and its rule
	}
	for _, title := range []string{"Pooled over the counts of 58 of 60 items: the others failed", "Yes or no", "Cost and latency", "By entity type",
		"By relationship type", "Largest changes in entity_f1"} {
		want.HTML = append(want.HTML, "<details><summary>"+title+"</summary>", "</details>")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s\n%s", diff, source)
	}
}

// TestMarkdown_renderedHostile checks that tables are rendered the same whatever names contain,
// with no link except that of the run, and no element.
func TestMarkdown_renderedHostile(t *testing.T) {
	plain := rendered(t, []byte(printed(t, func(w io.Writer) error { return Markdown(w, []Run{namedRun("x")}) })))
	if len(plain.Tables) < 2 || plain.Rows < 3 {
		t.Fatalf("%+v", plain)
	}
	pieces := regexp.MustCompile(`\S+|\s`).FindAllString(tricky, -1)
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(pieces, "`", "|", "\\", "\n\n# ", "<b>", "https://example.com ", "- ")), 1, 8).Draw(t, "name"), "")
		text := printed(t, func(w io.Writer) error { return Markdown(w, []Run{namedRun(name)}) })
		got := rendered(t, []byte(text))
		if got.Rows != plain.Rows || len(got.Tables) != len(plain.Tables) || len(got.HTML) != 0 || !cmp.Equal(got.Links, plain.Links) {
			t.Fatalf("%+v instead of %+v:\n%s", got, plain, text)
		}
	})
}

// namedRun returns a run in which everything has the same name.
func namedRun(name string) Run {
	run := sampleRun()
	s := &run.Summary
	s.Run.Name, s.Run.Dataset, s.Run.Model, s.Warnings = name, name, name, []string{name}
	for i := range s.Scores {
		s.Scores[i].Name = name
	}
	return run
}
