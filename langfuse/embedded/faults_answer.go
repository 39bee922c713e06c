package embedded

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// bufferBody reads a body and puts it back, so that it can be read again.
func bufferBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxSpansBody+1))
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	return body, nil
}

// fail answers in one of the bad ways, or cuts the connection.
func (f *faulty) fail(w http.ResponseWriter, r *http.Request, rt route, body []byte, dice *rand.Rand, next http.HandlerFunc) {
	ways := []func(){
		func() { writeJSON(w, http.StatusInternalServerError, object{"message": "Internal Server Error"}) },
		func() {
			(&fault{status: http.StatusServiceUnavailable, html: true, text: "<html><h1>503 Service Unavailable</h1></html>"}).write(w)
		},
		func() { f.tooMany(w, f.RetryAfter, limited{}) },
		func() { plain(http.StatusTooManyRequests, "429 - rate limit exceeded").write(w) },
		func() { panic(http.ErrAbortHandler) },
		func() { next(&held{}, r); panic(http.ErrAbortHandler) },
		func() { halfAnswer(w, r, next) },
	}
	if rt.pattern == "/api/public/ingestion" {
		ways = append(ways, func() { refuseSome(w, r, body, dice, next) }, func() { refuseSome(w, r, body, dice, next) })
	}
	ways[dice.IntN(len(ways))]()
}

// held is an answer that has not been sent.
type held struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header that may still be changed.
func (h *held) Header() http.Header {
	if h.header == nil {
		h.header = http.Header{}
	}
	return h.header
}

// WriteHeader keeps the first status.
func (h *held) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

// Write keeps a part of the body.
func (h *held) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(p)
}

// halfAnswer does the work and cuts the connection in the middle of the answer.
func halfAnswer(w http.ResponseWriter, r *http.Request, next http.HandlerFunc) {
	done := &held{}
	next(done, r)
	maps.Copy(w.Header(), done.header)
	w.Header().Set("Content-Length", strconv.Itoa(done.body.Len()))
	w.WriteHeader(done.status)
	_, _ = w.Write(done.body.Bytes()[:done.body.Len()/2])
	_ = http.NewResponseController(w).Flush() // the half arrives or it does not
	panic(http.ErrAbortHandler)
}

// refuseSome takes about half of the events of a batch out and answers for them
// with status 500; the others are stored.
func refuseSome(w http.ResponseWriter, r *http.Request, body []byte, dice *rand.Rand, next http.HandlerFunc) {
	var in map[string]json.RawMessage
	var events []json.RawMessage
	if json.Unmarshal(body, &in) != nil || json.Unmarshal(in["batch"], &events) != nil {
		next(w, r)
		return
	}
	kept, refused := []json.RawMessage{}, []object{}
	for _, raw := range events {
		var envelope struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(raw, &envelope) == nil && dice.IntN(2) == 0 {
			refused = append(refused, object{"id": envelope.ID, "status": http.StatusInternalServerError,
				"message": "Error processing events", "error": "Internal Server Error"})
			continue
		}
		kept = append(kept, raw)
	}
	smaller, err := json.Marshal(object{"batch": kept})
	if err != nil {
		next(w, r)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(smaller)), int64(len(smaller))
	done := &held{}
	next(done, r)
	var out struct {
		Successes []json.RawMessage `json:"successes"`
		Errors    []any             `json:"errors"`
	}
	if done.status != http.StatusMultiStatus || json.Unmarshal(done.body.Bytes(), &out) != nil {
		maps.Copy(w.Header(), done.header)
		w.WriteHeader(done.status)
		_, _ = w.Write(done.body.Bytes())
		return
	}
	for _, entry := range refused {
		out.Errors = append(out.Errors, entry)
	}
	writeJSON(w, http.StatusMultiStatus, object{"successes": out.Successes, "errors": out.Errors})
}

// limited is what a 429 says about the limit that was met.
type limited struct {
	limit int
	reset time.Time
}

// tooMany answers 429 as Langfuse Cloud does.
func (f *faulty) tooMany(w http.ResponseWriter, after time.Duration, about limited) {
	seconds := int(after / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	details := object{"retryAfterSeconds": seconds}
	if about.limit > 0 {
		w.Header().Set("X-RateLimit-Limit", strconv.Itoa(about.limit))
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", about.reset.UTC().Format("Mon Jan 02 2006 15:04:05 GMT+0000 (Coordinated Universal Time)"))
		details = object{"retryAfterSeconds": seconds, "limit": about.limit, "remaining": 0, "resetAt": iso(about.reset.UnixMilli())}
	}
	writeJSON(w, http.StatusTooManyRequests, object{"message": "Rate limit exceeded", "code": "rate_limited", "details": details})
}
