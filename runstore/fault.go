package runstore

import (
	"context"
	"errors"
	"io/fs"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The kinds of Fault, to be asked for with errors.Is.
var (
	// ErrExists: Create found a file under the name.
	ErrExists = errors.New("exists already")
	// ErrMissing: there is no such file. It is also fs.ErrNotExist.
	ErrMissing = errors.New("does not exist")
	// ErrLocked: another process, or this one, is writing the run.
	ErrLocked = errors.New("is being written")
	// ErrNotRun: the file is something else than a run.
	ErrNotRun = errors.New("is not a run file")
	// ErrNewer: the run was written by a later version of this program.
	ErrNewer = errors.New("has a newer format")
	// ErrDamaged: the file was a run, and cannot be trusted any more.
	ErrDamaged = errors.New("is damaged")
	// ErrRead: the operating system refused to read.
	ErrRead = errors.New("cannot be read")
	// ErrWrite: the disk is full, the folder read-only, or the like.
	ErrWrite = errors.New("cannot be written")
	// ErrClosed: the run was closed before the call.
	ErrClosed = errors.New("is closed")
)

// ErrDuplicate: an item id, or an outcome of the same item, trial and attempt,
// is in the run already.
var ErrDuplicate = errors.New("is in the run already")

// ErrUnknown: the run has no such item or outcome.
var ErrUnknown = errors.New("is not in the run")

// Fault says what is wrong with the run file at Path. Kind is one of the
// errors above; Err, where there is one, is what was found.
type Fault struct {
	Path string
	Kind error
	Err  error
}

// Error names the file, what is wrong with it, and what can be done.
func (f *Fault) Error() string {
	text := "run file " + f.Path + " " + f.Kind.Error()
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	if advice := f.advice(); advice != "" {
		text += " (" + advice + ")"
	}
	return text
}

// Unwrap returns Kind, and Err where there is one.
func (f *Fault) Unwrap() []error {
	if f.Err == nil {
		return []error{f.Kind}
	}
	return []error{f.Kind, f.Err}
}

// ExitCode is 74 where writing failed, 70 for a call after Close, and 64
// otherwise: the file that was named cannot be used.
func (f *Fault) ExitCode() int {
	switch f.Kind {
	case ErrWrite:
		return 74
	case ErrClosed:
		return 70
	}
	return 64
}

func (f *Fault) advice() string {
	switch f.Kind {
	case ErrExists:
		return "choose another name, or resume the run"
	case ErrLocked:
		return "wait until the other process has ended, or stop it"
	case ErrNotRun:
		return "name a file that ends in " + Extension + ", or an export of one"
	case ErrNewer:
		return "read it with the version that wrote it, or a later one"
	case ErrDamaged:
		return "export what can still be read, restore a copy, or run again under another name"
	case ErrWrite:
		return "make room or allow writing there, then resume: what was committed is safe"
	}
	return ""
}

func fault(path string, kind, err error) *Fault { return &Fault{path, kind, err} }

// faultOf turns an error of the database into a Fault. What SQLite says about
// the content of the file decides; anything else is of the given kind.
func faultOf(path string, kind, err error) error {
	var known *Fault
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault(path, ErrMissing, err)
	}
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_ERROR: // a table or column is not there
		return fault(path, ErrDamaged, err)
	}
	return fault(path, kind, err)
}

// sqliteCode returns the primary result code, 0 if err is not of SQLite.
func sqliteCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}
