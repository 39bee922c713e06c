package gold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// auditFolder creates a folder with two runs, s1 and s2, over three items. In the first item both
// have Babbage, whom the gold lacks; in the second both lack Newton, who is in gold and text; s2
// failed in the third.
func auditFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	var items []dataset.Item
	for id, c := range map[string][2]string{
		"a": {"Ada Lovelace knew Charles Babbage.", `{"entities":[{"name":"Ada Lovelace"}]}`},
		"b": {"Ada Lovelace never met Isaac Newton.", `{"entities":[{"name":"Ada Lovelace"},{"name":"Isaac Newton"}]}`},
		"c": {"Nobody.", `{"entities":[]}`},
	} {
		input, err := json.Marshal(map[string]string{"document_text": c[0]})
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, dataset.Item{ID: id, Input: input, Expected: json.RawMessage(c[1])})
	}
	var fingerprint dataset.Fingerprint
	for _, id := range []string{"a", "b", "c"} {
		for _, item := range items {
			if item.ID == id {
				hash, err := dataset.Hash(item)
				if err := errors.Join(err, fingerprint.Add(id, hash)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i, name := range []string{"s1", "s2"} {
		h := outcome.Header{Name: name, RunUID: strings.Repeat(fmt.Sprint(i), 32), Harness: harness.Name, Trials: 1, Dataset: outcome.Dataset{Name: "items.jsonl"}}
		run, err := runstore.Create(runstore.Path(experiment.Folder, "", "items.jsonl", name), h)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(run.AddItems(t.Context(), items), run.CompleteListing(t.Context(), fingerprint.Sum())); err != nil {
			t.Fatal(err)
		}
		for id, output := range map[string]string{"a": `{"entities":[{"name":"Ada Lovelace"},{"name":"Charles Babbage"}]}`, "b": `{"entities":[{"name":"Ada Lovelace"}]}`, "c": `{"entities":[]}`} {
			o := outcome.Outcome{Item: id, Trial: 1, Attempt: 1, Started: time.Unix(1e9, 0), Ended: time.Unix(1e9, 0)}
			o.Output = json.RawMessage(output)
			if id == "c" && name == "s2" {
				o.Class, o.Output, o.Failure = outcome.Timeout, nil, &outcome.Failure{Class: outcome.Timeout, Message: "no answer"}
			}
			if err := run.Commit(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(run.Finish(t.Context(), outcome.Footer{Status: outcome.Complete, Planned: 3, Ended: time.Unix(1e9, 0)}), run.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// audit runs the command audit.
func audit(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var stdoutBuf, stderrBuf bytes.Buffer
	e := cli.Env{Args: append([]string{"audit"}, args...), Stdout: &stdoutBuf, Stderr: &stderrBuf, Getenv: func(name string) string { return env[name] }}
	code = settings.Run(t.Context(), e, &urfave.App{Name: "experiment", Commands: []*urfave.Command{AuditCommand(e)}})
	return code, stdoutBuf.String(), stderrBuf.String()
}

func auditJSON(t *testing.T, env map[string]string, args ...string) report.Audit {
	t.Helper()
	code, text, stderr := audit(t, env, append([]string{"--json"}, args...)...)
	var a report.Audit
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != 0 {
		t.Fatalf("%d: %v\n%s%s", code, err, text, stderr)
	}
	return a
}

// TestAudit_decisions goes from findings to corrected items: Babbage is accepted and becomes gold,
// Newton is rejected and the gold confirmed.
func TestAudit_decisions(t *testing.T) {
	auditFolder(t)
	a := auditJSON(t, nil, "s1", "s2", "--html", "page.html")
	if a.Items != 2 || a.Skipped != 1 || len(a.Findings) != 2 {
		t.Fatalf("%+v", a)
	}
	var d decisions
	for _, f := range a.Findings {
		verdict := map[harness.DoubtKind]string{harness.NotInGold: accepted, harness.NotFound: rejected}[f.Kind]
		d.Decisions = append(d.Decisions, decision{f.Item, f.Key, f.Gold, verdict})
	}
	raw, err := json.Marshal(d)
	if err := errors.Join(err, os.WriteFile("decisions.json", append([]byte("\ufeff"), raw...), 0o600)); err != nil {
		t.Fatal(err)
	}
	const written = "corrected.jsonl: 2 items, 1 finding accepted, 1 rejected"
	if code, _, stderr := audit(t, nil, "s1", "s2", "--decisions", "decisions.json", "--corrected", "corrected.jsonl"); code != 0 ||
		!strings.Contains(stderr, written) || strings.Contains(stderr, "warning") {
		t.Fatal(stderr)
	}
	// The decisions of two people, which have one finding in common, make the same items.
	// A third person who decides differently is refused.
	both := []string{"s1", "s2", "--corrected", "corrected.jsonl"}
	contrary := d.Decisions[0]
	contrary.Verdict = map[string]string{accepted: rejected, rejected: accepted}[contrary.Verdict]
	for i, verdicts := range [][]decision{d.Decisions[:1], d.Decisions, {contrary}} {
		path := fmt.Sprintf("%d.json", i)
		raw, err := json.Marshal(decisions{Decisions: verdicts})
		if err := errors.Join(err, os.WriteFile(path, raw, 0o600)); err != nil {
			t.Fatal(err)
		}
		both = append(both, "--decisions", path)
		code, _, stderr := audit(t, nil, both...)
		if i == 1 && !strings.Contains(stderr, written) || (i == 2) != (code == cli.ExitUsage && strings.Contains(stderr, "let the two agree")) {
			t.Errorf("%q: %d: %s", both, code, stderr)
		}
	}
	got := map[string]dataset.Item{}
	for item, err := range dataset.ReadFile(t.Context(), "corrected.jsonl") {
		if err != nil {
			t.Fatal(err)
		}
		got[item.ID] = item.Item
	}
	gold, _, err := extraction.DecodeExtraction(got["a"].Expected)
	if err != nil || len(got) != 2 || len(gold.Entities) != 2 || gold.Entities[1].Name != "Charles Babbage" || len(got["a"].Input) == 0 {
		t.Errorf("%v %+v", err, got)
	}
	for id, key := range map[string]string{"b": a.Findings[0].Key + a.Findings[1].Key} {
		s := newCurrentGold(got[id].Expected, got[id].Metadata)
		if len(s.confirmed) != 1 || !strings.Contains(key, s.confirmed[0]) {
			t.Errorf("%s: %+v of %s", id, s, got[id].Metadata)
		}
	}

	// The gold of an item changed: the decisions about it are refused, and nothing is written.
	d.Decisions[0].Gold = "other"
	raw, err = json.Marshal(d)
	if err := errors.Join(err, os.WriteFile("decisions.json", raw, 0o600), os.Remove("corrected.jsonl")); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := audit(t, nil, "s1", "s2", "--decisions", "decisions.json", "--corrected", "corrected.jsonl")
	for _, want := range []string{"its gold has changed", "nothing is written: write the page again"} {
		if code != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%d: %s, want %q", code, stderr, want)
		}
	}
	if _, err := os.Stat("corrected.jsonl"); !os.IsNotExist(err) {
		t.Errorf("corrected.jsonl was written: %v", err)
	}
}

// TestAudit_fileNow: the file of the dataset, in this folder or where --dataset says, has other gold
// for one item since the runs, and metadata for another, which a decision about that keeps.
func TestAudit_fileNow(t *testing.T) {
	auditFolder(t)
	all := auditJSON(t, nil, "s1", "s2").Findings
	now := `{"id":"a","input":{"document_text":"Ada Lovelace knew Charles Babbage."},"expectedOutput":{"entities":[]}}` + "\n" +
		`{"id":"b","input":{"document_text":"Ada Lovelace never met Isaac Newton."},"metadata":{"by":"Eve"},"expectedOutput":{"entities":[{"name":"Ada Lovelace"},{"name":"Isaac Newton"}]}}` + "\n" +
		`{"id":"c","input":{"document_text":"Nobody."},"expectedOutput":{"entities":[]}}` + "\n"
	if err := errors.Join(os.Mkdir("data", 0o700), os.WriteFile("data/items.jsonl", []byte(now), 0o600)); err != nil {
		t.Fatal(err)
	}
	if a := auditJSON(t, nil, "s1", "s2"); a.Outdated != 0 || len(a.Findings) != 2 {
		t.Errorf("without the file: %+v", a)
	}
	if a := auditJSON(t, nil, "s1", "s2", "--dataset", "data/items.jsonl"); a.Outdated != 1 || a.Skipped != 1 || len(a.Findings) != 1 {
		t.Errorf("--dataset: %+v", a)
	} else { // the mean of the run is over the item with other gold, too
		same := func(d harness.Doubt) bool { return d.Key == a.Findings[0].Key }
		if before := all[slices.IndexFunc(all, same)]; !cmp.Equal(a.Findings[0].Effects, before.Effects) {
			t.Errorf("effects %+v, of all items %+v", a.Findings[0].Effects, before.Effects)
		}
	}
	edited := strings.Replace(now, "never met", "hardly met", 1) // a decision would bring the old document back
	if err := errors.Join(os.Mkdir("edited", 0o700), os.WriteFile("edited/items.jsonl", []byte(edited), 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := audit(t, nil, "s1", "s2", "--dataset", "edited/items.jsonl"); code != cli.ExitIncompatible || !strings.Contains(stderr, "document or gold of 2 has changed") {
		t.Errorf("another document: %d: %s", code, stderr)
	}
	if err := os.Rename("data/items.jsonl", "items.jsonl"); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		raw := fmt.Sprintf(`{"decisions":[{"item":%q,"finding":%q,"gold":%q,"verdict":"rejected"}]}`, f.Item, f.Key, f.Gold)
		if err := os.WriteFile("decisions.json", []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := audit(t, nil, "s1", "s2", "--decisions", "decisions.json", "--corrected", "corrected.jsonl")
		if changed := f.Item == "a"; changed != (code == cli.ExitUsage) || changed != strings.Contains(stderr, "its gold has changed") {
			t.Errorf("%s: %d: %s", f.Item, code, stderr)
		}
	}
	if raw, err := os.ReadFile("corrected.jsonl"); err != nil || !strings.Contains(string(raw), `"by":"Eve"`) {
		t.Errorf("%v: %s", err, raw)
	}
	if err := os.WriteFile("items.jsonl", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := audit(t, nil, "s1", "s2"); code != cli.ExitUsage || !strings.Contains(stderr, "reading the dataset items.jsonl as it is now") {
		t.Errorf("%d: %s", code, stderr)
	}
}

// TestAudit_firstTrialLacks: a run that was stopped at the end of its first trial has items of
// later trials only.
func TestAudit_firstTrialLacks(t *testing.T) {
	t.Chdir(t.TempDir())
	item := dataset.Item{ID: "a", Input: json.RawMessage(`{"text":"Ada Lovelace knew Charles Babbage."}`), Expected: json.RawMessage(`{"entities":[{"name":"Ada Lovelace"}]}`)}
	path := runstore.Path(experiment.Folder, "", "items.jsonl", "s")
	run, err := runstore.Create(path, outcome.Header{Name: "s", RunUID: strings.Repeat("0", 32), Harness: harness.Name, Trials: 3, Dataset: outcome.Dataset{Name: "items.jsonl"}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(run.AddItems(t.Context(), []dataset.Item{item}), run.CompleteListing(t.Context(), strings.Repeat("0", 64)))
	for _, trial := range []int{2, 3} {
		o := outcome.Outcome{Item: "a", Trial: trial, Attempt: 1, Started: time.Unix(1e9, 0), Ended: time.Unix(1e9, 0)}
		o.Output = json.RawMessage(`{"entities":[{"name":"Ada Lovelace"},{"name":"Charles Babbage"}]}`)
		err = errors.Join(err, run.Commit(t.Context(), o))
	}
	if err := errors.Join(err, run.Close()); err != nil {
		t.Fatal(err)
	}
	if a := auditJSON(t, nil, "s"); a.Items != 1 || len(a.Findings) != 1 {
		t.Errorf("%+v", a)
	}
}

// TestAudit_refused: audits that are refused, with the exit code for wrong usage.
func TestAudit_refused(t *testing.T) {
	auditFolder(t)
	for name, text := range map[string]string{
		"none.json": "{}", "nojson.json": "x", "twice.json": `{"decisions":[{"finding":"k","verdict":"accepted"},{"finding":"k","verdict":"rejected"}]}`,
		"word.json": `{"decisions":[{"finding":"k","verdict":"maybe"}]}`, "unknown.json": `{"decisions":[{"item":"a","finding":"k","verdict":"accepted"}]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"two runs or more":                 {},
		"at least two systems":             {"s1"},
		"named twice":                      {"s1", "s1"},
		"there is no run \"s3\"":           {"s1", "s3"},
		"its outputs are needed":           {"s1", "langfuse:s2"},
		"--top: 0 is less":                 {"s1", "s2", "--top", "0"},
		"give both or none":                {"s1", "s2", "--corrected", "c.jsonl"},
		"add --queue":                      {"s1", "s2", "--create-queue"},
		"a file that is read":              {"s1", "s2", "--decisions", "none.json", "--corrected", "none.json"},
		"it holds no decision":             {"s1", "s2", "--decisions", "none.json", "--corrected", "c.jsonl"},
		"is not a file of decisions":       {"s1", "s2", "--decisions", "nojson.json", "--corrected", "c.jsonl"},
		"is decided twice":                 {"s1", "s2", "--decisions", "twice.json", "--corrected", "c.jsonl"},
		"neither accepted nor rejected":    {"s1", "s2", "--decisions", "word.json", "--corrected", "c.jsonl"},
		"is not one of this audit":         {"s1", "s2", "--decisions", "unknown.json", "--corrected", "c.jsonl"},
		"reading the decisions":            {"s1", "s2", "--decisions", "missing.json", "--corrected", "c.jsonl"},
		"baseline is not a language model": {"s1", "s2", "--judge", "baseline"},
		"scoring options: unknown option":  {"s1", "s2", "--options", "{\"treshold\": 1}"},
		"takes a file":                     {"s1", "s2", "--html", "-"},
		"nor a file of it":                 {"s1", "s2", "--dataset", "./items.jsonl"},
		"two outputs name one file":        {"s1", "s2", "--decisions", "word.json", "--corrected", "c", "--html", "./c"},
	} {
		if code, _, stderr := audit(t, nil, args...); code != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d: %s, want %q", args, code, stderr, want)
		}
	}
}

// TestAudit_judge asks a model that accepts one finding, and gives an unusable answer to the other or
// refuses it.
func TestAudit_judge(t *testing.T) {
	var refuse atomic.Bool
	auditFolder(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		answer := `{"gold_is_wrong": true, "reason": "the text names him"}`
		if strings.Contains(string(raw), "Newton") {
			if refuse.Load() {
				http.Error(w, `{"error":{"message":"content policy"}}`, http.StatusBadRequest)
				return
			}
			answer = "I would rather not."
		}
		content, _ := json.Marshal(answer)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"model":"gpt-4o-mini-2024","choices":[{"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000000,"completion_tokens":0,"total_tokens":1000000}}`, content)
	}))
	defer server.Close()
	env := map[string]string{"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": server.URL}
	a := auditJSON(t, env, "s1", "s2", "--judge", "openai/gpt-4o-mini")
	// Two requests of a million tokens cost 0.15 dollars each.
	if j := a.Judging; j == nil || j.Wrong != 1 || j.Right != 0 || j.Unusable != 1 || j.CostUSD == nil || *j.CostUSD < 0.29 || *j.CostUSD > 0.31 {
		t.Errorf("%+v", a.Judging)
	}
	for _, d := range a.Findings {
		if d.Judged == nil || d.Judged.Model != "gpt-4o-mini-2024" || (d.Kind == harness.NotInGold) != (d.Judged.Wrong != nil && *d.Judged.Wrong) {
			t.Errorf("%s: %+v", d.Kind, d.Judged)
		}
	}
	if j := auditJSON(t, env, "s1", "s2", "--judge", "openai/gpt-5-mini").Judging; j.Wrong != 1 {
		t.Errorf("a model that takes no temperature: %+v", j)
	}
	refuse.Store(true) // one question, which costs nothing
	if j := auditJSON(t, env, "s1", "s2", "--judge", "openai/gpt-4o-mini").Judging; j.Wrong != 1 || j.Unusable != 1 || j.CostUSD == nil || *j.CostUSD > 0.16 {
		t.Errorf("one question is refused: %+v", j)
	}
	missing := httptest.NewServer(http.NotFoundHandler()) // it has no such model: not one question is refused
	defer missing.Close()
	if code, _, stderr := audit(t, map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": missing.URL}, "s1", "s2", "--judge", "openai/x"); code != cli.ExitUnavailable {
		t.Errorf("all questions are refused: exit %d: %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(experiment.Folder, "langfuse.db")); !os.IsNotExist(err) {
		t.Errorf("runs over a file opened Langfuse: %v", err)
	}
}

// TestAround: of a long document, the part around the finding goes to the model.
func TestAround(t *testing.T) {
	text := strings.Repeat("ä", 20_000) + "Ada" + strings.Repeat("b", 20_000)
	part := around(text, []harness.Place{{Span: extraction.Span{Start: 20_000, End: 20_003, Quote: "Ada"}}})
	if !strings.Contains(part, "äAdab") || len(part) > maxJudgedText+10 || !utf8.ValidString(part) {
		t.Errorf("%d bytes, %.30q", len(part), part)
	}
	if end := around(text, []harness.Place{{Span: extraction.Span{Start: 40_002, End: 40_003}}}); !strings.HasSuffix(end, "b") {
		t.Errorf("%.30q", end)
	}
	if around("short", nil) != "short" {
		t.Error("a short document is changed")
	}
}
