package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// Folder is the folder of runs and of the embedded store, below the current folder.
const Folder = experiment.Folder

// Langfuse is a server that answered, with its client.
type Langfuse struct {
	experiment.Langfuse
	Shared bool // another process runs the embedded server
	stop   func() error
	server *embedded.Server // the embedded server of this process, which Close ends; else nil
	// serving is done when server no longer answers.
	serving context.Context
}

// EnvMode forces the mode of the server, in the words of langfuse.ParseMode. If it is empty, the
// mode is detected.
const EnvMode = "EXPERIMENT_LANGFUSE_MODE"

// Connect connects to the Langfuse of the environment and probes it. If neither keys nor address
// are set, it connects to the embedded server of this folder; it never falls back from the first
// to the second. The caller must close the result.
//
// The embedded server of a folder keeps its data in .experiment/langfuse.db. While "experiment
// serve" runs there, other commands connect to it; otherwise each command opens the store
// itself. All processes that have the store open use one mode.
func Connect(ctx context.Context, env cli.Env) (*Langfuse, error) {
	return ConnectWith(ctx, env, "", nil)
}

// ConnectWith is Connect with a forced mode in place of EnvMode, unless it is empty. It calls ask, if not nil,
// while it probes a server of the environment, to save time. ask may send requests that any server answers;
// its context is canceled if the probe fails. ask is not called for the embedded server, where it would save
// nothing.
func ConnectWith(
	ctx context.Context, env cli.Env, forced string, ask func(context.Context, *langfuse.Client),
) (*Langfuse, error) {
	config, set, err := langfuse.ConfigFromEnv(func(name string) (string, bool) {
		value := env.Getenv(name)
		return value, value != ""
	})
	if err != nil {
		return nil, err
	}
	mode, err := langfuse.ParseMode(cmp.Or(forced, env.Getenv(EnvMode)))
	if err != nil {
		return nil, cli.Usage("--langfuse-mode: %w (or %s)", err, EnvMode)
	}
	if !set {
		return openEmbedded(ctx, mode)
	}
	config.OnRetry = noteWaits(env.Stderr)
	return dial(ctx, config, mode, ask)
}

// noteWaits returns a Config.OnRetry that writes a line about a pause of at least two seconds, and at most
// one in half a minute.
func noteWaits(w io.Writer) func(reason error, until time.Time) {
	var mu sync.Mutex
	var next time.Time // of a line
	return func(reason error, until time.Time) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); until.Sub(now) >= 2*time.Second && !now.Before(next) {
			next = now.Add(30 * time.Second)
			at := until.Format(time.TimeOnly)
			fmt.Fprintf(w, "waiting for Langfuse, asked again at %s: %s\n", at, textutil.Line(reason.Error()))
		}
	}
}

// dial connects to a server and probes it, while ask, if not nil, runs.
func dial(ctx context.Context, config langfuse.Config, mode langfuse.Mode, ask func(context.Context, *langfuse.Client)) (*Langfuse, error) {
	config.UserAgent = "extraction-experiment/" + cli.Version()
	client, err := langfuse.New(config)
	if err != nil {
		return nil, err
	}
	askCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var asking sync.WaitGroup
	if ask != nil {
		asking.Go(func() { ask(askCtx, client) })
	}
	server, err := probe(ctx, config, mode)
	if err != nil {
		cancel()
	}
	asking.Wait()
	if err != nil {
		return nil, fmt.Errorf("connecting to Langfuse at %s: %w", client.BaseURL(), err)
	}
	return &Langfuse{Langfuse: experiment.Langfuse{Site: tracking.Site{Client: client, Server: server}}, stop: func() error {
		client.CloseIdleConnections()
		return nil
	}}, nil
}

// probe finds out what the server can do. It waits less than requests that send results do,
// because a person waits: at most some 17 seconds for a server that accepts and never answers.
func probe(ctx context.Context, config langfuse.Config, mode langfuse.Mode) (langfuse.Server, error) {
	config.Timeout, config.MaxUnanswered = 8*time.Second, 2
	client, err := langfuse.New(config)
	if err != nil {
		return langfuse.Server{}, err
	}
	defer client.CloseIdleConnections()
	server, err := client.Probe(ctx)
	lost, isLost := errors.AsType[*langfuse.ConnectionError](err)
	if mode == "" || isLost && strings.HasSuffix(lost.Path, "/health") {
		return server, err
	}
	if err != nil { // the server does not say what it is; the mode is given
		return client.ProbeAs(ctx, mode)
	}
	return forceMode(server, mode)
}

// forceMode returns the server with the capabilities of a mode; an empty mode leaves it as it
// is. It is an error if the server lacks them.
func forceMode(server langfuse.Server, mode langfuse.Mode) (langfuse.Server, error) {
	forced := server.WithMode(mode)
	if forced.NewReads && !server.NewReads || forced.LegacyReads && !server.LegacyReads {
		return server, cli.Usage("the mode %s was asked for (--langfuse-mode, %s), and the server is of mode %s: leave it out, and it is found out",
			mode, EnvMode, server.Mode())
	}
	server.Capabilities = forced
	return server, nil
}

// Close closes the connection, or ends the embedded server if this process runs it. It may be
// called again, and without a connection.
func (l *Langfuse) Close() error {
	if l == nil || l.stop == nil {
		return nil
	}
	return l.stop()
}

// MakeFolder creates Folder, with a .gitignore for all of it.
func MakeFolder() error { return folderError(files.MakePrivate(Folder)) }

// folderError explains that Folder cannot be written. Nil stays nil.
func folderError(err error) error {
	if err == nil {
		return nil
	}
	return cli.Errorf(cli.ExitIO, "%w: runs are kept in %s below the current folder; go to a folder that can be written, or make room on the disk", err, Folder)
}

// Describe describes the server in one line.
func (l *Langfuse) Describe() string {
	switch {
	case l.Shared:
		return "Langfuse: the embedded server of this folder, at " + l.Client.BaseURL()
	case l.Embedded:
		return "Langfuse: the embedded server of this folder, as LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are not set"
	}
	return fmt.Sprintf("Langfuse: %s, project %s (version %s)", l.Client.BaseURL(), textutil.Line(l.Server.Project.Name), l.Server.Version)
}

// ModeUsage is the help of --langfuse-mode.
const ModeUsage = "treat Langfuse as `MODE`, v3, v4 or v4-dual; an error if the server turns out to be another (default: detected)"

// ModeFlag returns --langfuse-mode for a command without settings.
func ModeFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "langfuse-mode", Usage: fmt.Sprintf("%s [$%s]", ModeUsage, EnvMode)}
}
