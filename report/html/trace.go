package html

import (
	"fmt"
	"io"
	"time"

	"extraction-experiment/internal/printable"
	"extraction-experiment/report"
)

// Trace is what a trace of a store shows. All texts may be those of strangers.
type Trace struct {
	ID, Name string
	Time     time.Time
	// About are facts in a few words each: environment, tags, user.
	About  []string
	Scores []TraceScore
	// Observations are ordered by their start.
	Observations []Observation
}

// TraceScore is a score of a trace or of one of its observations.
type TraceScore struct{ Name, Value, Comment, On string }

// Observation is a step of a trace.
type Observation struct {
	ID, Parent, Name, Type, Level, Status, Model string
	Start, End                                   time.Time
	// Facts are tokens, cost, prompt, in a few words each.
	Facts []string
	// Parameters, Input, Output and Metadata are text or indented JSON.
	Parameters, Input, Output, Metadata string
}

// Bounds of the page of a trace.
const (
	mostObservations = 500
	mostTraceText    = 8 << 20  // bytes of all texts together
	mostTracePart    = 64 << 10 // characters of each
)

// WriteTrace writes the page of a trace: its scores, and its observations with
// their time, input and output. The page has no script. At most 500
// observations are shown, and about 8 MiB of text. Errors are those of the
// writer.
func WriteTrace(w io.Writer, t Trace, home string) error {
	out, err := newWriter(w, still, Config{})
	if err != nil {
		return err
	}
	out.titles = []string{named(t.Name)}
	room := mostTraceText
	page := tracePage{Home: home, Name: named(t.Name), ID: named(t.ID), More: max(0, len(t.Observations)-mostObservations)}
	if !t.Time.IsZero() {
		page.About = append(page.About, t.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	for _, fact := range t.About {
		page.About = append(page.About, named(fact))
	}
	for _, s := range t.Scores[:min(len(t.Scores), mostObservations)] {
		page.Scores = append(page.Scores, TraceScore{named(s.Name), named(s.Value), long(s.Comment), named(s.On)})
	}
	depths, from, to := depthsOf(t.Observations), t.start(), t.end()
	for _, o := range t.Observations[:min(len(t.Observations), mostObservations)] {
		page.Steps = append(page.Steps, newStep(o, depths[o.ID], from, to, &room))
	}
	return out.parts(out.head, func() error { return out.ExecuteTemplate(out, "trace", page) })
}

type tracePage struct {
	Home, Name, ID string
	About          []string
	Scores         []TraceScore
	Steps          []step
	More           int
}

// step is an observation as the page shows it.
type step struct {
	Name, Type, Status, Time string
	Depth                    int
	Bad                      bool
	Facts                    []string
	X, Width                 float64
	Parts                    []stepPart
}

type stepPart struct {
	Title string
	quote
}

// stepWidth is that of the drawing of the time.
const stepWidth = 200.0

func newStep(o Observation, depth int, from, to time.Time, room *int) step {
	s := step{Name: named(o.Name), Type: named(o.Type), Status: long(o.Status), Depth: depth, Bad: o.Level == "ERROR"}
	for _, fact := range append([]string{o.Model}, o.Facts...) {
		if fact != "" {
			s.Facts = append(s.Facts, named(fact))
		}
	}
	if !o.Start.IsZero() && !o.End.Before(o.Start) {
		s.Time = report.FormatMilliseconds(float64(o.End.Sub(o.Start).Microseconds()) / 1000)
	}
	if whole := to.Sub(from).Seconds(); whole > 0 {
		s.X = min(stepWidth, stepWidth*max(0, o.Start.Sub(from).Seconds()/whole))
		s.Width = max(2, min(stepWidth-s.X, stepWidth*o.End.Sub(o.Start).Seconds()/whole))
	}
	for _, part := range []struct{ title, text string }{{"Input", o.Input}, {"Output", o.Output}, {"Parameters", o.Parameters}, {"Metadata", o.Metadata}} {
		if part.text == "" {
			continue
		}
		q := newQuote(part.text, limits{text: min(mostTracePart, max(leastShown.text, *room))})
		q.Text = printable.Block(q.Text)
		*room -= len(q.Text)
		s.Parts = append(s.Parts, stepPart{part.title, q})
	}
	return s
}

// deepest is the last depth that is drawn.
const deepest = 6

// depthsOf says how many ancestors each observation has.
func depthsOf(list []Observation) map[string]int {
	parents, depths := map[string]string{}, map[string]int{}
	for _, o := range list {
		parents[o.ID] = o.Parent
	}
	for _, o := range list {
		for id, ok := parents[o.ID], true; ok && id != "" && depths[o.ID] < deepest; { // strangers make circles
			if _, ok = parents[id]; ok {
				depths[o.ID]++
				id = parents[id]
			}
		}
	}
	return depths
}

func (t Trace) start() time.Time {
	var first time.Time
	for _, o := range t.Observations {
		if first.IsZero() || !o.Start.IsZero() && o.Start.Before(first) {
			first = o.Start
		}
	}
	return first
}

func (t Trace) end() time.Time {
	var last time.Time
	for _, o := range t.Observations {
		if o.End.After(last) {
			last = o.End
		}
	}
	return last
}

// Left says how much of a text is left out.
func (q quote) Left() string {
	if q.Cut == 0 {
		return ""
	}
	return fmt.Sprintf("… %s", report.FormatCounted(q.Cut, "more character"))
}
