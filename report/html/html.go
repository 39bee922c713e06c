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
	"errors"
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

func (c Config) filled() Config {
	c.MaxBytes, c.MaxItems = cmp.Or(c.MaxBytes, 24<<20), cmp.Or(c.MaxItems, 20_000)
	return c
}

// Write writes the page. The size of the file is at most that of Config plus
// about 300 KiB for each run's overview; memory is that of one item of each run
// and of the overview. Errors: those of the runs and of the writer; the file is
// then unfinished.
func Write(w io.Writer, runs []report.Run, cfg Config) error {
	if len(runs) == 0 {
		return fmt.Errorf("a page needs a run")
	}
	out, err := newWriter(w, ofRuns, cfg.filled())
	if err != nil {
		return err
	}
	out.runs, out.scores, out.detailed, out.row = runs, scoreNames(runs), out.detail, newListRow
	for _, r := range runs {
		out.tallies = append(out.tallies, newTally(r.Summary))
		out.titles = append(out.titles, named(r.Summary.Run.Name))
	}
	return out.parts(out.head, out.items, out.body, func() error { return out.script(out.meta()) })
}

//go:embed assets
var files embed.FS

// kind is what a page is of: it decides which script and style it carries.
type kind int

const (
	ofRuns       kind = iota // runs, one or side by side
	ofComparison             // a base and its candidates
	ofAudit                  // findings to decide about
	still                    // a page without script
)

// scripts are joined in this order, inside of one function.
func (k kind) scripts() []string {
	if k == ofAudit {
		return []string{"audit.js"}
	}
	rows, item := []string{"runs.js"}, []string{"item.js"}
	if k == ofComparison {
		rows, item = []string{"pairs.js"}, []string{"item.js", "pair.js"}
	}
	return slices.Concat([]string{"dom.js", "data.js"}, rows, []string{"list.js", "marks.js"}, item, []string{"keys.js", "app.js"})
}

// assets are the parts of the page that are the same for every run.
type assets struct {
	*template.Template
	style, script string
}

func loadAssets(k kind) (*assets, error) {
	t, err := template.New("").Funcs(functions()).ParseFS(files, "assets/*.tmpl")
	if err != nil {
		return nil, err
	}
	a := &assets{Template: t}
	styles := []string{"base.css", "overview.css", "list.css", "item.css"}
	if k != ofRuns {
		styles = append(styles, "compare.css", "still.css", "audit.css")
	}
	a.style, err = joined(styles...)
	if err == nil && k != still {
		a.script, err = joined(k.scripts()...)
		a.script = "(async function () {\n\"use strict\";\n" + a.script + "}());\n"
	}
	return a, err
}

// joined reads files with the line ends that a browser sees, whatever a
// checkout made of them: their hash stands in the policy.
func joined(names ...string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			return "", err
		}
		b.WriteString(strings.ReplaceAll(string(raw), "\r\n", "\n"))
	}
	return b.String(), nil
}

// policy forbids everything that it does not name: no script, style, image,
// frame, form, base or connection but the two blocks of the page itself. A page
// without script may ask its own server.
func (a *assets) policy() string {
	script, form := hashOf(a.script), "'none'"
	if a.script == "" {
		script, form = "'none'", "'self'"
	}
	return "default-src 'none'; script-src " + script + "; style-src " + hashOf(a.style) +
		"; base-uri 'none'; form-action " + form
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// writer is a page in the making.
type writer struct {
	*bufio.Writer
	*assets
	cfg      Config
	titles   []string
	runs     []report.Run
	scores   []string
	tallies  []tally // of each run; none where nobody asks for them
	row      func(row merging, scores []string) listRow
	detailed func(row merging, l limits) detail
	listed   int // items
	left     int // items that are not listed
	shorter  int // items whose detail was cut
}

func newWriter(w io.Writer, k kind, cfg Config) (*writer, error) {
	a, err := loadAssets(k)
	return &writer{assets: a, Writer: bufio.NewWriterSize(w, 64<<10), cfg: cfg}, err
}

// writeStill writes a page without script, which is one template.
func writeStill(w io.Writer, title, name string, page any) error {
	out, err := newWriter(w, still, Config{})
	if err != nil {
		return err
	}
	out.titles = []string{title}
	return out.parts(out.head, func() error { return out.ExecuteTemplate(out, name, page) })
}

// parts writes the parts of the page and ends it.
func (w *writer) parts(parts ...func() error) error {
	for _, part := range append(parts, w.end, w.Flush) {
		if err := part(); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
	}
	return nil
}

func (w *writer) end() error {
	_, err := w.WriteString("</body>\n</html>\n")
	return err
}

// head ends with the start of the body.
func (w *writer) head() error {
	err := w.ExecuteTemplate(w, "head", struct {
		Titles []string
		Policy string
	}{w.titles, w.policy()})
	if err == nil {
		_, err = w.WriteString("<style>" + w.style + "</style>\n</head>\n<body>\n")
	}
	return err
}

// script writes what makes the page move.
func (w *writer) script(meta any) error {
	if err := w.block("meta", 0, meta); err != nil {
		return err
	}
	_, err := w.WriteString("<script>" + w.assets.script + "</script>\n")
	return err
}

// block writes a value as JSON in an element that browsers do not run. Encoding/json
// escapes <, >, & and line separators.
func (w *writer) block(class string, n int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "<script type=\"application/json\" class=\"%s\" id=\"%s%d\">%s</script>\n", class, class, n, raw)
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
	if _, err := fmt.Fprintf(w, "<script type=\"text/plain\" class=\"%s\" data-first=\"%d\">", b.class, b.first); err != nil {
		return err
	}
	text := base64.NewEncoder(base64.StdEncoding, w)
	packed := gzip.NewWriter(text)
	_, err := fmt.Fprintf(packed, "[%s]", bytes.Join(b.values, []byte{','}))
	if err = errors.Join(err, packed.Close(), text.Close()); err == nil {
		_, err = w.WriteString("</script>\n")
	}
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
		"message":   func(s string) string { return textutil.Line(cutTo(s, 400)) },
		"id":        func(id string) string { return cutTo(id, rowID) },
		"brief":     func(id string) string { return textutil.Line(cutTo(id, 60)) },
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
func named(s string) string { return textutil.Line(cutTo(s, 300)) }
func long(s string) string  { return textutil.Line(cutTo(s, 1000)) }

// cutTo cuts a text to so many characters and marks the cut.
func cutTo(s string, most int) string {
	shown, left := report.FirstRunes(s, most)
	if left > 0 {
		shown += "…"
	}
	return shown
}

// table is a report.Table on a page, where drawings may stand beside the numbers.
type table struct {
	report.Table
	Class    string
	Count    int // rows, with those that are not shown
	Against  string
	At       int        // the column that the drawings stand before; 0 for none
	Scale    []string   // their title: the ends of a drawing, and what it is
	Drawings []*drawing // one for each row
}

// newTable shows at most so many rows.
func newTable(class string, t report.Table, most int) *table {
	return &table{Table: t.ForPage().First(most), Class: class, Count: len(t.Rows)}
}

// newTables are those that have rows.
func newTables(tables ...report.Table) (list []*table) {
	for _, t := range tables {
		if len(t.Rows) > 0 {
			list = append(list, newTable("groups", t, mostRows))
		}
	}
	return list
}

// draw inserts a column of drawings, one for each row.
func (t *table) draw(at int, scale []string, drawings []*drawing) *table {
	t.At, t.Scale, t.Drawings = at, scale, drawings
	return t
}

// classOf is the class of a cell of a row; of a title without one.
func classOf(c report.Column, of ...report.Row) string {
	var list []string
	if c.Right {
		list = append(list, "num")
	}
	if c.Wide > 0 {
		list = append(list, "wide")
	}
	if c.Below {
		list = append(list, "lines")
	}
	for _, row := range of {
		if c.Right && c.Strong {
			list = append(list, "strong")
		}
		if c.Diff && row.State != "" {
			list = append(list, "v-"+row.State)
		}
	}
	return strings.Join(list, " ")
}
