package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/extraction"
)

// Seen is a case with what one trial made of it, for a person to read.
type Seen struct {
	DocumentText string
	// Gold and Extracted have one entity for each gold span and for each record:
	// the quote is its name, the class its type. A record that names a stretch of
	// the document has it as a mention.
	Gold, Extracted []extraction.Entity
	// Quoted are the records that quote the document and have the right shape,
	// Faulty the others; Missed are the gold spans that no record quotes.
	Quoted, Faulty, Missed []SeenRecord
}

// SeenRecord is a record or a gold span.
type SeenRecord struct {
	Index int // in Seen.Extracted or Seen.Gold
	// Text is quote, class and place: "Mara Voss" (person), at 0 to 9 (rune).
	Text string
	// Gold is the place in Seen.Gold of the span that the record covers, else -1.
	Gold int
	// Why says what is wrong with a record.
	Why string
}

// See reads the input and the expected output of a case, and the output of a
// trial; an outcome that failed has none. The error says that they are not those
// of a case.
func See(caseInput, expected, output json.RawMessage) (Seen, error) {
	var in input
	var g gold
	if err := json.Unmarshal(caseInput, &in); err != nil {
		return Seen{}, fmt.Errorf("the input is no case: %w", err)
	}
	if err := json.Unmarshal(expected, &g); err != nil {
		return Seen{}, fmt.Errorf("what is expected is no case: %w", err)
	}
	var a Answer
	if len(output) > 0 {
		if err := json.Unmarshal(output, &a); err != nil {
			return Seen{}, fmt.Errorf("the output is no answer: %w", err)
		}
	}
	s := Seen{DocumentText: in.DocumentText}
	for _, span := range g.GoldSpans {
		s.Gold = append(s.Gold, extraction.Entity{Name: span.Quote, Type: span.Class})
	}
	covered := g.coveredBy(a)
	for i, rec := range a.Records {
		s.add(i, rec, covered)
	}
	for i, span := range g.GoldSpans {
		if covered[i] < 0 {
			place := Record{Quote: span.Quote, Class: span.Class, Mode: orUTF16(span.OffsetMode), Start: &span.CharStart, End: &span.CharEnd}
			s.Missed = append(s.Missed, SeenRecord{Index: i, Text: place.text(), Gold: i})
		}
	}
	return s, nil
}

func (s *Seen) add(i int, rec Record, covered []int) {
	e := extraction.Entity{Name: rec.Quote, Type: rec.Class}
	if rec.Spans != nil {
		e.Mentions = []extraction.Span{{Start: rec.Spans.Rune[0], End: rec.Spans.Rune[1]}}
	}
	s.Extracted = append(s.Extracted, e)
	seen := SeenRecord{Index: i, Text: rec.text(), Gold: slices.Index(covered, i)}
	if rec.Code == "" && rec.Shape == "" {
		s.Quoted = append(s.Quoted, seen)
		return
	}
	var why []string
	if rec.Code != "" {
		why = append(why, string(rec.Code))
	}
	if rec.Shape != "" {
		why = append(why, rec.Shape)
	}
	seen.Why = strings.Join(why, "; ")
	s.Faulty = append(s.Faulty, seen)
}

// text is a record in one line.
func (r Record) text() string {
	text := fmt.Sprintf("%q", r.Quote)
	if r.Class != "" {
		text += " (" + r.Class + ")"
	}
	return text + ", " + r.place()
}
