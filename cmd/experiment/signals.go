package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals turns Ctrl-C and SIGTERM into stopping: softly at the first, at once
// at the second.
type signals struct {
	soft <-chan struct{} // closed at the first signal
	stop func()
}

// watchSignals returns a context that ends at the second signal.
func watchSignals(ctx context.Context, stderr io.Writer) (context.Context, signals) {
	ctx, cancel := context.WithCancel(ctx)
	received := make(chan os.Signal, 2)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	soft, done := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-received:
		case <-done:
			return
		}
		fmt.Fprintln(stderr, "\nstopping: what is in flight is finished and kept; interrupt again to stop at once")
		close(soft)
		select {
		case <-received:
			cancel()
		case <-done:
		}
	}()
	var once sync.Once
	return ctx, signals{soft, func() {
		once.Do(func() {
			signal.Stop(received)
			close(done)
			cancel()
		})
	}}
}
