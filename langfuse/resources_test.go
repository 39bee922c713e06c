package langfuse

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestDatasetNamesOnTheWire(t *testing.T) {
	for name, want := range map[string]string{
		"docs":      "/api/public/v2/datasets/docs",
		"my docs":   "/api/public/v2/datasets/my%20docs",
		"Übung 北京":  "/api/public/v2/datasets/%C3%9Cbung%20%E5%8C%97%E4%BA%AC",
		"a?b#c+d&e": "/api/public/v2/datasets/a%3Fb%23c+d&e",
		"a/b":       "/api/public/v2/datasets?limit=64&page=1",
		"50%":       "/api/public/v2/datasets?limit=64&page=1",
		"..":        "/api/public/v2/datasets?limit=64&page=1",
	} {
		client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
			one, _ := json.Marshal(map[string]string{"id": "d1", "name": name})
			if r.FormValue("page") != "" {
				one = []byte(`{"data":[{"id":"d0","name":"other"},` + string(one) + `],"meta":{"totalPages":1}}`)
			}
			_, _ = w.Write(one)
		})
		found, err := client.GetDataset(t.Context(), name)
		if err != nil || found.ID != "d1" {
			t.Errorf("%q: %+v, %v", name, found, err)
		}
		if got := record.seen()[0].uri; got != want {
			t.Errorf("%q: asked %s, want %s", name, got, want)
		}
	}
}

func TestUnknownDatasetIsNamed(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("page") != "" {
			_, _ = w.Write([]byte(`{"data":[{"id":"d0","name":"other"}],"meta":{"totalPages":1}}`))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(sample(t, "errors/404_dataset.json"))
	})
	for _, name := range []string{"docs", "team/docs"} {
		_, err := client.GetDataset(t.Context(), name)
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestGetDatasetReadsLeniently(t *testing.T) {
	client, _ := serve(t, answers(t, "dataset.json"))
	found, err := client.GetDataset(t.Context(), "docs")
	if err != nil || found.ID != "d1" || found.Description != "" || string(found.Metadata) != `{"owner":"ops"}` ||
		!found.UpdatedAt.Equal(time.Date(2026, 11, 20, 9, 0, 1, 0, time.UTC)) {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestDatasetItemCalls(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id":"i 1"}`)) })
	ctx := t.Context()
	if _, err := client.UpsertDatasetItem(ctx, DatasetItem{DatasetName: "d", ID: "i 1", Input: []byte(`{"text":"<b>&"}`), ExpectedOutput: []byte(`{}`)}); err != nil {
		t.Error(err)
	}
	if _, err := client.UpsertDatasetItem(ctx, DatasetItem{DatasetName: "d", ID: "i 1", Status: ItemArchived}); err != nil {
		t.Error(err)
	}
	if item, err := client.GetDatasetItem(ctx, "i 1"); err != nil || item.ID != "i 1" {
		t.Error(item, err)
	}
	want := []string{
		`POST /api/public/dataset-items {"datasetName":"d","id":"i 1","input":{"text":"<b>&"},"expectedOutput":{}}`,
		`POST /api/public/dataset-items {"datasetName":"d","id":"i 1","status":"ARCHIVED"}`,
		`GET /api/public/dataset-items/i%201 `,
	}
	for i, request := range record.seen() {
		if got := request.method + " " + request.uri + " " + string(request.body); got != want[i] {
			t.Errorf("request %d:\n%s, want\n%s", i, got, want[i])
		}
	}
	if _, err := client.UpsertDatasetItem(ctx, DatasetItem{DatasetName: "d"}); err == nil {
		t.Error("an item without id was sent")
	}
	if _, err := client.UpsertDatasetItem(ctx, DatasetItem{DatasetName: "d", ID: "x", Input: []byte(`{`)}); err == nil {
		t.Error("an item with broken JSON was sent")
	}
}

func TestCreateDatasetRunItem(t *testing.T) {
	client, record := serve(t, answers(t, "run_item_v4.json"))
	link := DatasetRunItemCreate{RunName: "run A", DatasetItemID: "i1", TraceID: "t", ObservationID: "o", Metadata: map[string]string{"b": "2", "a": "1"}}
	stored, err := client.CreateDatasetRunItem(t.Context(), link)
	if err != nil || stored != ExperimentID("p1", "d1", "run A") {
		t.Fatalf("%+v, %v", stored, err)
	}
	link.DatasetVersion, link.RunDescription = FormatTime(testVersion), "nightly"
	if _, err := client.CreateDatasetRunItem(t.Context(), link); err != nil {
		t.Fatal(err)
	}
	requests := record.seen()
	// Old servers reject unknown keys, so the body must not contain datasetVersion.
	if got, want := string(requests[0].body), `{"runName":"run A","metadata":{"a":"1","b":"2"},"datasetItemId":"i1","traceId":"t","observationId":"o"}`; got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
	if got, want := string(requests[1].body), `{"runName":"run A","runDescription":"nightly","metadata":{"a":"1","b":"2"},"datasetItemId":"i1","traceId":"t","observationId":"o","datasetVersion":"2026-11-21T02:00:00.123Z"}`; got != want {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
}

func TestRunItemWithoutRunIDIsAnError(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	if _, err := client.CreateDatasetRunItem(t.Context(), DatasetRunItemCreate{RunName: "r", DatasetItemID: "i", TraceID: "t"}); err == nil {
		t.Error("no error")
	}
	if _, err := client.CreateDatasetRunItem(t.Context(), DatasetRunItemCreate{RunName: "r", DatasetItemID: "i"}); err == nil {
		t.Error("a link without a trace was sent")
	}
}

func TestGetPrompt(t *testing.T) {
	for name, test := range map[string]struct {
		ref  PromptRef
		want []string
	}{
		"production":          {PromptRef{Name: "extract"}, []string{"/api/public/v2/prompts/extract"}},
		"a label":             {PromptRef{Name: "ex tract", Label: "staging"}, []string{"/api/public/v2/prompts/ex%20tract?label=staging"}},
		"a version":           {PromptRef{Name: "50%", Version: 3}, []string{"/api/public/v2/prompts/50%25?version=3"}},
		"slash, version":      {PromptRef{Name: "team/50%", Version: 3}, []string{"/api/public/prompts?name=team%2F50%2525&version=3"}},
		"slash, label":        {PromptRef{Name: "team/extract", Label: "staging"}, []string{"/api/public/v2/prompts?label=staging&limit=64&name=team%2Fextract&page=1", "/api/public/prompts?name=team%2Fextract&version=3"}},
		"slash, no label":     {PromptRef{Name: "team/extract"}, []string{"/api/public/v2/prompts?label=production&limit=64&name=team%2Fextract&page=1", "/api/public/prompts?name=team%2Fextract&version=3"}},
		"dots are not a path": {PromptRef{Name: "..", Version: 1}, []string{"/api/public/prompts?name=..&version=1"}},
	} {
		client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
			name := "prompt_text.json"
			if r.FormValue("page") != "" {
				name = "prompts_labelled.json"
			}
			_, _ = w.Write(sample(t, name))
		})
		prompt, err := client.GetPrompt(t.Context(), test.ref)
		if err != nil || prompt.Version != 7 {
			t.Errorf("%s: %+v, %v", name, prompt, err)
		}
		var uris []string
		for _, request := range record.seen() {
			uris = append(uris, request.uri)
		}
		if strings.Join(uris, "\n") != strings.Join(test.want, "\n") {
			t.Errorf("%s: asked %q, want %q", name, uris, test.want)
		}
	}
}

func TestGetPromptRefuses(t *testing.T) {
	client, record := serve(t, answers(t, "prompts_labelled.json"))
	for _, ref := range []PromptRef{{}, {Name: "p", Label: "a", Version: 1}, {Name: "p", Version: -1}} {
		if _, err := client.GetPrompt(t.Context(), ref); err == nil {
			t.Errorf("%+v was asked for", ref)
		}
	}
	if len(record.seen()) != 0 {
		t.Error("a request went out")
	}
	if _, err := client.GetPrompt(t.Context(), PromptRef{Name: "team/other"}); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "production") {
		t.Errorf("another prompt's version was taken: %v", err)
	}
}

func TestPromptForms(t *testing.T) {
	var text, chat Prompt
	for name, into := range map[string]*Prompt{"prompt_text.json": &text, "prompt_chat.json": &chat} {
		if err := json.Unmarshal(sample(t, name), into); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := text.Text(); err != nil || got != "Find {{what}} in {{text}}" {
		t.Error(got, err)
	}
	if _, err := chat.Text(); err == nil {
		t.Error("a chat has a text")
	}
	var messages []PromptMessage
	if err := json.Unmarshal(chat.Prompt, &messages); err != nil || len(messages) == 0 || messages[0].Role == "" || messages[0].Content == "" {
		t.Error(messages, err)
	}
}

func TestPromptWrites(t *testing.T) {
	client, record := serve(t, answers(t, "prompt_text.json"))
	if _, err := client.CreatePrompt(t.Context(), Prompt{Name: "p", Type: PromptText, Prompt: []byte(`"x"`), Labels: []string{"production"}}); err != nil {
		t.Error(err)
	}
	if _, err := client.SetPromptLabels(t.Context(), "a/b", 3, nil); err != nil {
		t.Error(err)
	}
	want := []string{
		`POST /api/public/v2/prompts {"name":"p","type":"text","prompt":"x","labels":["production"]}`,
		`PATCH /api/public/v2/prompts/a%2Fb/versions/3 {"newLabels":[]}`,
	}
	for i, request := range record.seen() {
		if got := request.method + " " + request.uri + " " + string(request.body); got != want[i] {
			t.Errorf("request %d:\n%s, want\n%s", i, got, want[i])
		}
	}
	if _, err := client.SetPromptLabels(t.Context(), "p", 0, nil); err == nil {
		t.Error("version 0 was labelled")
	}
}
