// Package runstore keeps a run on disk: one SQLite file that is journal,
// outbox and result at once. It holds the header, every item as it was listed,
// every outcome as it was committed, what has been published of it, and the
// footer. It knows nothing of Langfuse, of models or of scorers.
//
// A run passes through it in five steps:
//
//  1. Create makes the file with its Header; Open takes it up again.
//  2. AddItems writes the items page by page while they are listed;
//     CompleteListing fixes the fingerprint.
//  3. Unrun hands out what was not run; Commit returns once an outcome cannot
//     be lost any more.
//  4. Unpublished hands out what was not acknowledged; Ack records what was.
//  5. Finish writes the footer, Close leaves one file that can be copied.
//
// One writer at a time: Create and Open hold a lock that dies with the
// process. Any number of readers (Load) may look on meanwhile, from any
// process. Memory is bounded everywhere: everything comes in pages.
//
//	path := runstore.Path(".experiment", "", "contracts", "baseline-v1")
//	run, err := runstore.Create(path, header)
//	…
//	err = run.AddItems(ctx, items, dataset.Hash)
//	err = run.Commit(ctx, outcome)
//	err = run.Finish(ctx, footer)
//	err = run.Close()
//
// A run leaves its file as plain JSON lines (Export) and comes back from them
// (Import); OpenAny reads either form.
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
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Run is a run that this process writes, and can read like any Reader. Safe for
// concurrent use.
type Run struct {
	*Reader
	lock    *os.File
	writer  *writer
	scratch sync.Pool // of *[]byte: what an outcome has that is large, until it is written
}

// Create makes the run file at path, with the header, for writing. Folders are
// made for the owner only, the file has mode 0600. The file appears under its
// name when it is complete, so that a crash leaves either no run or a whole one.
//
// Errors: ErrExists when there is something under the name, ErrLocked,
// ErrWrite. A zero h.Format becomes the current one.
func Create(path string, h outcome.Header) (*Run, error) {
	l, err := reserve(path)
	if err != nil {
		return nil, err
	}
	if err := place(path, h, nil); err != nil {
		return nil, errors.Join(err, unlock(l))
	}
	return open(path, l)
}

// Build makes a run file at path that is complete when it appears: fill gets the run, and an
// error of it, or a crash, leaves no run. Errors: those of Create, Close and fill.
func Build(path string, h outcome.Header, fill func(*Run) error) error {
	l, err := reserve(path)
	if err != nil {
		return err
	}
	return errors.Join(place(path, h, fill), unlock(l))
}

// reserve takes the lock of a run that is to be made at path.
func reserve(path string) (*os.File, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fault(path, ErrExists, nil)
	}
	if err := makeFolder(path); err != nil {
		return nil, fault(path, ErrWrite, err)
	}
	return lockRun(path)
}

// Open takes a run up again for writing, after whatever ended it: a footer, an
// interruption or a crash. Files up to 8 MiB are checked as a whole.
//
// Errors: ErrMissing, ErrLocked, ErrNotRun, ErrNewer, ErrDamaged, ErrWrite.
func Open(path string) (*Run, error) {
	if err := isFile(path); err != nil {
		return nil, err
	}
	l, err := lockRun(path)
	if err != nil {
		return nil, err
	}
	return open(path, l)
}

// open opens the run at path, whose lock is held; it releases it on an error.
func open(path string, l *os.File) (*Run, error) {
	// The writer comes first: it recovers what a crash left in the log.
	w, err := startWriter(path)
	if err != nil {
		return nil, errors.Join(err, unlock(l))
	}
	r, err := Load(path)
	if err == nil {
		if err = r.known(context.Background()); err != nil {
			err = errors.Join(faultOf(path, ErrDamaged, err), r.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.close(), unlock(l))
	}
	return &Run{Reader: r, lock: l, writer: w}, nil
}

// removeLeft removes what killed processes left that were creating the run at path, whose
// lock is held, and the log of a run that is no longer there: SQLite would write it into the new one.
func removeLeft(path string) error {
	name := filepath.Base(path)
	entries, err := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if files.IsNew(e.Name(), path) || e.Name() == name+"-wal" || e.Name() == name+"-shm" {
			err = errors.Join(err, ignoreMissing(os.Remove(filepath.Join(filepath.Dir(path), e.Name()))))
		}
	}
	return err
}

// place builds a run in a file that gets its name when it is complete, and filled if fill is
// not nil. The lock is held.
func place(path string, h outcome.Header, fill func(*Run) error) error {
	if _, err := os.Lstat(path); err == nil { // made since it was reserved
		return fault(path, ErrExists, nil)
	}
	if h.Format == 0 {
		h.Format = outcome.FormatVersion
	}
	var unfilled error
	err := removeLeft(path)
	if err == nil {
		err = files.Write(path, func(w io.Writer) error {
			name := w.(*os.File).Name()
			err := build(name, h)
			if err == nil && fill != nil {
				unfilled = filled(name, fill)
			}
			return errors.Join(err, unfilled)
		})
	}
	if unfilled != nil {
		if f, ok := errors.AsType[*Fault](unfilled); ok {
			f.Path = path
		}
		return unfilled
	}
	if err == nil {
		err = files.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fault(path, ErrWrite, err)
	}
	return nil
}

// filled fills the run at path, which nobody knows of yet.
func filled(path string, fill func(*Run) error) error {
	l, err := lockRun(path)
	if err != nil {
		return err
	}
	run, err := open(path, l)
	if err != nil {
		return err
	}
	return errors.Join(fill(run), run.Close())
}

func isFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return faultOf(path, ErrRead, err)
	}
	if !info.Mode().IsRegular() {
		return fault(path, ErrNotRun, errors.New("it is not a plain file"))
	}
	return nil
}

// CompleteListing records that every item is in the run, by its fingerprint:
// see Hashes. Safe to repeat. Errors as Commit.
func (r *Run) CompleteListing(ctx context.Context, fingerprint string) error {
	return r.ChangeHeader(ctx, func(h *outcome.Header) { h.Dataset.Fingerprint = fingerprint })
}

// ChangeHeader changes the header. The uid of a run never changes, because every
// id in Langfuse derives from it. Errors as Commit.
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

// Finish writes the footer. Outcomes or items that are added later take it away
// again: a footer speaks of everything in the run. Acknowledgements do not.
// Errors as Commit.
func (r *Run) Finish(ctx context.Context, f outcome.Footer) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setMeta(keyFooter, f) })
}

// Close writes what was handed in before it, then makes the run a single file:
// the log is written back and removed, unless another process is reading just
// now. It returns when nothing of the run is open any more. Safe to repeat;
// later calls of other methods fail with ErrClosed.
func (r *Run) Close() error {
	if !r.writer.stop() {
		return nil
	}
	read := r.Reader.Close()
	return errors.Join(read, r.writer.close(), unlock(r.lock))
}

// Extension ends the name of every run file.
const Extension = ".run"

const (
	runsFolder   = "runs"
	maxReadable  = 60 // bytes of the readable part of a name that is not
	hashedSuffix = 16 // hex digits of sha256 after the readable part
)

// Path returns where the run of that name belongs:
// dir/runs/<project>/<dataset>/<name>.run.
//
// A name of lower-case ASCII letters, digits, '.', '_' and '-' that begins
// with a letter or digit, does not end in '.', is at most 80 bytes long and is
// not reserved on Windows is there unchanged. Any other becomes its letters
// and digits in lower case, '-' for the rest, then '~' and 16 hex digits of its
// sha256: readable, the same every time, never outside dir, and different for
// names that differ only in case. The empty name is "_".
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
	return readable(name) + "~" + hex.EncodeToString(sum[:])[:hashedSuffix]
}

// plainName is a name that is kept as it is.
var plainName = textutil.Pattern(`^[a-z0-9]([a-z0-9._-]{0,78}[a-z0-9_-])?$`)

// deviceName is a name that Windows takes for a device, whatever follows the first dot.
var deviceName = textutil.Pattern(`^(con|prn|aux|nul|(com|lpt)[0-9])(\.|$)`)

// readable is what of a name is readable in that of a file.
func readable(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	return strings.TrimSuffix(textutil.Cut(name, maxReadable), "…")
}

// makeFolder creates the folder of a run file, for its owner only: documents
// and answers lie in it. If the path is of the form that Path returns, the
// folder given to Path gets a .gitignore that keeps all of it out of git.
func makeFolder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	runs := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	if filepath.Base(runs) != runsFolder {
		return nil
	}
	ignore := filepath.Join(filepath.Dir(runs), ".gitignore")
	if _, err := os.Lstat(ignore); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(ignore, []byte("*\n"), 0o644)
}

const keyPlace = "place"

// SetPlace records where the run is published: the address of the server, or
// another name for it. Errors as Commit.
func (r *Run) SetPlace(ctx context.Context, place string) error {
	return r.writer.submit(ctx, 0, func(t *tx) error { return t.setMeta(keyPlace, place) })
}

// Place returns what SetPlace recorded; "" before that.
func (r *Reader) Place(ctx context.Context) (place string, err error) {
	place, _, err = optionalMeta[string](ctx, r.view, keyPlace)
	return place, err
}

// lockRun locks the run file at path, or fails with ErrLocked. The claim of a writer is an
// exclusive lock of the operating system on a file beside it, which dies with the process.
// The run file itself is not locked, because SQLite's own locks live there, and closing a
// second descriptor of a file drops the POSIX locks of the whole process.
func lockRun(path string) (*os.File, error) {
	name := path + ".lock"
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fault(path, ErrWrite, err)
		}
		held, err := lockPatiently(f)
		switch {
		case err != nil:
			return nil, fault(path, ErrWrite, errors.Join(fmt.Errorf("locking %s: %w", name, err), f.Close()))
		case !held:
			return nil, fault(path, ErrLocked, errors.Join(holder(f), f.Close()))
		case isCurrent(f):
			if err := sign(f); err != nil {
				return nil, fault(path, ErrWrite, errors.Join(err, unlock(f)))
			}
			return f, nil
		}
		if err := f.Close(); err != nil { // its last owner removed it between open and lock
			return nil, fault(path, ErrWrite, err)
		}
	}
}

// lockPatiently tries again for a moment before it says that the lock is held:
// who only looks at it (see Writing) holds it for an instant.
func lockPatiently(f *os.File) (held bool, err error) {
	for range 20 {
		if held, err = files.TryLock(f, true); held || err != nil {
			return held, err
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false, nil
}

// sign writes who holds the lock, for the message of whoever comes second.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f, "%d\n", os.Getpid())
	return err
}

// unlock removes the lock file while it is still locked, and lets go of it: afterwards the
// name may belong to the next owner.
func unlock(f *os.File) error {
	if runtime.GOOS != "windows" {
		return errors.Join(ignoreMissing(os.Remove(f.Name())), f.Close())
	}
	err := errors.Join(f.Close(), ignoreMissing(os.Remove(f.Name()))) // Windows removes no open file
	if errors.Is(err, sharingViolation) {
		return nil
	}
	return err
}

// sharingViolation is what Windows says of a file that the next owner has open already.
const sharingViolation = syscall.Errno(32)

// isCurrent reports whether the file has still its name.
func isCurrent(f *os.File) bool {
	held, err := f.Stat()
	there, gone := os.Stat(f.Name())
	return err == nil && gone == nil && os.SameFile(held, there)
}

// holder names the process that signed the lock, if that can be read.
func holder(f *os.File) error {
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

// Writing returns a Fault that is ErrLocked, and whose Err names the process, while
// one writes the run file at path; nil if none does, or if it cannot be told
// because the lock beside the file may not be opened. It changes nothing and is
// an answer of the instant: who must be alone with a run opens it.
func Writing(path string) error {
	f, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		return fault(path, ErrRead, err)
	}
	defer f.Close()                      // nothing is written
	free, err := files.TryLock(f, false) // beside others who look; it is let go of at once
	switch {
	case err != nil:
		return fault(path, ErrRead, fmt.Errorf("looking at its lock: %w", err))
	case !free:
		return fault(path, ErrLocked, holder(f))
	}
	return nil
}
