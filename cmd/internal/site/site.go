// Package site serves the pages of a folder's runs: the list, a run, a
// comparison, a trace. It decides what may be asked for, by whom and how much
// at once; what a page shows is written by the functions of its Config. It only
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
)

// NotFoundError says in a sentence that there is nothing at an address; the
// functions of Config return it for what is not there.
type NotFoundError string

func (e NotFoundError) Error() string { return string(e) }

// Config has what writes the pages; all of it is needed. Each function writes a
// whole HTML page, and is called from several goroutines.
type Config struct {
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
	// AtOnce is how many pages are written at the same time; more wait. 0 is 2.
	AtOnce int
}

// New returns the handler of the pages.
func New(cfg Config) (http.Handler, error) {
	if cfg.List == nil || cfg.Run == nil || cfg.Compare == nil || cfg.Trace == nil || cfg.Find == nil {
		return nil, errors.New("the pages of the runs need all of their functions")
	}
	if cfg.AtOnce <= 0 {
		cfg.AtOnce = 2
	}
	s := &site{Config: cfg, turns: make(chan struct{}, cfg.AtOnce)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { s.write(w, r, cfg.List) })
	mux.HandleFunc("GET /runs/{path...}", s.run)
	mux.HandleFunc("GET /compare", s.compare)
	mux.HandleFunc("GET /traces/{id}", s.trace)
	mux.HandleFunc("GET /project/{project}/traces/{id}", s.trace)
	mux.HandleFunc("GET /project/{project}/datasets/{dataset}/runs/{id}", s.found)
	mux.HandleFunc("GET /project/{project}/datasets/{dataset}/compare", s.foundAll)
	mux.HandleFunc("GET /project/", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, NotFoundError("there is no page "+r.URL.Path))
	})
	return guarded(mux), nil
}

// RunAddress is the address of the page of a run.
func RunAddress(path string) string { return "/runs/" + (&url.URL{Path: path}).EscapedPath() }

// TraceAddress is the address of the page of a trace.
func TraceAddress(id string) string { return "/traces/" + url.PathEscape(id) }

type site struct {
	Config
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
	http.Redirect(w, r, RunAddress(path), http.StatusFound)
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
