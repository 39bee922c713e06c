package html

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report"
)

// RunLink is a run in a list of pages.
type RunLink struct {
	report.RunRow
	Address string // of its page
	Path    string // which run it is, for the comparison
}

// mostRuns bounds the list.
const mostRuns = 2000

// RunList writes the list of runs, with links to their pages and a form that
// asks for /compare?base=PATH&cand=PATH. Problems are what could not be read; asked is the
// address of the page of WriteAsked, if there is one. The page has no script. Errors are
// those of the writer.
func RunList(w io.Writer, title string, runs []RunLink, asked string, problems []string) error {
	page := struct {
		Title    string
		Asked    string
		Runs     []runLine
		More     int
		Problems []string
		Primary  string // the score of all, where it is one
	}{Title: named(title), Asked: asked, Primary: "score", More: max(0, len(runs)-mostRuns)}
	runs = first(runs, mostRuns)
	for i, r := range runs {
		page.Runs = append(page.Runs, runLine{RunLink: r})
		if i > 0 && !page.Runs[0].Candidate && r.Dataset == runs[0].Dataset {
			page.Runs[0].Candidate, page.Runs[i].Base = true, true // suggested: the newest against the next one of its dataset
		}
	}
	if len(runs) > 0 && !slices.ContainsFunc(runs, func(r RunLink) bool { return r.Primary != runs[0].Primary }) {
		page.Primary = cmp.Or(named(runs[0].Primary), "score")
	}
	page.Problems = cli.Each(first(problems, mostLines), func(p string) string {
		return textutil.Block(report.Brief(p, 1000))
	})
	return writeStill(w, page.Title, "runlist", page)
}

type runLine struct {
	RunLink
	Base, Candidate bool // chosen at first
}

// AskedRun is what somebody asked for with the Run button of a dataset in Langfuse, and what
// became of it. All texts may be those of strangers.
type AskedRun struct {
	Time                   time.Time
	Dataset, Settings, Run string
	State, Reason          string
	Address                string // of the page of the run, if there is one
}

// WriteAsked writes the page of what was asked for. It has no script. At most 500 rows are
// shown. Errors are those of the writer.
func WriteAsked(w io.Writer, rows []AskedRun, home string) error {
	page := struct {
		Home string
		Rows []AskedRun
		More int
	}{home, first(rows, mostAsked), max(0, len(rows)-mostAsked)}
	return writeStill(w, "Asked for in Langfuse", "asked", page)
}

// mostAsked bounds the page.
const mostAsked = 500

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
	ID, Parent, Name, Type, Level, Status string
	Start, End                            time.Time
	// Facts are model, tokens, cost, prompt, in a few words each.
	Facts []string
	// Texts are a title and a text or indented JSON each: input, output and so on.
	Texts [][2]string
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
	page := struct {
		Trace
		Home  string
		Steps []step
		More  int
	}{Trace: t, Home: home, More: max(0, len(t.Observations)-mostObservations)}
	page.Scores = first(t.Scores, mostObservations)
	if !t.Time.IsZero() {
		page.About = append([]string{t.Time.UTC().Format("2006-01-02 15:04:05 UTC")}, t.About...)
	}
	room, depths := mostTraceText, depthsOf(t.Observations)
	for _, o := range first(t.Observations, mostObservations) {
		s := step{Observation: o, Depth: depths[o.ID]}
		for _, t := range o.Texts { // as far as there is room for them
			if !slices.Contains([]string{"", "null", "{}"}, strings.TrimSpace(t[1])) {
				s.Parts = append(s.Parts, message{t[0], newQuote(t[1], min(mostTracePart, max(leastText, room)))})
				room -= len(t[1])
			}
		}
		if !o.Start.IsZero() && !o.End.Before(o.Start) {
			s.Took = report.Milliseconds(float64(o.End.Sub(o.Start).Microseconds()) / 1000)
		}
		page.Steps = append(page.Steps, s)
	}
	return writeStill(w, named(t.Name), "trace", page)
}

// step is an observation as the page shows it.
type step struct {
	Observation
	Took  string
	Depth int
	Parts []message
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

// Audit writes the page of an audit: every finding with its places in the document, what
// each system says, and what would change. A person accepts or rejects findings by mouse
// or keyboard and saves the decisions as a file, which experiment audit --decisions
// reads; the browser remembers them. Errors are those of the writer.
func Audit(w io.Writer, a report.Audit) error {
	out := newWriter(w, ofAudit, Config{})
	out.titles = []string{"Audit of " + named(a.Dataset)}
	page := struct {
		report.Audit
		Shown []finding
		Moves *table
	}{Audit: a, Moves: newTable("moves", a.Moves(), mostLines)}
	type key struct { // in the order of the file that the page saves
		Item    string `json:"item"`
		Finding string `json:"finding"`
		Gold    string `json:"gold"`
	}
	keys := []key{}
	for _, d := range a.Findings {
		keys = append(keys, key{d.Item, d.Key, d.Gold})
		page.Shown = append(page.Shown, newFinding(d))
	}
	return out.parts(out.head, func() error { return out.ExecuteTemplate(out, "audit", page) }, func() error {
		return out.move(map[string]any{"dataset": a.Dataset, "findings": keys})
	})
}

// finding is one of the page.
type finding struct {
	harness.Doubt
	Percent int
	Systems []systemSays
}

type systemSays struct{ System, Word, State string }

func newFinding(d harness.Doubt) finding {
	f := finding{Doubt: d, Percent: int(math.Round(100 * d.Doubt))}
	for _, s := range d.Says {
		says := systemSays{s.System, "says neither", ""}
		switch {
		case s.Has != "":
			says.Word, says.State = "has "+s.Has, "near"
		case s.For != nil && *s.For:
			says.Word, says.State = "speaks for it", "ok"
		case s.For != nil:
			says.Word, says.State = "has what gold has", "missed"
		}
		f.Systems = append(f.Systems, says)
	}
	return f
}
