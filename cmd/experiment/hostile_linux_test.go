package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// hostileLength is the length of long lists.
func hostileLength() int {
	return suite.SampleOr(1_000, 100_000)
}

// hostileAnswers holds answers of the model, by the word in the document that causes them, with
// the class of failure that they lead to.
func hostileAnswers() map[string]struct {
	answer string
	class  outcome.Class
} {
	many := strings.Repeat(`{"name":"Anna","type":"Person"},`, hostileLength())
	type said = struct {
		answer string
		class  outcome.Class
	}
	return map[string]said{
		"good":     {`{"entities":[{"name":"Anna Keller","type":"Person"}],"relationships":[]}`, outcome.OK},
		"many":     {`{"entities":[` + strings.TrimSuffix(many, ",") + `],"relationships":[]}`, outcome.OK},
		"deep":     {strings.Repeat(`{"entities":[`, 100_000), outcome.InvalidOutput},
		"nul":      {"{\"entities\":[{\"name\":\"A\\u0000nna\",\"type\":\"Person\"}]}", outcome.OK},
		"notutf8":  {"{\"entities\":[{\"name\":\"\xff\xfe\",\"type\":\"Person\"}]}", outcome.OK},
		"template": {`{"entities":[{"name":"{{document_text}} %s ${HOME} $(id)","type":"Person"}]}`, outcome.OK},
		"html":     {`{"entities":[{"name":"<script>alert(1)</script>","type":"Person"}]}`, outcome.OK},
		"escape":   {"{\"entities\":[{\"name\":\"\\u001b[31mred\\u001b]0;title\\u0007\",\"type\":\"Person\"}]}", outcome.OK},
		"long":     {`{"entities":[{"name":"` + strings.Repeat("x", 1<<20) + `","type":"Person"}]}`, outcome.InvalidOutput},
		"prose":    {"I am sorry, I cannot do that.", outcome.InvalidOutput},
		"empty":    {"", outcome.InvalidOutput},
	}
}

// TestHostile runs hostile documents, gold, names and answers through the whole program: every
// item gets an outcome, and time and memory stay bounded. With EXPERIMENT_TEST_FULL lists are
// forty times as long; EXPERIMENT_TEST_SENTENCES sets the length of a document.
func TestHostile(t *testing.T) {
	t.Parallel()
	front := httptest.NewServer(http.HandlerFunc(hostileModel))
	defer front.Close()
	_, env := sharedLangfuse(t, nil, direct)
	f := newFolder(t, append(env, usualGOGC, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+front.URL+"/v1")...)
	want := map[string]outcome.Class{}
	var lines strings.Builder
	add := func(id, text string, expected any, class outcome.Class) {
		want[id] = class
		raw, err := json.Marshal(map[string]any{"id": id, "input": map[string]any{
			"document_text": text, "object_schemas": map[string]any{"Person": map[string]string{"description": "a person"}},
		}, "expectedOutput": expected})
		must(t, err)
		lines.Write(append(raw, '\n'))
	}
	person := map[string]any{"entities": []any{map[string]string{"name": "Anna Keller", "type": "Person"}}, "relationships": []any{}}
	for word, answer := range hostileAnswers() {
		add("answer-"+word, "Anna Keller. WORD "+word, person, answer.class)
	}
	add("../../etc/passwd", "Anna Keller. WORD good", person, outcome.OK)
	add("nul-document", "Anna\x00 Keller. WORD good", person, outcome.OK)
	add("template-document", "{{document_text}} {{#each x}} WORD good", person, outcome.OK)
	add("large-document", strings.Repeat("Anna Keller joined Helios GmbH in London. ", envNumber(t, "EXPERIMENT_TEST_SENTENCES", 100))+"WORD good", person, outcome.OK)
	gold := make([]map[string]string, hostileLength())
	for i := range gold {
		gold[i] = map[string]string{"name": fmt.Sprint("Person ", i), "type": "Person"}
	}
	add("large-gold", "Anna Keller. WORD good", map[string]any{"entities": gold, "relationships": []any{}}, outcome.OK)
	must(t, os.WriteFile(f.path("hostile.jsonl"), []byte(lines.String()), 0o600))

	c := f.start(t, "--dataset", "hostile.jsonl", "--name", "r", "--model", "openai/gpt-test", "--prompt", "plain", "--max-failures", "100%", "--concurrency", "2")
	memory := c.memory()
	if code := c.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d\n%.3000s", code, &c.stderr)
	}
	if strings.ContainsRune(c.stdout.String()+c.stderr.String(), '\x1b') {
		t.Error("an escape sequence of an answer reached the terminal")
	}
	maxMB := int64(600)
	if suite.Full() {
		maxMB = 1500
	}
	if mb := memory >> 20; mb > maxMB {
		t.Errorf("%d MB of memory", mb)
	}
	r, err := runstore.Load(f.runFile("hostile.jsonl", "r"))
	must(t, err)
	defer func() { must(t, r.Close()) }()
	for o, err := range r.Outcomes(t.Context(), runstore.Query{Depth: runstore.Brief}) {
		must(t, err)
		if class, ok := want[o.Item]; !ok || o.Class != class {
			t.Errorf("%s: class %q, want %q: %+v", o.Item, o.Class, class, o.Failure)
		}
		delete(want, o.Item)
	}
	if len(want) > 0 {
		t.Errorf("without an outcome: %v", want)
	}
	f.run(t, cli.ExitOK, "show", "r", "answer-escape")
	f.run(t, cli.ExitOK, "export", "r", "-o", "r.jsonl")
}

// hostileModel answers by the last word of the request.
func hostileModel(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	text := string(raw)
	word := "good" // the word is in another part of the document
	if i := strings.LastIndex(text, "WORD "); i >= 0 {
		word = text[i+len("WORD "):]
	}
	for name, hostile := range hostileAnswers() {
		if strings.HasPrefix(word, name) {
			answer, err := json.Marshal(hostile.answer)
			if err != nil {
				panic(err)
			}
			if name == "notutf8" { // bytes that are not valid UTF-8
				answer = []byte(`"{\"entities\":[{\"name\":\"` + "\xff\xfe" + `\",\"type\":\"Person\"}]}"`)
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":%s}}]}`, answer)
			return
		}
	}
	http.Error(w, "unknown word", http.StatusTeapot)
}
