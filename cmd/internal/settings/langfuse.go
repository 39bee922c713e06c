package settings

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// Folder is where a project folder keeps runs and the embedded store.
const Folder = experiment.Folder

// Langfuse is a server that was found to answer, with its client.
type Langfuse struct {
	experiment.Langfuse
	Shared bool // the embedded server is run by another process
	stop   func() error
	paused *atomic.Pointer[pause]
	server *embedded.Server // of this process, which Close ends; else nil
	gone   <-chan struct{}  // closed when that answers no more
}

// EnvMode forces how the server is spoken to, in the words of
// langfuse.ParseMode; empty, it is found out.
const EnvMode = "EXPERIMENT_LANGFUSE_MODE"

// Connect connects to the Langfuse of the environment, or, where no LANGFUSE_*
// variable is set, to the embedded one of this folder, and probes it; it never falls back
// from the first to the second. The caller closes it.
//
// The embedded server of a folder keeps its data in .experiment/langfuse.db.
// While "experiment serve" runs there, other commands talk to it; otherwise
// each opens the store for as long as it runs. All who have it open do so in one
// mode.
func Connect(ctx context.Context, getenv func(string) string) (*Langfuse, error) {
	return ConnectAsking(ctx, getenv, nil)
}

// ConnectAsking is Connect for those who have something to ask that any server answers:
// it is asked while a server of the environment is probed, and given up where that
// fails. Of the embedded one nothing is asked: there is no way to save.
func ConnectAsking(ctx context.Context, getenv func(string) string, ask func(context.Context, *langfuse.Client)) (*Langfuse, error) {
	config, set, err := langfuse.ConfigFromEnv(func(name string) (string, bool) {
		value := getenv(name)
		return value, value != ""
	})
	if err != nil {
		return nil, err
	}
	mode, err := langfuse.ParseMode(getenv(EnvMode))
	if err != nil {
		return nil, cli.Usage("--langfuse-mode: %w (or %s)", err, EnvMode)
	}
	if !set {
		return openEmbedded(ctx, mode)
	}
	return dial(ctx, config, mode, ask)
}

// dial connects to a server and finds out what it can do, while something else is
// asked of it; nil asks nothing.
func dial(ctx context.Context, config langfuse.Config, mode langfuse.Mode, ask func(context.Context, *langfuse.Client)) (*Langfuse, error) {
	paused := &atomic.Pointer[pause]{}
	config.UserAgent = "extraction-experiment/" + cli.Version()
	config.Paused = func(reason error, until time.Time) { paused.Store(&pause{reason, until}) }
	client, err := langfuse.New(config)
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var asked sync.WaitGroup
	if ask != nil {
		asked.Go(func() { ask(inner, client) })
	}
	server, err := probe(ctx, config, mode)
	if err != nil {
		cancel()
	}
	asked.Wait()
	if err != nil {
		return nil, fmt.Errorf("connecting to Langfuse at %s: %w", client.BaseURL(), err)
	}
	return &Langfuse{Langfuse: experiment.Langfuse{Site: tracking.Site{Client: client, Server: server}}, paused: paused, stop: func() error {
		client.CloseIdleConnections()
		return nil
	}}, nil
}

// probe asks the server what it is, less patiently than results are sent: a
// person is waiting. One that accepts and never answers takes some 17 seconds.
func probe(ctx context.Context, config langfuse.Config, mode langfuse.Mode) (langfuse.Server, error) {
	config.Timeout, config.MaxAttempts = 8*time.Second, 2
	client, err := langfuse.New(config)
	if err != nil {
		return langfuse.Server{}, err
	}
	defer client.CloseIdleConnections()
	server, err := client.Probe(ctx)
	for tries := 0; tries < 4 && busy(err); tries++ { // one that is not there is not asked again
		server, err = client.Probe(ctx)
	}
	var silent *langfuse.ConnectionError
	if mode == "" || errors.As(err, &silent) && strings.HasSuffix(silent.Path, "/health") {
		return server, err
	}
	if err != nil { // what it is cannot be found out; the mode is insisted on
		return client.ProbeAs(ctx, mode)
	}
	return inMode(server, mode)
}

// inMode is the server as it is spoken to in a mode; "" leaves it as it is.
func inMode(server langfuse.Server, mode langfuse.Mode) (langfuse.Server, error) {
	if mode == "" {
		return server, nil
	}
	forced := server.WithMode(mode)
	if forced.NewReads && !server.NewReads || forced.LegacyReads && !server.LegacyReads {
		return server, cli.Usage("the mode %s was asked for (--langfuse-mode, %s), and the server is of mode %s: leave it out, and it is found out",
			mode, EnvMode, server.Mode())
	}
	server.Capabilities = forced
	return server, nil
}

// Close ends what Open started. Safe to repeat.
func (l *Langfuse) Close() error { return l.stop() }

// MakeFolder creates the folder of runs and store, kept out of git.
func MakeFolder() error {
	if err := os.MkdirAll(Folder, 0o700); err != nil {
		return folderError(err)
	}
	ignore := filepath.Join(Folder, ".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, os.ErrNotExist) {
		return folderError(os.WriteFile(ignore, []byte("*\n"), 0o644))
	}
	return nil
}

// folderError says that nothing can be kept in this folder. Nil stays nil.
func folderError(err error) error {
	if err == nil {
		return nil
	}
	return cli.Errorf(cli.ExitIO, "%w: runs are kept in %s below the current folder; go to a folder that can be written", err, Folder)
}

// Describe says in one line which Langfuse this is.
func (l *Langfuse) Describe() string {
	switch {
	case l.Shared:
		return "Langfuse: the embedded server of this folder, at " + l.Client.BaseURL()
	case l.Embedded:
		return "Langfuse: the embedded server of this folder, as no LANGFUSE_* variable is set"
	}
	return fmt.Sprintf("Langfuse: %s, project %s (version %s)", l.Client.BaseURL(), l.Server.Project.Name, l.Server.Version)
}

// busy reports whether a server answered that it cannot at the moment.
func busy(err error) bool {
	var api *langfuse.APIError
	return errors.As(err, &api) && (api.Status == http.StatusTooManyRequests || api.Status >= 500)
}

// ModeUsage is the help of --langfuse-mode.
const ModeUsage = "treat Langfuse as `MODE`, v3, v4 or v4-dual; an error if the server turns out to be another (default: detected)"

// ModeFlag is --langfuse-mode of a command that has no settings.
func ModeFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "langfuse-mode", Usage: fmt.Sprintf("%s [$%s]", ModeUsage, EnvMode)}
}

// InMode is the environment with a mode of Langfuse that is insisted on, if any is; see EnvMode.
func InMode(mode string, getenv func(string) string) func(string) string {
	return func(name string) string {
		if name == EnvMode && mode != "" {
			return mode
		}
		return getenv(name)
	}
}

// pause is the last one that a client made: why, and until when.
type pause struct {
	reason error
	until  time.Time
}

// Paused returns why a request failed last that was to be sent again, and when it was
// to be; nil, if none has. Safe for concurrent use.
func (l *Langfuse) Paused() (reason error, until time.Time) {
	if last := l.paused.Load(); last != nil {
		return last.reason, last.until
	}
	return nil, time.Time{}
}
