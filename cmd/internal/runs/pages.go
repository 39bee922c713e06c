package runs

import (
	"context"
	"errors"
	"fmt"
	"html/template"
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
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// notFound is the error of a page that does not exist, as a sentence for the user.
type notFound string

func (e notFound) Error() string { return string(e) }

// pageWriter writes the whole HTML page for a request. It must be safe for concurrent use.
type pageWriter func(context.Context, io.Writer, *http.Request) error

// site has the pages of the handler.
type site struct {
	pages map[string]pageWriter // by the pattern of their address
	// slots bounds the pages that are written at the same time; other requests wait.
	slots chan struct{}
}

// Pages returns the handler for the pages of this folder and of its Langfuse: the list of
// runs, a run, a comparison, a trace, and, unless asked is nil, the runs that the Run button
// of Langfuse asked for. It only reads and needs no key: the caller must listen on the
// loopback address and check the Host header.
//
// A request goes through these steps:
//
//  1. The handler refuses methods other than GET and HEAD, and requests of other web sites
//     that load a page as a part of themselves.
//  2. It finds the page of the address. Addresses of Langfuse's web interface lead to the page
//     of the same run or trace, or else to the list.
//  3. It writes the page as a stream. An error before the first byte is a response in plain
//     text. A later error breaks the connection, so that no browser shows half a page as if
//     it were whole.
func Pages(l *settings.Langfuse, asked func() []html.RequestedRun) http.Handler {
	list := func(ctx context.Context, w io.Writer, _ *http.Request) error { return listPage(ctx, w, asked != nil) }
	trace := func(ctx context.Context, w io.Writer, r *http.Request) error {
		return tracePage(ctx, w, l, r.PathValue("id"))
	}
	s := site{slots: make(chan struct{}, 2), pages: map[string]pageWriter{
		"GET /{$}": list, "GET /runs/{path...}": runPage, "GET /compare": comparePage,
		"GET /traces/{id}": trace, "GET /project/{project}/traces/{id}": trace,
		"GET /project/{project}/datasets/{dataset}/runs/{id}": runByIDPage,
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
	mux.HandleFunc("GET /project/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, notFound("there is no page "+r.URL.Path))
	})
	return readOnly(mux)
}

// runAddress returns the address of the page of a run.
func runAddress(path string) string { return "/runs/" + (&url.URL{Path: path}).EscapedPath() }

// traceAddress returns the address of the page of a trace.
func traceAddress(id string) string { return "/traces/" + url.PathEscape(id) }

// maxCandidates bounds the candidates of one comparison.
const maxCandidates = 20

// comparedPaths returns the paths of the runs that a request compares.
func comparedPaths(r *http.Request) (base string, candidates []string, err error) {
	base, candidates = r.URL.Query().Get("base"), r.URL.Query()["cand"]
	candidates = slices.DeleteFunc(candidates, func(path string) bool { return path == "" || path == base })
	switch {
	case base == "" || len(candidates) == 0:
		err = cli.Usage("choose a run as the base and another one as the candidate")
	case len(candidates) > maxCandidates:
		err = cli.Usage("%d candidates are too many; at most %d are compared at once", len(candidates), maxCandidates)
	}
	return base, candidates, err
}

// readOnly sets the security headers and refuses requests that load a page as a part of
// another web site, which could otherwise keep this machine busy.
func readOnly(next http.Handler) http.Handler {
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

// write waits for a slot and writes a page.
func (s site) write(w http.ResponseWriter, r *http.Request, page pageWriter) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	out := &trackingWriter{out: w}
	if err := page(r.Context(), out, r); err != nil && out.written {
		panic(http.ErrAbortHandler) // breaks the connection, since the page is incomplete
	} else if err != nil {
		writeError(w, err)
	}
}

// trackingWriter records whether anything was written.
type trackingWriter struct {
	out     io.Writer
	written bool
}

func (a *trackingWriter) Write(p []byte) (int, error) {
	a.written = true
	return a.out.Write(p)
}

// errorPage is a page for a status and an escaped text. It fits a phone.
const errorPage = `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%d</title>
<style>:root { color-scheme: light dark } body { font: 1rem/1.5 system-ui; margin: 2rem; overflow-wrap: anywhere; white-space: pre-wrap }</style>
<body><p>%s</p><p><a href="/">All runs</a></p></body></html>
`

// writeError writes an error as a page with its HTTP status.
func writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.As(err, new(notFound)) {
		status = http.StatusNotFound
	} else if cli.ExitCode(err) == cli.ExitUsage {
		status = http.StatusBadRequest
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	text := textutil.Cut(textutil.Block(err.Error()), 4<<10)
	_, _ = fmt.Fprintf(w, errorPage, status, template.HTMLEscapeString(text)) // an error means that nobody reads it
}

// runsFolder returns the folder of the run files. Page addresses are paths below it.
func runsFolder() string { return filepath.Join(settings.Folder, "runs") }

// pagePath returns the path of a run file below runsFolder.
func pagePath(file string) string {
	path, _ := filepath.Rel(runsFolder(), file) // both are relative
	return filepath.ToSlash(path)
}

// openPath opens the run that an address names. It opens no file outside runsFolder.
func openPath(path string) (*runstore.Reader, error) {
	missing := notFound(fmt.Sprintf("there is no run %q", path))
	if !fs.ValidPath(path) || !filepath.IsLocal(filepath.FromSlash(path)) || filepath.Ext(path) != runstore.Extension {
		return nil, missing
	}
	root, err := os.OpenRoot(runsFolder())
	if err != nil {
		return nil, missing
	}
	info, err := root.Stat(filepath.FromSlash(path)) // fails for a link to the outside
	if err = errors.Join(err, root.Close()); err != nil || !info.Mode().IsRegular() {
		return nil, missing
	}
	return runstore.Load(filepath.Join(runsFolder(), filepath.FromSlash(path)))
}

// listPage writes the list of runs, the newest first, with a link to askedPage if asked is
// set.
func listPage(ctx context.Context, w io.Writer, asked bool) error {
	rows, unreadable, err := Rows(ctx)
	if err != nil {
		return err
	}
	links := cli.Each(rows, func(row FileRow) html.RunLink {
		path := pagePath(row.Path)
		return html.RunLink{RunRow: row.RunRow, Path: path, Address: runAddress(path)}
	})
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	askedURL := map[bool]string{true: "/trigger"}[asked]
	return html.RunList(w, "Runs in "+folder, links, askedURL, cli.Each(unreadable, error.Error))
}

// askedPage writes the runs that the Run button asked for, with links to those that exist.
func askedPage(ctx context.Context, w io.Writer, asked []html.RequestedRun) error {
	rows, _, err := Rows(ctx)
	if err != nil {
		return err
	}
	addresses := map[[2]string]string{}
	for _, row := range rows {
		addresses[[2]string{row.Dataset, row.Name}] = runAddress(pagePath(row.Path))
	}
	for i, a := range asked {
		asked[i].Address = addresses[[2]string{a.Dataset, a.Run}]
	}
	return html.WriteRequests(w, asked)
}

// runPage writes the page of one run, which is that of experiment report.
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

// comparePage writes a comparison of runs, which is that of experiment compare without
// flags.
func comparePage(ctx context.Context, w io.Writer, r *http.Request) (err error) {
	base, candidates, err := comparedPaths(r)
	if err != nil {
		return err
	}
	var sources []compare.Source
	var headers []outcome.Header
	cfg := html.Config{Home: "/"}
	for _, path := range append([]string{base}, candidates...) {
		run, openErr := openPath(path)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		header, headerErr := run.Header(ctx)
		if headerErr != nil {
			return headerErr
		}
		sources, headers = append(sources, Source{RunFile: experiment.RunFile{Reader: run}}), append(headers, header)
		cfg.Links = append(cfg.Links, runAddress(path))
	}
	result, err := Comparison().Compare(ctx, sources[0], sources[1:]...)
	if err != nil {
		return err
	}
	cfg.Trace = func(run int, o outcome.Outcome) string { return traceAddress(tracking.TraceID(headers[run], o)) }
	return comparisonPage(ctx, w, result, sources, cfg)
}

// runByIDPage writes the page of the run that has an id in Langfuse.
func runByIDPage(ctx context.Context, w io.Writer, r *http.Request) error {
	entries, err := List(ctx)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	for _, e := range entries {
		if e.Err != nil {
			continue // the list shows the error
		}
		if found, err := hasID(ctx, e, id); err != nil {
			return err
		} else if found {
			r.SetPathValue("path", pagePath(e.Path))
			return runPage(ctx, w, r)
		}
	}
	return notFound(fmt.Sprintf("no run of this folder has the id %q: a run of another program is in the API only", id))
}

func hasID(ctx context.Context, e runstore.Entry, id string) (found bool, err error) {
	run, err := runstore.Load(e.Path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	list, err := run.Experiments(ctx)
	return slices.ContainsFunc(list, func(e runstore.Experiment) bool { return e.ID == id }), err
}

// tracePage writes a trace, which it reads through the API of the embedded Langfuse.
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
		page.Observations = append(page.Observations, observationView(o))
	}
	for score, err := range l.Client.ReadScores(ctx, l.Server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{id}}) {
		if err != nil {
			return err
		}
		page.Scores = append(page.Scores, html.TraceScore{Name: score.Name, Value: valueText(score), Comment: score.Comment, On: names[score.Subject.ID]})
	}
	slices.SortStableFunc(page.Scores, func(a, b html.TraceScore) int { return strings.Compare(a.Name, b.Name) })
	return html.WriteTrace(w, page)
}

func valueText(s langfuse.Score) string {
	if n, ok := s.Value.Number(); ok {
		return strconv.FormatFloat(n, 'g', 6, 64)
	}
	return s.Value.String()
}

func observationView(o langfuse.Observation) html.Observation {
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
