package langfuse

import (
	"context"
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
	v4 := Capabilities{NewReads: true}
	version := DatasetVersion{At: testVersion}
	type calls = map[string]func(ctx context.Context) error
	for name, call := range (calls{
		"GetDataset, no name": func(ctx context.Context) error { return second(client.GetDataset(ctx, "")) },
		"UpsertDataset, broken JSON": func(ctx context.Context) error {
			return second(client.UpsertDataset(ctx, DatasetUpsert{Name: "d", Metadata: []byte(`{`)}))
		},
		"GetDatasetItem, no id":   func(ctx context.Context) error { return second(client.GetDatasetItem(ctx, "")) },
		"GetDatasetItem, dots":    func(ctx context.Context) error { return second(client.GetDatasetItem(ctx, "..")) },
		"UpsertDatasetItem, zero": func(ctx context.Context) error { return second(client.UpsertDatasetItem(ctx, DatasetItem{})) },
		"UpsertDatasetItem, broken JSON": func(ctx context.Context) error {
			return second(client.UpsertDatasetItem(ctx, DatasetItem{DatasetName: "d", ID: "i", Input: []byte(`{`)}))
		},
		"ListDatasetItems, no version": func(ctx context.Context) error {
			return firstError(client.ListDatasetItems(ctx, DatasetItemsQuery{DatasetName: "d"}))
		},
		"ListDatasetItems, a large page": func(ctx context.Context) error {
			return firstError(client.ListDatasetItems(ctx, DatasetItemsQuery{DatasetName: "d", Version: version, Limit: 101}))
		},
		"ListScores, a large page": func(ctx context.Context) error { return firstError(client.ListScores(ctx, ScoresQuery{Limit: 101})) },
		"GetPrompt, label and version": func(ctx context.Context) error {
			return second(client.GetPrompt(ctx, PromptRef{Name: "p", Label: "l", Version: 1}))
		},
		"SetPromptLabels, no version": func(ctx context.Context) error { return second(client.SetPromptLabels(ctx, "p", 0, nil)) },
		"SetPromptLabels, no name":    func(ctx context.Context) error { return second(client.SetPromptLabels(ctx, "", 1, nil)) },
		"CreateDatasetRunItem, zero": func(ctx context.Context) error {
			return second(client.CreateDatasetRunItem(ctx, DatasetRunItemCreate{}))
		},
		"RunID, zero":       func(ctx context.Context) error { return second(client.RunID(ctx, Server{}, RunRef{})) },
		"ListRuns, no name": func(ctx context.Context) error { return firstError(client.ListRuns(ctx, ViewRuns, Dataset{})) },
		"ListRuns, dots": func(ctx context.Context) error {
			return firstError(client.ListRuns(ctx, ViewRuns, Dataset{Name: ".."}))
		},
		"ExportSpans, zero":      func(ctx context.Context) error { return client.ExportSpans(ctx, Scope{}, []Span{{}}) },
		"CreateScore, zero":      func(ctx context.Context) error { return client.CreateScore(ctx, ScoreCreate{}) },
		"CreateScores, zero":     func(ctx context.Context) error { return client.CreateScores(ctx, []ScoreCreate{{}})[0] },
		"DeleteScore, no id":     func(ctx context.Context) error { return client.DeleteScore(ctx, "") },
		"FindObservation, no id": func(ctx context.Context) error { return second(client.FindObservation(ctx, v4, "")) },
		"FindObservation, v3":    func(ctx context.Context) error { return second(client.FindObservation(ctx, Capabilities{}, "")) },
		"GetTrace, no id":        func(ctx context.Context) error { return second(client.GetTrace(ctx, v4, "", TraceParts{})) },
		"GetTrace, v3":           func(ctx context.Context) error { return second(client.GetTrace(ctx, Capabilities{}, "", TraceParts{})) },
		"ListQueueItems, no id":  func(ctx context.Context) error { return firstError(client.ListQueueItems(ctx, "", "")) },
		"QueueTraces, no id":     func(ctx context.Context) error { return second(client.QueueTraces(ctx, "", []string{"t"})) },
		"CreateComment, no text": func(ctx context.Context) error { return second(client.CreateComment(ctx, Comment{})) },
	}) {
		var usage *UsageError
		if err := call(t.Context()); !errors.As(err, &usage) || exitCode(err) != 64 {
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
	_, err := New(Config{PublicKey: testPublic, SecretKey: NewSecret(testSecret), MaxAttempts: -1, Timeout: -time.Second, MaxResponseBytes: -1})
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
