package answers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/external"
)

// External asks a team's own system, a program or an address, by the protocol
// of docs/answers.md: a request is {"id", "question", "pdf",
// "pdf_sha256"}, an answer {"answer", "pages"?, …}. It is safe for concurrent
// use.
type External struct {
	Asker    *external.Extractor
	Document *Document
	// Pause is the time before the second try, doubled with each; 0 means half a
	// second. A longer Retry-After is kept, up to 30 s.
	Pause time.Duration
}

const (
	// tries is how often a question is asked that fails in a way which may pass:
	// a process that ended, 5xx, 429.
	tries = 3
	// longestPause bounds what a Retry-After can ask for.
	longestPause = 30 * time.Second
)

// Answer asks until there is an answer, the failure is one that stays, or it was
// asked three times. What hangs ends with ctx; where the run is stopped during a
// pause, the question is given up with limit.ErrStopped and asked when the run is
// resumed. What answers with more than the Asker takes, or with no "answer",
// fails with class invalid_output.
func (e External) Answer(ctx context.Context, question string) (Answer, []outcome.Call, error) {
	request := map[string]any{"question": question, "pdf": e.Document.Path, "pdf_sha256": e.Document.SHA256}
	pause := cmp.Or(e.Pause, 500*time.Millisecond)
	var all []outcome.Call
	for try := 1; ; try++ {
		fields, calls, err := e.Asker.Ask(ctx, request)
		all = append(all, calls...)
		if err == nil {
			answer, err := readAnswer(fields)
			return answer, all, err
		}
		var failed *pipeline.ModelError
		if try >= tries || !errors.As(err, &failed) || !failed.Retry || ctx.Err() != nil {
			return Answer{}, all, err
		}
		wait := time.NewTimer(max(pause, min(failed.RetryAfter, longestPause)))
		select {
		case <-wait.C:
		case <-limit.Stop(ctx):
			wait.Stop()
			return Answer{}, all, limit.ErrStopped
		case <-ctx.Done():
			wait.Stop()
			return Answer{}, all, err
		}
		pause *= 2
	}
}

func readAnswer(fields map[string]json.RawMessage) (Answer, error) {
	var a Answer
	raw, ok := fields["answer"]
	if !ok || string(raw) == "null" || json.Unmarshal(raw, &a.Text) != nil {
		return a, &outcome.Failure{Class: outcome.InvalidOutput, Message: `the reply has no text "answer"`}
	}
	if raw, ok := fields["pages"]; ok && json.Unmarshal(raw, &a.Pages) != nil {
		return a, &outcome.Failure{Class: outcome.InvalidOutput, Message: `the reply's "pages" is no list of numbers`}
	}
	return a, nil
}
