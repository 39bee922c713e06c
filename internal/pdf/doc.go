// Package pdf reads the structure of PDF files: objects, cross-reference
// tables and streams, object streams, filters, encryption with an empty or
// given password, and the tree of pages. It knows nothing of text: see
// internal/pdftext.
//
// The files are hostile data. Nothing here panics or recurses without bound,
// and every file has a Budget: what decoding it may cost in bytes and time is
// limited as a whole, so that no small file can ask for much. A damaged file is
// repaired where its objects can still be found.
//
// The steps of Open: read the cross-reference sections from the end of the file;
// where that fails, search the file for objects; prepare decryption; find the
// catalogue. Objects are read when they are asked for.
//
//	file, err := pdf.Open(data, pdf.Config{})
//	pages, err := file.Pages()
//	content, err := file.Content(pages[0])
package pdf
