package experiment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// Langfuse is a server that answered, with its client.
type Langfuse struct{ tracking.Site }

// Connect creates a client and finds out what the server can do. Errors: those of
// langfuse.New and langfuse.Client.Probe.
func Connect(ctx context.Context, cfg langfuse.Config) (*Langfuse, error) {
	client, err := langfuse.New(cfg)
	if err != nil {
		return nil, err
	}
	server, err := client.Probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("connecting to Langfuse at %s: %w", client.BaseURL(), err)
	}
	return &Langfuse{tracking.Site{Client: client, Server: server}}, nil
}

// publishing says how a run is published.
func (l *Langfuse) publishing(run *runstore.Run, log *slog.Logger, obs Observer) tracking.Config {
	return tracking.Config{
		Site: l.Site, Run: run, Log: log,
		Published: obs.Published, Withdrawing: obs.Withdrawing,
		Runner: langfuse.Scope{Name: "extraction-experiment", Version: cli.Version()},
	}
}

// Publish sends what Langfuse has not acknowledged of a run, and returns what is there
// afterwards. If Langfuse accepts nothing, the error is a *tracking.UnpublishedError, and
// nothing is lost. It is safe to repeat.
func Publish(ctx context.Context, lf *Langfuse, path string, log *slog.Logger, obs Observer) (counts runstore.Counts, err error) {
	run, err := runstore.Open(path)
	if err != nil {
		return counts, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := lf.sameProject(ctx, run.Reader); err != nil {
		return counts, err
	}
	ended := make(chan struct{})
	close(ended)
	call(obs.Sending != nil, obs.Sending)
	err = tracking.Publish(ctx, lf.publishing(run, log, obs), ended)
	call(obs.Ended != nil, obs.Ended)
	if err != nil {
		return counts, err
	}
	return run.Counts(ctx)
}

// sameProject refuses to publish a run into another project than it was made
// for: its dataset is not there. A run without Langfuse has none anywhere.
func (l *Langfuse) sameProject(ctx context.Context, run *runstore.Reader) error {
	header, err := run.Header(ctx)
	if err != nil {
		return err
	}
	if header.Project == "" {
		return &UnpublishableError{Name: header.Name, Harness: header.Harness}
	}
	if header.Project != l.Server.Project.ID {
		return cli.Usage("the run %q belongs to the Langfuse project %q, and the keys are those of %q: use the keys that it was run with", header.Name, header.Project, l.Server.Project.ID)
	}
	return nil
}

// UnpublishableError says that a run was made without Langfuse.
type UnpublishableError struct{ Name, Harness string }

// Error names run and harness.
func (e *UnpublishableError) Error() string {
	return fmt.Sprintf("the run %q is of the %s, and runs of the %s are not published to Langfuse", e.Name, e.Harness, e.Harness)
}

// ExitCode returns 64.
func (*UnpublishableError) ExitCode() int { return cli.ExitUsage }

// How patient a verification is with what Langfuse has accepted and does not show
// yet.
const (
	patience   = time.Minute      // nothing more has come for so long
	verifyTime = 10 * time.Minute // in all, what comes included
)

// VerifyConfig says how to verify a run.
type VerifyConfig struct {
	// Timeout bounds it; 0 looks once, and nil chooses by the server. The embedded server
	// stores before it answers, so nil looks once there.
	Timeout *time.Duration
	// Repair sends again what is missing or different, and verifies again.
	Repair bool
	// Looked is told what is still missing; nil is told nothing.
	Looked func(tracking.Verdict)
	// Compared is told how many outcomes were compared; nil is told nothing.
	Compared func(outcomes int)
	Log      *slog.Logger
}

// Verify reads the run of a file back from Langfuse and compares it with the file. The
// verdict before is that before a repair; it is nil if nothing was sent again. The file is
// opened for writing only to repair.
func Verify(ctx context.Context, lf *Langfuse, path string, cfg VerifyConfig) (now tracking.Verdict, before *tracking.Verdict, err error) {
	if !cfg.Repair {
		if err := runstore.Writing(path); err != nil {
			return now, nil, err
		}
		reader, err := runstore.Load(path)
		if err != nil {
			return now, nil, err
		}
		defer func() { err = errors.Join(err, reader.Close()) }()
		if err := lf.sameProject(ctx, reader); err != nil {
			return now, nil, err
		}
		now, err = lf.verify(ctx, reader, cfg)
		return now, nil, err
	}
	run, err := runstore.Open(path)
	if err != nil {
		return now, nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := lf.sameProject(ctx, run.Reader); err != nil {
		return now, nil, err
	}
	within, end, verify := lf.verifying(ctx, run.Reader, cfg)
	defer end()
	was, now, err := tracking.Repair(within, verify, lf.publishing(run, cfg.Log, Observer{}))
	if !was.OK() && !was.OnItsWay { // else nothing was sent
		before = &was
	}
	return now, before, err
}

func (l *Langfuse) verify(ctx context.Context, run *runstore.Reader, cfg VerifyConfig) (tracking.Verdict, error) {
	within, end, verify := l.verifying(ctx, run, cfg)
	defer end()
	return tracking.Verify(within, verify)
}

// verifying says what to verify, how patiently, and within which time.
func (l *Langfuse) verifying(ctx context.Context, run *runstore.Reader, cfg VerifyConfig) (context.Context, context.CancelFunc, tracking.VerifyConfig) {
	wait, all, timeout := langfuse.Wait{Timeout: patience}, verifyTime, cfg.Timeout
	switch {
	case timeout == nil && l.Embedded, timeout != nil && *timeout == 0:
		wait.Timeout, all = -1, 0
	case timeout != nil:
		all = *timeout
	}
	within, end := Within(ctx, all)
	return within, end, tracking.VerifyConfig{Site: l.Site, Run: run, Wait: wait, Looked: cfg.Looked, Compared: cfg.Compared}
}

// Within returns a context that ends after the time allowed to verify a run; 0 is no limit.
func Within(ctx context.Context, all time.Duration) (context.Context, context.CancelFunc) {
	if all == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, all, fmt.Errorf("the time to verify, %s, is over (--timeout)", all))
}
