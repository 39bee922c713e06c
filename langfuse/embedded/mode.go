package embedded

import (
	"errors"
	"fmt"
	"os"
	"time"

	"extraction-experiment/internal/filelock"
)

// Mode names the Langfuse deployment whose behaviour is played. A store keeps
// what the mode of its time wrote: like a real server that is switched over, a
// store that was written in ModeV4 has no traces and no dataset runs to show in
// ModeV3, and one written in ModeV3 has no experiments to show in ModeV4.
type Mode string

// The modes that exist.
const (
	// ModeV4 is Langfuse 4 with its default write mode, events_only: runs exist
	// through the attributes of spans, legacy reads are 404.
	ModeV4 Mode = "v4"
	// ModeV4Dual is Langfuse 4 while it is migrated: both worlds are written and
	// both can be read.
	ModeV4Dual Mode = "v4-dual"
	// ModeV3 is Langfuse 3 with its default write mode, legacy: runs exist
	// through run items, the reads that came with Langfuse 4 are 404.
	ModeV3 Mode = "v3"
)

// Modes returns all modes, the default first.
func Modes() []Mode {
	return []Mode{ModeV4, ModeV4Dual, ModeV3}
}

// legacy says whether traces, run items and dataset runs are kept.
func (m Mode) legacy() bool {
	return m != ModeV4
}

// events says whether experiments are made from spans.
func (m Mode) events() bool {
	return m != ModeV3
}

func (m Mode) version() string {
	if m == ModeV3 {
		return DefaultVersionV3
	}
	return DefaultVersion
}

// ModeError says that a store is open in another mode: what a server of one mode
// writes is not where that of another looks for it.
type ModeError struct {
	Asked, Open Mode
	PID         string // of the process that opened it first
}

// Error names both modes and the process.
func (e *ModeError) Error() string {
	return fmt.Sprintf("it is open in mode %s (process %s) and cannot be open in mode %s at the same time: wait until that process has ended, or stop it",
		e.Open, e.PID, e.Asked)
}

// ExitCode returns 69: later it can be opened.
func (e *ModeError) ExitCode() int { return 69 }

// claimMode keeps servers of other modes from the store at path until the file that
// it returns is closed. Servers of one mode hold the lock beside the store together;
// who finds another mode noted there must be alone with it to note its own.
func claimMode(path string, mode Mode) (*os.File, error) {
	const pause, tries, conflicts = 5 * time.Millisecond, 4000, 40
	other, met := &ModeError{Asked: mode}, 0
	for range tries { // who is alone with it is so for an instant, and who looks at it
		f, err := lockStore(path, false)
		if err == nil && f != nil {
			if _, err = fmt.Fscan(f, &other.Open, &other.PID); err == nil && other.Open == mode {
				return f, nil
			}
			if err = f.Close(); err == nil {
				met++
				f, err = lockStore(path, true)
			}
			if err == nil && f != nil {
				_, err = f.WriteAt(fmt.Appendf(nil, "%-8s %-12d\n", mode, os.Getpid()), 0)
				err = errors.Join(err, f.Close())
				met = 0
			}
		}
		switch {
		case err != nil:
			return nil, err
		case met == conflicts:
			return nil, other
		}
		time.Sleep(pause)
	}
	return nil, fmt.Errorf("its lock %s.lock is held", path)
}

// lockStore tries the lock of the store at path; nil where others are in the way.
func lockStore(path string, alone bool) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := filelock.Try(f, alone)
	if err == nil && held {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

// InUse reports whether a server, of this process or another, has the store at path
// open.
func InUse(path string) bool {
	if _, err := os.Stat(path + ".lock"); err != nil {
		return false
	}
	f, err := lockStore(path, true)
	if f != nil {
		return f.Close() != nil
	}
	return err == nil
}
