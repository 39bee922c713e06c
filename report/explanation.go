package report

import (
	"encoding/json"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"

	"github.com/jedib0t/go-pretty/v6/text"
)

func (p *page) extracted(e *extraction.Extraction) {
	if e == nil {
		return
	}
	p.title("Extracted")
	if len(e.Entities)+len(e.Relationships) == 0 {
		p.line("  " + p.faint("nothing"))
		return
	}
	g := &grid{columns: []column{{flex: true, free: true}, {flex: true, free: true, paint: p.faint}}}
	for _, entity := range e.Entities {
		g.add(label(entity.Name), printable.Line(entity.Type))
	}
	p.grid(g)
	g = &grid{columns: []column{{flex: true, free: true}, {flex: true, free: true, paint: p.faint}, {flex: true, free: true}}}
	for _, r := range e.Relationships {
		g.add(end(r.Source, r.SourceRef), printable.Line(r.Type), end(r.Target, r.TargetRef))
	}
	p.grid(g)
}

// end shows the end of a relationship; one that refers to nothing is marked.
func end(name, ref string) string {
	if name == "" && ref != "" {
		return printable.Line(ref) + " (dangling)"
	}
	return label(name)
}

// matches writes one match per line: kind, similarity, both sides (one, if
// they read the same), and whether the type is wrong.
func (p *page) matches(matches []Match) {
	if len(matches) == 0 {
		return
	}
	p.title("Matched")
	kinds := 0
	for _, m := range matches {
		kinds = max(kinds, text.StringWidthWithoutEscSequences(kind(m)))
	}
	for _, m := range matches {
		both := label(m.Expected)
		if extracted := label(m.Extracted); extracted != both {
			both += " ~ " + extracted
		}
		lead := text.Pad(kind(m), kinds, ' ') + "  " + score(&m.Similarity, 2)
		indent := 2 + text.StringWidthWithoutEscSequences(lead) + 2
		for _, line := range Wrap(both, p.Width-indent) {
			p.line("  " + p.faint(lead) + "  " + isolate(line))
			lead = text.Pad("", indent-4, ' ')
		}
		if m.TypeCorrect != nil && !*m.TypeCorrect {
			p.wrapped("wrong type", indent, 0, p.red)
		}
	}
}

// kind is the kind of a match, short enough for a column.
func kind(m Match) string { return text.Snip(label(m.Kind), 16, "…") }

// misses lists what was matched with nothing, each with the nearest of the
// other side under it.
func (p *page) misses(title string, misses []Miss) {
	if len(misses) == 0 {
		return
	}
	p.title(title)
	for _, m := range misses {
		p.wrapped(strings.TrimSpace(printable.Line(m.What)+" "+label(m.Value)), 2, messageLines, nil)
		var why []string
		if m.Nearest != "" {
			why = append(why, "nearest: "+printable.Line(m.Nearest)+" (similarity "+score(&m.Similarity, 3)+")")
		}
		if m.Reason != "" {
			why = append(why, printable.Line(m.Reason))
		}
		if len(why) > 0 {
			p.wrapped(strings.Join(why, " · "), 4, messageLines, p.faint)
		}
	}
}

func (p *page) calls(calls []outcome.Call) {
	if len(calls) == 0 {
		return
	}
	p.title("Calls")
	g := &grid{columns: []column{{title: "call", flex: true}, {title: "kind", flex: true}, {title: "model", flex: true},
		{title: "time", right: true}, {title: "in", right: true}, {title: "out", right: true}, {title: "tries", right: true}}}
	var errors []string
	for _, c := range calls {
		in, out, tries := "", "", ""
		if c.Usage.Total() > 0 {
			in, out = count(c.Usage.Input), count(c.Usage.Output)
		}
		if c.Attempts > 0 {
			tries = count(c.Attempts)
		}
		took := none
		if !c.Started.IsZero() && !c.Ended.Before(c.Started) {
			took = duration(c.Ended.Sub(c.Started))
		}
		g.add(label(c.Name), printable.Line(c.Kind), printable.Line(c.Model), took, in, out, tries)
		if c.Error != "" {
			errors = append(errors, label(c.Name)+": "+printable.Line(c.Error))
		}
	}
	p.grid(g)
	for _, e := range errors {
		p.wrapped(e, 2, messageLines, p.red)
	}
	for _, c := range calls {
		if (c.Error != "" || len(c.Warnings) > 0) && len(c.Output) > 0 {
			p.line("  " + label(c.Name) + " answered")
			p.wrapped(printable.Line(spoken(c.Output)), 4, messageLines, p.faint)
		}
	}
}

// spoken returns what a call answered as a person reads it.
func spoken(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}
