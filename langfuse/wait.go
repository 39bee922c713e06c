package langfuse

import (
	"context"
	"fmt"
	"time"
)

// The values that zero fields of Wait stand for.
const (
	DefaultWaitTimeout = 2 * time.Minute
	DefaultWaitFirst   = 500 * time.Millisecond
	DefaultWaitMost    = 5 * time.Second
)

// Wait says how patiently to look for what a server accepted but does not show
// yet: spans and scores take seconds, behind a long queue minutes. The zero
// value is usable.
type Wait struct {
	// Timeout is how long to look in all. 0: DefaultWaitTimeout; negative: look
	// once.
	Timeout time.Duration
	// First is the pause after the first look; it doubles up to Most.
	// 0: DefaultWaitFirst and DefaultWaitMost.
	First, Most time.Duration
}

// NotYetError says that what was waited for did not show in time.
type NotYetError struct {
	Waited time.Duration
	Looks  int
}

// Error tells how long was waited.
func (e *NotYetError) Error() string {
	return fmt.Sprintf("not there after %s and %d looks; the server may still be working on it: try again later, or wait longer",
		e.Waited.Round(time.Millisecond), e.Looks)
}

// ExitCode returns 69: the server did not do in time what it accepted.
func (*NotYetError) ExitCode() int { return 69 }

// Until calls look until it reports true or an error, which is returned; when
// the time is over, *NotYetError; when ctx ends, its error. The last look is
// made at the end of the time, not before it. Time passes by the clock of
// package time, so that synctest can turn it.
func (w Wait) Until(ctx context.Context, look func(context.Context) (bool, error)) error {
	timeout := orDefault(w.Timeout, DefaultWaitTimeout)
	pause, most := orDefault(w.First, DefaultWaitFirst), orDefault(w.Most, DefaultWaitMost)
	began := time.Now()
	for looks := 1; ; looks++ {
		done, err := look(ctx)
		if done || err != nil {
			return err
		}
		left := timeout - time.Since(began)
		if left <= 0 {
			return &NotYetError{Waited: time.Since(began), Looks: looks}
		}
		pause = min(pause, most)
		if err := sleep(ctx, max(min(pause, left), time.Millisecond)); err != nil {
			return fmt.Errorf("waiting for the server to show what it accepted: %w", err)
		}
		pause *= 2
	}
}
