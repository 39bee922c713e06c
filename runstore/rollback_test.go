package runstore

import (
	"path/filepath"
	"testing"
)

// TestLoad_halfDone reads a run with the journal of a killed process. SQLite must roll back before
// it reads.
func TestLoad_halfDone(t *testing.T) {
	run := newRun(t, 3)
	noError(t, run.Close())
	path := run.Path()

	// A transaction in the journal mode of a closed run. The file and its journal are copied in the
	// middle of it, after some pages were written.
	db, err := connect(path, "rw", "cache_size(1)", "cache_spill(1)")
	noError(t, err)
	_, err = db.Exec("BEGIN IMMEDIATE")
	noError(t, err)
	for range 200 { // more than the cache holds, so that pages are written to the file
		_, err = db.Exec("INSERT INTO item(id, hash, input) SELECT 'x' || hex(randomblob(20)), '', hex(randomblob(2000))")
		noError(t, err)
	}
	killed := filepath.Join(t.TempDir(), "killed.run")
	noError(t, copyFile(path, killed))
	noError(t, copyFile(path+"-journal", killed+"-journal"))
	_, err = db.Exec("ROLLBACK")
	noError(t, err)
	noError(t, db.Close())

	r := mustLoad(t, killed)
	if n, err := r.CountItems(t.Context()); err != nil || n != 3 {
		t.Errorf("%d items, %v", n, err)
	}
}
