package langfuse

import (
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Invalid arguments are a *UsageError, and nothing is sent.
func TestInvalidArgumentsAreUsageErrors(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"id":"x","data":[],"meta":{}}`))
	})
	ctx, v4 := t.Context(), Capabilities{NewReads: true}
	item := DatasetItem{DatasetName: "d", ID: "i", Input: []byte(`{`)}
	page := DatasetItemsQuery{DatasetName: "d", Version: DatasetVersion{At: testVersion}, Limit: 101}
	for name, err := range map[string]error{
		"GetDataset, no name":            second(client.GetDataset(ctx, "")),
		"UpsertDataset, broken JSON":     second(client.UpsertDataset(ctx, DatasetUpsert{Name: "d", Metadata: []byte(`{`)})),
		"GetDatasetItem, no id":          second(client.GetDatasetItem(ctx, "")),
		"GetDatasetItem, dots":           second(client.GetDatasetItem(ctx, "..")),
		"UpsertDatasetItem, zero":        second(client.UpsertDatasetItem(ctx, DatasetItem{})),
		"UpsertDatasetItem, broken JSON": second(client.UpsertDatasetItem(ctx, item)),
		"ListDatasetItems, no version":   firstError(client.ListDatasetItems(ctx, DatasetItemsQuery{DatasetName: "d"})),
		"ListDatasetItems, a large page": firstError(client.ListDatasetItems(ctx, page)),
		"ListScores, a large page":       firstError(client.ListScores(ctx, ScoresQuery{Limit: 101})),
		"GetPrompt, label and version":   second(client.GetPrompt(ctx, PromptRef{Name: "p", Label: "l", Version: 1})),
		"SetPromptLabels, no version":    second(client.SetPromptLabels(ctx, "p", 0, nil)),
		"SetPromptLabels, no name":       second(client.SetPromptLabels(ctx, "", 1, nil)),
		"CreateDatasetRunItem, zero":     second(client.CreateDatasetRunItem(ctx, DatasetRunItemCreate{})),
		"RunID, zero":                    second(client.RunID(ctx, Server{}, RunRef{})),
		"ListRuns, no name":              firstError(client.ListRuns(ctx, ViewRuns, Dataset{})),
		"ListRuns, dots":                 firstError(client.ListRuns(ctx, ViewRuns, Dataset{Name: ".."})),
		"ExportSpans, zero":              client.ExportSpans(ctx, Scope{}, []Span{{}}),
		"CreateScore, zero":              client.CreateScore(ctx, ScoreCreate{}),
		"CreateScores, zero":             client.CreateScores(ctx, []ScoreCreate{{}})[0],
		"DeleteScore, no id":             client.DeleteScore(ctx, ""),
		"FindObservation, no id":         second(client.FindObservation(ctx, v4, "")),
		"FindObservation, v3":            second(client.FindObservation(ctx, Capabilities{}, "")),
		"GetTrace, no id":                second(client.GetTrace(ctx, v4, "", TraceParts{})),
		"GetTrace, v3":                   second(client.GetTrace(ctx, Capabilities{}, "", TraceParts{})),
		"ListQueueItems, no id":          firstError(client.ListQueueItems(ctx, "", "")),
		"QueueTraces, no id":             second(client.QueueTraces(ctx, "", []string{"t"})),
		"CreateComment, no text":         second(client.CreateComment(ctx, Comment{})),
	} {
		var usage *UsageError
		if !errors.As(err, &usage) || exitCode(err) != 64 {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
	for _, request := range record.seen() {
		t.Errorf("sent %s %s", request.method, request.uri)
	}
}

func second[T any](_ T, err error) error { return err }

func firstError[T any](list iter.Seq2[T, error]) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestNewRefusesNegativeNumbers(t *testing.T) {
	_, err := New(Config{
		PublicKey: testPublic, SecretKey: NewSecret(testSecret),
		MaxAttempts: -1, Timeout: -time.Second, MaxResponseBytes: -1,
	})
	var usage *UsageError
	if !errors.As(err, &usage) {
		t.Fatalf("%T %v", err, err)
	}
	for _, want := range []string{"MaxAttempts", "Timeout", "MaxResponseBytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in: %v", want, err)
		}
	}
}
