package answers

import (
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"extraction-experiment/outcome"
)

// The keys of a run's metadata beside the two hashes.
const (
	metaPDF        = "pdf"
	MetaPages      = "pdf_pages" // how many pages the document has
	metaUnreadable = "pdf_unreadable_pages"
	metaDeclared   = "pdf_declared_pages" // where fewer were found
	metaDamaged    = "pdf_damaged"
	metaReader     = "pdf_reader"
)

// Describe returns metadata of a run with what it asks of which document.
func Describe(metadata map[string]string, doc *Document, questions Questions) map[string]string {
	about := maps.Clone(metadata)
	if about == nil {
		about = map[string]string{}
	}
	about[outcome.PDFSHA256], about[outcome.QuestionsSHA256] = doc.SHA256, questions.SHA256
	about[metaPDF], about[MetaPages] = filepath.Base(doc.Path), strconv.Itoa(len(doc.Pages))
	about[metaReader] = "pdftext@" + doc.Version
	if doc.Declared > 0 {
		about[metaDeclared] = strconv.Itoa(doc.Declared)
	}
	if doc.Repaired {
		about[metaDamaged] = "true"
	}
	var pages []string
	for _, p := range doc.Problems() {
		pages = append(pages, strconv.Itoa(p.Number))
	}
	if pages != nil {
		about[metaUnreadable] = strings.Join(pages[:min(len(pages), 100)], ",")
	}
	return about
}

// DocumentWarnings says what of the document of a run no answer could be made of;
// a run of another harness has no document.
func DocumentWarnings(h outcome.Header) []string {
	var list []string
	if h.Metadata[metaDamaged] != "" {
		list = append(list, FileDamaged(h.Metadata[metaPDF]))
	}
	declared, unsaid := strconv.Atoi(h.Metadata[metaDeclared])
	found, unknown := strconv.Atoi(h.Metadata[MetaPages])
	if unsaid == nil && unknown == nil {
		list = append(list, PagesMissing(h.Metadata[metaPDF], declared, found))
	}
	if pages := h.Metadata[metaUnreadable]; pages != "" {
		list = append(list, fmt.Sprintf("%s has pages that cannot be read and were not searched: %s (of %s)", h.Metadata[metaPDF], pages, h.Metadata[MetaPages]))
	}
	return list
}

// FileDamaged says what searching a file for its pages means for the answers.
func FileDamaged(path string) string {
	return path + " is damaged; its pages were found by searching the file, and some may be missing"
}

// PagesMissing says how much of a file is lost.
func PagesMissing(path string, declared, found int) string {
	return fmt.Sprintf("%s says that it has %d pages, of which %d were found: %d are not searched, and pages behind them have too low a number",
		path, declared, found, declared-found)
}
