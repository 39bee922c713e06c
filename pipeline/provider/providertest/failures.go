package providertest

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// failure returns the ModelError of an error, and fails the test where there is
// none, where it is not found by its class, or shows the key.
func failure(t *testing.T, err error) *pipeline.ModelError {
	t.Helper()
	var failed *pipeline.ModelError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a ModelError", err)
	}
	found := outcome.FailureOf(err, outcome.Item)
	switch {
	case found.Class != failed.Failure.Class || found.Class == outcome.OK || found.Class == outcome.Item:
		t.Errorf("the class is %q, found is %q", failed.Failure.Class, found.Class)
	case strings.Contains(err.Error(), Key):
		t.Errorf("the key shows: %v", err)
	case failed.Failure.Message == "" || len(failed.Failure.Message) > outcome.MaxMessage || !utf8.ValidString(failed.Failure.Message):
		t.Errorf("the message has %d bytes or is not valid: %.300q", len(failed.Failure.Message), failed.Failure.Message)
	case failed.RetryAfter > 0 && !failed.Retry:
		t.Errorf("a pause is asked for and no repetition: %+v", failed)
	}
	return failed
}

func statuses(t *testing.T, open Open, wire Wire) {
	const html = "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"
	said := wire.Error("something is wrong with " + Key + ", said the server")
	for name, c := range map[string]struct {
		status  int
		body    string
		headers []string
		class   outcome.Class
		retry   bool
		after   time.Duration
		want    string // in the message
	}{
		"400 with the reason":     {400, said, nil, outcome.Provider, false, 0, "400: something is wrong with ***, said the server"},
		"401":                     {401, said, nil, outcome.Provider, false, 0, "check " + wire.KeyVariable},
		"403":                     {403, said, nil, outcome.Provider, false, 0, "check " + wire.KeyVariable},
		"404":                     {404, said, nil, outcome.Provider, false, 0, "has the model"},
		"404 of another server":   {404, "404 page not found\n", []string{"Content-Type", "text/plain"}, outcome.Provider, false, 0, "404 page not found"},
		"413":                     {413, said, nil, outcome.Provider, false, 0, "413: something"},
		"429":                     {429, said, nil, outcome.RateLimited, true, 0, "429: something"},
		"429 with seconds":        {429, said, []string{"Retry-After", "7"}, outcome.RateLimited, true, 7 * time.Second, "wait 7s"},
		"429 with a fraction":     {429, said, []string{"Retry-After", "0.5"}, outcome.RateLimited, true, 500 * time.Millisecond, "wait 500ms"},
		"429 with a date":         {429, said, []string{"Date", "Wed, 04 Mar 2026 05:06:07 GMT", "Retry-After", "Wed, 04 Mar 2026 05:08:07 GMT"}, outcome.RateLimited, true, 2 * time.Minute, "wait 2m0s"},
		"429 with a past date":    {429, said, []string{"Retry-After", "Wed, 04 Mar 2026 05:00:00 GMT"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with nonsense":       {429, said, []string{"Retry-After", "soon"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with minus":          {429, said, []string{"Retry-After", "-5"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with a century":      {429, said, []string{"Retry-After", "3e9"}, outcome.RateLimited, true, 24 * time.Hour, "wait 24h"},
		"429 as a page":           {429, html, []string{"Content-Type", "text/html"}, outcome.RateLimited, true, 0, "a web page"},
		"500 as text":             {500, "oops " + Key, []string{"Content-Type", "text/plain"}, outcome.Provider, true, 0, "500: oops ***"},
		"500 as JSON":             {500, said, nil, outcome.Provider, true, 0, "500: something"},
		"500 as other JSON":       {500, `{"error":["a",{"b":1}]}`, nil, outcome.Provider, true, 0, `500: ["a",{"b":1}]`},
		"502 as a page":           {502, html, nil, outcome.Provider, true, 0, "a web page"},
		"503":                     {503, said, []string{"Retry-After", "3"}, outcome.Provider, true, 3 * time.Second, "503: something"},
		"503 without a body":      {503, "", nil, outcome.Provider, true, 0, "503: the answer says nothing more"},
		"501 stays":               {501, said, nil, outcome.Provider, false, 0, "501: something"},
		"308 is not followed":     {308, "", []string{"Location", "/elsewhere"}, outcome.Provider, false, 0, `redirects to "/elsewhere"`},
		"302 is not followed":     {302, wire.Answer("x"), []string{"Location", "/elsewhere"}, outcome.Provider, false, 0, `redirects to "/elsewhere"`},
		"error with status 200":   {200, said, nil, outcome.Provider, false, 0, "something is wrong"},
		"invalid letters in text": {500, "bad \xff\xfe", nil, outcome.Provider, true, 0, "500: bad \uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(c.status, c.body, c.headers...))
			got, err := open(t, s.URL).Generate(t.Context(), request("hello"))
			failed := failure(t, err)
			if failed.Failure.Class != c.class || failed.Status != c.status || failed.Retry != c.retry || failed.RetryAfter != c.after {
				t.Errorf("got %+v", failed)
			}
			if !strings.Contains(failed.Failure.Message, c.want) {
				t.Errorf("got %q, want %q in it", failed.Failure.Message, c.want)
			}
			if got.Attempts != 1 || got.Text != "" {
				t.Errorf("got %+v", got)
			}
			s.once(t)
		})
	}
}

// longReasons: a server's page is no reason for a message of a megabyte, and
// the cut does not leave half a key.
func longReasons(t *testing.T, open Open, wire Wire) {
	for _, message := range []string{strings.Repeat("日", 1<<19), strings.Repeat("-"+Key, 1<<15), strings.Repeat(" ", 3<<10-10) + strings.Repeat(Key, 9)} {
		for _, body := range []string{wire.Error(message), message} {
			for _, status := range []int{200, 401, 429, 500} {
				s := serve(t, reply(status, body))
				_, err := open(t, s.URL).Generate(t.Context(), request("hello"))
				failed := failure(t, err)
				if strings.Contains(failed.Failure.Message, Key[:12]) {
					t.Errorf("%d: part of the key shows in %.100q…", status, failed.Failure.Message)
				}
				if status == 401 && !strings.Contains(failed.Failure.Message, wire.KeyVariable) {
					t.Errorf("the advice was cut off: …%s", failed.Failure.Message[len(failed.Failure.Message)-50:])
				}
			}
		}
	}
}
