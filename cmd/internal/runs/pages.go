package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// notFound says in a sentence that there is nothing at an address; the functions of
// pages return it for what is not there.
type notFound string

func (e notFound) Error() string { return string(e) }

// pageWriter writes the whole HTML page that a request asks for. It is called from several
// goroutines.
type pageWriter func(context.Context, io.Writer, *http.Request) error

// site is what is served.
type site struct {
	pages map[string]pageWriter // by the pattern of their address
	// find returns the path of the run that has this id in the store.
	find func(ctx context.Context, id string) (path string, err error)
	// turns has room for the pages that are written at the same time; more wait.
	turns chan struct{}
}

// Pages returns the handler of the pages of this folder and of its Langfuse: the
// list of runs, a run, a comparison, a trace, and what was asked for by the Run button of
// Langfuse, unless asked is nil. It only reads, and asks nobody for a key: whoever serves
// it listens on the loopback address and has checked the Host header.
//
// A request goes through these steps:
//
//  1. anything but GET and HEAD is refused, and so is what another web site
//     loads as a part of itself;
//  2. the address is turned into a page; addresses of Langfuse's web interface
//     lead to the page of the same run or trace, or else to the list;
//  3. the page is written as a stream. An error before the first byte is an
//     answer of its own, in plain text; a later one breaks the connection, so
//     that no browser takes half a page for the whole.
func Pages(l *settings.Langfuse, asked func() []html.AskedRun) http.Handler {
	list := func(ctx context.Context, w io.Writer, _ *http.Request) error { return listPage(ctx, w, asked != nil) }
	trace := func(ctx context.Context, w io.Writer, r *http.Request) error {
		return tracePage(ctx, w, l, r.PathValue("id"))
	}
	s := site{find: findByID, turns: make(chan struct{}, 2), pages: map[string]pageWriter{
		"GET /{$}": list, "GET /runs/{path...}": runPage, "GET /compare": comparePage,
		"GET /traces/{id}": trace, "GET /project/{project}/traces/{id}": trace,
	}}
	if asked != nil {
		s.pages["GET /trigger"] = func(ctx context.Context, w io.Writer, _ *http.Request) error {
			return askedPage(ctx, w, asked())
		}
	}
	return s.handler()
}

func (s site) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, write := range s.pages {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.write(w, r, write) })
	}
	mux.HandleFunc("GET /project/{project}/datasets/{dataset}/runs/{id}", s.found)
	mux.HandleFunc("GET /project/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, notFound("there is no page "+r.URL.Path))
	})
	return guarded(mux)
}

// runAddress is the address of the page of a run.
func runAddress(path string) string { return "/runs/" + (&url.URL{Path: path}).EscapedPath() }

// traceAddress is the address of the page of a trace.
func traceAddress(id string) string { return "/traces/" + url.PathEscape(id) }

// mostCandidates bounds what one request compares.
const mostCandidates = 20

// compared are the runs that a request has compared.
func compared(r *http.Request) (base string, candidates []string, err error) {
	base, candidates = r.URL.Query().Get("base"), r.URL.Query()["cand"]
	candidates = slices.DeleteFunc(candidates, func(path string) bool { return path == "" || path == base })
	switch {
	case base == "" || len(candidates) == 0:
		err = cli.Usage("choose a run as the base and another one as the candidate")
	case len(candidates) > mostCandidates:
		err = cli.Usage("%d candidates are too many; at most %d are compared at once", len(candidates), mostCandidates)
	}
	return base, candidates, err
}

// found leads from an address of Langfuse to the run.
func (s site) found(w http.ResponseWriter, r *http.Request) {
	path, err := s.find(r.Context(), r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	http.Redirect(w, r, runAddress(path), http.StatusFound)
}

// guarded lets through what reads, and is not a part of another web site: a
// page there could otherwise keep this machine busy.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "frame-ancestors 'none'; object-src 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if from := r.Header.Get("Sec-Fetch-Site"); (from == "cross-site" || from == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "These pages are not part of another site.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// write answers with a page, when it is its turn.
func (s site) write(w http.ResponseWriter, r *http.Request, page pageWriter) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	out := &answer{to: w}
	if err := page(r.Context(), out, r); err != nil && out.begun {
		panic(http.ErrAbortHandler) // the page is cut off: so is the connection
	} else if err != nil {
		refuse(w, err)
	}
}

// answer knows whether anything of a page was written.
type answer struct {
	to    io.Writer
	begun bool
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	return a.to.Write(p)
}

// refuse says in plain text why there is no page.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.As(err, new(notFound)) {
		status = http.StatusNotFound
	} else if cli.ExitCode(err) == cli.ExitUsage {
		status = http.StatusBadRequest
	}
	http.Error(w, textutil.Cut(textutil.Block(err.Error()), 4<<10), status)
}

// runsFolder is where the runs of this folder lie; the addresses of pages are
// the paths below it.
func runsFolder() string { return filepath.Join(settings.Folder, "runs") }

// pagePath is the path of a run file below the folder of runs.
func pagePath(file string) string {
	path, _ := filepath.Rel(runsFolder(), file) // both are relative
	return filepath.ToSlash(path)
}

// openPath opens the run that an address names. It never leads out of the
// folder of runs.
func openPath(path string) (*runstore.Reader, error) {
	none := notFound(fmt.Sprintf("there is no run %q", path))
	if !fs.ValidPath(path) || !filepath.IsLocal(filepath.FromSlash(path)) || filepath.Ext(path) != runstore.Extension {
		return nil, none
	}
	root, err := os.OpenRoot(runsFolder())
	if err != nil {
		return nil, none
	}
	info, err := root.Stat(filepath.FromSlash(path)) // a link that leads outside is an error
	if err = errors.Join(err, root.Close()); err != nil || !info.Mode().IsRegular() {
		return nil, none
	}
	return runstore.Load(filepath.Join(runsFolder(), filepath.FromSlash(path)))
}

// listPage writes the list of runs, the newest first, with a link to what was asked for.
func listPage(ctx context.Context, w io.Writer, asked bool) error {
	listed, err := Rows(ctx)
	if err != nil {
		return err
	}
	var problems []string
	var rows []html.RunLink
	for _, l := range listed {
		if l.Err != nil {
			problems = append(problems, l.Err.Error())
			continue
		}
		path := pagePath(l.Path)
		rows = append(rows, html.RunLink{RunRow: l.Row, Path: path, Address: runAddress(path)})
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	link := map[bool]string{true: "/trigger"}[asked]
	return html.RunList(w, "Runs in "+folder, rows, link, problems)
}

// askedPage writes what was asked for, with links to the runs that are there.
func askedPage(ctx context.Context, w io.Writer, asked []html.AskedRun) error {
	listed, err := Rows(ctx)
	if err != nil {
		return err
	}
	addresses := map[[2]string]string{}
	for _, l := range listed {
		if l.Err == nil {
			addresses[[2]string{l.Row.Dataset, l.Row.Name}] = runAddress(pagePath(l.Path))
		}
	}
	for i, a := range asked {
		asked[i].Address = addresses[[2]string{a.Dataset, a.Run}]
	}
	return html.WriteAsked(w, asked, "/")
}

// runPage writes the page of one run, the same as experiment report.
func runPage(ctx context.Context, w io.Writer, r *http.Request) (err error) {
	run, err := openPath(r.PathValue("path"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	whole, err := Whole(ctx, run, true)
	if err != nil {
		return err
	}
	header, err := run.Header(ctx)
	if err != nil {
		return err
	}
	return html.Write(w, []report.Run{whole}, html.Config{Home: "/", Trace: func(_ int, o outcome.Outcome) string {
		return traceAddress(tracking.TraceID(header, o))
	}})
}

// comparePage writes the comparison of runs as experiment compare makes it
// without flags.
func comparePage(ctx context.Context, w io.Writer, r *http.Request) (err error) {
	base, candidates, err := compared(r)
	if err != nil {
		return err
	}
	var sources []compare.Source
	var headers []outcome.Header
	cfg := html.Config{Home: "/"}
	for _, path := range append([]string{base}, candidates...) {
		run, opening := openPath(path)
		if opening != nil {
			return opening
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		header, reading := run.Header(ctx)
		if reading != nil {
			return reading
		}
		sources, headers = append(sources, Source{Reader: run}), append(headers, header)
		cfg.Links = append(cfg.Links, runAddress(path))
	}
	result, err := Comparison().Compare(ctx, sources[0], sources[1:]...)
	if err != nil {
		return err
	}
	cfg.Trace = func(run int, o outcome.Outcome) string { return traceAddress(tracking.TraceID(headers[run], o)) }
	return comparisonPage(ctx, w, result, sources, cfg)
}

// findByID returns the path of the run that Langfuse knows by this id.
func findByID(ctx context.Context, id string) (string, error) {
	entries, err := List(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Err != nil {
			continue // the list names it
		}
		if found, err := hasID(ctx, e, id); err != nil || found {
			return pagePath(e.Path), err
		}
	}
	return "", notFound(fmt.Sprintf("no run of this folder has the id %q", id))
}

func hasID(ctx context.Context, e runstore.Entry, id string) (found bool, err error) {
	run, err := runstore.Load(e.Path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	for trial := 1; trial <= max(1, e.Header.Trials) && !found && err == nil; trial++ {
		var x runstore.Experiment
		x, found, err = run.Experiment(ctx, trial)
		found = found && x.ID == id
	}
	return found, err
}

// tracePage writes a trace of the embedded Langfuse, which is asked through its
// API as any other.
func tracePage(ctx context.Context, w io.Writer, l *settings.Langfuse, id string) error {
	trace, err := l.Client.GetTrace(ctx, l.Server.Capabilities, id, langfuse.TraceParts{IO: true, Metadata: true})
	if errors.Is(err, langfuse.ErrNotFound) {
		return notFound(fmt.Sprintf("there is no trace %q in the embedded Langfuse of this folder; traces that were sent to another server are there", id))
	}
	if err != nil {
		return err
	}
	page := html.Trace{ID: trace.ID, Name: trace.Name, Time: trace.Time}
	for _, fact := range [][2]string{{"environment ", trace.Environment}, {"user ", trace.UserID}, {"session ", trace.SessionID}, {"release ", trace.Release}} {
		if fact[1] != "" {
			page.About = append(page.About, fact[0]+fact[1])
		}
	}
	page.About = append(page.About, trace.Tags...)
	names := map[string]string{}
	for _, o := range trace.Observations {
		names[o.ID] = o.Name
		page.Observations = append(page.Observations, shownObservation(o))
	}
	for score, err := range l.Client.ReadScores(ctx, l.Server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{id}}) {
		if err != nil {
			return err
		}
		page.Scores = append(page.Scores, html.TraceScore{Name: score.Name, Value: valueText(score), Comment: score.Comment, On: names[score.Subject.ID]})
	}
	slices.SortStableFunc(page.Scores, func(a, b html.TraceScore) int { return strings.Compare(a.Name, b.Name) })
	return html.WriteTrace(w, page, "/")
}

func valueText(s langfuse.Score) string {
	if n, ok := s.Value.Number(); ok {
		return strconv.FormatFloat(n, 'g', 6, 64)
	}
	return s.Value.String()
}

func shownObservation(o langfuse.Observation) html.Observation {
	out := html.Observation{ID: o.ID, Parent: o.ParentID, Name: o.Name, Type: strings.ToLower(o.Type), Level: o.Level, Status: o.StatusMessage,
		Start: o.StartTime, End: o.EndTime, Texts: [][2]string{{"Input", report.Indented(o.Input)}, {"Output", report.Indented(o.Output)},
			{"Parameters", report.Indented(o.ModelParameters)}, {"Metadata", report.Indented(o.Metadata)}}}
	if model := o.ModelName(); model != "" {
		out.Facts = append(out.Facts, model)
	}
	if o.PromptName != "" {
		out.Facts = append(out.Facts, fmt.Sprintf("prompt %s@%v", o.PromptName, o.PromptVersion))
	}
	for _, kind := range slices.Sorted(maps.Keys(o.UsageDetails)) {
		out.Facts = append(out.Facts, fmt.Sprintf("%s %s tokens", report.Count(int64(o.UsageDetails[kind])), kind))
	}
	if o.TotalCost > 0 {
		out.Facts = append(out.Facts, report.Dollars(float64(o.TotalCost)))
	}
	return out
}
