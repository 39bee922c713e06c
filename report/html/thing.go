package html

import (
	"cmp"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/printable"
	"extraction-experiment/report"
)

// The states of a thing.
const (
	stateOK       = "ok"
	stateType     = "type" // matched, with the wrong type
	stateMissed   = "missed"
	stateNear     = "near" // a missed and a spurious one that are one fault
	stateSpurious = "spurious"
)

// thing is a row of the table of entities or of relationships: a matched pair, a
// pair that one fault kept apart, or one that was matched with nothing.
type thing struct {
	State     string `json:"state"`
	Expected  *side  `json:"expected,omitempty"`
	Extracted *side  `json:"extracted,omitempty"`
	// Kind of the match, or the cause of the fault.
	Kind       string  `json:"kind,omitempty"`
	Similarity float64 `json:"similarity,omitempty"`
	Nearest    string  `json:"nearest,omitempty"`
	Why        string  `json:"why,omitempty"`
}

// side is an entity (name and type), or a relationship (source, type, target).
type side struct {
	Index  int    `json:"i"`
	Name   string `json:"name"`
	Type   string `json:"type,omitempty"`
	Target string `json:"target,omitempty"`
	Plain  bool   `json:"plain,omitempty"` // a text that is marked nowhere
}

// nameLength bounds each name on the page, in characters.
const nameLength = 300

func named(s string) string { return printable.Line(cutTo(s, nameLength)) }

// entityThings lists the entities, the matched ones first, then what was missed
// and what is spurious.
func entityThings(v report.ItemView) []thing {
	return things(v, "entity", func(e *extraction.Extraction, i int) *side {
		if e == nil || i < 0 || i >= len(e.Entities) {
			return nil
		}
		return &side{Index: i, Name: named(e.Entities[i].Name), Type: named(e.Entities[i].Type)}
	})
}

func relationshipThings(v report.ItemView) []thing {
	return things(v, "relationship", func(e *extraction.Extraction, i int) *side {
		if e == nil || i < 0 || i >= len(e.Relationships) {
			return nil
		}
		r := e.Relationships[i]
		return &side{Index: i, Name: named(cmp.Or(r.Source, r.SourceRef)), Type: named(r.Type), Target: named(cmp.Or(r.Target, r.TargetRef))}
	})
}

// termThings lists what an answer should have and should not have: the terms
// that were found, those that were not, and the forbidden ones.
func termThings(v report.ItemView) []thing {
	shown := func(i int, text string) *side { return &side{Index: i, Name: named(text), Plain: true} }
	var list []thing
	for _, m := range v.Matches {
		if ofAnswer(m.What) {
			list = append(list, thing{State: stateOK, Kind: report.FormatWords(m.Kind), Expected: shown(m.ExpectedIndex, m.Expected), Extracted: shown(m.ExtractedIndex, m.Extracted)})
		}
	}
	for _, m := range v.Missed {
		if ofAnswer(m.What) {
			list = append(list, thing{State: stateMissed, Kind: stateMissed, Expected: shown(m.Index, m.Value)}.near(m))
		}
	}
	for _, m := range v.Spurious {
		if ofAnswer(m.What) {
			list = append(list, thing{State: stateSpurious, Kind: stateSpurious, Extracted: shown(m.Index, m.Value)}.near(m))
		}
	}
	return list
}

func things(v report.ItemView, what string, at func(*extraction.Extraction, int) *side) []thing {
	list := []thing{}
	for _, m := range v.Matches {
		if m.What != what {
			continue
		}
		t := thing{State: stateOK, Kind: report.FormatWords(m.Kind), Similarity: m.Similarity,
			Expected: at(v.Expected, m.ExpectedIndex), Extracted: at(v.Extracted, m.ExtractedIndex)}
		if m.TypeCorrect != nil && !*m.TypeCorrect {
			t.State, t.Why = stateType, "wrong type"
		}
		list = append(list, t)
	}
	missed, spurious := faultsByIndex(v, what)
	for _, m := range v.Missed {
		if m.What != what {
			continue
		}
		t := thing{State: stateMissed, Expected: at(v.Expected, m.Index), Kind: stateMissed}.near(m)
		if f := missed[m.Index]; f != nil {
			t.Kind = report.FormatWords(f.Cause)
			if f.ExtractedIndex != nil {
				t.State, t.Extracted = stateNear, at(v.Extracted, *f.ExtractedIndex)
			}
		}
		list = append(list, t)
	}
	for _, m := range v.Spurious {
		f := spurious[m.Index]
		if m.What != what || f != nil && f.ExpectedIndex != nil {
			continue // the row of the missed one shows it
		}
		t := thing{State: stateSpurious, Extracted: at(v.Extracted, m.Index), Kind: stateSpurious}.near(m)
		if f != nil {
			t.Kind = report.FormatWords(f.Cause)
		}
		list = append(list, t)
	}
	return list
}

func (t thing) near(m report.Miss) thing {
	t.Nearest, t.Similarity, t.Why = named(m.Nearest), m.Similarity, strings.ReplaceAll(named(m.Reason), "_", " ")
	return t
}

// faultsByIndex finds the fault of what was missed and of what is spurious.
func faultsByIndex(v report.ItemView, what string) (missed, spurious map[int]*report.Fault) {
	missed, spurious = map[int]*report.Fault{}, map[int]*report.Fault{}
	for i, f := range v.Faults {
		if f.What != what {
			continue
		}
		if f.ExpectedIndex != nil {
			missed[*f.ExpectedIndex] = &v.Faults[i]
		}
		if f.ExtractedIndex != nil {
			spurious[*f.ExtractedIndex] = &v.Faults[i]
		}
	}
	return missed, spurious
}
