package seed

import "slices"

// maxAligned bounds the gold texts that are looked for in the document, in
// bytes: names and quotes, not pages.
const maxAligned = 2000

func (w *redacting) findDocument(input any) {
	object, _ := input.(map[string]any)
	for _, key := range []string{"document_text", "text"} {
		if text, ok := object[key].(string); ok {
			w.document = w.covers[text]
			return
		}
	}
}

// align covers gold texts and their places in the document alike.
func (w *redacting) align() error {
	w.aligned = map[string]agreement{}
	if w.document == nil {
		return nil
	}
	var list []agreement
	document := newConcordance([]*cover{w.document})
	for _, text := range w.gold {
		c := w.covers[text]
		if _, known := w.aligned[text]; known || c == w.document || len(c.folded) > maxAligned {
			continue
		}
		a := agreement{gold: c}
		if err := document.find(c.folded, func(_ *cover, at int) { a.at = append(a.at, at) }); err != nil {
			return err
		}
		if len(a.at) > 0 {
			w.aligned[text] = a
			list = append(list, a)
		}
	}
	if err := agree(w.document, list); err != nil {
		return err
	}
	w.document.whole(&w.tokens) // the document has the first numbers
	clear(w.tokens.count)       // it is written again, and counted then
	return nil
}

// agreement is a gold text that stands in the document: what is covered in the
// one is covered in the other.
type agreement struct {
	gold *cover
	at   []int // where it stands in the folded document
}

// agree covers the same in the gold texts and in all their places in the
// document, until nothing changes: a name that is covered in one place for what
// stands beside it is then covered in every place. The error says that it would
// take too long.
func agree(document *cover, agreements []agreement) error {
	steps := 0
	for changed := true; changed; {
		changed = false
		for _, a := range agreements {
			if steps += len(a.at) * len(a.gold.label); steps > maxSteps {
				return errTooMuch
			}
			for _, at := range a.at {
				for i := range a.gold.label {
					met := meet(a.gold.label[i], document.label[at+i])
					if met == 0 {
						continue
					}
					inGold, inDocument := a.gold.mark(i, i+1, met), document.mark(at+i, at+i+1, met)
					changed = changed || inGold || inDocument
				}
			}
		}
	}
	for _, a := range agreements {
		if !a.gold.covered() {
			continue
		}
		for _, at := range a.at {
			document.cuts = append(document.cuts, at, at+len(a.gold.label))
		}
	}
	slices.Sort(document.cuts)
	document.cuts = slices.Compact(document.cuts)
	return nil
}
