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

// exchange is one request with its answer, as it is in the file.
type exchange struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
	Status int             `json:"status"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Text   string          `json:"text,omitempty"`
}

// The files hold the requests of a run, a seed and their reading back, in order,
// and what is answered, one file for each mode. Ids that are made up are
// numbered. A second passes between two requests.
func TestConversation(t *testing.T) {
	for mode, file := range map[Mode]string{ModeV4: "conversation.json", ModeV4Dual: "conversation_v4-dual.json", ModeV3: "conversation_v3.json"} {
		t.Run(string(mode), func(t *testing.T) { converse(t, mode, "testdata/"+file) })
	}
}

func converse(t *testing.T, mode Mode, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var wanted []exchange
	if err := json.Unmarshal(text, &wanted); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{Mode: mode})
	ids := map[string]string{}
	got := make([]exchange, len(wanted))
	for i, want := range wanted {
		got[i] = talk(t, r, want, ids)
		r.clock.advance(time.Second)
		if *update {
			continue
		}
		equal(t, fmt.Sprintf("%d %s %s", i, want.Method, want.Path), got[i], want)
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

func talk(t *testing.T, r *rig, ask exchange, ids map[string]string) exchange {
	t.Helper()
	body := any(nil)
	if ask.Body != nil {
		body = []byte(ask.Body)
	}
	a := r.do(ask.Method, ask.Path, body)
	for _, id := range regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`).FindAllString(a.text, -1) {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("uuid-%d", len(ids)+1)
		}
		a.text = strings.ReplaceAll(a.text, id, ids[id])
	}
	// the experiment id is computed from the made up id of the dataset
	a.text = regexp.MustCompile(`"datasetRunId":"[0-9a-f]{16}"`).ReplaceAllString(a.text, `"datasetRunId":"computed"`)
	out := exchange{Method: ask.Method, Path: ask.Path, Body: ask.Body, Status: a.status}
	if json.Valid([]byte(a.text)) {
		out.Answer = json.RawMessage(a.text)
	} else {
		out.Text = a.text
	}
	return out
}
