// Package pdftext turns a PDF file into text, page by page, and says of which
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
// A file is hostile data: package pdf bounds what it may cost, and nothing of it
// panics here.
//
//	doc, err := pdftext.Read(ctx, data, pdftext.Options{})
//	for _, page := range doc.Pages { fmt.Println(page.Number, page.Text, page.Problem) }
package pdftext

// Version changes when the text of a page may; caches are keyed by it.
const Version = "2"
