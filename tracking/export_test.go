package tracking

import (
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// RunScores returns what a run comes to, by the name of the score on the run.
var RunScores = runScores

// ScoreID returns the id that a score of an attempt has.
func ScoreID(run *runstore.Run, t *testing.T, item string, attempt int, name string) string {
	t.Helper()
	return identityOf(run, t, item, attempt).score(name)
}

// SpanID returns the id that a span of an attempt has.
func SpanID(run *runstore.Run, t *testing.T, item string, attempt, position int) string {
	t.Helper()
	return identityOf(run, t, item, attempt).span(position)
}

func identityOf(run *runstore.Run, t *testing.T, item string, attempt int) identity {
	t.Helper()
	header, err := run.Header(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return identify(header, outcome.Outcome{Item: item, Trial: 1, Attempt: attempt})
}

// HeaderFrom reads the metadata of a run.
func HeaderFrom(metadata map[string]string) outcome.Header {
	return headerFrom(langfuse.Run{Metadata: encode(metadata)}, outcome.Dataset{})
}
