package embedded

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the answers into testdata/conversation*.json")

// exchange is a request and its answer in a file.
type exchange struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
	Status int             `json:"status"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Text   string          `json:"text,omitempty"`
}

// TestConversation sends the requests of a seed, a run and their reading back, from one file per
// mode, and compares the answers. It replaces random ids by numbered ones, and advances the clock
// by a second after each request.
func TestConversation(t *testing.T) {
	for mode, file := range map[Mode]string{ModeV4: "conversation.json", ModeV4Dual: "conversation_v4-dual.json", ModeV3: "conversation_v3.json"} {
		t.Run(string(mode), func(t *testing.T) { replayConversation(t, mode, "testdata/"+file) })
	}
}

func replayConversation(t *testing.T, mode Mode, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var wanted []exchange
	if err := json.Unmarshal(text, &wanted); err != nil {
		t.Fatal(err)
	}
	r := newTestServer(t, Config{Mode: mode})
	ids := map[string]string{}
	got := make([]exchange, len(wanted))
	for i, want := range wanted {
		got[i] = replayRequest(t, r, want, ids)
		r.clock.advance(time.Second)
		if !*update {
			equal(t, fmt.Sprintf("%d %s %s", i, want.Method, want.Path), got[i], want)
		}
	}
	if !*update {
		return
	}
	text, err = json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func replayRequest(t *testing.T, r *testServer, request exchange, ids map[string]string) exchange {
	t.Helper()
	a := r.do(request.Method, request.Path, []byte(request.Body))
	for _, id := range regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindAllString(a.text, -1) {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("uuid-%d", len(ids)+1)
		}
		a.text = strings.ReplaceAll(a.text, id, ids[id])
	}
	// The experiment id is computed from the random id of the dataset.
	a.text = regexp.MustCompile(`"datasetRunId":"[0-9a-f]{16}"`).ReplaceAllString(a.text, `"datasetRunId":"computed"`)
	out := exchange{Method: request.Method, Path: request.Path, Body: request.Body, Status: a.status}
	if json.Valid([]byte(a.text)) {
		out.Answer = json.RawMessage(a.text)
	} else {
		out.Text = a.text
	}
	return out
}
