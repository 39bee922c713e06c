// Package pdf extracts the text of a PDF file page by page, and reports the pages whose text is
// unreliable. It does not recognise characters in pictures: a scanned page is reported, not read.
//
// The steps for each page:
//
//  1. interpret the operators: every glyph with its text, place and size;
//  2. lay out: glyphs become chunks, and chunks become lines. Columns of prose are read one after
//     the other. Rows of a table become lines with " | " between the cells, which are the same in
//     all rows. Ligatures become letters, and words hyphenated at the end of a line are joined;
//  3. judge: a picture without text is a scan. Glyphs without a meaning, words with pairs of
//     letters that no language has, and missing spaces between words make a page unreadable.
//
// Before that, Open reads the structure of the file: it searches for all objects, whether or not
// the file is damaged, decrypts with an empty or the given password, and finds the page tree.
//
// Files are hostile data. The package never panics and limits recursion, and a budget limits the
// bytes and the time of decoding for the whole file, so that small files cannot cost much.
//
//	doc, err := pdf.Read(ctx, data, pdf.Options{})
//	for _, page := range doc.Pages { fmt.Println(page.Number, page.Text, page.Problem) }
package pdf

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
)

// Version changes when the text of a page may change.
const Version = "7"

// Document is the text of a file.
type Document struct {
	SHA256 string // of the file
	Pages  []Page
	// Repaired reports that the file is damaged; everything that was found in it was read.
	Repaired bool
	// DeclaredPages is the number of pages that the file claims to have if fewer were found,
	// otherwise 0.
	DeclaredPages int
}

// Page is the text of one page.
type Page struct {
	Number int // from 1
	Text   string
	Kind   Kind
	// Problem describes why the text of the page is unreliable; empty for readable pages.
	Problem string
}

// Problems returns the pages whose text is missing or unreliable. Blank pages are not problems.
func (d Document) Problems() []Page {
	return slices.DeleteFunc(slices.Clone(d.Pages), func(p Page) bool { return p.Kind == Readable || p.Kind == Blank })
}

// Options limits the reading of a file. The zero value is usable.
type Options struct {
	// Password opens an encrypted file, as user or as owner.
	Password string
	// Timeout limits the time for the whole file; 0 means 2 minutes.
	Timeout time.Duration
	// MaxDecoded limits, in bytes, the decoded size of all streams together with the memory of
	// tables and fonts. A stream counts each time it is decoded. 0 means 512 MiB.
	MaxDecoded int64

	errPrefix string // prefix of errors
}

// Read extracts the text of every page. A page that cannot be read is Unreadable, with its
// problem. If the file cannot be opened, costs too much or takes too long, Read returns an error
// with exit code 64.
//
// Options limits time and memory, regardless of the claims of the file.
func Read(ctx context.Context, data []byte, opt Options) (doc Document, err error) {
	opt.Timeout = cmp.Or(opt.Timeout, 2*time.Minute)
	defer func() {
		if p := recover(); p != nil { // a bug here must not end the program
			err = fmt.Errorf("internal fault: %v", p)
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("it took longer than %s", opt.Timeout)
		}
		if err != nil {
			doc, err = Document{}, cli.Usage("reading the PDF: %s%w", opt.errPrefix, err)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, opt.Timeout)
	defer cancel()
	file, err := Open(limited, data, opt)
	if err != nil {
		return doc, err
	}
	pages, err := file.Pages()
	if err != nil {
		return doc, err
	}
	doc = Document{SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), Repaired: file.Repaired}
	if n := file.Int(file.pageTree()["Count"]); n > len(pages) {
		doc.DeclaredPages = n
	}
	fonts := map[Ref]*font{}
	for i, p := range pages {
		doc.Pages = append(doc.Pages, readPage(file, i+1, p, fonts))
		if file.budgetErr != nil {
			return doc, file.budgetErr
		}
	}
	return doc, nil
}

// readPage reads a page. It does not fail: errors and panics become the problem of the page.
func readPage(file *File, number int, p pageNode, fonts map[Ref]*font) (page Page) {
	page = Page{Number: number, Kind: Unreadable}
	defer func() {
		if fault := recover(); fault != nil {
			page.Problem = fmt.Sprintf("the page cannot be interpreted: %v", fault)
		}
	}()
	content, err := file.Content(p)
	in := &interpreter{file: file, fonts: fonts, state: state{ctm: pageMatrix(p.Box, p.Rotate), scale: 1}, textMatrix: identity, lineMatrix: identity}
	in.run(content, p.Resources)
	err = cmp.Or(err, in.err)
	page.Text = layout(in.glyphs)
	area := (p.Box[2] - p.Box[0]) * (p.Box[3] - p.Box[1])
	switch {
	case err != nil:
		page.Problem = "a part of the page cannot be decoded: " + err.Error()
	case in.tooManyGlyphs:
		page.Problem = fmt.Sprintf("the page has more than %d characters", maxGlyphs)
	default:
		page.Kind, page.Problem = judge(page.Text, in.imageArea/area)
	}
	return page
}

// ReadFile reads the file at path like Read. Errors have exit code 64, also if the file does not
// exist.
func ReadFile(ctx context.Context, path string, opt Options) (Document, error) {
	data, err := files.Read(ctx, path, MaxFile)
	if err != nil {
		return Document{}, cli.Usage("reading the PDF: %w", err)
	}
	opt.errPrefix = path + ": "
	return Read(ctx, data, opt)
}

// pageNode is a page with inherited attributes.
type pageNode struct {
	Resources Dict
	Box       [4]float64 // visible area: left, bottom, right, top
	Rotate    int        // 0, 90, 180 or 270 degrees clockwise
	dict      Dict
}

// Pages returns the pages in order. It leaves out branches that cannot be read, and visits each
// node once. Errors are ErrBudget, ErrDamaged if there are no pages, and those of ctx.
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
			f.budgetErr = fmt.Errorf("%w: it has more than %d pages", ErrBudget, maxPages)
		default:
			page.dict = d
			pages = append(pages, page)
		}
	}
	walk(f.Dict(f.trailer["Root"])["Pages"], pageNode{Box: [4]float64{0, 0, 612, 792}}, 0)
	switch end := f.data[max(0, len(f.data)-2048):]; {
	case f.budgetErr != nil || len(pages) > 0:
		return pages, f.budgetErr
	case !bytes.Contains(end, []byte("%%EOF")):
		return nil, fmt.Errorf("%w; its end is missing: it was cut off, copy it again", ErrDamaged)
	}
	return nil, ErrDamaged
}

// inherit overrides the inherited attributes with those of a node of the page tree.
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

// Content returns the operators of a page. If it returns an error, it also returns what it could
// decode.
func (f *File) Content(p pageNode) (all []byte, problem error) {
	list := Array{p.dict["Contents"]}
	if parts, ok := f.Resolve(list[0]).(Array); ok {
		list = parts
	}
	for _, o := range list {
		if o != nil {
			data, err := f.Decode(f.Stream(o))
			problem = cmp.Or(problem, err)
			all = append(append(all, data...), '\n')
		}
	}
	return all, problem
}
