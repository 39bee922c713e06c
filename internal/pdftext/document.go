package pdftext

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"extraction-experiment/internal/pdf"
)

// Document is the text of a file.
type Document struct {
	SHA256  string `json:"sha256"` // of the file
	Version string `json:"version"`
	Pages   []Page `json:"pages"`
	// Repaired says that the file is damaged and was searched for its objects.
	Repaired bool `json:"repaired,omitempty"`
	// Declared is how many pages the file says that it has, where fewer of them
	// could be found; else 0.
	Declared int `json:"declared,omitempty"`
	// Secret says that the file cannot be read without its password.
	Secret bool `json:"-"`
}

// Page is the text of one page.
type Page struct {
	Number int    `json:"number"` // from 1
	Text   string `json:"text"`
	Kind   Kind   `json:"kind"`
	// Problem says why the text of the page cannot be relied upon.
	Problem string `json:"problem,omitempty"`
}

// Problems returns the pages whose text is missing or cannot be relied upon;
// blank pages are none.
func (d Document) Problems() []Page {
	var list []Page
	for _, p := range d.Pages {
		if p.Kind == Scan || p.Kind == Unreadable {
			list = append(list, p)
		}
	}
	return list
}

// Error says that a file cannot be read.
type Error struct{ Err error }

// Error says why.
func (e *Error) Error() string { return "reading the PDF: " + e.Err.Error() }

// Unwrap returns the reason: one of package pdf, or of the context.
func (e *Error) Unwrap() error { return e.Err }

// ExitCode is that of malformed input.
func (e *Error) ExitCode() int { return 64 }

// Options bounds the reading; zero values are usable.
type Options struct {
	// Password opens an encrypted file.
	Password string
	// Timeout bounds the time for the whole file; 0 means 2 minutes.
	Timeout time.Duration
	// MaxDecoded bounds what all streams together decode to, and tables and
	// fonts take, in bytes; 0 means that of package pdf.
	MaxDecoded int64
}

// Read extracts the text of every page. A page that fails is unreadable with
// its reason; a file that cannot be opened, costs too much or takes too long is
// an *Error (exit code 64).
//
// Time and memory are bounded by Options, not by what the file says of itself.
func Read(ctx context.Context, data []byte, opt Options) (doc Document, err error) {
	defer func() { // a fault here must not end the program of a user
		if p := recover(); p != nil {
			err = &Error{fmt.Errorf("internal fault: %v", p)}
		}
	}()
	if opt.Timeout == 0 {
		opt.Timeout = 2 * time.Minute
	}
	inner, cancel := context.WithTimeout(ctx, opt.Timeout)
	defer cancel()
	file, err := pdf.Open(data, pdf.Config{Password: opt.Password, MaxDecoded: opt.MaxDecoded, Context: inner})
	if err != nil {
		return Document{}, failure(ctx, err, opt.Timeout)
	}
	pages, err := file.Pages()
	if err != nil {
		return Document{}, failure(ctx, err, opt.Timeout)
	}
	sum := sha256.Sum256(data)
	doc = Document{SHA256: hex.EncodeToString(sum[:]), Version: Version, Repaired: file.Repaired, Secret: file.Secret()}
	if n := file.Declared(); n > len(pages) {
		doc.Declared = n
	}
	fonts := map[pdf.Ref]*font{}
	for _, p := range pages {
		doc.Pages = append(doc.Pages, readPage(file, p, fonts))
		if err := file.Err(); err != nil {
			return Document{}, failure(ctx, err, opt.Timeout)
		}
	}
	return doc, nil
}

func failure(ctx context.Context, err error, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("it took longer than %s", limit)
	}
	return &Error{err}
}

// readPage never fails: what goes wrong is the problem of the page.
func readPage(file *pdf.File, p pdf.Page, fonts map[pdf.Ref]*font) (page Page) {
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
	page.Kind, page.Problem = judge(page.Text, in.images/area)
	switch {
	case err != nil:
		page.Kind, page.Problem = Unreadable, "a part of the page cannot be decoded: "+err.Error()
	case in.full:
		page.Kind, page.Problem = Unreadable, fmt.Sprintf("the page has more than %d characters", maxGlyphs)
	}
	return page
}
