package experiment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// Langfuse is a server that answered, with the client for it.
type Langfuse struct{ tracking.Site }

// Connect creates a client and asks the server what it can do. Errors are those of langfuse.New
// and langfuse.Client.Probe.
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

// publishConfig returns the configuration for publishing a run.
func (l *Langfuse) publishConfig(run *runstore.Run, log *slog.Logger, obs Observer) tracking.Config {
	return tracking.Config{
		Site: l.Site, Run: run, Log: log,
		Published: obs.Published,
		Runner:    langfuse.Scope{Name: "extraction-experiment", Version: cli.Version()},
	}
}

// Publish sends what Langfuse has not acknowledged of a run, and returns the counts of the run
// afterwards. If Langfuse does not accept everything, the error is a *tracking.UnpublishedError, and
// nothing is lost. If the run does not belong to this server, it is a *tracking.WrongServerError; if
// another run has its name there, it matches tracking.ErrNameTaken. Publish may be repeated.
func Publish(ctx context.Context, lf *Langfuse, path string, log *slog.Logger, obs Observer) (counts runstore.Counts, err error) {
	run, err := runstore.Open(path)
	if err != nil {
		return counts, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := lf.checkProject(ctx, run.Reader); err != nil {
		return counts, err
	}
	runEnded := make(chan struct{})
	close(runEnded)
	callIf(obs.Sending != nil, obs.Sending)
	err = tracking.Publish(ctx, lf.publishConfig(run, log, obs), runEnded)
	callIf(obs.Ended != nil, obs.Ended)
	if err != nil {
		return counts, err
	}
	return run.Counts(ctx)
}

// checkProject returns an error if the run was made for another project than that of l, which
// does not have its dataset, or without Langfuse.
func (l *Langfuse) checkProject(ctx context.Context, run *runstore.Reader) error {
	if l == nil || l.Client == nil {
		return cli.Usage("experiment: Langfuse is missing: Connect returns it")
	}
	header, err := run.Header(ctx)
	if err != nil {
		return err
	}
	if header.Project == "" {
		of := strings.TrimSuffix(" of the "+header.Harness, " of the ") // a task of one's own has no harness
		return cli.Usage("the run %q was made without Langfuse, and such runs%s are not published", header.Name, of)
	}
	if header.Project != l.Server.Project.ID {
		return cli.Usage("the run %q belongs to the Langfuse project %q, and the keys are those of %q: use the keys that it was run with", header.Name, header.Project, l.Server.Project.ID)
	}
	return nil
}

// Time limits of a verification, for accepted data that Langfuse does not show yet.
const (
	verifyIdle  = time.Minute      // since the last new data
	verifyTotal = 10 * time.Minute // in total
)

// VerifyConfig configures Verify.
type VerifyConfig struct {
	// Timeout limits the verification; 0 reads once. Nil means 10 minutes, but once for the
	// embedded server, which stores before it answers. Verify also stops waiting if Langfuse
	// shows no more data for a minute.
	Timeout *time.Duration
	// Repair sends what is missing or different again, and verifies again.
	Repair bool
	// OnVerification, if not nil, is called with what is still missing.
	OnVerification func(tracking.Verification)
	// OnCompared, if not nil, is called with the number of outcomes that were compared.
	OnCompared func(outcomes int)
	Log        *slog.Logger
}

// Verify reads the run of a file back from Langfuse and compares it with the file. beforeRepair
// is the verification before a repair; it is nil if nothing was sent again. Verify opens the file
// for writing only to repair.
func Verify(
	ctx context.Context, lf *Langfuse, path string, cfg VerifyConfig,
) (verification tracking.Verification, beforeRepair *tracking.Verification, err error) {
	if !cfg.Repair {
		if err := runstore.Writing(path); err != nil {
			return verification, nil, err
		}
		reader, err := runstore.Load(path)
		if err != nil {
			return verification, nil, err
		}
		defer func() { err = errors.Join(err, reader.Close()) }()
		if err := lf.checkProject(ctx, reader); err != nil {
			return verification, nil, err
		}
		verification, err = lf.verify(ctx, reader, cfg)
		return verification, nil, err
	}
	run, err := runstore.Open(path)
	if err != nil {
		return verification, nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := lf.checkProject(ctx, run.Reader); err != nil {
		return verification, nil, err
	}
	verifyCtx, cancel, verifyCfg := lf.verifyConfig(ctx, run.Reader, cfg)
	defer cancel()
	first, verification, err := tracking.Repair(verifyCtx, verifyCfg, lf.publishConfig(run, cfg.Log, Observer{}))
	if !first.OK() && !first.Pending { // otherwise nothing was sent
		beforeRepair = &first
	}
	return verification, beforeRepair, err
}

func (l *Langfuse) verify(ctx context.Context, run *runstore.Reader, cfg VerifyConfig) (tracking.Verification, error) {
	verifyCtx, cancel, verifyCfg := l.verifyConfig(ctx, run, cfg)
	defer cancel()
	return tracking.Verify(verifyCtx, verifyCfg)
}

// verifyConfig returns the configuration of a verification, and a context with its time limit.
func (l *Langfuse) verifyConfig(
	ctx context.Context, run *runstore.Reader, cfg VerifyConfig,
) (context.Context, context.CancelFunc, tracking.VerifyConfig) {
	wait, total, timeout := langfuse.Wait{Timeout: verifyIdle}, verifyTotal, cfg.Timeout
	switch {
	case timeout == nil && l.Embedded, timeout != nil && *timeout == 0:
		wait.Timeout, total = -1, 0
	case timeout != nil:
		total = *timeout
	}
	verifyCtx, cancel := WithVerifyTimeout(ctx, total)
	return verifyCtx, cancel, tracking.VerifyConfig{
		Site: l.Site, Run: run, Wait: wait, OnVerification: cfg.OnVerification, OnCompared: cfg.OnCompared,
	}
}

// WithVerifyTimeout returns a context with the time limit of a verification; 0 means no limit.
func WithVerifyTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the time to verify, %s, is over (--timeout)", timeout))
}
