// Package pdf turns a PDF file into text, page by page, and says of which
// pages the text cannot be trusted. It does not recognise characters in
// pictures: a scanned page is reported, not read.
//
// The steps for each page:
//
//  1. interpret the operators: every glyph with its text, place and size;
//  2. lay out: glyphs become chunks, chunks become lines, columns of prose are
//     read one after the other, rows of a table one below the other with " | "
//     between cells, which are the same in all rows of it; ligatures become
//     letters, words that were hyphenated at the end of a line are joined;
//  3. judge: no text under a picture is a scan; glyphs without a meaning, words
//     of which no language has the pairs of letters, or without spaces between
//     them, make the page unreadable.
//
// The structure of the file comes first (Open): a search for all objects, whether the file
// is damaged or not; decryption with an empty or given password; the tree of pages.
//
// A file is hostile data. Nothing here panics or recurses without bound, and every
// file has a Budget: what decoding it may cost in bytes and time is limited as a
// whole, so that no small file can ask for much.
//
//	doc, err := pdf.Read(ctx, data, pdf.Options{})
//	for _, page := range doc.Pages { fmt.Println(page.Number, page.Text, page.Problem) }
package pdf

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
)

// Version changes when the text of a page may.
const Version = "6"

// Document is the text of a file.
type Document struct {
	SHA256 string // of the file
	Pages  []Page
	// Repaired says that the file is damaged; what could be found of it was read.
	Repaired bool
	// Declared is how many pages the file says that it has, where fewer of them
	// could be found; else 0.
	Declared int
}

// Page is the text of one page.
type Page struct {
	Number int // from 1
	Text   string
	Kind   Kind
	// Problem says why the text of the page cannot be relied upon.
	Problem string
}

// Problems returns the pages whose text is missing or cannot be relied upon;
// blank pages are none.
func (d Document) Problems() []Page {
	return slices.DeleteFunc(slices.Clone(d.Pages), func(p Page) bool { return p.Kind == Readable || p.Kind == Blank })
}

// Options bounds the reading; zero values are usable.
type Options struct {
	// Password opens an encrypted file.
	Password string
	// Timeout bounds the time for the whole file; 0 means 2 minutes.
	Timeout time.Duration
	// MaxDecoded bounds what all streams together decode to, and tables and
	// fonts take, each stream as often as it is decoded, in bytes; 0 means 512 MiB.
	MaxDecoded int64

	name string // errors begin with it
}

// Read extracts the text of every page. A page that fails is unreadable with
// its reason; a file that cannot be opened, costs too much or takes too long is
// an error of exit code 64.
//
// Time and memory are bounded by Options, not by what the file says of itself.
func Read(ctx context.Context, data []byte, opt Options) (doc Document, err error) {
	opt.Timeout = cmp.Or(opt.Timeout, 2*time.Minute)
	defer func() {
		if p := recover(); p != nil { // a fault here must not end the program of a user
			err = fmt.Errorf("internal fault: %v", p)
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("it took longer than %s", opt.Timeout)
		}
		if err != nil {
			doc, err = Document{}, cli.Usage("reading the PDF: %s%w", opt.name, err)
		}
	}()
	inner, cancel := context.WithTimeout(ctx, opt.Timeout)
	defer cancel()
	file, err := Open(inner, data, opt)
	if err != nil {
		return doc, err
	}
	pages, err := file.Pages()
	if err != nil {
		return doc, err
	}
	sum := sha256.Sum256(data)
	doc = Document{SHA256: hex.EncodeToString(sum[:]), Repaired: file.Repaired}
	if n := file.Int(file.pageTree()["Count"]); n > len(pages) {
		doc.Declared = n
	}
	fonts := map[Ref]*font{}
	for _, p := range pages {
		doc.Pages = append(doc.Pages, readPage(file, p, fonts))
		if file.spent != nil {
			return doc, file.spent
		}
	}
	return doc, nil
}

// readPage never fails: what goes wrong is the problem of the page.
func readPage(file *File, p pageNode, fonts map[Ref]*font) (page Page) {
	page = Page{Number: p.Number, Kind: Unreadable}
	defer func() {
		if fault := recover(); fault != nil {
			page.Problem = fmt.Sprintf("the page cannot be interpreted: %v", fault)
		}
	}()
	content, err := file.Content(p)
	in := &interpreter{file: file, fonts: fonts, state: state{ctm: turned(p.Box, p.Rotate), scale: 1}, tm: unit, line: unit}
	in.run(content, p.Resources)
	page.Text = layout(in.glyphs)
	area := (p.Box[2] - p.Box[0]) * (p.Box[3] - p.Box[1])
	switch {
	case err != nil:
		page.Problem = "a part of the page cannot be decoded: " + err.Error()
	case in.full:
		page.Problem = fmt.Sprintf("the page has more than %d characters", maxGlyphs)
	default:
		page.Kind, page.Problem = judge(page.Text, in.images/area)
	}
	return page
}

// ReadFile is Read of the file at a path. Errors have exit code 64, also for a file that
// is not there.
func ReadFile(ctx context.Context, path string, opt Options) (Document, error) {
	data, err := files.Read(ctx, path, MaxFile)
	if err != nil {
		return Document{}, cli.Usage("reading the PDF: %w", err)
	}
	opt.name = path + ": "
	return Read(ctx, data, opt)
}

// pageNode is a page with what it inherits.
type pageNode struct {
	Number    int // from 1
	Resources Dict
	Box       [4]float64 // what is shown: left, bottom, right, top
	Rotate    int        // 0, 90, 180 or 270 degrees clockwise
	dict      Dict
}

// Pages returns the pages in order. Branches that cannot be read are left out;
// nodes that are met twice are followed once.
func (f *File) Pages() (pages []pageNode, err error) {
	seen := map[int]bool{}
	var walk func(o Object, page pageNode, depth int)
	walk = func(o Object, page pageNode, depth int) {
		ref, _ := o.(Ref)
		d, ok := f.Resolve(o).(Dict)
		if !ok || seen[ref.Num] || depth > maxDepth || !f.Spend(128) {
			return
		}
		seen[ref.Num] = ref.Num > 0
		page.inherit(f, d)
		kids := f.Array(d["Kids"])
		switch {
		case kids != nil && f.Name(d["Type"]) != "Page":
			for _, kid := range kids {
				walk(kid, page, depth+1)
			}
		case len(pages) == maxPages:
			f.spent = fmt.Errorf("%w: it has more than %d pages", ErrBudget, maxPages)
		default:
			page.Number, page.dict = len(pages)+1, d
			pages = append(pages, page)
		}
	}
	walk(f.Dict(f.trailer["Root"])["Pages"], pageNode{Box: [4]float64{0, 0, 612, 792}}, 0)
	if f.spent == nil && len(pages) == 0 {
		return nil, ErrDamaged
	}
	return pages, f.spent
}

// inherit takes over what a node of the tree says.
func (page *pageNode) inherit(f *File, d Dict) {
	if r := f.Dict(d["Resources"]); r != nil {
		page.Resources = r
	}
	for _, key := range []Name{"MediaBox", "CropBox"} {
		if box := f.numbers(d[key], 4); box != nil {
			left, right := min(box[0], box[2]), max(box[0], box[2])
			bottom, top := min(box[1], box[3]), max(box[1], box[3])
			if right-left > 1 && top-bottom > 1 {
				page.Box = [4]float64{left, bottom, right, top}
			}
		}
	}
	if v, ok := f.Number(d["Rotate"]); ok {
		page.Rotate = ((clampInt(v)/90*90)%360 + 360) % 360
	}
}

// Content returns the operators of a page. With an error comes what could be
// decoded.
func (f *File) Content(p pageNode) (all []byte, problem error) {
	for _, o := range f.oneOrMore(p.dict["Contents"]) {
		if s := f.Stream(o); s != nil {
			data, err := f.Decode(s)
			problem = cmp.Or(problem, err)
			all = append(append(all, data...), '\n')
		}
	}
	return all, problem
}
