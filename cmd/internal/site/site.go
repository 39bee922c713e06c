// Package site serves the pages of a folder's runs: the list, a run, a
// comparison, a trace. It decides what may be asked for, by whom and how much
// at once. It only
// reads, and asks nobody for a key: whoever serves it listens on the loopback
// address and has checked the Host header.
//
// A request goes through these steps:
//
//  1. anything but GET and HEAD is refused, and so is what another web site
//     loads as a part of itself;
//  2. the address is turned into a page; addresses of Langfuse's web interface
//     lead to the page that shows the same;
//  3. the page is written as a stream. An error before the first byte is an
//     answer of its own, in plain text; a later one breaks the connection, so
//     that no browser takes half a page for the whole.
package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// notFound says in a sentence that there is nothing at an address; the functions of
// pages return it for what is not there.
type notFound string

func (e notFound) Error() string { return string(e) }

// pages is what writes them. Each function writes a whole HTML page, and is called
// from several goroutines.
type pages struct {
	// List writes the list of runs.
	List func(ctx context.Context, w io.Writer) error
	// Run writes the page of a run. The path is what a stranger asked for.
	Run func(ctx context.Context, w io.Writer, path string) error
	// Compare writes the comparison of runs, which are named as for Run.
	Compare func(ctx context.Context, w io.Writer, base string, candidates []string) error
	// Trace writes the page of a trace of the store.
	Trace func(ctx context.Context, w io.Writer, id string) error
	// Find returns the path of the run that has this id in the store.
	Find func(ctx context.Context, id string) (path string, err error)
	// AtOnce is how many pages are written at the same time; more wait.
	AtOnce int
}

// New returns the handler of the pages of this folder and of its Langfuse.
func New(l *connect.Langfuse) http.Handler {
	return serve(pages{List: listPage, Run: runPage, Compare: comparePage, Find: findByID, AtOnce: 2,
		Trace: func(ctx context.Context, w io.Writer, id string) error { return tracePage(ctx, w, l, id) }})
}

func serve(p pages) http.Handler {
	s := &site{pages: p, turns: make(chan struct{}, p.AtOnce)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.write(w, r, p.List) })
	mux.HandleFunc("GET /runs/{path...}", s.run)
	mux.HandleFunc("GET /compare", s.compare)
	mux.HandleFunc("GET /traces/{id}", s.trace)
	mux.HandleFunc("GET /project/{project}/traces/{id}", s.trace)
	mux.HandleFunc("GET /project/{project}/datasets/{dataset}/runs/{id}", s.found)
	mux.HandleFunc("GET /project/{project}/datasets/{dataset}/compare", s.foundAll)
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

type site struct {
	pages
	turns chan struct{}
}

func (s *site) run(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, func(ctx context.Context, page io.Writer) error { return s.Run(ctx, page, r.PathValue("path")) })
}

func (s *site) trace(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, func(ctx context.Context, page io.Writer) error { return s.Trace(ctx, page, r.PathValue("id")) })
}

// mostCandidates bounds what one request compares.
const mostCandidates = 20

func (s *site) compare(w http.ResponseWriter, r *http.Request) {
	base, candidates := r.URL.Query().Get("base"), []string{}
	for _, path := range r.URL.Query()["cand"] {
		if path != "" && path != base {
			candidates = append(candidates, path)
		}
	}
	switch {
	case base == "" || len(candidates) == 0:
		refuse(w, badRequest("choose a run as the base and another one as the candidate"))
	case len(candidates) > mostCandidates:
		refuse(w, badRequest(fmt.Sprintf("%d candidates are too many; at most %d are compared at once", len(candidates), mostCandidates)))
	default:
		s.write(w, r, func(ctx context.Context, page io.Writer) error { return s.Compare(ctx, page, base, candidates) })
	}
}

// found leads from an address of Langfuse to the run.
func (s *site) found(w http.ResponseWriter, r *http.Request) {
	path, err := s.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		refuse(w, err)
		return
	}
	http.Redirect(w, r, runAddress(path), http.StatusFound)
}

// foundAll leads from an address of Langfuse to the comparison of its runs.
func (s *site) foundAll(w http.ResponseWriter, r *http.Request) {
	query := url.Values{}
	for i, id := range r.URL.Query()["runs"] {
		path, err := s.Find(r.Context(), id)
		if err != nil {
			refuse(w, err)
			return
		}
		query.Add(map[bool]string{true: "base", false: "cand"}[i == 0], path)
		if i > mostCandidates {
			break
		}
	}
	http.Redirect(w, r, "/compare?"+query.Encode(), http.StatusFound)
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
			http.Error(w, "These pages are no part of another site.", http.StatusForbidden)
			return
		}
		if strings.Contains(r.URL.Path, "\x00") {
			refuse(w, badRequest("an address holds no zero byte"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// badRequest is an address that makes no sense.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// ExitCode is that of wrong usage.
func (badRequest) ExitCode() int { return cli.ExitUsage }

// write answers with a page, when it is its turn.
func (s *site) write(w http.ResponseWriter, r *http.Request, page func(context.Context, io.Writer) error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-r.Context().Done():
		return
	}
	out := &answer{to: w}
	err := page(r.Context(), out)
	switch {
	case err != nil && !out.begun:
		refuse(w, err)
	case err != nil:
		panic(http.ErrAbortHandler) // the page is cut off: so is the connection
	case !out.begun:
		out.begin()
	}
}

// answer sends the header with the first byte of a page.
type answer struct {
	to    http.ResponseWriter
	begun bool
}

func (a *answer) begin() {
	a.to.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.begun = true
}

func (a *answer) Write(p []byte) (int, error) {
	if !a.begun {
		a.begin()
	}
	return a.to.Write(p)
}

// refuse says in plain text why there is no page.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var coded interface{ ExitCode() int }
	var missing notFound
	switch {
	case errors.As(err, &missing):
		status = http.StatusNotFound
	case errors.As(err, &coded) && coded.ExitCode() == cli.ExitUsage:
		status = http.StatusBadRequest
	}
	text := textutil.Block(err.Error())
	if len(text) > 4<<10 {
		text = text[:4<<10]
	}
	http.Error(w, text, status)
}
