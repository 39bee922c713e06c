// Package html writes runs as one self-contained page: an overview with
// distributions, intervals and causes, a list of items to sort and
// filter, and a page per item with the document, what was expected and
// extracted in it, and the prompt and the answer. It computes no score and
// opens no run; it shows what a report.Run holds. Several runs are put side by
// side, item by item.
//
// The page is written as a stream, in four steps:
//
//  1. the head, with a policy that lets nothing run, load or connect but the
//     page's own script and style, which are named by their hashes;
//  2. the items, each as two blocks of JSON that no parser takes for markup: a
//     small row for the list, and the rest, which is decoded when it is opened;
//  3. the overview, from what was counted meanwhile, and the empty places that
//     the script fills;
//  4. the script.
//
// Everything that strangers wrote arrives in the page as text.
//
//	err := html.Write(w, []report.Run{run}, html.Config{})
package html

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// Config bounds a page. The zero value is usable.
type Config struct {
	// MaxBytes bounds the details of all items together, before they are compressed,
	// to a fifth or less; 0 is 24 MiB. Every item may use an equal share of what is
	// left, at most 1 MiB, and at least 8 KiB for each run while there are any:
	// documents, prompts, answers and lists that need more are cut, with a notice.
	MaxBytes int
	// MaxItems bounds the items that are listed, the first by id; 0 is 20,000.
	// A row of the list has at most about 2 KiB. The overview counts all.
	MaxItems int
	// Where the page is served, Home is the address of the list of runs, and
	// Links are those of the pages of the runs, in their order; empty ones are
	// left out.
	Home  string
	Links []string
	// Trace returns the address of the trace of an outcome of the run at that
	// place of their list; nil, or "" from it, links none. What it returns must
	// be safe to follow.
	Trace func(run int, o outcome.Outcome) string
}

// Write writes the page. The size of the file is at most that of Config plus
// about 300 KiB for each run's overview; memory is that of one item of each run
// and of the overview. Errors: those of the runs and of the writer; the file is
// then unfinished.
func Write(w io.Writer, runs []report.Run, cfg Config) error {
	if len(runs) == 0 {
		return fmt.Errorf("a page needs a run")
	}
	out := newWriter(w, ofRuns, cfg)
	out.runs, out.primary = runs, runs[0].Summary.Run.Primary
	for i, r := range runs {
		for _, s := range r.Summary.Scores { // in the order of the first run that has each
			if !slices.Contains(out.scores, s.Name) && len(out.scores) < mostLines {
				out.scores = append(out.scores, s.Name)
			}
		}
		out.places = append(out.places, i)
		out.tallies = append(out.tallies, newTally(r.Summary))
		out.titles = append(out.titles, named(r.Summary.Run.Name))
	}
	return out.parts(out.head, out.items, out.body, func() error { return out.move(out.meta()) })
}

//go:embed assets
var files embed.FS

// The scripts of each sort of page. They are joined in this order, inside of one function.
const (
	ofRuns       = "dom.js data.js runs.js list.js marks.js item.js keys.js app.js"
	ofComparison = "dom.js data.js pairs.js list.js marks.js item.js pair.js keys.js app.js"
	ofAudit      = "audit.js"
	still        = "" // a page without script
)

// joined reads files with the line ends that a browser sees, whatever a
// checkout made of them: their hash is in the policy. The files are part of the
// program: without one of them it is broken, and panics.
func joined(names string) (text string) {
	for name := range strings.FieldsSeq(names) {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		text += strings.ReplaceAll(string(raw), "\r\n", "\n")
	}
	return text
}

// policy forbids everything that it does not name: no script, style, image,
// frame, form, base or connection but the two blocks of the page itself. A page
// without script may ask its own server.
func (w *writer) policy() string {
	script, form := hashOf(w.script), "'none'"
	if w.script == "" {
		script, form = "'none'", "'self'"
	}
	return "default-src 'none'; script-src " + script + "; style-src " + hashOf(w.style) +
		"; base-uri 'none'; form-action " + form
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// writer is a page in the making.
type writer struct {
	*bufio.Writer // keeps its first error, which parts returns
	*template.Template
	style, script string // the same for every page of a sort
	cfg           Config
	titles        []string
	runs          []report.Run
	places        []int // where each run is in the list of the caller
	scores        []string
	primary       string  // the score that matters most
	lower         bool    // less of it is better
	paired        bool    // runs are compared item by item, and failed ones count as 0
	tallies       []tally // of each run; none where nobody asks for them
	listed        int     // items
	left          int     // items that are not listed
	shorter       int     // items whose detail was cut
	trials        int     // of the item that has most
}

func newWriter(w io.Writer, scripts string, cfg Config) *writer {
	out := &writer{Writer: bufio.NewWriterSize(w, 64<<10), cfg: cfg, scores: []string{}}
	out.Template = template.Must(template.New("").Funcs(functions()).ParseFS(files, "assets/*.tmpl"))
	out.cfg.MaxBytes, out.cfg.MaxItems = cmp.Or(cfg.MaxBytes, 24<<20), cmp.Or(cfg.MaxItems, 20_000)
	out.style = joined("base.css overview.css list.css item.css")
	if scripts != ofRuns {
		out.style += joined("compare.css still.css audit.css")
	}
	if scripts != still {
		out.script = "(async function () {\n\"use strict\";\n" + joined(scripts) + "}());\n"
	}
	return out
}

// writeStill writes a page without script, which is one template.
func writeStill(w io.Writer, title, name string, page any) error {
	out := newWriter(w, still, Config{})
	out.titles = []string{title}
	return out.parts(out.head, func() error { return out.ExecuteTemplate(out, name, page) })
}

// parts writes the parts of the page and ends it.
func (w *writer) parts(parts ...func() error) error {
	end := func() error {
		fmt.Fprint(w, "</body>\n</html>\n")
		return w.Flush()
	}
	for _, part := range append(parts, end) {
		if err := part(); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
	}
	return nil
}

// head ends with the start of the body.
func (w *writer) head() error {
	err := w.ExecuteTemplate(w, "head", struct {
		Titles []string
		Policy string
	}{w.titles, w.policy()})
	fmt.Fprint(w, "<style>", w.style, "</style>\n</head>\n<body>\n")
	return err
}

// move writes what makes the page move: what its script reads, as JSON in an element that
// browsers do not run, and the script. Encoding/json escapes <, >, & and line separators.
func (w *writer) move(meta any) error {
	raw, err := json.Marshal(meta)
	fmt.Fprintf(w, "<script type=\"application/json\" class=\"meta\" id=\"meta0\">%s</script>\n", raw)
	fmt.Fprint(w, "<script>", w.script, "</script>\n")
	return err
}

// bundle is values of one class that are compressed together. The page decompresses
// a bundle when it needs one of them.
type bundle struct {
	class  string
	first  int // its first value's number
	values [][]byte
	bytes  int
}

// add takes a value, and writes the bundle when it is full.
func (b *bundle) add(w *writer, raw []byte) error {
	b.values, b.bytes = append(b.values, raw), b.bytes+len(raw)
	if len(b.values) == 100 || b.bytes > 1<<20 {
		return b.write(w)
	}
	return nil
}

// write writes what is left of the bundle: a JSON list, with gzip and in base64.
func (b *bundle) write(w *writer) error {
	if len(b.values) == 0 {
		return nil
	}
	fmt.Fprintf(w, "<script type=\"text/plain\" class=\"%s\" data-first=\"%d\">", b.class, b.first)
	text := base64.NewEncoder(base64.StdEncoding, w)
	packed := gzip.NewWriter(text)
	fmt.Fprintf(packed, "[%s]", bytes.Join(b.values, []byte{','}))
	err := cmp.Or(packed.Close(), text.Close())
	fmt.Fprint(w, "</script>\n")
	b.first, b.values, b.bytes = b.first+len(b.values), nil, 0
	return err
}

// functions are what templates write numbers and the texts of strangers with.
func functions() template.FuncMap {
	return template.FuncMap{
		"score":     func(v any) string { return report.Score(numberOf(v), 3) },
		"delta":     func(v any) string { return report.Delta(numberOf(v)) },
		"count":     func(n any) string { return report.Count(reflect.ValueOf(n).Int()) },
		"counted":   report.Counted[int],
		"named":     func(v any) string { return named(fmt.Sprint(v)) },
		"long":      long,
		"words":     report.Words,
		"message":   func(s string) string { return short(s, 400) },
		"id":        func(id string) string { return report.Brief(id, rowID) },
		"brief":     func(id string) string { return short(id, 60) },
		"causeKey":  causeKey,
		"meaning":   causeMeaning,
		"gateWords": report.GateWords,
		"classOf":   classOf,
	}
}

// numberOf is a number, or the pointer to one.
func numberOf(v any) *float64 {
	if v, ok := v.(float64); ok {
		return &v
	}
	return v.(*float64)
}

// mostLines bounds each list of the overview, mostRows most tables.
const mostLines, mostRows = 40, 400

// first is the beginning of a list.
func first[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// named is a name on the page, long a line of text that strangers had a hand in.
func named(s string) string { return short(s, 300) }
func long(s string) string  { return short(s, 1000) }

// short is so much of a text of strangers in a line.
func short(s string, most int) string { return textutil.Line(report.Brief(s, most)) }

// table is a report.Table on a page, where drawings may be beside the numbers.
type table struct {
	report.Table
	Class    string
	Count    int // rows, with those that are not shown
	Against  string
	At       int        // the drawings are before this column; 0 for none
	Scale    []string   // their title: the ends of a drawing, and what it is
	Drawings []*drawing // one for each row
}

// newTable shows at most so many rows.
func newTable(class string, t report.Table, most int) *table {
	return &table{Table: t.ForPage().First(most), Class: class, Count: len(t.Rows)}
}

// newTables are those that have rows.
func newTables(most int, tables ...report.Table) (list []*table) {
	for _, t := range tables {
		if len(t.Rows) > 0 {
			list = append(list, newTable("groups", t, most))
		}
	}
	return list
}

// classOf is the class of a cell of a row; of a title without one.
func classOf(c report.Column, of ...report.Row) string {
	list, names := "", []string{"num", "wide", "lines"}
	holds := []bool{c.Right, c.Wide > 0, c.Below}
	for _, row := range of {
		names = append(names, "strong", "v-"+row.State)
		holds = append(holds, c.Right && c.Strong, c.Diff && row.State != "")
	}
	for i, name := range names {
		if holds[i] {
			list += " " + name
		}
	}
	return strings.TrimPrefix(list, " ")
}
