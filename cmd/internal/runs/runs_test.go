package runs

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// writeRun writes an unpublished run of one item in this folder. Its file time is one hour
// ago.
func writeRun(t testing.TB, name string, score float64) string {
	t.Helper()
	path := runstore.Path(settings.Folder, "embedded", "d", name)
	run, err := runstore.Create(path, outcome.Header{RunUID: name, Name: name, Dataset: outcome.Dataset{Name: "d"}, Trials: 1,
		Scorer: outcome.Scorer{Version: "1", Primary: "f1"}, Project: "embedded", Started: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	item := dataset.Item{ID: "a", Input: []byte(`{"document_text":"x"}`)}
	err = errors.Join(run.AddItems(t.Context(), []dataset.Item{item}),
		run.Commit(t.Context(), outcome.Outcome{Item: "a", Trial: 1, Attempt: 1, Scores: []outcome.Score{{Name: "f1", Value: &score}}}),
		run.Finish(t.Context(), outcome.Footer{Status: outcome.Complete, Planned: 1}), run.Close(), backdate(path))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFind_file: a file hides no run of the same name; with a slash or an extension of runs it is
// the file.
func TestFind_file(t *testing.T) {
	t.Chdir(t.TempDir())
	run, lines, file := writeRun(t, "o1", 0.5), writeRun(t, "o4.jsonl", 0.5), writeRun(t, "o5.run", 0.5)
	for _, name := range []string{"o1", "o2", "o1.jsonl", "o1.json"} {
		if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for named, want := range map[string]string{
		"o1": run, "./o1": "./o1", "o2": "o2", "o1.jsonl": "o1.jsonl", "o1.json": "o1.json", "o3": "", "o3.jsonl": "", "./o3": "",
		"o4.jsonl": lines, "o5.run": file, "./o4.jsonl": "",
	} {
		if path, err := Find(t.Context(), named, ""); path != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v, want %s", named, path, err, want)
		}
	}
	sources, done, err := Sources(t.Context(), cli.Env{}, []string{"o1"}, "", false)
	if err != nil || sources[0].Where() != run {
		t.Errorf("%v %v", sources, err)
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}

// TestCanWrite: an output replaces no run, under whatever path, and nothing that is read; an export
// replaces only another export.
func TestCanWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	run := writeRun(t, "o1", 0.5)
	stored, err := runstore.Load(run)
	if err != nil {
		t.Fatal(err)
	}
	var export bytes.Buffer
	written, errOpen := runstore.Open(run)
	if errOpen != nil {
		t.Fatal(errOpen)
	}
	log := run + "-wal"
	defer written.Close()
	err = errors.Join(written.SetServer(t.Context(), "x"), stored.Export(t.Context(), &export), stored.Close(), os.Link(run, "hard"), os.Symlink(run, "soft"), os.Mkdir("folder", 0o700))
	for name, content := range map[string][]byte{"export": export.Bytes(), "cut": export.Bytes()[:20], "page": []byte("<html>"), "empty": nil} {
		err = errors.Join(err, os.WriteFile(name, content, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct{ write, export string }{
		run: {"a run file", "a run file"}, log: {"a run file", "a run file"}, "hard": {"a run file", "a run file"}, "soft": {"a run file", "a run file"},
		"./hard": {"a run file", "a run file"}, "export": {"the export of a run", ""}, "cut": {"the export of a run", ""},
		"page": {"", "not the export of a run"}, "empty": {}, "new": {}, "folder": {"a folder", "a folder"}, "no/new": {"no such", "no such"},
	} {
		check := func(name string, got error, want string) {
			if want == "" && got != nil || want != "" && (cli.ExitCode(got) != cli.ExitUsage || !strings.Contains(got.Error(), want)) {
				t.Errorf("%s of %s: %v, want %q", name, path, got, want)
			}
		}
		check("output", CanWrite(path), want.write)
		check("export", CanExport(path), want.export)
		if want.write == "" && path != "new" {
			check("read output", CanWrite("./"+path, "elsewhere", path), "a file that is read")
		}
	}
}

// TestCanWrite_unreadable: what cannot be read may be a run.
func TestCanWrite_unreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "closed")
	if err := os.WriteFile(path, []byte("x"), 0); err != nil || os.Getuid() <= 0 {
		t.Skip("root may read everything", err)
	}
	if err := CanWrite(path); cli.ExitCode(err) != cli.ExitUsage {
		t.Error(err)
	}
}

// TestCheckOutputs: outputs are one file by any of its paths, whether it exists or not; a device is none.
func TestCheckOutputs(t *testing.T) {
	t.Chdir(t.TempDir())
	absolute, err := filepath.Abs("new")
	if err = errors.Join(err, os.WriteFile("old", nil, 0o600), os.Symlink("old", "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		paths   []string
		refused bool
	}{
		{[]string{"new", "", "old", "newer", ""}, false},
		{[]string{"new", "", "./new"}, true},
		{[]string{absolute, "old", "new"}, true},
		{[]string{"old", "link"}, true},
		{[]string{os.DevNull, os.DevNull}, false},
	} {
		if err := CheckOutputs(tt.paths...); (cli.ExitCode(err) == cli.ExitUsage) != tt.refused {
			t.Errorf("%q: %v", tt.paths, err)
		}
	}
}

func backdate(path string) error {
	then := time.Now().Add(-time.Hour)
	return os.Chtimes(path, then, then)
}

// TestRuns_cached: the list of runs is the same with and without its cache, with a damaged
// cache and after changes to files.
func TestRuns_cached(t *testing.T) {
	t.Chdir(t.TempDir())
	list := func() string {
		t.Helper()
		rows, unreadable, err := Rows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, row := range rows {
			b.WriteString(row.Name + strings.Repeat("!", row.Unpublished) + " " + map[float64]string{0.25: "low", 0.75: "high"}[*row.Mean] + " ")
		}
		return b.String() + strings.Repeat("damaged ", len(unreadable))
	}
	if got := list(); got != "" {
		t.Errorf("no runs: %s", got)
	}
	if _, err := os.Stat(settings.Folder); err == nil {
		t.Error("a list of nothing made a folder")
	}
	first, second := writeRun(t, "first", 0.25), writeRun(t, "second", 0.75)
	const want = "first! low second! high "
	for range 2 {
		if got := list(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	cacheFile, err := os.ReadFile(runCachePath())
	if err != nil {
		t.Fatal(err)
	}
	for name, cache := range map[string][]byte{
		"another value": bytes.Replace(cacheFile, []byte("0.25"), []byte("0.75"), 1), "cut": cacheFile[:len(cacheFile)/2], "empty": nil, "none": []byte("null"),
		"another format": bytes.Replace(cacheFile, []byte(`"format":1`), []byte(`"format":9`), 1), "another program": bytes.Replace(cacheFile, []byte(`"program":"`), []byte(`"program":"x`), 1),
	} {
		if err := os.WriteFile(runCachePath(), cache, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := list(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if now, err := os.ReadFile(runCachePath()); err != nil || !bytes.Equal(now, cacheFile) {
			t.Errorf("%s: the cache is not what it was: %v", name, err)
		}
	}

	// The list shows the cached row and does not open the file …
	info, err := os.Stat(first)
	if err == nil {
		err = errors.Join(os.WriteFile(first, make([]byte, info.Size()), 0o600), os.Chtimes(first, info.ModTime(), info.ModTime()))
	}
	if got := list(); err != nil || got != want {
		t.Errorf("of the same size and time: %s, want %s (%v)", got, want, err)
	}
	// … unless its time, its size or its log has changed.
	if err := os.Chtimes(first, info.ModTime().Add(time.Second), info.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got, want := list(), "second! high damaged "; got != want {
		t.Errorf("another time: %s, want %s", got, want)
	}
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	run, err := runstore.Open(second)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(run.SetServer(t.Context(), "x"), backdate(second))
	if _, settled := stampOf(second, time.Now()); err != nil || settled {
		t.Errorf("a run that is being written is settled (%v)", err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := list(), "second! high "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if now, err := os.ReadFile(runCachePath()); err != nil || strings.Contains(string(now), filepath.Base(first)) {
		t.Errorf("the cache keeps what is gone: %s, %v", now, err)
	}
}

// BenchmarkRuns lists 1,000 runs whose rows are cached.
func BenchmarkRuns(b *testing.B) {
	b.Chdir(b.TempDir())
	path := writeRun(b, "r", 0.5)
	raw, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		copied := filepath.Join(filepath.Dir(path), "r"+strings.Repeat("0", i%7)+time.Duration(i).String()+runstore.Extension)
		if err := errors.Join(os.WriteFile(copied, raw, 0o600), backdate(copied)); err != nil {
			b.Fatal(err)
		}
	}
	for range 2 { // fills the cache
		if _, _, err := Rows(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, _, err := Rows(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoteUnfinished checks that a run with 1 of 3 outcomes is unfinished, with and without a writer,
// and that there is no note about a run that is complete.
func TestNoteUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	run, err := runstore.Create(path, outcome.Header{RunUID: strings.Repeat("a", 32), Name: "r", Trials: 1})
	must(t, err)
	var items []dataset.Item
	for _, id := range []string{"a", "b", "c"} {
		items = append(items, dataset.Item{ID: id, Input: json.RawMessage(`{}`)})
	}
	must(t, run.AddItems(t.Context(), items))
	must(t, run.Commit(t.Context(), outcome.Outcome{Item: "b", Trial: 1, Attempt: 1}))
	note := func() string {
		t.Helper()
		r, err := runstore.Load(path)
		must(t, err)
		defer func() { must(t, r.Close()) }()
		var b bytes.Buffer
		must(t, NoteUnfinished(t.Context(), cli.Env{Stderr: &b}, r))
		return b.String()
	}
	const want = "note: the run is not finished: 1 of 3 items; it is still running, or was stopped\n"
	if got := note(); got != want {
		t.Errorf("while it is written: %q, want %q", got, want)
	}
	must(t, run.Close())
	if got := note(); got != want {
		t.Errorf("after its writer went: %q, want %q", got, want)
	}
	run, err = runstore.Open(path)
	must(t, err)
	must(t, run.Finish(t.Context(), outcome.Footer{Status: outcome.Interrupted, Planned: 3}))
	must(t, run.Close())
	if got := note(); got != want {
		t.Errorf("after it was stopped: %q", got)
	}
	run, err = runstore.Open(path)
	must(t, err)
	for _, item := range []string{"a", "c"} {
		must(t, run.Commit(t.Context(), outcome.Outcome{Item: item, Trial: 1, Attempt: 1}))
	}
	must(t, run.Finish(t.Context(), outcome.Footer{Status: outcome.Complete, Planned: 3}))
	must(t, run.Close())
	if got := note(); got != "" {
		t.Errorf("complete: %q", got)
	}
}
