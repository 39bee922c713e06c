package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// hostileName and hostileText try to escape from the HTML around them.
const (
	hostileName = `"><img src=x onerror=window.pwned=1><script>window.pwned=1` // no slash: Langfuse cannot look it up
	hostileText = `</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>`
)

// runsFolder returns the folder of the runs.
var runsFolder = filepath.Join(settings.Folder, "runs")

// servedFolder is a folder with runs and the address of its server.
type servedFolder struct {
	bench
	url string
}

// serveFolder creates two runs of a dataset with a hostile item, one run of fewer items and one
// with a hostile name, and serves the folder.
func serveFolder(t *testing.T) servedFolder {
	t.Helper()
	b := newBench(t)
	hostile, err := json.Marshal(hostileText)
	must(t, err)
	lines := `{"id":"a","input":{"document_text":"Mr. John Smith works for Acme Inc. in Berlin."},"expectedOutput":{"entities":[{"name":"John Smith","type":"Person"}]}}
{"id":"b","input":{"document_text":` + string(hostile) + `},"expectedOutput":{"entities":[{"name":` + string(hostile) + `,"type":` + string(hostile) + `}]}}
`
	must(t, os.WriteFile("items.jsonl", []byte(lines), 0o600))
	for _, args := range [][]string{{"--name", "base"}, {"--name", "same"}, {"--name", "fewer", "--item", "a"}, {"--name", hostileName}} {
		b.succeed(nil, append([]string{"--dataset", "items.jsonl", "--quiet"}, args...)...)
	}
	return servedFolder{b, serveHere(t)}
}

// serveHere runs "experiment serve" in the current folder until the test ends.
func serveHere(t *testing.T) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended, started := make(chan int, 1), make(chan string, 1)
	read, write := io.Pipe()
	go func() {
		ended <- Run(ctx, cli.Env{Args: []string{"serve", "--port", "0"}, Stdin: strings.NewReader(""), Stdout: write, Stderr: io.Discard,
			Getenv: func(string) string { return "" }, Terminal: func() int { return 0 }})
		write.Close()
	}()
	go func() {
		var address string
		fmt.Fscanf(read, "The runs of this folder: %s", &address)
		started <- strings.TrimSuffix(address, "/")
		io.Copy(io.Discard, read)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("serve ended with %d", code)
		}
	})
	select {
	case address := <-started:
		return address
	case <-time.After(20 * time.Second):
		t.Fatal("the server did not start")
	}
	return ""
}

func (s servedFolder) get(path string) (status int, body string) {
	s.t.Helper()
	answer, err := http.Get(s.url + path)
	must(s.t, err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	must(s.t, err)
	return answer.StatusCode, string(raw)
}

func (s servedFolder) path(name string) string {
	s.t.Helper()
	entries, err := runs.List(s.t.Context())
	must(s.t, err)
	for _, e := range entries {
		if e.Header.Name == name {
			path, err := filepath.Rel(runsFolder, e.Path)
			must(s.t, err)
			return filepath.ToSlash(path)
		}
	}
	s.t.Fatalf("no run %q", name)
	return ""
}

func TestServe_pages(t *testing.T) {
	s := serveFolder(t)
	base, same, fewer := s.path("base"), s.path("same"), s.path("fewer")
	outside := filepath.Join(t.TempDir(), "outside.run")
	if raw, err := os.ReadFile(filepath.Join(runsFolder, filepath.FromSlash(base))); err != nil || os.WriteFile(outside, raw, 0o600) != nil {
		t.Fatal(err)
	}
	must(t, os.Symlink(outside, filepath.Join(runsFolder, "link.run")))
	for name, tt := range map[string]struct {
		path   string
		status int
		want   string
	}{
		"list":             {"/", 200, `<a href="/runs/` + base + `"><bdi>base</bdi></a>`},
		"run":              {"/runs/" + base, 200, `href="/" title="All runs of this folder"`},
		"comparison":       {"/compare?base=" + url.QueryEscape(base) + "&cand=" + url.QueryEscape(same), 200, "the same in every item"},
		"incompatible":     {"/compare?base=" + url.QueryEscape(base) + "&cand=" + url.QueryEscape(fewer), 200, "These runs cannot be compared"},
		"not there":        {"/runs/embedded/x/y.run", 404, "there is no run"},
		"no run":           {"/runs/" + strings.TrimSuffix(base, ".run"), 404, "there is no run"},
		"out of it":        {"/runs/..%2F..%2Flangfuse.db", 404, "there is no run"},
		"out by a run":     {"/runs/..%2Fruns%2F" + url.QueryEscape(base), 404, "there is no run"},
		"out by a link":    {"/runs/link.run", 404, "there is no run"},
		"compared outside": {"/compare?base=" + url.QueryEscape(base) + "&cand=" + url.QueryEscape(outside), 404, "there is no run"},
		"API":              {"/api/public/projects", 401, "No authorization header"},
	} {
		if status, body := s.get(tt.path); status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d, want %d with %q:\n%.500s", name, status, tt.status, tt.want, body)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/", nil)
	must(t, err)
	request.Host = "rebound.example"
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("another host is answered %s", answer.Status)
	}
}

// TestServe_langfuseAddresses: the Langfuse addresses that programs print lead to the pages.
func TestServe_langfuseAddresses(t *testing.T) {
	s := serveFolder(t)
	run, err := runstore.Load(filepath.Join(runsFolder, s.path("base")))
	must(t, err)
	x, ok, err := run.Experiment(t.Context(), 1)
	if err != nil || !ok || run.Close() != nil {
		t.Fatal(ok, err)
	}
	trace := ""
	s.langfuse(func(client *langfuse.Client) {
		for o, err := range client.ListObservations(t.Context(), langfuse.ObservationsQuery{}) {
			must(t, err)
			trace = o.TraceID
		}
	})
	for address, want := range map[string]string{
		langfuse.RunURL(s.url, "embedded", "d", x.ID):                "<title>base</title>",
		langfuse.RunURL(s.url, "embedded", "d", "x1"):                "no run of this folder has the id",
		langfuse.CompareURL(s.url, "embedded", "d", x.ID, x.ID):      "<h1>Runs",
		s.url + "/project/embedded/traces/" + trace:                  trace,
		s.url + "/project/embedded/prompts/extract?version=1":        "<h1>Runs",
		s.url + "/project/embedded/traces/" + strings.Repeat("0", 9): "there is no trace",
	} {
		if _, body := s.get(strings.TrimPrefix(address, s.url)); !strings.Contains(body, want) {
			t.Errorf("%s shows no %q:\n%.300s", address, want, body)
		}
	}
}

// TestServe_whileWritten: a run that another process writes is listed and shown.
func TestServe_whileWritten(t *testing.T) {
	s := serveFolder(t)
	header := outcome.Header{Format: outcome.FormatVersion, RunUID: strings.Repeat("a", 32), Name: "going on", Harness: "extraction", Trials: 1, Started: time.Now(),
		Dataset: outcome.Dataset{Name: "items.jsonl"}, Scorer: outcome.Scorer{Primary: "entity_f1"}}
	run, err := runstore.Create(runstore.Path(settings.Folder, "embedded", "items.jsonl", "going on"), header)
	must(t, err)
	if status, body := s.get("/"); status != 200 || !strings.Contains(body, "<bdi>going on</bdi>") {
		t.Errorf("%d: the list has no run that goes on:\n%.500s", status, body)
	}
	if status, body := s.get("/runs/" + url.PathEscape(s.path("going on"))); status != 200 || !strings.Contains(body, "going on") {
		t.Errorf("%d:\n%.500s", status, body)
	}
	must(t, run.Close())
	// A file that is not a run file is reported and hides no other run.
	must(t, os.WriteFile(filepath.Join(runsFolder, "broken.run"), []byte("no run"), 0o600))
	if status, body := s.get("/"); status != 200 || !strings.Contains(body, "broken.run") || !strings.Contains(body, "<bdi>base</bdi>") {
		t.Errorf("%d: a broken file:\n%.500s", status, body)
	}
}

// ready is a JavaScript expression that is true once the script of a page has run.
const ready = `document.querySelector("nav a[aria-current]") !== null`

// TestServe_browser goes through the pages in a browser.
func TestServe_browser(t *testing.T) {
	if os.Getenv("EXPERIMENT_BROWSER") != "required" {
		t.Skip("set EXPERIMENT_BROWSER=required, as .ci/run does")
	}
	chromium := testkit.StartBrowser(t)
	s := serveFolder(t)
	b := testkit.OpenPage(t, chromium, s.url+"/", s.url+"/")
	testkit.WantOnPage(b, `document.querySelectorAll(".runlist tbody tr").length`, 4)
	b.Click(`a[href$="` + s.path("base") + `"]`)
	testkit.WantOnPage(b, `document.title`, "base")
	testkit.WantOnPage(b, ready, true)
	b.Press("j", "j", "j")
	testkit.WantOnPage(b, `document.querySelectorAll("#list tbody tr").length`, 2)
	b.Press("\r")
	testkit.WantOnPage(b, `!!document.querySelector('#item a[href^="/traces/"]')`, true)
	testkit.PageValue[bool](b, `document.querySelector('#item a[href^="/traces/"]').click() === undefined`)
	testkit.WantOnPage(b, `document.querySelector("h1").textContent.startsWith("Trace ")`, true)
	testkit.WantOnPage(b, `document.querySelectorAll("details.step").length`, 2)
	testkit.WantOnPage(b, `Array.from(document.querySelectorAll(".tracescores tbody tr"), r => r.cells[0].textContent).sort().join(" ")`, "entity_f1 entity_precision entity_recall error")
	b.Click(`a.back`)
	testkit.WantOnPage(b, `document.querySelectorAll(".runlist tbody tr").length`, 4)

	b.Click(`input[name=base][value="` + s.path("same") + `"]`)
	testkit.PageValue[[]bool](b, `Array.from(document.querySelectorAll("input[name=cand]"), c => c.checked = false)`)
	b.Click(`input[name=cand][value="` + s.path("base") + `"]`)
	b.Click(`button[type=submit]`)
	testkit.WantOnPage(b, `document.querySelector(".verdict .word") ? document.querySelector(".verdict .word").textContent : ""`, "the same in every item")
	testkit.WantOnPage(b, ready, true)
	b.Press("j", "j", "\r")
	testkit.WantOnPage(b, `document.querySelector("#item .verdictline") !== null`, true)
	b.Click(`nav a[data-view=overview]`)
	b.Click(`.side a`) // the page of the base
	testkit.WantOnPage(b, `document.title`, "same")

	for _, name := range []string{hostileName, "base"} { // all of their items
		testkit.PageValue[string](b, `location.href = "/runs/`+(&url.URL{Path: s.path(name)}).EscapedPath()+`"`)
		testkit.WantOnPage(b, `document.title.length > 0 && Number(document.querySelector(".bar nav .count").textContent)`, 2)
		testkit.PageValue[string](b, `location.hash = "#/item/b/1"`)
		testkit.WantOnPage(b, `document.querySelector("#item h1") !== null && window.pwned === undefined`, true)
	}
	b.WantNoComplaints()
}

// TestServe_compareAsCommand: for a score that is better if lower, the page of a comparison says
// the same as the command.
func TestServe_compareAsCommand(t *testing.T) {
	pdf, questions := samplePath(t, "report.pdf"), samplePath(t, "report.jsonl")
	b := newBench(t)
	silent := "while read -r question; do echo '{\"answer\":\"42\"}'; done"
	must(t, os.WriteFile("silent.sh", []byte(silent), 0o600))
	for name, more := range map[string][]string{"cites": nil, "silent": {"--command", "sh silent.sh", "--concurrency", "1"}} {
		args := append([]string{"answers", "run", "--pdf", pdf, "--questions", questions, "--out", name, "--quiet"}, more...)
		b.succeed(nil, args...)
	}
	b.succeed(nil, "compare", "cites", "silent", "--html", "page.html")
	raw, err := os.ReadFile("page.html")
	must(t, err)
	s := servedFolder{b, serveHere(t)}
	_, page := s.get("/compare?base=" + url.QueryEscape(s.path("cites")) + "&cand=" + url.QueryEscape(s.path("silent")))
	row := regexp.MustCompile(`<tr>[^\n]*citation_penalty.*`)
	want, got := row.FindString(string(raw)), row.FindString(page)
	if !strings.Contains(want, "worse") || got != want {
		t.Errorf("the page has\n%s\nthe command\n%s", got, want)
	}
}
