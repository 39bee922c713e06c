// Package html writes runs as one self-contained page: an overview with distributions,
// intervals and causes, a list of items to sort and filter, and a page for each item with the
// document, what was expected and extracted in it, and the prompt and the answer. Several runs
// are shown side by side, item by item. The package shows what a report.Run holds; it computes
// no scores and opens no runs.
//
// A page is written as a stream, in four parts:
//
//  1. the head, with a content security policy that allows only the script and the style of the
//     page itself, named by their hashes;
//  2. the items, each as two JSON values that no parser takes for markup: a small row for the
//     list, and the details, which the page decodes when the item is opened;
//  3. the overview, computed from the items, and empty elements that the script fills;
//  4. the script.
//
// Untrusted text is always shown as text.
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

// Config bounds a page and adds links to it. The zero value is usable.
type Config struct {
	// MaxBytes limits the details of all items together before compression, which reduces them
	// to a fifth or less; 0 means 24 MiB. Each item may use an equal share of what is left, at
	// most 1 MiB, and at least 8 KiB for each run as long as bytes are left. Documents, prompts,
	// answers and lists that do not fit are cut, with a notice.
	MaxBytes int
	// MaxItems limits the listed items, in order of id; 0 means 20,000. A row of the list takes
	// at most about 2 KiB. The overview counts all items.
	MaxItems int
	// Home is the address of the list of runs, and Links are the addresses of the pages of the
	// runs, in order. Empty addresses are left out.
	Home  string
	Links []string
	// Trace returns the address of the trace of an outcome; run is the index of its run. Without
	// Trace, or if it returns "", there is no link. The address must be safe to follow.
	Trace func(run int, o outcome.Outcome) string
}

// Write writes the page of one or more runs. The file has at most the size that cfg allows plus
// about 300 KiB for the overview of each run. Memory holds the overview and one item of each run
// at a time. The errors are those of the runs and of w; the file is then incomplete.
func Write(w io.Writer, runs []report.Run, cfg Config) error {
	if len(runs) == 0 {
		return fmt.Errorf("a page needs a run")
	}
	out := newWriter(w, runScripts, cfg)
	out.runs, out.primary = runs, runs[0].Summary.Run.Primary
	for i, r := range runs {
		for _, s := range r.Summary.Scores { // in the order in which the runs first have them
			if !slices.Contains(out.scores, s.Name) && len(out.scores) < maxLines {
				out.scores = append(out.scores, s.Name)
			}
		}
		out.runIndex = append(out.runIndex, i)
		out.tallies = append(out.tallies, newTally(r.Summary))
		out.titles = append(out.titles, clipName(r.Summary.Run.Name))
	}
	return out.writeParts(out.head, out.items, out.body, func() error { return out.writeScript(out.meta()) })
}

//go:embed assets
var files embed.FS

// The scripts of each kind of page, joined in this order inside one function.
const (
	runScripts     = "dom.js data.js runs.js list.js marks.js item.js keys.js app.js"
	compareScripts = "dom.js data.js pairs.js list.js marks.js item.js pair.js keys.js app.js"
	auditScripts   = "audit.js"
	noScripts      = "" // for a page without script
)

// readAssets returns the joined text of embedded files, with line ends as a browser reads them,
// because the content policy contains the hash of the text. It panics if a file does not exist.
func readAssets(names string) (text string) {
	for name := range strings.FieldsSeq(names) {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		text += strings.ReplaceAll(string(raw), "\r\n", "\n")
	}
	return text
}

// policy returns the content security policy. It forbids everything except the script and the
// style of the page itself. A page without script may send forms to its own server.
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

// writer writes one page.
type writer struct {
	*bufio.Writer // keeps its first error, which writeParts returns
	*template.Template
	style, script string // the same for every page of a kind
	cfg           Config
	titles        []string
	runs          []report.Run
	runIndex      []int // index of each run in the list of the caller
	scores        []string
	primary       string  // the name of the primary score
	lowerIsBetter bool    // whether a lower primary score is better
	paired        bool    // runs are compared item by item, and failed items count as 0
	tallies       []tally // of each run; empty for comparisons
	frame         frame
	trials        int // largest trial number of an item
}

func newWriter(w io.Writer, scripts string, cfg Config) *writer {
	out := &writer{Writer: bufio.NewWriterSize(w, 64<<10), cfg: cfg, scores: []string{}, frame: frame{Home: cfg.Home}}
	out.Template = template.Must(template.New("").Funcs(functions()).ParseFS(files, "assets/*.tmpl"))
	out.cfg.MaxBytes, out.cfg.MaxItems = cmp.Or(cfg.MaxBytes, 24<<20), cmp.Or(cfg.MaxItems, 20_000)
	out.style = readAssets("base.css overview.css list.css item.css")
	if scripts != runScripts {
		out.style += readAssets("compare.css static.css audit.css")
	}
	if scripts != noScripts {
		out.script = "(async function () {\n\"use strict\";\n" + readAssets(scripts) + "}());\n"
	}
	return out
}

// writeStatic writes a page without script from one template.
func writeStatic(w io.Writer, title, name string, page any) error {
	out := newWriter(w, noScripts, Config{})
	out.titles = []string{title}
	return out.writeParts(out.head, func() error { return out.ExecuteTemplate(out, name, page) })
}

// writeParts calls the given functions, each of which writes a part of the page, and ends the
// page.
func (w *writer) writeParts(parts ...func() error) error {
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

// head writes everything up to the start of the body.
func (w *writer) head() error {
	err := w.ExecuteTemplate(w, "head", struct {
		Titles []string
		Policy string
	}{w.titles, w.policy()})
	fmt.Fprint(w, "<style>", w.style, "</style>\n</head>\n<body>\n")
	return err
}

// writeScript writes the script of the page, and its input as JSON in an element that browsers
// do not run. Package json escapes <, >, & and line separators.
func (w *writer) writeScript(meta any) error {
	raw, err := json.Marshal(meta)
	fmt.Fprintf(w, "<script type=\"application/json\" class=\"meta\" id=\"meta0\">%s</script>\n", raw)
	fmt.Fprint(w, "<script>", w.script, "</script>\n")
	return err
}

// bundle collects values of one class that are compressed together. The page decompresses a
// bundle when it needs one of its values.
type bundle struct {
	class  string
	first  int // number of the first value
	values [][]byte
	bytes  int
}

// add adds a value, and writes the bundle if it is full.
func (b *bundle) add(w *writer, raw []byte) error {
	b.values, b.bytes = append(b.values, raw), b.bytes+len(raw)
	if len(b.values) == 100 || b.bytes > 1<<20 {
		return b.write(w)
	}
	return nil
}

// write writes the remaining values as a JSON list, compressed with gzip and encoded in base64.
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

// functions returns the template functions that format numbers and untrusted text.
func functions() template.FuncMap {
	return template.FuncMap{
		"score":     func(v *float64) string { return report.Score(v, 3) },
		"doubt":     func(v float64) string { return report.Score(&v, 3) },
		"delta":     report.Delta,
		"count":     func(n any) string { return report.Count(reflect.ValueOf(n).Int()) },
		"counted":   textutil.Counted[int],
		"named":     func(v any) string { return clipName(fmt.Sprint(v)) },
		"long":      clipLine,
		"words":     report.Words,
		"message":   func(s string) string { return clip(s, 400) },
		"id":        func(id string) string { return report.Brief(id, maxRowID) },
		"brief":     func(id string) string { return clip(id, 60) },
		"causeKey":  causeKey,
		"meaning":   causeMeaning,
		"gateWords": report.GateWords,
		"classOf":   classOf,
	}
}

// maxLines limits each list of the overview, maxRows most tables.
const maxLines, maxRows = 40, 400

// firstN returns at most the first n elements.
func firstN[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// clipName and clipLine return untrusted text as one line of limited length.
func clipName(s string) string { return clip(s, 300) }
func clipLine(s string) string { return clip(s, 1000) }

// clip returns untrusted text as one line of at most about limit characters.
func clip(s string, limit int) string { return textutil.Line(report.Brief(s, limit)) }

// table is a report.Table, optionally with a drawing in each row.
type table struct {
	report.Table
	Class    string
	Count    int // all rows, including those that are not shown
	Against  string
	At       int        // index of the column after the drawings; 0 without drawings
	Scale    []string   // title of the drawings: the ends of the scale, and between them what is drawn
	Drawings []*drawing // one for each row
}

// newTable shows at most limit rows.
func newTable(class string, t report.Table, limit int) *table {
	return &table{Table: t.ForPage().First(limit), Class: class, Count: len(t.Rows)}
}

// newTables leaves out tables without rows.
func newTables(limit int, tables ...report.Table) (list []*table) {
	for _, t := range tables {
		if len(t.Rows) > 0 {
			list = append(list, newTable("groups", t, limit))
		}
	}
	return list
}

// classOf returns the CSS classes of a column title, or of the cell of the given row.
func classOf(c report.Column, rows ...report.Row) string {
	var classes []string
	add := func(applies bool, class string) {
		if applies {
			classes = append(classes, class)
		}
	}
	add(c.Right, "num")
	add(c.Wide > 0, "wide")
	add(c.Below, "lines")
	for _, row := range rows {
		add(c.Right && c.Strong, "strong")
		add(c.Diff && row.State != "", "v-"+row.State)
	}
	return strings.Join(classes, " ")
}
