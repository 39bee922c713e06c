package answers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/outcome"
)

// passageSize is about how many characters a passage has.
const passageSize = 900

// Document is a PDF file that questions are asked about, ready to be searched.
// It is safe for concurrent use.
type Document struct {
	Path string
	pdf.Document
	index     *searchIndex
	sentences *searchIndex
	tables    map[string]string // sentence → as it is said in an answer
}

// OpenDocument reads a PDF file and makes it searchable. What is on unreadable pages is
// not searched: nonsense must not be cited. Errors are those of pdf.ReadFile (exit code
// 64).
func OpenDocument(ctx context.Context, path string, opt pdf.Options) (*Document, error) {
	read, err := pdf.ReadFile(ctx, path, opt)
	if err != nil {
		return nil, err
	}
	d := &Document{Path: path, Document: read, tables: map[string]string{}}
	var pages, sentences []Passage
	for _, p := range read.Pages {
		if p.Kind != pdf.Readable {
			continue
		}
		pages = append(pages, Passage{Page: p.Number, Text: p.Text})
		for _, s := range statements(p.Text) {
			if s.said != s.searched {
				d.tables[s.searched] = s.said
			}
			sentences = append(sentences, Passage{Page: p.Number, Text: s.searched})
		}
	}
	d.index = newIndex(splitPassages(pages, passageSize))
	d.sentences = newIndex(sentences)
	return d, nil
}

// The names of the calls that search a document.
const (
	retrieving = "retrieve"
	choosing   = "best sentence"
)

// Passages returns what a search among the calls of an answer found, the best
// first; nil where none is recorded.
func Passages(calls []outcome.Call) []Found {
	for _, c := range calls {
		var found []Found
		if (c.Name == retrieving || c.Name == choosing) && json.Unmarshal(c.Output, &found) == nil {
			return found
		}
	}
	return nil
}

// record finds the n passages that fit a question best, and makes the call that
// records the search.
func (x *searchIndex) record(name, question string, n int) ([]Found, outcome.Call) {
	call := outcome.Call{Name: name, Kind: "span", Started: time.Now().UTC()}
	found := x.Find(question, n)
	call.Ended = time.Now().UTC()
	call.Input, call.Output = encode(question), encode(found)
	return found, call
}

// encode marshals what always can be marshalled.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// Extractive answers with the sentence of the document that fits the question
// best, and its page: the floor that a model must beat. It needs no model and
// no network, and gives the same answer every time.
type Extractive struct{ Document *Document }

// ExtractiveName is how run metadata calls it.
const ExtractiveName = "extractive@1"

// Answer never fails: where no word of the question is in the document, it says
// so and cites nothing.
func (e Extractive) Answer(_ context.Context, question string) (Answer, []outcome.Call, error) {
	found, call := e.Document.sentences.record(choosing, question, 3)
	if len(found) == 0 {
		return Answer{Text: "В документе нет ответа на этот вопрос."}, []outcome.Call{call}, nil
	}
	best := found[0]
	said := cmp.Or(e.Document.tables[best.Text], best.Text)
	return Answer{Text: fmt.Sprintf("%s (стр. %d)", said, best.Page), Pages: []int{best.Page}}, []outcome.Call{call}, nil
}
