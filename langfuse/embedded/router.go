package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// object is a JSON object on its way out.
type object = map[string]any

// call is one request on its way through a handler.
type call struct {
	r     *http.Request
	w     http.ResponseWriter
	path  map[string]string // segments of the pattern's braces, decoded once
	query url.Values
}

// reply is what a handler answers. A nil body is an empty answer.
type reply struct {
	status int
	body   any
}

func ok(body any) (reply, error) {
	return reply{http.StatusOK, body}, nil
}

// serveHTTP counts the request and lets it fail where its turn has come.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.cfg.AllowAnyHost && !loopback(r.Host) {
		writeJSON(w, http.StatusForbidden, object{
			"message": "This server answers requests for loopback hosts only, not for " + clip(r.Host, 100)})
		return
	}
	if pages := s.pages.Load(); pages != nil && !strings.HasPrefix(r.URL.Path, "/api/") {
		(*pages).ServeHTTP(w, r)
		return
	}
	rt, path, err := s.match(r)
	s.meter.count(rt)
	serve := func(w http.ResponseWriter, r *http.Request) {
		rep, err := reply{}, err
		if err == nil {
			rep, err = s.answer(&call{r: r, w: w, path: path}, rt)
		}
		rep.write(w, err)
	}
	faults := s.faults.Load()
	if faults == nil {
		serve(w, r)
		return
	}
	faults.serve(w, r, rt, s.cfg.Now(), serve)
}

// write answers, or says what stood in the way.
func (rep reply) write(w http.ResponseWriter, err error) {
	var f *fault
	switch {
	case err == nil:
		writeJSON(w, rep.status, rep.body)
	case errors.As(err, &f):
		f.write(w)
	default:
		writeJSON(w, http.StatusInternalServerError, object{"message": "Internal Server Error", "error": err.Error()})
	}
}

func (s *Server) answer(c *call, rt route) (reply, error) {
	if err := s.authorise(c.r, rt); err != nil {
		return reply{}, err
	}
	if text, isOff := rt.off[s.cfg.Mode]; isOff {
		return reply{}, &fault{status: http.StatusNotFound, body: object{"message": text}}
	}
	var err error
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return reply{}, badQuery("", "The query is not URL-encoded: "+err.Error())
	}
	if err := s.settle(s.now()); err != nil {
		return reply{}, err
	}
	return rt.handle(s, c)
}

// match finds the row for a request. An encoded slash belongs to its segment.
func (s *Server) match(r *http.Request) (route, map[string]string, error) {
	given := strings.Split(strings.TrimSuffix(r.URL.EscapedPath(), "/"), "/")
	known := false
	for _, rt := range s.routes {
		path, fits := segments(rt.pattern, given)
		if !fits || s.cfg.missing(rt) || (rt.handle == nil && rt.off[s.cfg.Mode] == "") {
			continue
		}
		if rt.method == r.Method {
			return rt, path, nil
		}
		known = true
	}
	if known {
		return route{}, nil, &fault{status: http.StatusMethodNotAllowed,
			body: object{"message": "Method not allowed", "error": "MethodNotAllowedError"}}
	}
	return route{}, nil, &fault{status: http.StatusNotFound, html: true,
		text: "<!DOCTYPE html><html><head><title>404</title></head><body><h1>404</h1><p>This page could not be found.</p></body></html>"}
}

func segments(pattern string, given []string) (map[string]string, bool) {
	wanted := strings.Split(pattern, "/")
	if len(wanted) != len(given) {
		return nil, false
	}
	path := map[string]string{}
	for i, want := range wanted {
		if !strings.HasPrefix(want, "{") {
			if want != given[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(given[i])
		if err != nil || value == "" || given[i] == "." || given[i] == ".." {
			return nil, false
		}
		path[strings.Trim(want, "{}")] = value
	}
	return path, true
}

// loopback says whether a Host header names this machine, with or without port.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		http.Error(w, `{"message":"Internal Server Error"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	// A client that is gone by now cannot be told anything.
	_, _ = w.Write(text.Bytes())
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
