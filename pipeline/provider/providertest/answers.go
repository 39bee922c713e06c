package providertest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

func answers(t *testing.T, open Open, wire Wire) {
	text := "{\"entities\": []}\n日本 <b>&\u2028"
	cases := map[string]struct {
		body, text string
		finish     pipeline.Finish
	}{
		"complete":              {wire.Answer(text), text, pipeline.FinishStop},
		"cut":                   {wire.Cut(text), text, pipeline.FinishLength},
		"cut before any letter": {wire.Cut(""), "", pipeline.FinishLength},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, c.body))
			got, err := open(t, s.URL).Generate(t.Context(), request("hello"))
			if err != nil || got.Text != c.text || got.Finish != c.finish || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
			s.once(t)
		})
	}
	for name, body := range wire.Refused {
		t.Run("refused/"+name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, body))
			got, err := open(t, s.URL).Generate(t.Context(), request("hello"))
			if err != nil || got.Finish != pipeline.FinishRefused || got.Text == "" || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
			s.once(t)
		})
	}
	for name, body := range wire.Empty {
		t.Run("empty/"+name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, body))
			got, err := open(t, s.URL).Generate(t.Context(), request("hello"))
			failed := failure(t, err)
			if failed.Failure.Class != outcome.InvalidOutput || got.Text != "" || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
			s.once(t)
		})
	}
}

func parameters(t *testing.T, open Open, wire Wire) {
	for name, c := range map[string]struct {
		parameters pipeline.Parameters
		wantT      string // "" is absent
		wantP      string
	}{
		"zero is sent":             {pipeline.Parameters{Temperature: new(0.0), TopP: new(0.0)}, "0", "0"},
		"nil is not sent":          {pipeline.Parameters{}, "", ""},
		"every digit is sent":      {pipeline.Parameters{Temperature: new(0.2), TopP: new(0.123456789012)}, "0.2", "0.123456789012"},
		"one is sent":              {pipeline.Parameters{Temperature: new(1.0), TopP: new(1.0)}, "1", "1"},
		"one of the two, the zero": {pipeline.Parameters{TopP: new(0.0)}, "", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, wire.Answer("x")))
			req := request("hello")
			req.Parameters = c.parameters
			if _, err := open(t, s.URL).Generate(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			body := s.once(t)
			if got := at(t, body, wire.Temperature); got != c.wantT {
				t.Errorf("temperature is %q on the wire, want %q: %s", got, c.wantT, body)
			}
			if got := at(t, body, wire.TopP); got != c.wantP {
				t.Errorf("top_p is %q on the wire, want %q: %s", got, c.wantP, body)
			}
		})
	}
}

// at returns the JSON text at a way through objects, "" if there is none.
func at(t *testing.T, body []byte, way []string) string {
	t.Helper()
	for _, name := range way {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if body = object[name]; body == nil {
			return ""
		}
	}
	return string(body)
}

// unsupported: what no model can do is refused before anything is sent.
func unsupported(t *testing.T, open Open, wire Wire) {
	broken := request("hello")
	broken.Parameters.Temperature = new(math.NaN())
	for name, req := range map[string]pipeline.Request{"no messages": {}, "not a number": broken} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, wire.Answer("x")))
			_, err := open(t, s.URL).Generate(t.Context(), req)
			coded, ok := err.(interface{ ExitCode() int })
			if !ok || coded.ExitCode() != 64 || len(s.bodies) != 0 {
				t.Errorf("got %v after %d requests", err, len(s.bodies))
			}
		})
	}
}

// concurrent: answers do not get mixed up.
func concurrent(t *testing.T, open Open, wire Wire) {
	marker := regexp.MustCompile(`marker-\d+`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		reply(http.StatusOK, wire.Answer(string(marker.Find(body))))(w, r)
	}))
	t.Cleanup(s.Close)
	model := open(t, s.URL)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			want := fmt.Sprintf("marker-%d", i)
			got, err := model.Generate(t.Context(), request(want))
			if err != nil || got.Text != want || got.Attempts != 1 {
				t.Errorf("%s: got %+v, %v", want, got, err)
			}
		})
	}
	group.Wait()
}
