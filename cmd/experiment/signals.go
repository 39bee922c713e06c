package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"extraction-experiment/internal/cli"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/tracking"

	urfave "github.com/urfave/cli/v2"
)

// signals turns Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) into
// stopping: while items are worked on, softly at the first and at once at the
// second; before that, at once. SIGPIPE ends nothing: a run goes on when nobody
// reads its progress any more.
type signals struct {
	first   context.Context // ends at the first signal
	working atomic.Bool     // there is something in flight to finish
	stop    func()
}

// errInterrupted is why a context ended, in the words of a person.
var errInterrupted error = interruption{}

type interruption struct{}

func (interruption) Error() string { return "interrupted" }

// Unwrap makes it the end of a context to everyone else.
func (interruption) Unwrap() error { return context.Canceled }

// leftForResume is what becomes of a run that is stopped softly.
const leftForResume = "what was sent is finished and kept, what waits is left for --resume"

// watchSignals returns a context that ends when the work is to stop at once; softly says
// what the first signal does.
func watchSignals(ctx context.Context, stderr io.Writer, softly string) (context.Context, *signals) {
	ctx, stopped := context.WithCancelCause(ctx)
	cancel := func() { stopped(errInterrupted) }
	received := make(chan os.Signal, 2)
	signal.Notify(received, cli.EndSignals()...)
	// Caught, not ignored: programs that the run starts would inherit that. To
	// the end of the process: what went wrong is printed last.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	first, come := context.WithCancel(context.Background())
	s := &signals{first: first, stop: func() {
		signal.Stop(received)
		cancel()
	}}
	go func() {
		select {
		case <-received:
		case <-ctx.Done():
			return
		}
		come()
		if !s.working.Load() {
			cancel()
			return
		}
		fmt.Fprintf(stderr, "\nstopping: %s; interrupt again to stop at once\n", softly)
		select {
		case <-received:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, s
}

// interrupted gives an error that a signal caused before the work was begun the
// exit code of a stop.
func (s *signals) interrupted(err error) error {
	if s.came() && errors.Is(err, context.Canceled) {
		return cli.Errorf(cli.ExitInterrupted, "stopped before anything was begun")
	}
	return err
}

// cutShort is interrupted for an error within the work.
func (s *signals) cutShort(err error) error {
	if s.came() {
		return cutShort(err)
	}
	return err
}

// came reports whether there was a signal.
func (s *signals) came() bool { return s.first.Err() != nil }

// interruptible gives a command that has nothing in flight to finish a context that ends
// at the first signal; the second ends the process. The error of the command has the exit
// code of a stop if a signal caused it.
func interruptible(c *urfave.Command) *urfave.Command {
	action := c.Action
	c.Action = func(c *urfave.Context) error {
		ctx, stop := signal.NotifyContext(c.Context, cli.EndSignals()...)
		defer stop()
		context.AfterFunc(ctx, stop)
		c.Context = ctx
		err := action(c)
		if ctx.Err() != nil {
			return cutShort(err)
		}
		return err
	}
	return c
}

// cutShort gives the end of a context the exit code of a stop. What is not published
// says itself that it was interrupted.
func cutShort(err error) error {
	var left *tracking.UnpublishedError
	switch {
	case !errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &left):
		return cli.Errorf(cli.ExitInterrupted, "%w", err)
	}
	return cli.Errorf(cli.ExitInterrupted, "stopped before the end: %s", strings.ReplaceAll(err.Error(), context.Canceled.Error(), errInterrupted.Error()))
}

// named adds the name to a command line that the program made for want of one.
func named(args []string, made string) []string {
	if made == "" {
		return args
	}
	return append(slices.Clone(args), "--name", made)
}

// resumeCommand returns the command line that goes on with this run: the same
// one, with --resume. Keys among the arguments of a program are masked.
func resumeCommand(args []string) string {
	command := "experiment"
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case joined && namesProgram(flag):
			arg = flag + "=" + provider.ShownTarget(value)
		case i > 0 && namesProgram(args[i-1]):
			arg = provider.ShownTarget(arg)
		}
		if arg != "--resume" {
			command += " " + cli.Quote(arg)
		}
	}
	return command + " --resume"
}

// namesProgram reports whether a flag's value is a command line or an address.
func namesProgram(flag string) bool {
	return slices.Contains([]string{"pipeline", "command", "url"}, strings.TrimLeft(flag, "-")) && strings.HasPrefix(flag, "-")
}

// goOn is the resume command, with MORE in the place of a budget that is used up.
func goOn(args []string, ran error) string {
	var used *pipeline.BudgetError
	if !errors.As(ran, &used) {
		return resumeCommand(args)
	}
	flag := "budget-usd"
	if used.Tokens {
		flag = "budget-tokens"
	}
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case name != flag || !strings.HasPrefix(args[i], "-"):
			kept = append(kept, args[i])
		case !joined:
			i++ // its value
		}
	}
	return resumeCommand(append(kept, "--"+flag, "MORE")) + ", a larger budget in the place of MORE"
}

// sendLater says how to send what of a run could not be sent.
func sendLater(published error, run string) error {
	var left *tracking.UnpublishedError
	if published == nil || errors.As(published, &left) && left.Refused {
		return published
	}
	return fmt.Errorf("%w; nothing is lost, send it later with: experiment publish %s", published, cli.Quote(run))
}
