package providertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"extraction-experiment/outcome"
)

// brokenBodies: a good status over something that is no answer.
func brokenBodies(t *testing.T, open Open, wire Wire) {
	whole := wire.Answer("a text")
	for name, c := range map[string]struct{ body, kind, want string }{
		"nothing":       {"", "application/json", "is empty"},
		"text":          {"hello " + Key, "text/plain", "not the expected JSON"},
		"cut JSON":      {whole[:len(whole)/2], "application/json", "not the expected JSON"},
		"a page":        {"<html><body>Log in</body></html>", "text/html", "a web page"},
		"a stream":      {"data: " + whole + "\n\ndata: [DONE]\n\n", "text/event-stream", "not the expected JSON"},
		"a list":        {"[" + whole + "]", "application/json", "not the expected JSON"},
		"a number":      {"17", "application/json", "not the expected JSON"},
		"endless depth": {strings.Repeat("[", 1<<20), "application/json", "not the expected JSON"},
		"deep members":  {strings.Repeat(`{"choices":`, 1<<16) + strings.Repeat(`{"candidates":`, 1<<16), "application/json", "not the expected JSON"},
		"zero bytes":    {strings.Repeat("\x00", 1000), "application/json", "not the expected JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, c.body, "Content-Type", c.kind))
			_, err := open(t, s.URL).Generate(t.Context(), request("hello"))
			failed := failure(t, err)
			if failed.Failure.Class != outcome.Provider || failed.Status != 200 || !strings.Contains(failed.Failure.Message, c.want) {
				t.Errorf("got %+v", failed)
			}
			s.once(t)
		})
	}
}

func brokenConnections(t *testing.T, open Open, wire Wire) {
	whole := wire.Answer("a text")
	t.Run("in the middle of the body", func(t *testing.T) {
		for _, status := range []int{200, 500} {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, whole[:len(whole)/2])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			_, err := open(t, s.URL).Generate(t.Context(), request("hello"))
			failed := failure(t, err)
			if failed.Failure.Class != outcome.Provider || !failed.Retry || failed.Status != status || !strings.Contains(failed.Failure.Message, "broke") {
				t.Errorf("got %+v", failed)
			}
			s.once(t)
		}
	})
	t.Run("before the answer", func(t *testing.T) {
		s := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, err := open(t, s.URL).Generate(t.Context(), request("hello"))
		if failed := failure(t, err); failed.Failure.Class != outcome.Provider || !failed.Retry || failed.Status != 0 {
			t.Errorf("got %+v", failed)
		}
		s.once(t)
	})
	t.Run("nobody listens", func(t *testing.T) {
		s := serve(t, reply(http.StatusOK, whole))
		s.Close()
		_, err := open(t, s.URL).Generate(t.Context(), request("hello"))
		failed := failure(t, err)
		if failed.Failure.Class != outcome.Provider || !failed.Retry || !strings.Contains(failed.Failure.Message, s.URL) {
			t.Errorf("got %+v", failed)
		}
	})
}

// stopped: the context ends the call, and its error is in the chain.
func stopped(t *testing.T, open Open, wire Wire) {
	whole := wire.Answer("a text")
	for name, begin := range map[string]string{"before the answer": "", "within the body": whole[:len(whole)/2]} {
		arrived := make(chan struct{}, 1)
		hang := func(w http.ResponseWriter, r *http.Request) {
			if begin != "" {
				_, _ = io.WriteString(w, begin)
				_ = http.NewResponseController(w).Flush()
			}
			arrived <- struct{}{}
			<-r.Context().Done()
		}
		t.Run("cancelled/"+name, func(t *testing.T) {
			s := serve(t, hang)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-arrived
				cancel()
			}()
			_, err := open(t, s.URL).Generate(ctx, request("hello"))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			s.once(t)
		})
		t.Run("too late/"+name, func(t *testing.T) {
			s := serve(t, hang)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			got, err := open(t, s.URL).Generate(ctx, request("hello"))
			if !errors.Is(err, context.DeadlineExceeded) || outcome.FailureOf(err, outcome.Provider).Class != outcome.Timeout {
				t.Errorf("got %v", err)
			}
			if got.Attempts != 1 {
				t.Errorf("got %+v", got)
			}
			s.once(t)
		})
	}
	t.Run("before it began", func(t *testing.T) {
		s := serve(t, reply(http.StatusOK, whole))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := open(t, s.URL).Generate(ctx, request("hello")); !errors.Is(err, context.Canceled) || len(s.bodies) != 0 {
			t.Errorf("got %v after %d requests", err, len(s.bodies))
		}
	})
}
