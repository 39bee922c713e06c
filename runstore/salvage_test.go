package runstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/internal/testkit/suite"
)

// damagedRun returns the path of a closed run of 24 outcomes with a footer, and its export.
func damagedRun(t *testing.T) (path, whole string) {
	run := newRun(t, 24)
	commitOutcomes(t, run, 24, 5000)
	noError(t, run.Finish(t.Context(), testFooter()))
	whole = export(t, run.Reader)
	noError(t, run.Close())
	return run.Path(), whole
}

// TestExport_everyPageZeroed: whichever page is lost, the export has only lines of the complete
// export except for the footer, it has most of them, and it counts the missing ones.
func TestExport_everyPageZeroed(t *testing.T) {
	path, whole := damagedRun(t)
	content, err := os.ReadFile(path)
	noError(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(whole) {
		lines[line] = true
	}
	const page = 4096
	for at := page; at < len(content); at += suite.SampleOr(3, 1) * page {
		damaged := bytes.Clone(content)
		clear(damaged[at : at+page])
		noError(t, os.WriteFile(path, damaged, 0o600))
		text, err := salvaged(t, path)
		items, outcomes := int64(0), int64(0)
		for line := range strings.Lines(text) {
			switch {
			case strings.HasPrefix(line, `{"kind":"footer"`):
				continue
			case strings.HasPrefix(line, `{"kind":"item"`):
				items++
			case strings.HasPrefix(line, `{"kind":"outcome"`):
				outcomes++
			}
			if !lines[line] {
				t.Fatalf("page %d: a line that the run does not have: %.300s", at/page, line)
			}
		}
		var loss *Loss
		if err == nil {
			if text != whole {
				t.Errorf("page %d: no error, and %d items and %d outcomes", at/page, items, outcomes)
			}
			continue
		}
		if !errors.As(err, &loss) || !errors.Is(err, ErrDamaged) || loss.ExitCode() != 74 {
			t.Errorf("page %d: %v", at/page, err)
			continue
		}
		if loss.Items+items != 24 || loss.Outcomes+outcomes != 24 || loss.WrittenOutcomes != outcomes || loss.WrittenItems != items {
			t.Errorf("page %d: %d items and %d outcomes, and %v", at/page, items, outcomes, err)
		}
		if len(loss.Parts) > 0 {
			continue // the page of the header and of the score names
		}
		if items+outcomes < 24 {
			t.Errorf("page %d: of 48 rows only %d are there: %v", at/page, items+outcomes, err)
		}
		if loss.Items == 0 && at/page%8 != 0 {
			continue // an import takes long
		}
		imported := strings.Replace(path, Extension, fmt.Sprintf("-%d%s", at, Extension), 1)
		if err := Import(t.Context(), strings.NewReader(text), "", imported); err != nil {
			t.Errorf("page %d: importing what was saved: %v", at/page, err)
		}
	}
}

// TestExport_cutOff: Salvage reads everything before the end of a truncated file.
func TestExport_cutOff(t *testing.T) {
	path, whole := damagedRun(t)
	info, err := os.Stat(path)
	noError(t, err)
	for _, cut := range []int64{1, 4096, 3*4096 + 100} {
		noError(t, os.Truncate(path, info.Size()-cut))
		if _, err := Load(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut by %d: %v", cut, err)
		}
		text, err := salvaged(t, path)
		if strings.Count(text, `{"kind":"outcome"`) < 12 || !strings.HasPrefix(whole, text[:strings.Index(text, "\n")+1]) {
			t.Errorf("cut by %d: %d outcomes, %v", cut, strings.Count(text, `{"kind":"outcome"`), err)
		}
	}
	for cut := int64(5 * 4096); cut < info.Size()*3/4; cut += 3001 { // within pages of all kinds
		noError(t, os.Truncate(path, info.Size()-cut))
		if _, err := salvaged(t, path); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut by %d: %v", cut, err)
		}
	}
}

func salvaged(t *testing.T, path string) (string, error) {
	t.Helper()
	r, err := Salvage(t.Context(), path)
	noError(t, err)
	defer func() { noError(t, r.Close()) }()
	var b strings.Builder
	err = r.Export(t.Context(), &b)
	return b.String(), err
}

// TestLoad_logMissing: a file without its log knows that the log is missing.
func TestLoad_logMissing(t *testing.T) {
	run := newRun(t, 8)
	copied := func(name string, log bool) string {
		path := filepath.Join(t.TempDir(), name+Extension)
		noError(t, copyFile(run.Path(), path))
		if log {
			noError(t, copyFile(run.Path()+"-wal", path+"-wal"))
		}
		return path
	}
	commitOutcomes(t, run, 8, 500)
	withoutLog := copied("alone", false)
	for range 2 { // SQLite creates an empty log for a reader
		if _, err := Load(withoutLog); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "alone.run-wal is missing") {
			t.Errorf("reading: %v", err)
		}
		if reopened, err := Open(withoutLog); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "alone.run-wal is missing") {
			t.Errorf("writing: %v", errors.Join(err, reopened.Close()))
		}
	}
	if text, err := salvaged(t, withoutLog); !errors.Is(err, ErrDamaged) || !strings.HasPrefix(text, `{"kind":"header"`) {
		t.Errorf("salvaging: %v\n%s", err, text)
	}
	for _, at := range []int{0, 24} { // of the header of the log: SQLite takes the log for empty
		flipped := copied("flipped", true)
		log, err := os.ReadFile(flipped + "-wal")
		noError(t, err)
		log[at] ^= 1
		noError(t, os.WriteFile(flipped+"-wal", log, 0o600))
		if _, err := Load(flipped); !errors.Is(err, ErrDamaged) {
			t.Errorf("the header of the log is damaged at %d: %v", at, err)
		}
	}
	killed := copied("killed", true)
	for range 2 { // opened without a write
		reopened := mustOpen(t, killed)
		if all := collect(t, reopened.Reader, Query{}); len(all) != 8 {
			t.Errorf("%d of 8 outcomes are there", len(all))
		}
		noError(t, reopened.Close())
	}
	noError(t, run.Close())
	for _, path := range []string{killed, copied("closed", false)} {
		r := mustLoad(t, path)
		noError(t, r.Close())
		if left := fileNames(t, filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// TestOpen_refusedKeepsLog: if Open refuses a killed run it does not remove the log.
func TestOpen_refusedKeepsLog(t *testing.T) {
	run := newRun(t, 3)
	noError(t, run.Commit(t.Context(), testOutcome(0, 500)))
	path := filepath.Join(t.TempDir(), "killed"+Extension)
	noError(t, copyFile(run.Path(), path))
	noError(t, copyFile(run.Path()+"-wal", path+"-wal"))
	noError(t, run.Close())
	db, err := connect(path, "rw")
	noError(t, err)
	tx, err := openTx(t.Context(), path, db)
	noError(t, err)
	noError(t, errors.Join(tx.close(), db.Close()))
	mustOpen(t, path)
}

// TestExport_itemThatIsNoJSON: an item without a checksum may not be JSON. The rest is exported.
func TestExport_itemThatIsNoJSON(t *testing.T) {
	run := newRun(t, 3)
	noError(t, run.Close())
	path := run.Path()
	execSQL(t, path, "UPDATE item SET input = '{', sum = NULL, hash = 'x' WHERE seq = 2")
	r := mustLoad(t, path)
	var out bytes.Buffer
	err := r.Export(t.Context(), &out)
	loss, is := errors.AsType[*Loss](err)
	if !is || loss.Items != 1 || loss.WrittenItems != 2 || len(loss.Named) != 1 {
		t.Errorf("%v", err)
	}
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}
