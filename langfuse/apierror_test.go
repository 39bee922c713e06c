package langfuse

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestErrorAnswers(t *testing.T) {
	sentinels := []error{ErrNotFound, ErrUnauthorized, ErrRateLimited, ErrTooLarge, ErrConflict, ErrEndpointGone}
	tests := map[string]struct {
		class error
		exit  int
		want  string
		after time.Duration
	}{
		"302.txt":              {nil, 69, "redirects", 0},
		"400_empty.txt":        {nil, 64, "escaped slash", 0},
		"400_json.txt":         {nil, 64, "Invalid JSON", 0},
		"400_otlp.json":        {nil, 64, "Invalid x-langfuse-ingestion-version", 0},
		"400_zod.json":         {nil, 64, `Invalid request data: Unrecognized key: "extra"; batch.0.id: expected string`, 0},
		"401.json":             {ErrUnauthorized, 69, "Invalid credentials. Confirm that you've configured the correct host; check that LANGFUSE_PUBLIC_KEY", 0},
		"404_dataset.json":     {ErrNotFound, 64, "Dataset not found", 0},
		"404_events_only.json": {ErrEndpointGone, 69, "events_only mode", 0},
		"404_foreign.txt":      {ErrEndpointGone, 69, "404 page not found", 0},
		"404_page.html":        {ErrEndpointGone, 69, "HTML page", 0},
		"404_prompt.json":      {ErrNotFound, 64, "'p' with label 'nope'", 0},
		"404_write_mode.json":  {ErrEndpointGone, 69, "v4 write mode", 0},
		"405.json":             {ErrEndpointGone, 69, "Method not allowed", 0},
		"409_concurrent.json":  {ErrConflict, 64, "modified concurrently", 0},
		"409_dataset.json":     {ErrConflict, 64, "another dataset", 0},
		"413.txt":              {ErrTooLarge, 64, "Body exceeded 4.5mb limit", 0},
		"422_size.json":        {ErrTooLarge, 64, "too large", 0},
		"422_time.json":        {ErrTooLarge, 64, "ran out of resources: Request timed out", 0},
		"429.json":             {ErrRateLimited, 69, "asks to wait 17s", 17 * time.Second},
		"429.txt":              {ErrRateLimited, 69, "rate limit exceeded", 0},
		"502.html":             {nil, 69, "proxy or gateway", 0},
		"503.json":             {nil, 69, "Service Unavailable", 0},
	}
	files, err := os.ReadDir("testdata/errors")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(tests) {
		t.Errorf("%d samples, %d expectations", len(files), len(tests))
	}
	for _, file := range files {
		t.Run(file.Name(), func(t *testing.T) {
			test, ok := tests[file.Name()]
			if !ok {
				t.Fatal("no expectation for this sample")
			}
			body := sample(t, "errors/"+file.Name())
			status, err := strconv.Atoi(file.Name()[:3])
			if err != nil {
				t.Fatal(err)
			}
			client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = w.Write(body)
			})
			_, err = client.GetDatasetItem(t.Context(), "a/b")
			var api *APIError
			if !errors.As(err, &api) || api.Status != status || api.Method != "GET" || api.Path != "/api/public/dataset-items/a%2Fb" {
				t.Fatalf("error %#v", err)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q is not in %q", test.want, err)
			}
			for _, sentinel := range sentinels {
				if errors.Is(err, sentinel) != (sentinel == test.class) {
					t.Errorf("Is %q: %v", sentinel, errors.Is(err, sentinel))
				}
			}
			if exitCode(err) != test.exit || api.RetryAfter != test.after {
				t.Errorf("exit code %d, want %d; retry after %s", exitCode(err), test.exit, api.RetryAfter)
			}
		})
	}
}

func TestErrorsHideKeysAndAreShort(t *testing.T) {
	credentials := base64.StdEncoding.EncodeToString([]byte(testPublic + ":" + testSecret))
	bodies := map[string]string{
		"json":  fmt.Sprintf(`{"message":"Invalid public key %s, secret %s","error":"got Basic %s"}`, testPublic, testSecret, credentials),
		"plain": "your header was Basic " + credentials + " with " + testSecret,
		"long":  strings.Repeat("é"+testSecret, 1<<16),
	}
	for name, body := range bodies {
		client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(body))
		})
		_, err := client.GetProject(t.Context())
		for _, key := range []string{testPublic, testSecret, credentials} {
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), key) {
				t.Errorf("%s: a key shows in the error", name)
			}
		}
		if len(err.Error()) > 4096+200 {
			t.Errorf("%s: %d bytes", name, len(err.Error()))
		}
		if !strings.Contains(err.Error(), "***") {
			t.Errorf("%s: the test's keys did not arrive: %.80s", name, err)
		}
	}
}

func TestHTMLWithStatus200IsAWrongHost(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("\n <!DOCTYPE html><p>hello"))
	})
	_, err := client.GetHealth(t.Context())
	if !errors.Is(err, ErrEndpointGone) || !strings.Contains(err.Error(), "HTML page") || !strings.Contains(err.Error(), client.BaseURL()) {
		t.Errorf("error %v", err)
	}
}

func TestUnexpectedJSON(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":"no list"}`: "not the expected JSON",
		`{"data":[`:          "not the expected JSON",
		`{"data":[]}`:        "exactly one project",
		``:                   "not the expected JSON",
	} {
		client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		_, err := client.GetProject(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != 69 {
			t.Errorf("%q: %v (%d)", body, err, exitCode(err))
		}
	}
}

// An answer without an id, name or list does not come from Langfuse.
func TestAnswersOfAnotherServer(t *testing.T) {
	for _, body := range []string{`{}`, `null`, `{"status":"ok"}`} {
		client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		ctx, link := t.Context(), DatasetRunItemCreate{RunName: "r", DatasetItemID: "i", TraceID: "t"}
		for name, err := range map[string]error{
			"GetDataset":           second(client.GetDataset(ctx, "d")),
			"UpsertDataset":        second(client.UpsertDataset(ctx, DatasetUpsert{Name: "d"})),
			"ListDatasets":         firstError(client.ListDatasets(ctx)),
			"GetDatasetItem":       second(client.GetDatasetItem(ctx, "i")),
			"UpsertDatasetItem":    second(client.UpsertDatasetItem(ctx, DatasetItem{DatasetName: "d", ID: "i"})),
			"GetPrompt":            second(client.GetPrompt(ctx, PromptRef{Name: "p"})),
			"GetTrace":             second(client.GetTrace(ctx, Capabilities{}, "t", TraceParts{})),
			"FindObservation":      second(client.FindObservation(ctx, Capabilities{}, "o")),
			"CreateDatasetRunItem": second(client.CreateDatasetRunItem(ctx, link)),
			"CreateScoreConfig":    second(client.CreateScoreConfig(ctx, ScoreConfig{Name: "s"})),
			"GetProject":           second(client.GetProject(ctx)),
		} {
			if err == nil || !strings.Contains(err.Error(), "not one of Langfuse") || exitCode(err) != 69 {
				t.Errorf("%s, %s: %v", body, name, err)
			}
		}
	}
}

func TestConnectionErrorNamesTheAddress(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close()
	client, err := New(Config{BaseURL: address, PublicKey: testPublic, SecretKey: NewSecret(testSecret), MaxAttempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.GetHealth(t.Context())
	var connection *ConnectionError
	var network *net.OpError
	if !errors.As(err, &connection) || !errors.As(err, &network) || exitCode(err) != 69 {
		t.Fatalf("error %#v", err)
	}
	for _, want := range []string{address, "LANGFUSE_BASE_URL", "refused"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}
