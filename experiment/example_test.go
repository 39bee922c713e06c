package experiment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
)

// length is a Task that answers a text with its length.
type length struct{}

func (length) Do(_ context.Context, item experiment.Item) (experiment.TaskResult, error) {
	var text string
	err := json.Unmarshal(item.Input, &text)
	return experiment.TaskResult{Output: fmt.Append(nil, len(text))}, err
}

// exact is a Scorer that gives 1 if the output equals the expected output.
type exact struct{ expected string }

func (exact) ForItem(item dataset.Item) (experiment.ItemScorer, error) {
	return exact{string(item.Expected)}, nil
}

func (e exact) Score(output json.RawMessage) (experiment.Scored, error) {
	var hit float64
	if string(output) == e.expected {
		hit = 1
	}
	return experiment.Scored{Scores: []outcome.Score{{Name: "correct", Value: &hit}}}, nil
}

func (exact) Undelivered() []outcome.Score { return []outcome.Score{{Name: "correct"}} }

// This example runs its own task over a dataset in Langfuse. LANGFUSE_* variables give the
// address and the keys of a server; here it is the embedded one.
func Example() {
	lookup, done := startServer() // in a program: os.LookupEnv
	defer done()
	cfg, _, err := langfuse.ConfigFromEnv(lookup)
	if err != nil {
		log.Fatal(err)
	}
	lf, err := experiment.Connect(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer lf.Client.CloseIdleConnections()
	result, err := experiment.Run(context.Background(), experiment.Config{
		Header:   outcome.Header{Name: "lengths-v1", Scorer: outcome.Scorer{Version: "1", Primary: "correct"}},
		Dataset:  "words",
		Task:     length{},
		Scorer:   exact{},
		Langfuse: lf,
		Verify:   true,
	})
	if err != nil {
		log.Fatal(err)
	}
	correct, _ := result.Summary.Scores.Lookup("correct")
	fmt.Println(result.Summary.Items.Scored, "items,", result.Summary.Published.Outcomes, "in Langfuse, mean", *correct.Mean)
	fmt.Println("differences between run file and Langfuse:", result.Verification.Total())
	// Output:
	// 2 items, 2 in Langfuse, mean 0.5
	// differences between run file and Langfuse: 0
}

// startServer starts a server with a dataset of two items in an empty folder, and returns the
// environment with its address and keys.
func startServer() (lookup func(string) (string, bool), done func()) {
	dir, err := os.MkdirTemp("", "example-*")
	must(err)
	must(os.Chdir(dir))
	server, err := embedded.Open(embedded.Config{})
	must(err)
	listening := httptest.NewServer(server.Handler())
	lookup = func(name string) (string, bool) {
		value, ok := map[string]string{
			langfuse.EnvBaseURL: listening.URL, langfuse.EnvPublicKey: embedded.DefaultPublicKey, langfuse.EnvSecretKey: embedded.DefaultSecretKey,
		}[name]
		return value, ok
	}
	cfg, _, err := langfuse.ConfigFromEnv(lookup)
	must(err)
	client, err := langfuse.New(cfg)
	must(err)
	defer client.CloseIdleConnections()
	_, err = client.UpsertDataset(context.Background(), langfuse.DatasetUpsert{Name: "words"})
	must(err)
	for id, expected := range map[string]string{"one": "3", "three": "4"} {
		_, err := client.UpsertDatasetItem(context.Background(), langfuse.DatasetItem{
			DatasetName: "words", ID: id, Input: fmt.Appendf(nil, "%q", id), ExpectedOutput: json.RawMessage(expected),
		})
		must(err)
	}
	return lookup, func() {
		listening.Close()
		must(server.Close())
		must(os.RemoveAll(dir))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
