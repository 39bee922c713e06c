package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// testItem is a generated item in the form of a line of a dataset file.
type testItem struct {
	ID       string         `json:"id"`
	Input    map[string]any `json:"input"`
	Expected map[string]any `json:"expectedOutput"`
}

// makeItems returns n items with documents of about the given number of bytes. Their gold gives
// every kind of score: between 0 and 1, 0, 1, undefined, and one failed item.
func makeItems(n, bytes int) []testItem {
	rng := rand.New(rand.NewPCG(1, 2))
	people := []string{"Anna Keller", "Boris Lund", "Clara Osei", "David Marsh", "Elena Ruiz"}
	companies := []string{"Northwind Ltd", "Helios GmbH", "Acme Corporation"}
	var items []testItem
	for i := range n {
		var text strings.Builder
		for text.Len() < bytes {
			fmt.Fprintf(&text, "%s joined %s on %d March 20%02d as head of unit %d. ",
				people[rng.IntN(len(people))], companies[rng.IntN(len(companies))], 1+rng.IntN(28), rng.IntN(30), rng.IntN(1000))
		}
		entities := []any{}
		switch i % 3 {
		case 0:
			entities = append(entities, map[string]any{"name": people[i%len(people)], "type": "Person"})
		case 1: // not in the text, so never matched
			entities = append(entities, map[string]any{"name": "Zebulon Quux", "type": "Person"})
		}
		item := testItem{
			ID: fmt.Sprintf("made-%03d", i),
			Input: map[string]any{
				"document_text": text.String(),
				"object_schemas": map[string]any{
					"Person":       map[string]string{"name": "Person", "description": "A named human being."},
					"Organization": map[string]string{"name": "Organization", "description": "A company."},
				},
				"relationship_schemas": map[string]any{
					"works_for": map[string]any{"name": "works_for", "description": "Is employed by", "source_types": []string{"Person"}, "target_types": []string{"Organization"}},
				},
			},
			Expected: map[string]any{"entities": entities, "relationships": []any{}},
		}
		if i == n/2 {
			delete(item.Input, "document_text") // makes the item fail
		}
		items = append(items, item)
	}
	return items
}

// writeItems writes the items to a file in the folder and returns its name.
func (f folder) writeItems(t testing.TB, items []testItem) string {
	t.Helper()
	const name = "made.jsonl"
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, item := range items {
		must(t, encoder.Encode(item))
	}
	must(t, os.WriteFile(f.path(name), lines.Bytes(), 0o600))
	return name
}

// langfuse opens the embedded Langfuse of the folder in this process until close is called.
// Meanwhile no other program may run there.
func (f folder) langfuse(t testing.TB) (client *langfuse.Client, close func()) {
	t.Helper()
	server, err := embedded.Open(embedded.Config{Path: f.store()})
	must(t, err)
	front := httptest.NewServer(server.Handler())
	client, err = langfuse.New(langfuse.Config{BaseURL: front.URL, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey)})
	must(t, err)
	return client, func() {
		front.Close()
		must(t, server.Close())
	}
}

// seedItems creates a dataset in Langfuse through the API, because the command seed would refuse
// the item that must fail.
func seedItems(t testing.TB, client *langfuse.Client, dataset string, items []testItem) {
	t.Helper()
	_, err := client.UpsertDataset(t.Context(), langfuse.DatasetUpsert{Name: dataset})
	must(t, err)
	for _, item := range items {
		input, err := json.Marshal(item.Input)
		must(t, err)
		expected, err := json.Marshal(item.Expected)
		must(t, err)
		_, err = client.UpsertDatasetItem(t.Context(), langfuse.DatasetItem{
			DatasetName: dataset, ID: item.ID, Input: input, ExpectedOutput: expected,
		})
		must(t, err)
	}
}
