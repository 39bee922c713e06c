package limit

import "context"

// ErrStopped is what a call that waits gets when it is told to stop: nothing of
// it is under way. It stops the run, which can be resumed; its exit code is 5.
var ErrStopped error = stopped{}

type stopped struct{}

func (stopped) Error() string {
	return "the run was stopped while calls waited to be sent; their items are run when it is resumed"
}

// ExitCode is 5: stopped, can be resumed.
func (stopped) ExitCode() int { return 5 }

// StopsRun marks errors that are no failure of the item; see TrippedError.
func (stopped) StopsRun() {}

type stopKey struct{}

// WithStop returns a context whose calls give up waiting, with ErrStopped, when
// stop is closed. Those that are under way go on, unlike where a context ends.
func WithStop(ctx context.Context, stop <-chan struct{}) context.Context {
	return context.WithValue(ctx, stopKey{}, stop)
}

// Stop returns the channel of WithStop, nil where there is none.
func Stop(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stopKey{}).(<-chan struct{})
	return stop
}

// isClosed reports whether a channel that is only ever closed is so.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
