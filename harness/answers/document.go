package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// passageSize is the maximal number of characters of a passage.
const passageSize = 900

// Document is a PDF file that questions are asked about, indexed for search. It is safe for
// concurrent use.
type Document struct {
	Path string
	pdf.Document
	index     *searchIndex
	sentences *searchIndex
}

// OpenDocument reads a PDF file and indexes it. It leaves unreadable pages out, so that nonsense is
// not cited. Errors are those of pdf.ReadFile (exit code 64).
func OpenDocument(ctx context.Context, path string, opt pdf.Options) (*Document, error) {
	read, err := pdf.ReadFile(ctx, path, opt)
	if err != nil {
		return nil, err
	}
	var pages, sentences []Passage
	for _, p := range read.Pages {
		if p.Kind != pdf.Readable {
			continue
		}
		pages = append(pages, Passage{Page: p.Number, Text: p.Text})
		sentences = append(sentences, statements(p)...)
	}
	index := newIndex(splitPassages(pages, passageSize))
	return &Document{Path: path, Document: read, index: index, sentences: newIndex(sentences)}, nil
}

// pageNumber matches a line with only a page number, which would look like a citation.
var pageNumber = textutil.Pattern(`(?i)^[-–— ]*(стр\.|с\.|page|p\.)? *\d+[-–— ]*$`)

// cellSeparator separates the cells of a row in the text from package pdf.
const cellSeparator = " | "

// statements splits a page into sentences and rows of tables. The text of both includes the heading
// above, that of a row also the header of its table. The wording of a row names the column of each
// number.
func statements(page pdf.Page) []Passage {
	var out []Passage
	var prose, header []string
	heading := ""
	add := func(text, wording string) {
		out = append(out, Passage{page.Number, strings.TrimSpace(heading + " " + text), wording})
	}
	flush := func() {
		for _, s := range Sentences(strings.Join(prose, " ")) {
			add(s, s)
		}
		prose = nil
	}
	lines := strings.Split(page.Text, "\n")
	for i, line := range lines {
		line = strings.TrimSpace(line)
		cells := strings.Split(line, cellSeparator)
		if len(cells) > 1 {
			flush()
		} else {
			header = nil
		}
		switch {
		case line == "" || pageNumber().MatchString(line):
		case len(cells) == 1 && isHeading(line, lines[i+1:]):
			flush()
			heading = line
		case len(cells) == 1:
			prose = append(prose, line)
		case len(header) != len(cells):
			header = cells
			if i+1 == len(lines) || strings.Count(lines[i+1], cellSeparator) != len(cells)-1 {
				add(line, line) // a single row
			}
		default:
			add(strings.Join(header, " ")+cellSeparator+line, describeRow(header, cells))
		}
	}
	flush()
	return out
}

// maxHeading is the maximal number of characters of a heading.
const maxHeading = 60

// isHeading reports whether a line is short, does not end in a punctuation mark, and has a line
// below it that begins with a capital letter.
func isHeading(line string, below []string) bool {
	if len(below) == 0 || len([]rune(line)) > maxHeading || strings.ContainsAny(line[len(line)-1:], ".!?;:,") {
		return false
	}
	next, _ := utf8.DecodeRuneInString(strings.TrimSpace(below[0]))
	return unicode.IsUpper(next)
}

// describeRow returns the wording of a row with its header: "Выручка — 2022: 95; 2023: 102".
func describeRow(header, cells []string) string {
	parts := make([]string, 0, len(cells)-1)
	for i := 1; i < len(cells); i++ {
		parts = append(parts, header[i]+": "+cells[i])
	}
	return cells[0] + " — " + strings.Join(parts, "; ")
}

// The names of the calls that record a search.
const (
	retrieveCall = "retrieve"
	sentenceCall = "best sentence"
)

// Passages returns the results of the first search among the calls of an answer, best first; nil if
// no search is recorded.
func Passages(calls []outcome.Call) []Found {
	for _, c := range calls {
		var found []Found
		if (c.Name == retrieveCall || c.Name == sentenceCall) && json.Unmarshal(c.Output, &found) == nil {
			return found
		}
	}
	return nil
}

// findAndRecord returns the n passages that match a question best, and the call that records the
// search.
func (x *searchIndex) findAndRecord(name, question string, n int) ([]Found, outcome.Call) {
	call := outcome.Call{Name: name, Kind: "span", Started: time.Now().UTC()}
	found := x.Find(question, n)
	call.Ended = time.Now().UTC()
	call.Input, call.Output = encode(question), encode(found)
	return found, call
}

// encode marshals a value that always can be marshalled.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// Extractive answers with the sentence of the document that matches the question best, and its
// page. It is the baseline for models: it needs no model and no network, and always gives the same
// answer.
type Extractive struct{ Document *Document }

// ExtractiveName is the name of Extractive in run metadata.
const ExtractiveName = "extractive@1"

// Answer never fails. If the document has no word of the question, the answer says so and cites
// nothing.
func (e Extractive) Answer(_ context.Context, question string) (Answer, []outcome.Call, error) {
	found, call := e.Document.sentences.findAndRecord(sentenceCall, question, 3)
	if len(found) == 0 {
		return Answer{Text: "В документе нет ответа на этот вопрос."}, []outcome.Call{call}, nil
	}
	best := found[0]
	text := fmt.Sprintf("%s (стр. %d)", best.wording, best.Page)
	return Answer{Text: text, Pages: []int{best.Page}}, []outcome.Call{call}, nil
}
