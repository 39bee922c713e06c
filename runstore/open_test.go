package runstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

func TestOpen_errors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		noError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	run := newRun(t, 200)
	commitOutcomes(t, run, 200, 500)
	noError(t, run.Close())
	whole, err := os.ReadFile(run.Path())
	noError(t, err)
	edit := func(name, statement string) string {
		path := write(name, whole)
		db, err := connect(path, "rw")
		noError(t, err)
		_, err = db.Exec(statement)
		noError(t, errors.Join(err, db.Close()))
		return path
	}
	overwritten := append([]byte(nil), whole...)
	for i := 4096; i < 40960; i++ {
		overwritten[i] = 0xff
	}
	tests := map[string]struct {
		path string
		kind error
	}{
		"missing":         {filepath.Join(dir, "none.run"), ErrMissing},
		"missing, as fs":  {filepath.Join(dir, "none.run"), fs.ErrNotExist},
		"a folder":        {dir, ErrNotRun},
		"empty":           {write("empty", nil), ErrNotRun},
		"text":            {write("text", []byte(strings.Repeat("no run ", 1000))), ErrNotRun},
		"other SQLite":    {edit("other", "PRAGMA application_id=7"), ErrNotRun},
		"later format":    {edit("later", "PRAGMA user_version=99"), ErrNewer},
		"cut off":         {write("cut", whole[:len(whole)/2]), ErrDamaged},
		"scribbled":       {write("scribbled", overwritten), ErrDamaged},
		"without header":  {edit("headless", "DELETE FROM meta"), ErrDamaged},
		"header not JSON": {edit("garbled", "UPDATE meta SET value = 'x'"), ErrDamaged},
		"too many trials": {edit("trials", "UPDATE meta SET value = json_set(value, '$.trials', 2000000000) WHERE key = 'header'"), ErrDamaged},
		"without a table": {edit("tableless", "DROP TABLE outcome"), ErrDamaged},
		"endless view": {edit("view", `ALTER TABLE meta RENAME TO m; CREATE VIEW meta AS
			WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT key, value FROM m, n`), ErrNotRun},
		"trigger":          {edit("trigger", "CREATE TRIGGER t AFTER INSERT ON outcome BEGIN DELETE FROM outcome; END"), ErrNotRun},
		"with other table": {edit("strange", "DROP TABLE item; CREATE TABLE item(x)"), ErrDamaged},
	}
	for name, test := range tests {
		run, err := Open(test.path)
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: error %v, want %v", name, err, test.kind)
		}
		var f *Fault
		if !errors.As(err, &f) || f.ExitCode() != 64 || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%s: %v does not name the file or has another exit code than 64", name, err)
		}
		if run != nil {
			noError(t, run.Close())
		}
		if _, err := os.Stat(test.path + ".lock"); err == nil {
			t.Errorf("%s: the lock is left behind", name)
		}
	}
}

// TestLoad_hugeHeader: a header above the limit is neither written nor read.
func TestLoad_hugeHeader(t *testing.T) {
	run := newRun(t, 0)
	huge := strings.Repeat("x", maxMeta)
	err := run.ChangeHeader(t.Context(), func(h *outcome.Header) { h.Description = huge })
	if err == nil || !strings.Contains(err.Error(), "more than 4194304") {
		t.Errorf("writing it: %v", err)
	}
	noError(t, run.writer.submit(t.Context(), 0, func(t *tx) error {
		return t.exec("UPDATE meta SET value = json_set(value, '$.description', ?)", huge)
	}))
	noError(t, run.Close())
	if r, err := Load(run.Path()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "header: it has 4194") {
		t.Errorf("reading it: %v", errors.Join(err, r.Close()))
	}
	h, path := testHeader(), filepath.Join(t.TempDir(), "new.run")
	h.System.Prompt.Template = json.RawMessage(`"` + huge + `"`)
	err = Build(path, h, nil)
	if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "shorten the prompt") || len(fileNames(t, filepath.Dir(path))) > 0 {
		t.Errorf("a new run: %v", err)
	}
}

// TestBuild_headerOfAnExport checks that a run whose header is as long as a file may hold can be exported and read
// again: it has its fingerprint already.
func TestBuild_headerOfAnExport(t *testing.T) {
	h := testHeader()
	h.Dataset.Fingerprint = strings.Repeat("f", 64)
	h.Description = "d"
	text, err := encodeHeader(h)
	h.Description = strings.Repeat("d", 1+maxMeta-len(text))
	if err := errors.Join(err, CheckHeader(h)); err != nil {
		t.Error(err)
	}
	h.Dataset.Fingerprint = ""
	if CheckHeader(h) == nil {
		t.Error("there is no room for the fingerprint")
	}
	export := strings.NewReader(`{"kind":"header","format":1,"run_uid":"u","description":"` + strings.Repeat("d", maxMeta) + "\"}\n")
	err = Import(t.Context(), export, "big.jsonl", filepath.Join(t.TempDir(), "new.run"))
	if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "big.jsonl: line 1: the header of the run has") {
		t.Errorf("an export: %v", err)
	}
}

func TestLoad_damagedRowIsNamed(t *testing.T) {
	for name, statement := range map[string]string{
		"body":    "UPDATE detail SET body = '{' WHERE oid = 2",
		"no body": "DELETE FROM detail WHERE oid = 2",
		"scores":  "UPDATE outcome SET scores = x'01ff' WHERE oid = 2",
		"tokens":  "UPDATE outcome SET tokens = 'x' WHERE oid = 2",
		"type":    "UPDATE outcome SET latency = 'x' WHERE oid = 2",
		// Of a file without checksums.
		"failure": "UPDATE outcome SET class = 'timeout', sum = NULL WHERE oid = 2",
		"cost":    "UPDATE outcome SET cost = 9e999, sum = NULL WHERE oid = 2",
	} {
		run := newRun(t, 3)
		commitOutcomes(t, run, 3, 0)
		noError(t, run.writer.submit(t.Context(), 0, func(t *tx) error { return t.exec(statement) }))
		var last error
		for _, err := range run.Outcomes(t.Context(), Query{Depth: Full}) {
			last = err
		}
		if !errors.Is(last, ErrDamaged) || name != "type" && !strings.Contains(last.Error(), "item-000001") {
			t.Errorf("%s: %v", name, last)
		}
	}
}

func TestCreate_existsAndLocked(t *testing.T) {
	run := newRun(t, 0)
	if _, err := Create(run.Path(), testHeader()); !errors.Is(err, ErrExists) {
		t.Errorf("create over a run: %v", err)
	}
	_, err := Open(run.Path())
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), run.Path()) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second writer: %v", err)
	}
	noError(t, run.Close())
	mustOpen(t, run.Path())
}

func TestCreate_isWonByOne(t *testing.T) {
	path := Path(t.TempDir(), "p", "d", "n")
	var wg sync.WaitGroup
	runs, errs := make([]*Run, 8), make([]error, 8)
	for i := range runs {
		wg.Go(func() { runs[i], errs[i] = Create(path, testHeader()) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			defer func() { noError(t, runs[i].Close()) }()
		} else if !errors.Is(err, ErrExists) && !errors.Is(err, ErrLocked) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d created it", won)
	}
}
