package seed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/printable"
)

// PreviewForm is how a preview shows items.
type PreviewForm string

// The forms of a preview.
const (
	PreviewTable PreviewForm = "table" // a line for each trace
	PreviewJSON  PreviewForm = "json"  // {"items": […], "result": …}
	PreviewDiff  PreviewForm = "diff"  // what changes, line by line
)

// Preview writes what FromTraces would do, for a person or a program. Show is
// for TraceConfig.Show; Close writes what is left. Not safe for concurrent use.
type Preview struct {
	w     io.Writer
	form  PreviewForm
	table *tabwriter.Writer
	shown int
	errs  []error
}

// NewPreview returns a preview that writes to w.
func NewPreview(w io.Writer, form PreviewForm) *Preview {
	p := &Preview{w: w, form: form}
	if form == PreviewTable {
		p.table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	}
	return p
}

// Show adds one trace.
func (p *Preview) Show(s Seeded) {
	switch p.form {
	case PreviewTable:
		p.row(s)
	case PreviewDiff:
		p.diff(s)
	default:
		p.object(s)
	}
	p.shown++
}

// Close ends the preview, for JSON with the result. It returns the first error
// of any write.
func (p *Preview) Close(result TraceResult) error {
	if p.form == PreviewTable {
		return p.table.Flush() // returns the error of every write
	}
	if p.form == PreviewJSON {
		if p.shown == 0 {
			p.print("{\"items\": [")
		}
		raw, err := marshal(result)
		p.errs = append(p.errs, err)
		p.print("\n], \"result\": %s}\n", raw)
	}
	return errors.Join(p.errs...)
}

func (p *Preview) print(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format, args...); err != nil && len(p.errs) == 0 {
		p.errs = append(p.errs, err)
	}
}

func (p *Preview) object(s Seeded) {
	raw, err := marshal(s)
	if err != nil && len(p.errs) == 0 {
		p.errs = append(p.errs, err)
	}
	before := ",\n"
	if p.shown == 0 {
		before = "{\"items\": [\n"
	}
	p.print("%s%s", before, raw)
}

// row writes a line of the table.
func (p *Preview) row(s Seeded) {
	if p.shown == 0 {
		fmt.Fprintln(p.table, "ACTION\tTRACE\tEVIDENCE\tENTITIES\tRELATIONSHIPS\tDOCUMENT")
	}
	evidence := orDash(string(s.Evidence.Kind))
	if s.Evidence.Author != "" {
		evidence += " by " + s.Evidence.Author
	}
	entities, relationships, document := "-", "-", s.Reason
	if s.Content != nil {
		if gold, _, err := extraction.DecodeExtraction(s.Content.Expected); err == nil {
			entities, relationships = counted(gold.Entities), counted(gold.Relationships)
		}
		if d, _, err := extraction.DecodeDocument(s.Content.Input); err == nil && s.Reason == "" {
			document = cut(strings.Join(strings.Fields(cutBytes(d.Text)), " "))
		}
	}
	cells := []string{string(s.Action), s.Trace, evidence, entities, relationships, document}
	for i := range cells {
		cells[i] = printable.Line(cells[i])
	}
	fmt.Fprintln(p.table, strings.Join(cells, "\t"))
}

// cutBytes keeps a long document from being taken apart as a whole.
func cutBytes(text string) string {
	const enough = 2000
	if len(text) > enough {
		return strings.ToValidUTF8(text[:enough], "") + " …"
	}
	return text
}

func counted[T any](list []T) string {
	if list == nil {
		return "-" // not annotated
	}
	return fmt.Sprint(len(list))
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// diff writes how an item changes; one that stays the same is not mentioned.
func (p *Preview) diff(s Seeded) {
	switch {
	case s.Action == Unchanged:
	case s.Content == nil || s.Action == NotDone:
		p.print("# trace %s: %s: %s\n", printable.Line(s.Trace), s.Action, printable.Line(s.Reason))
	default:
		var before []byte
		if s.Before != nil {
			before = p.lines(*s.Before)
		}
		p.print("# trace %s: %s\n", printable.Line(s.Trace), s.Action)
		changes := diff.Diff("there/"+s.Item, before, "new/"+s.Item, p.lines(*s.Content))
		_, changes, _ = bytes.Cut(changes, []byte("\n")) // a line that only names both again
		p.print("%s", printable.Block(string(changes)))
	}
}

// lines writes an item's fields as JSON, a value on each line.
func (p *Preview) lines(item dataset.Item) []byte {
	item.ID = "" // stands above
	var indented bytes.Buffer
	raw, err := marshal(item)
	if err == nil {
		raw, err = dataset.Canonical(raw)
	}
	if err == nil {
		err = json.Indent(&indented, raw, "", "  ")
	}
	if err != nil && len(p.errs) == 0 {
		p.errs = append(p.errs, err)
	}
	return append(indented.Bytes(), '\n')
}
