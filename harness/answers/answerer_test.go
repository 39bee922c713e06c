package answers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

func openSample(t *testing.T, name string) *answers.Document {
	t.Helper()
	doc, err := answers.OpenDocument(t.Context(), "sample/"+name+".pdf", pdf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestExtractive checks that the baseline finds sentences and rows of tables in both languages,
// with their page.
func TestExtractive(t *testing.T) {
	tests := []struct{ doc, question, answer string }{
		{"report", "Какой была чистая прибыль в 2023 году?", "Чистая прибыль, млн руб. — 2021 год: 288,1; 2022 год: 361,7; 2023 год: 476,5 (стр. 3)"},
		{"report", "Где застраховано имущество?", "Имущество застраховано в компании «Якорь Гарант» на 5 600 млн рублей. (стр. 12)"},
		{"manual", "What does fault code E14 mean?", "E14 — Meaning: Hydraulic oil too hot; Action: Let the crane idle for 15 minutes (стр. 7)"},
		{"manual", "Кто написал «Войну и мир»?", "В документе нет ответа на этот вопрос."},
	}
	for _, tt := range tests {
		doc := openSample(t, tt.doc)
		a, calls, err := answers.Extractive{Document: doc}.Answer(t.Context(), tt.question)
		if err != nil || a.Text != tt.answer || len(calls) != 1 {
			t.Errorf("%s: %v %q, want %q", tt.question, err, a.Text, tt.answer)
		}
	}
}

// modelFunc answers with a function.
type modelFunc func(pipeline.Request) (pipeline.Response, error)

func (m modelFunc) Generate(_ context.Context, req pipeline.Request) (pipeline.Response, error) {
	return m(req)
}

func TestModelAnswerer(t *testing.T) {
	var asked pipeline.Request
	answer := pipeline.Response{Text: " 476,5 млн рублей (стр. 3). ", Finish: pipeline.FinishStop, Usage: outcome.Usage{Input: 9, Output: 3}}
	asking := answers.ModelAnswerer{
		Document: openSample(t, "report"), Name: "m", Parameters: pipeline.Parameters{Temperature: new(0.0)},
		Prompt: answers.DefaultPrompt(), Passages: 6,
		Model: modelFunc(func(r pipeline.Request) (pipeline.Response, error) { asked = r; return answer, nil }),
	}
	a, calls, err := asking.Answer(t.Context(), "Какой была чистая прибыль в 2023 году? {{passages}}")
	if err != nil || a.Text != "476,5 млн рублей (стр. 3)." || len(a.Pages) != 1 || a.Pages[0] != 3 {
		t.Errorf("%v %+v", err, a)
	}
	user := asked.Messages[1].Content
	if !strings.Contains(user, "(стр. 3)\nКлючевые показатели") || !strings.Contains(user, "? {{passages}}") || asked.Parameters.Temperature == nil {
		t.Errorf("the model was asked %q", user)
	}
	if len(calls) != 2 || calls[0].Name != "retrieve" || calls[0].Warnings != nil || calls[1].Usage.Input != 9 || calls[1].Kind != "generation" {
		t.Errorf("calls %+v", calls)
	}
	for want, response := range map[string]pipeline.Response{
		"declined": {Text: "no", Finish: pipeline.FinishRefused}, "max-tokens": {Text: "5", Finish: pipeline.FinishLength}, "empty": {Text: " ", Finish: pipeline.FinishStop},
	} {
		answer = response
		_, calls, err := asking.Answer(t.Context(), "?")
		if len(calls[0].Warnings) != 1 || !strings.HasPrefix(calls[0].Warnings[0], "no passage was found") {
			t.Errorf("a question without passages has the warnings %q", calls[0].Warnings)
		}
		if f := outcome.FailureOf(err, outcome.OK); f.Class != outcome.InvalidOutput || !strings.Contains(f.Message, want) || calls[1].Error == "" {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestModelAnswerer_waitedAndAssumed checks that a call has the times of its last request and the
// assumed usage of abandoned requests, and no attempts if the answer comes from a cache.
func TestModelAnswerer_waitedAndAssumed(t *testing.T) {
	synctest.Test(t, checkWaitedAndAssumed)
}

func checkWaitedAndAssumed(t *testing.T) {
	at := time.Now() // the clock of synctest stands still
	answer := pipeline.Response{Text: "5 (стр. 1)", Finish: pipeline.FinishStop, Attempts: 2, Waited: time.Second, Assumed: outcome.Usage{Input: 7}}
	asking := answers.ModelAnswerer{
		Document: openSample(t, "report"), Name: "m", Prompt: answers.DefaultPrompt(), Passages: 6,
		Model: modelFunc(func(pipeline.Request) (pipeline.Response, error) { return answer, nil }),
	}
	_, calls, err := asking.Answer(t.Context(), "?")
	if err != nil {
		t.Fatal(err)
	}
	if c := calls[1]; c.Waited != time.Second || !c.Started.Equal(at.Add(time.Second)) || c.Attempts != 2 || c.Assumed.Input != 7 {
		t.Errorf("%+v", c)
	}
	answer = pipeline.Response{Text: "5 (стр. 1)", Finish: pipeline.FinishStop, Cached: true}
	if _, calls, err = asking.Answer(t.Context(), "?"); err != nil || !calls[1].Cached || calls[1].Attempts != 0 {
		t.Errorf("%v %+v", err, calls[1])
	}
}

func TestCheckPrompt(t *testing.T) {
	if err := answers.CheckPrompt(answers.DefaultPrompt()); err != nil {
		t.Error(err)
	}
	err := answers.CheckPrompt(pipeline.ParseText("{{question}} {{document_text}}"))
	for _, want := range []string{"{{document_text}}", "never shows {{passages}}"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestExternal checks that a failed request is sent again, and that an answer without a text fails
// the question.
func TestExternal(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // the server only notices that a client left once it has read the body
			t.Error(err)
		}
		n := requests.Add(1)
		switch r.URL.Path {
		case "/again":
			if n == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			fmt.Fprint(w, `{"answer":"42 (стр. 2)","pages":[2],"usage":{"input":5},"warnings":["slow"]}`)
		case "/refused":
			w.WriteHeader(http.StatusBadRequest)
		case "/flood":
			fmt.Fprintf(w, `{"answer":%q}`, strings.Repeat("x", 10<<20))
		case "/none":
			fmt.Fprint(w, `{"text":"42"}`)
		case "/number":
			fmt.Fprint(w, `{"answer":42}`)
		case "/hang":
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	doc := openSample(t, "manual")
	ask := func(path string) (answers.Answer, []outcome.Call, error) {
		requests.Store(0)
		asker, err := provider.NewExternal(provider.ExternalConfig{Target: server.URL + path, MaxAnswer: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer asker.Close()
		limit := time.Minute
		if path == "/hang" {
			limit = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return answers.External{Asker: asker, Document: doc, Pause: time.Millisecond}.Answer(ctx, "?")
	}
	a, calls, err := ask("/again")
	if err != nil || a.Text != "42 (стр. 2)" || len(a.Pages) != 1 || requests.Load() != 2 || len(calls) != 4 {
		t.Errorf("%v %+v, %d requests, calls %+v", err, a, requests.Load(), calls)
	}
	for path, want := range map[string]struct {
		class    outcome.Class
		requests int32
	}{
		"/refused": {outcome.Provider, 1}, "/flood": {outcome.InvalidOutput, 1}, "/none": {outcome.InvalidOutput, 1},
		"/number": {outcome.InvalidOutput, 1}, "/hang": {outcome.Timeout, 1},
	} {
		_, calls, err := ask(path)
		asked := requests.Load()
		if path == "/hang" {
			asked = max(asked, 1) // a busy machine may not have sent the request in time
		}
		if f := outcome.FailureOf(err, outcome.OK); f.Class != want.class || asked != want.requests || len(calls) == 0 {
			t.Errorf("%s: %v after %d requests", path, err, requests.Load())
		}
	}
}

// TestExternal_stopped checks that a question whose request would be sent again is left for the
// resumed run if the run is stopped.
func TestExternal_stopped(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(stop)
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer server.Close()
	asker, err := provider.NewExternal(provider.ExternalConfig{Target: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer asker.Close()
	_, calls, err := answers.External{Asker: asker, Document: openSample(t, "manual"), Pause: time.Hour}.Answer(limit.WithStop(t.Context(), stop), "?")
	if !errors.Is(err, limit.ErrStopped) || len(calls) == 0 {
		t.Errorf("%v, %d calls", err, len(calls))
	}
}

func TestOpenDocument_unreadable(t *testing.T) {
	for _, path := range []string{"sample/none.pdf", "sample/report.txt", "sample"} {
		_, err := answers.OpenDocument(t.Context(), path, pdf.Options{})
		if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
