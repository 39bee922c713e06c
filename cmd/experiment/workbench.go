package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// workbench is what the runs of one command share.
type workbench struct {
	env     cli.Env
	lf      *connect.Langfuse
	signals *signals
	log     *slog.Logger
}

// atWorkbench connects to Langfuse, has the work done, and disconnects. ask is what
// may be asked of the server meanwhile; see connect.OpenAsking.
func atWorkbench(ctx context.Context, env cli.Env, cfg runConfig, log *slog.Logger, ask func(context.Context, *langfuse.Client), work func(context.Context, workbench) error) error {
	ctx, signals := watchSignals(ctx, env.Stderr)
	defer signals.stop()
	lf, err := connect.OpenAsking(ctx, insisting(cfg.langfuseMode, env.Getenv), ask)
	if err != nil {
		return signals.interrupted(err)
	}
	log.Info("connected", "langfuse", lf.Client.BaseURL(), "version", lf.Server.Version.String(), "mode", lf.Server.Mode(), "project", lf.Server.Project.ID)
	if !cfg.quiet {
		fmt.Fprintln(env.Stderr, lf.Describe())
	}
	err = work(ctx, workbench{env, lf, signals, log})
	return errors.Join(distinct([]error{err, lf.Close()})...)
}

// sayNeverBegun prints the note of neverBegun about runs of one command.
func (b workbench) sayNeverBegun(ctx context.Context, names, paths []string) error {
	note, err := neverBegun(ctx, names, paths)
	if note != "" {
		fmt.Fprintln(b.env.Stderr, "note: "+printable.Line(note))
	}
	return err
}

// complete takes a run that is open to its summary; primary is the score whose
// mean a person sees meanwhile.
func (b workbench) complete(ctx context.Context, j *job, primary string) error {
	b.log.Info("run file", "path", j.path, "new", j.fresh)
	for _, note := range j.system.notes {
		fmt.Fprintln(b.env.Stderr, "note: "+printable.Line(note))
	}
	j.tally = sync.OnceValues(func() (outcome.Summary, error) { return tally(context.Background(), j.run.Reader) })
	view := newProgress(b.env, j.cfg.quiet, primary, b.log)
	j.system.asks.follow(view)
	ran, published := j.carryOut(ctx, b.signals, view, b.log)
	view.close()
	verified := b.signals.cutShort(j.verify(ctx, b.env, ran, published))
	return errors.Join(j.finish(b.env, ran, published), verified)
}
