// Package html writes runs as one self-contained page: an overview with
// distributions, intervals, causes and confusions, a list of items to sort and
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
	"encoding/json"
	"fmt"
	"io"

	"extraction-experiment/report"
)

// Config bounds a page. The zero value is usable.
type Config struct {
	// MaxBytes bounds the details of all items together; 0 is 48 MiB. Every
	// item may use an equal share of what is left, at most 1 MiB: documents,
	// prompts, answers and lists that need more are cut, with a notice.
	MaxBytes int
	// MaxItems bounds the items that are listed, the first by id; 0 is 20,000.
	// A row of the list has at most about 2 KiB. The overview counts all.
	MaxItems int
}

func (c Config) filled() (Config, error) {
	if c.MaxBytes < 0 || c.MaxItems < 0 {
		return c, fmt.Errorf("a page needs room: MaxBytes is %d and MaxItems %d", c.MaxBytes, c.MaxItems)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 48 << 20
	}
	if c.MaxItems == 0 {
		c.MaxItems = 20_000
	}
	return c, nil
}

// Write writes the page. The size of the file is at most that of Config plus
// about 300 KiB for each run's overview; memory is that of one item of each run
// and of the overview. Errors: those of the runs and of the writer; the file is
// then unfinished.
func Write(w io.Writer, runs []report.Run, cfg Config) error {
	cfg, err := cfg.filled()
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("a page needs a run")
	}
	a, err := loadAssets()
	if err != nil {
		return err
	}
	out := &writer{assets: a, Writer: bufio.NewWriterSize(w, 64<<10), cfg: cfg, runs: runs}
	for _, r := range runs {
		out.tallies = append(out.tallies, newTally(r.Summary))
	}
	out.scores = scoreNames(runs)
	for _, part := range []func() error{out.head, out.items, out.body, out.script, out.Flush} {
		if err := part(); err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
	}
	return nil
}

// writer is a page in the making.
type writer struct {
	*bufio.Writer
	*assets
	cfg     Config
	runs    []report.Run
	scores  []string
	tallies []*tally
	listed  int // items
	left    int // items that are not listed
	shorter int // items whose detail was cut
}

// head ends with the start of the body.
func (w *writer) head() error {
	title := make([]string, len(w.runs))
	for i, r := range w.runs {
		title[i] = named(r.Summary.Run.Name)
	}
	err := w.ExecuteTemplate(w, "head", struct {
		Titles []string
		Policy string
	}{title, w.policy()})
	if err == nil {
		_, err = w.WriteString("<style>" + w.style + "</style>\n</head>\n<body>\n")
	}
	return err
}

// items writes the blocks of every item.
func (w *writer) items() error {
	total := 0
	for _, r := range w.runs {
		total = max(total, r.Summary.Items.Planned)
	}
	purse := purse{bytes: w.cfg.MaxBytes, items: min(total, w.cfg.MaxItems)}
	for row, err := range merged(w.runs) {
		if err != nil {
			return err
		}
		for i, v := range row.views {
			if v != nil {
				w.tallies[i].add(*v)
			}
		}
		if w.listed == w.cfg.MaxItems {
			w.left++
			continue
		}
		if err := w.block("row", w.listed, newListRow(row, w.scores)); err != nil {
			return err
		}
		detail, cut := purse.fit(row)
		if cut {
			w.shorter++
		}
		if err := w.rawBlock("detail", w.listed, detail); err != nil {
			return err
		}
		w.listed++
	}
	return nil
}

// block writes a value as JSON in an element that browsers do not run.
func (w *writer) block(class string, n int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.rawBlock(class, n, raw)
}

// rawBlock writes JSON that encoding/json made: it has no <, >, & and no line
// separator, all of which are escaped in it.
func (w *writer) rawBlock(class string, n int, raw []byte) error {
	_, err := fmt.Fprintf(w, "<script type=\"application/json\" class=\"%s\" id=\"%s%d\">%s</script>\n", class, class, n, raw)
	return err
}
