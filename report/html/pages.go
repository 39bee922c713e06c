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

// RunLink is a run in the list of runs.
type RunLink struct {
	report.RunRow
	Address         string // of its page
	Path            string // names the run in the form that compares runs
	Base, Candidate bool   // selected in the form; RunList sets them
}

// maxRuns limits the list of runs and the leaderboard.
const maxRuns = 2000

// RunList writes the list of runs, with links to their pages and a form that requests
// /compare?base=PATH&cand=PATH. problems are messages about files that could not be read;
// askedURL is the address of the page of WriteRequests, or empty. The page has no script and shows
// at most 2000 runs. The error is that of w.
func RunList(w io.Writer, title string, runs []RunLink, askedURL string, problems []string) error {
	page := struct {
		Title    string
		Asked    string
		Runs     []RunLink
		More     int
		Problems []string
		Primary  string // the name of the primary score, if all runs have the same
	}{Title: clipName(title), Asked: askedURL, Primary: "score", More: max(0, len(runs)-maxRuns)}
	page.Runs = slices.Clone(firstN(runs, maxRuns))
	for i, r := range page.Runs {
		// Suggest the newest run, and the next one of its dataset with as many items.
		if i > 0 && r.Dataset == runs[0].Dataset && r.Items == runs[0].Items {
			page.Runs[0].Candidate, page.Runs[i].Base = true, true
			break
		}
	}
	if len(runs) > 0 && !slices.ContainsFunc(page.Runs, func(r RunLink) bool { return r.Primary != runs[0].Primary }) {
		page.Primary = cmp.Or(clipName(runs[0].Primary), "score")
	}
	page.Problems = cli.Each(firstN(problems, maxLines), func(p string) string {
		return textutil.Block(report.Brief(p, 1000))
	})
	return writeStatic(w, page.Title, "runlist", page)
}

// RequestedRun is a run that was requested with the Run button of a dataset in Langfuse, and its
// state. All texts may be untrusted.
type RequestedRun struct {
	Time                   time.Time
	Dataset, Settings, Run string
	State, Reason          string
	Address                string // of the page of the run; empty without one
}

// WriteRequests writes the page of requested runs. It has no script, shows at most 500 rows, and
// has a link to the list of runs at /. The error is that of w.
func WriteRequests(w io.Writer, rows []RequestedRun) error {
	page := struct {
		Rows []RequestedRun
		More int
	}{firstN(rows, maxAsked), max(0, len(rows)-maxAsked)}
	return writeStatic(w, "Asked for in Langfuse", "asked", page)
}

// maxAsked limits the rows of the page.
const maxAsked = 500

// Trace is the content of the page of a trace. All texts may be untrusted.
type Trace struct {
	ID, Name string
	Time     time.Time
	// About holds short facts: environment, tags, user.
	About  []string
	Scores []TraceScore
	// Observations are ordered by start.
	Observations []Observation
}

// TraceScore is a score of a trace or of one of its observations.
type TraceScore struct{ Name, Value, Comment, On string }

// Observation is a step of a trace.
type Observation struct {
	ID, Parent, Name, Type, Level, Status string
	Start, End                            time.Time
	// Facts holds short facts: model, tokens, cost, prompt.
	Facts []string
	// Texts holds pairs of a title and a text or indented JSON: input, output and so on.
	Texts [][2]string
}

// Limits of the page of a trace.
const (
	maxObservations = 500
	maxTraceText    = 8 << 20  // bytes of all texts together
	maxTracePart    = 64 << 10 // characters of each
)

// WriteTrace writes the page of a trace: its scores, and its observations with their time, input
// and output. The page has no script, shows at most 500 observations and about 8 MiB of text, and
// has a link to the list of runs at /. The error is that of w.
func WriteTrace(w io.Writer, t Trace) error {
	page := struct {
		Trace
		Steps []step
		More  int
	}{Trace: t, More: max(0, len(t.Observations)-maxObservations)}
	page.Scores = firstN(t.Scores, maxObservations)
	if !t.Time.IsZero() {
		page.About = append([]string{t.Time.UTC().Format("2006-01-02 15:04:05 UTC")}, t.About...)
	}
	left, depths := maxTraceText, depthsOf(t.Observations)
	for _, o := range firstN(t.Observations, maxObservations) {
		s := step{Observation: o, Depth: depths[o.ID]}
		for _, t := range o.Texts { // as long as bytes are left
			if !slices.Contains([]string{"", "null", "{}"}, strings.TrimSpace(t[1])) {
				s.Parts = append(s.Parts, message{t[0], newExcerpt(t[1], min(maxTracePart, max(minText, left)))})
				left -= len(t[1])
			}
		}
		if !o.Start.IsZero() && !o.End.Before(o.Start) {
			s.Took = report.Milliseconds(float64(o.End.Sub(o.Start).Microseconds()) / 1000)
		}
		page.Steps = append(page.Steps, s)
	}
	return writeStatic(w, clipName(t.Name), "trace", page)
}

// step is an observation on the page.
type step struct {
	Observation
	Took  string
	Depth int
	Parts []message
}

// maxDepth is the largest depth that is shown.
const maxDepth = 6

// depthsOf returns the number of ancestors of each observation, at most maxDepth.
func depthsOf(list []Observation) map[string]int {
	parents, depths := map[string]string{}, map[string]int{}
	for _, o := range list {
		parents[o.ID] = o.Parent
	}
	for _, o := range list {
		for id, ok := parents[o.ID], true; ok && id != "" && depths[o.ID] < maxDepth; { // ends because of maxDepth if parents form a cycle
			if _, ok = parents[id]; ok {
				depths[o.ID]++
				id = parents[id]
			}
		}
	}
	return depths
}

// Audit writes the page of an audit: every finding with its places in the document, what each
// system says, and what would change. The reader accepts or rejects findings by mouse or
// keyboard and saves the decisions as a file for "experiment audit --decisions"; the browser
// stores them by dataset, finding and gold. The error is that of w.
func Audit(w io.Writer, a report.Audit) error {
	out := newWriter(w, auditScripts, Config{})
	out.titles = []string{"Audit of " + clipName(a.Dataset)}
	page := struct {
		report.Audit
		Shown []finding
		Moves *table
	}{Audit: a, Moves: newTable("moves", a.Moves(), maxLines)}
	type key struct { // fields in the order of the saved file
		Item    string `json:"item"`
		Finding string `json:"finding"`
		Gold    string `json:"gold"`
	}
	keys := []key{}
	for _, d := range a.Findings {
		keys = append(keys, key{d.Item, d.Key, d.Gold})
		page.Shown = append(page.Shown, newFinding(d))
	}
	return out.writeParts(out.head, func() error { return out.ExecuteTemplate(out, "audit", page) }, func() error {
		return out.writeScript(map[string]any{"dataset": a.Dataset, "findings": keys})
	})
}

// finding is a finding on the page.
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
