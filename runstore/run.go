// Package runstore stores a run in one SQLite file, which is journal, outbox and result at
// once. The file holds the header, the items as they were listed, the outcomes as they were
// committed, the acknowledgements of the publication, and the footer. The package does not
// depend on Langfuse, models or scorers.
//
// A run has five steps:
//
//  1. Create creates the file with its header; Open opens it again.
//  2. AddItems writes the items page by page while they are listed;
//     CompleteListing fixes the fingerprint.
//  3. WithoutOutcome returns items without an outcome; Commit returns when an outcome is durable.
//  4. Unpublished returns outcomes without acknowledgement; Ack records acknowledgements.
//  5. Finish writes the footer; Close leaves one file that can be copied.
//
// A run has one writer at a time: Create and Open hold a lock, which the operating system
// releases when the process ends. Any number of readers (Load) in any process can read at
// the same time. Memory is bounded, because everything is read in pages.
//
//	path := runstore.Path(".experiment", "", "contracts", "baseline-v1")
//	run, err := runstore.Create(path, header)
//	…
//	err = run.AddItems(ctx, items)
//	err = run.Commit(ctx, outcome)
//	err = run.Finish(ctx, footer)
//	err = run.Close()
//
// Export writes a run as JSON lines, Import reads them, and OpenAny opens either form.
package runstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Run is a run that this process writes and reads. It is safe for concurrent use.
type Run struct {
	*Reader
	lock    *os.File
	writer  *writer
	hasher  dataset.Hasher
	scratch sync.Pool // of *[]byte: buffers for the large part of an outcome until it is written
}

// Create creates a run file with a header and opens it for writing. New folders are
// accessible only to the owner, and the file has mode 0600. The file gets its name when it is
// complete, so that a crash leaves either no run or a complete one. If h.Format is 0 Create
// sets it to the current format.
//
// Errors: ErrExists if path exists, ErrLocked, ErrWrite, those of CheckHeader.
func Create(path string, h outcome.Header) (*Run, error) {
	l, err := createFile(path, h, nil)
	if err != nil {
		return nil, err
	}
	return openLocked(path, l)
}

// Build creates a run file and calls fill with the open run. The file gets its name after
// fill has returned, so that an error of fill or a crash leaves no run. The errors are those
// of Create, Close and fill.
func Build(path string, h outcome.Header, fill func(*Run) error) error {
	l, err := createFile(path, h, fill)
	if err != nil {
		return err
	}
	return unlock(l)
}

// createFile locks a new run and writes its file, which fill completes unless it is nil. It
// returns the lock.
func createFile(path string, h outcome.Header, fill func(*Run) error) (*os.File, error) {
	if err := checkIsNew(path); err != nil {
		return nil, err
	}
	header, err := encodeHeader(h)
	if err != nil {
		return nil, err
	}
	if err := makeFolder(path); err != nil {
		return nil, fault(path, ErrWrite, err)
	}
	l, err := lockRun(path)
	if err != nil {
		return nil, err
	}
	if err := writeNew(path, header, fill); err != nil {
		return nil, errors.Join(err, unlock(l))
	}
	return l, nil
}

// writeNew writes a run file with a header, calls fill unless it is nil, and then gives the file
// its name. The caller holds the lock.
func writeNew(path, header string, fill func(*Run) error) error {
	if err := checkIsNew(path); err != nil { // created before the caller had the lock
		return err
	}
	if err := removeLeftovers(path); err != nil {
		return fault(path, ErrWrite, err)
	}
	var fillErr error
	err := files.Write(path, func(w io.Writer) error {
		name := w.(*os.File).Name()
		if err := build(name, header); err != nil || fill == nil {
			return err
		}
		fillErr = fillFile(name, fill)
		if f, ok := errors.AsType[*Fault](fillErr); ok && f.Path == name {
			f.Path = path
		}
		return fillErr
	})
	if err == nil {
		err = files.SyncFolder(filepath.Dir(path))
	} else { // SQLite leaves its log on a full disk
		err = errors.Join(err, removeLeftovers(path))
	}
	switch {
	case fillErr != nil:
		return fillErr
	case err != nil:
		return fault(path, ErrWrite, err)
	}
	return nil
}

func checkIsNew(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault(path, ErrExists, nil)
	}
	return nil
}

// Open opens an existing run for writing, whether it has a footer, was interrupted or
// crashed. It checks the structure of files up to 8 MiB; Reader.Check also reads all values.
//
// Errors: ErrMissing, ErrLocked, ErrNotRun, ErrNewer, ErrDamaged, ErrWrite.
func Open(path string) (*Run, error) {
	if err := checkIsFile(path); err != nil {
		return nil, err
	}
	l, err := lockRun(path)
	if err != nil {
		return nil, err
	}
	return openLocked(path, l)
}

// openLocked opens the run at path. The caller holds the lock l, which openLocked releases on
// an error.
func openLocked(path string, l *os.File) (*Run, error) {
	// The writer starts first, because it recovers the log after a crash.
	w, err := startWriter(path)
	if err != nil {
		return nil, errors.Join(err, unlock(l))
	}
	r, err := Load(path)
	if err != nil {
		return nil, errors.Join(err, w.close(), unlock(l))
	}
	return &Run{Reader: r, lock: l, writer: w}, nil
}

// removeLeftovers removes the temporary files of killed processes that were creating the run
// at path, and the log of a deleted run, which SQLite would apply to the new file. The caller
// holds the lock.
func removeLeftovers(path string) error {
	name := filepath.Base(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if files.IsNew(e.Name(), path) || e.Name() == name+"-wal" || e.Name() == name+"-shm" {
			err = errors.Join(err, ignoreMissing(os.Remove(filepath.Join(filepath.Dir(path), e.Name()))))
		}
	}
	return err
}

// fillFile opens the new run at path, calls fill and closes the run.
func fillFile(path string, fill func(*Run) error) error {
	l, err := lockRun(path)
	if err != nil {
		return err
	}
	run, err := openLocked(path, l)
	if err != nil {
		return err
	}
	return errors.Join(fill(run), run.Close())
}

func checkIsFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return faultOf(path, ErrRead, err)
	}
	if !info.Mode().IsRegular() {
		return fault(path, ErrNotRun, errors.New("it is not a plain file"))
	}
	return nil
}

// CompleteListing records in the header that all items are in the run, by storing the
// fingerprint of the dataset; see Hashes. It is safe to repeat. The errors are those of
// Commit.
func (r *Run) CompleteListing(ctx context.Context, fingerprint string) error {
	return r.ChangeHeader(ctx, func(h *outcome.Header) { h.Dataset.Fingerprint = fingerprint })
}

// ChangeHeader changes the header. Changing its RunUID is an error, because all ids in
// Langfuse derive from it. Other errors are those of Commit.
func (r *Run) ChangeHeader(ctx context.Context, change func(*outcome.Header)) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.changeHeader(change) })
}

func (t *tx) changeHeader(change func(*outcome.Header)) error {
	h, err := t.Header(context.Background())
	if err != nil {
		return err
	}
	uid := h.RunUID
	if change(&h); h.RunUID != uid {
		return fmt.Errorf("changing the header: run_uid is %q and stays so, not %q", uid, h.RunUID)
	}
	return t.setMeta(keyHeader, h)
}

// Finish writes the footer. A footer describes everything in the run, so adding items or
// outcomes later removes it; acknowledgements do not. The errors are those of Commit.
func (r *Run) Finish(ctx context.Context, f outcome.Footer) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setMeta(keyFooter, f) })
}

// Close completes pending writes and leaves the run as a single file: it writes the log back
// and removes it, unless another process is reading. When Close returns, all files of the run
// are closed. It is safe to repeat. Later calls of other methods fail with ErrClosed.
func (r *Run) Close() error { return r.end(func() error { return nil }) }

// Remove closes the run and removes its file. No other process can open the run in between.
func (r *Run) Remove() error { return r.end(func() error { return os.Remove(r.path) }) }

// end closes the run and calls last before it releases the lock.
func (r *Run) end(last func() error) error {
	if !r.writer.stop() {
		return nil
	}
	readErr := r.Reader.Close()
	return errors.Join(readErr, r.writer.close(), last(), unlock(r.lock))
}

// Extension is the extension of run files.
const Extension = ".run"

const (
	runsFolder   = "runs"
	maxReadable  = 60 // bytes of the readable part of a file name with a hash
	hashedSuffix = 16 // hexadecimal digits of the hash
)

// Path returns the path of the run file with a name: dir/runs/<project>/<dataset>/<name>.run.
//
// A name stays unchanged if it consists of lower-case ASCII letters, digits, '.', '_' and
// '-', begins with a letter or digit, does not end in '.', has at most 80 bytes and is not
// reserved on Windows. In any other name Path converts letters to lower case, replaces
// everything except letters and digits by '-', and appends '~' and 16 hexadecimal digits of
// the SHA-256 of the name. The result is deterministic, never outside dir, and different for
// names that differ only in case. The empty name becomes "_".
func Path(dir, project, dataset, name string) string {
	return filepath.Join(dir, runsFolder, safeName(project), safeName(dataset), safeName(name)+Extension)
}

func safeName(name string) string {
	if name == "" {
		return "_"
	}
	if plainName().MatchString(name) && !deviceName().MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return readablePart(name) + "~" + hex.EncodeToString(sum[:])[:hashedSuffix]
}

// plainName matches the names that safeName does not change.
var plainName = textutil.Pattern(`^[a-z0-9]([a-z0-9._-]{0,78}[a-z0-9_-])?$`)

// deviceName matches the names of devices on Windows, with any extension.
var deviceName = textutil.Pattern(`^(con|prn|aux|nul|(com|lpt)[0-9])(\.|$)`)

// readablePart returns the readable part of a file name with a hash.
func readablePart(name string) string {
	name = notReadable().ReplaceAllString(strings.ToLower(name), "-")
	return strings.TrimSuffix(textutil.Cut(name, maxReadable), "…")
}

var notReadable = textutil.Pattern(`[^\p{L}\p{Nd}]`)

// makeFolder creates the folder of a run file. Only the owner can access it, because it will
// hold documents and answers. If path has the form that Path returns, makeFolder also creates
// a .gitignore in the dir of Path.
func makeFolder(path string) error {
	folder := filepath.Dir(path)
	if runs := filepath.Dir(filepath.Dir(folder)); filepath.Base(runs) == runsFolder {
		if err := files.MakePrivate(filepath.Dir(runs)); err != nil {
			return err
		}
	}
	return os.MkdirAll(folder, 0o700)
}

const keyPlace = "place"

// SetServer records the server to which the run is published, by its address or another name.
// The errors are those of Commit.
func (r *Run) SetServer(ctx context.Context, place string) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setMeta(keyPlace, place) })
}

// Server returns the value of the last SetServer, or "".
func (r *Reader) Server(ctx context.Context) (place string, err error) {
	place, _, err = readMeta[string](ctx, r.view, keyPlace)
	return place, err
}

// lockRun locks the run file at path for a writer, or fails with ErrLocked. The lock is an
// exclusive lock of the operating system on a file next to the run file, and ends with the
// process. lockRun does not lock the run file itself, because SQLite has its own locks there,
// and closing a second descriptor of a file drops all POSIX locks of the process on it.
func lockRun(path string) (*os.File, error) {
	name := path + ".lock"
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fault(path, ErrWrite, err)
		}
		held, err := retryLock(f)
		switch {
		case err != nil:
			return nil, fault(path, ErrWrite, errors.Join(fmt.Errorf("locking %s: %w", name, err), f.Close()))
		case !held:
			return nil, fault(path, ErrLocked, errors.Join(lockHolder(f), f.Close()))
		case isCurrent(f):
			// lockHolder reads the id. Its width is fixed, so that it replaces that of a killed process.
			if _, err := fmt.Fprintf(f, "%-20d\n", os.Getpid()); err != nil {
				return nil, fault(path, ErrWrite, errors.Join(err, unlock(f)))
			}
			return f, nil
		}
		if err := f.Close(); err != nil { // the previous owner removed it between open and lock
			return nil, fault(path, ErrWrite, err)
		}
	}
}

// retryLock tries to lock f for up to 40 ms, because Writing holds the lock for an instant.
func retryLock(f *os.File) (held bool, err error) {
	for range 20 {
		if held, err = files.TryLock(f, true); held || err != nil {
			return held, err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false, nil
}

// unlock removes the lock file and then releases the lock. It removes the file first, because
// after the release the name may belong to the next owner.
func unlock(f *os.File) error {
	if runtime.GOOS == "windows" { // cannot remove an open file, which the next owner may have opened at once
		err := f.Close()
		_ = os.Remove(f.Name()) // a lock file that stays locks nothing
		return err
	}
	return errors.Join(ignoreMissing(os.Remove(f.Name())), f.Close())
}

// isCurrent reports whether the name of an open file still refers to it.
func isCurrent(f *os.File) bool {
	locked, err := f.Stat()
	current, statErr := os.Stat(f.Name())
	return err == nil && statErr == nil && os.SameFile(locked, current)
}

// lockHolder returns an error that names the owner of the lock file, if it can be read.
func lockHolder(f *os.File) error {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 {
		return errors.New("another process writes it")
	}
	return fmt.Errorf("process %d writes it", pid)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Writing returns a Fault of kind ErrLocked, with the process in Err, if a process is writing
// the run file at path. It returns nil if none is, or if the lock file cannot be opened for
// lack of permission. Writing changes nothing, and its result may be outdated at once; to
// exclude other writers, call Open.
func Writing(path string) error {
	f, err := os.Open(path + ".lock")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		return fault(path, ErrRead, err)
	}
	defer f.Close()                      // f was not written
	free, err := files.TryLock(f, false) // a shared lock, held until f is closed
	switch {
	case err != nil:
		return fault(path, ErrRead, fmt.Errorf("looking at its lock: %w", err))
	case !free:
		return fault(path, ErrLocked, lockHolder(f))
	}
	return nil
}
