package tracking

import (
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// RunScores returns the scores on the run itself, by name.
var RunScores = runScoreValues

// ScoreID returns the id of a score of an attempt.
func ScoreID(run *runstore.Run, t *testing.T, item string, attempt int, name string) string {
	t.Helper()
	return testIdentity(run, t, item, attempt).score(name)
}

// SpanID returns the id of a span of an attempt.
func SpanID(run *runstore.Run, t *testing.T, item string, attempt, position int) string {
	t.Helper()
	return testIdentity(run, t, item, attempt).span(position)
}

func testIdentity(run *runstore.Run, t *testing.T, item string, attempt int) identity {
	t.Helper()
	header, err := run.Header(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return identify(header, outcome.Outcome{Item: item, Trial: 1, Attempt: attempt})
}

// HeaderFrom returns the header that the metadata of a run describes.
func HeaderFrom(metadata map[string]string) outcome.Header {
	return headerFrom(langfuse.Run{Metadata: mustMarshal(metadata)}, outcome.Dataset{})
}
