package answers

import (
	"context"
	"fmt"
	"time"

	"extraction-experiment/outcome"
)

// Extractive answers with the sentence of the document that fits the question
// best, and its page: the floor that a model must beat. It needs no model and
// no network, and gives the same answer every time.
type Extractive struct {
	Document *Document
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// ExtractiveName is how run metadata calls it.
const ExtractiveName = "extractive@1"

// Answer never fails: where no word of the question is in the document, it says
// so and cites nothing.
func (e Extractive) Answer(_ context.Context, question string) (Answer, []outcome.Call, error) {
	now := e.Now
	if now == nil {
		now = time.Now
	}
	call := outcome.Call{Name: choosing, Kind: "span", Started: now().UTC(), Input: encode(question)}
	found := e.Document.sentences.Find(question, 3)
	call.Ended, call.Output = now().UTC(), encode(found)
	if len(found) == 0 {
		return Answer{Text: "В документе нет ответа на этот вопрос."}, []outcome.Call{call}, nil
	}
	best := found[0]
	said := best.Text
	if row, ok := e.Document.tables[best.Text]; ok {
		said = row
	}
	return Answer{Text: fmt.Sprintf("%s (стр. %d)", said, best.Page), Pages: []int{best.Page}}, []outcome.Call{call}, nil
}
