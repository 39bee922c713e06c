package settings

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// storePath is the database of the embedded server. addressPath is the file that tells other
// commands where "experiment serve" listens.
func storePath() string   { return filepath.Join(Folder, "langfuse.db") }
func addressPath() string { return filepath.Join(Folder, "langfuse.json") }

// address is the content of the address file, written by a running "experiment serve".
type address struct {
	URL  string        `json:"url"`
	PID  int           `json:"pid"`
	Mode embedded.Mode `json:"mode"`
}

// answerTimeout limits the wait for a running server that does not answer.
const answerTimeout = 30 * time.Second

// openEmbedded connects to the server that runs in this folder. If there is none, it starts one
// in this process, on a free port of the loopback address and in the mode that the store was
// last served in.
func openEmbedded(ctx context.Context, mode langfuse.Mode) (*Langfuse, error) {
	if err := MakeFolder(); err != nil {
		return nil, err
	}
	l, noted, err := findRunning(ctx, mode, answerTimeout)
	if l != nil || err != nil {
		return l, err
	}
	return serve(ctx, 0, mode, noted) // noted is that of a killed server, which may come back
}

// refusedOnWindows is the error of an address without a server there, WSAECONNREFUSED.
const refusedOnWindows = syscall.Errno(10061)

// findRunning connects to the server of the address file. It returns nil without an error if
// there is none; storedMode is the mode of the store then, if known. An address file without a
// server counts as none: a killed process leaves its file, and another folder's server may have
// taken the port. It is an error if the server is alive but does not answer within the timeout,
// or does not have the required mode.
func findRunning(ctx context.Context, mode langfuse.Mode, timeout time.Duration) (l *Langfuse, storedMode embedded.Mode, err error) {
	at, err := readAddress(ctx)
	if err != nil || at.URL == "" {
		return nil, "", err
	}
	for began := time.Now(); l == nil; {
		attempt, cancel := context.WithTimeout(ctx, 3*time.Second)
		l, err = dial(attempt, embeddedConfig(at.URL), "", nil)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, refusedOnWindows), !at.alive(): // a server accepts connections
			return nil, at.Mode, nil
		case time.Since(began) > timeout:
			return nil, "", cli.Errorf(cli.ExitUnavailable, "the embedded Langfuse of this folder, process %d at %s, does not answer: wait, or stop it (%w)", at.PID, at.URL, err)
		default:
			time.Sleep(100 * time.Millisecond) // an error may have come at once
		}
	}
	if l.Server.Project.Name != projectName() {
		return nil, at.Mode, l.Close()
	}
	if l.Server, err = forceMode(l.Server, mode); err != nil {
		return nil, "", errors.Join(err, l.Close())
	}
	l.Embedded, l.Shared = true, true
	return l, at.Mode, nil
}

// readAddress reads the address file; without one, the address is zero. An address of another
// machine is an error, because no server of this folder wrote it.
func readAddress(ctx context.Context) (at address, err error) {
	raw, err := files.Read(ctx, addressPath(), 1<<20)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return at, nil
	case err != nil:
		return at, folderError(err)
	}
	var host netip.AddrPort
	if err = json.Unmarshal(raw, &at); err == nil {
		host, err = netip.ParseAddrPort(strings.TrimPrefix(at.URL, "http://"))
	}
	if err = errors.Join(err, embedded.Config{Mode: at.Mode}.Validate()); err != nil || !host.Addr().IsLoopback() {
		return address{}, cli.Usage("%s is not a note of a server of this machine (%s): remove it", addressPath(), textutil.Cut(textutil.Line(at.URL), 100))
	}
	return at, nil
}

// alive reports whether the process that wrote the address file still runs. The process number
// may belong to another process, so the store must be in use too.
func (a address) alive() bool {
	p, err := os.FindProcess(a.PID)
	if err != nil || !embedded.InUse(storePath()) {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}

func embeddedConfig(url string) langfuse.Config {
	return langfuse.Config{BaseURL: url, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey), MaxAttempts: 3, Uncompressed: true}
}

// projectName returns a name that differs between the servers of different folders.
func projectName() string {
	folder, _ := filepath.Abs(".")             // if the folder is gone, embedded.Open fails
	target, _ := filepath.EvalSymlinks(folder) // a link leads to the same store
	return "embedded in " + cmp.Or(target, folder)
}

// serve serves the store of this folder in a mode, with the built-in dataset and prompt, on a port,
// and connects to it. Port 0 stands for a free one. required is the mode that the connection must
// have; empty for any.
func serve(ctx context.Context, port int, required langfuse.Mode, mode embedded.Mode) (*Langfuse, error) {
	listener, err := listen(port)
	if err != nil {
		return nil, err
	}
	server, err := embedded.Open(embedded.Config{Path: storePath(), ProjectName: projectName(), Mode: mode})
	if err != nil {
		err = errors.Join(err, listener.Close())
	}
	switch _, wrongMode := errors.AsType[*embedded.ModeError](err); {
	case wrongMode:
		return nil, err
	case embedded.IsBusy(err):
		return nil, cli.Errorf(cli.ExitUnavailable, "%w: another process of this folder holds it and does not go on; continue that one (fg), or end it", err)
	case embedded.IsUnreadable(err):
		return nil, unreadable(err)
	case err != nil:
		return nil, folderError(err)
	}
	if err := server.ImportDataset(configs.SampleName, configs.SampleDescription, builtInItems); err != nil {
		return nil, folderError(errors.Join(fmt.Errorf("writing the built-in dataset: %w", err), listener.Close(), server.Close()))
	}
	serving, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	group.Go(func() error {
		defer cancel()
		return server.Serve(serving, listener)
	})
	stop := sync.OnceValue(func() error {
		cancel()
		return errors.Join(group.Wait(), server.Close())
	})
	l, err := dial(ctx, embeddedConfig("http://"+listener.Addr().String()), required, nil)
	if err == nil {
		err = tracking.CreateDefaultPrompt(ctx, l.Client)
	}
	// The server answers with status 500 only if it cannot save something.
	if answer, ok := errors.AsType[*langfuse.APIError](err); ok && answer.Status == http.StatusInternalServerError {
		if err = folderError(err); strings.Contains(answer.Message, "database disk image is malformed") {
			err = unreadable(answer)
		}
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	l.Embedded, l.stop, l.server, l.serving = true, stop, server, serving
	return l, nil
}

// DefaultPort is the port of "experiment serve" without --port.
const DefaultPort = 4711

// Serve runs the embedded server of this folder until ctx is done or the server fails. It
// listens on the port. Serve reads only Mode and Faults of config; faults begin when the server is
// ready. Before that it calls pages once, with a connection to the server, for the handler of
// everything outside of the API. Then it calls started with the address of the server.
func Serve(ctx context.Context, port int, config embedded.Config, pages func(*Langfuse) http.Handler, started func(url string)) error {
	if err := MakeFolder(); err != nil {
		return err
	}
	switch l, _, err := findRunning(ctx, "", answerTimeout); {
	case err != nil:
		return err
	case l != nil:
		return errors.Join(cli.Usage("the embedded Langfuse of this folder runs already at %s: stop it first",
			l.Client.BaseURL()), l.Close())
	}
	l, err := serve(ctx, port, "", config.Mode)
	if err != nil {
		return err
	}
	url := l.Client.BaseURL()
	l.server.SetPages(pages(l))
	err = folderError(files.Write(addressPath(), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(address{URL: url, PID: os.Getpid(), Mode: config.Mode})
	}))
	if err == nil {
		err = l.server.SetFaults(config.Faults)
	}
	if err == nil {
		started(url)
		idleCtx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(l.serving, stop)() // Close returns the error of the server
		l.server.SettleIdle(idleCtx)
	}
	return errors.Join(err, removeAddress(url), l.Close())
}

// removeAddress removes the address file, unless another server wrote it.
func removeAddress(url string) error {
	if at, err := readAddress(context.Background()); err != nil || at.URL != url {
		return err
	}
	return os.Remove(addressPath())
}

func listen(port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, cli.Usage("there is no port %d: it is a number from 0 to 65535", port)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, cli.Errorf(cli.ExitUnavailable, "listening on port %d: %w; --port names another, 0 a free one", port, err)
	}
	return l, nil
}

// builtInItems returns the items of the built-in dataset as JSON.
func builtInItems() ([]json.RawMessage, error) {
	var items []json.RawMessage
	lines, err := io.ReadAll(configs.OpenSample())
	for line := range bytes.Lines(lines) {
		items = append(items, line)
	}
	return items, err
}

// unreadable says what to do about a store that cannot be read.
func unreadable(err error) error {
	return cli.Errorf(cli.ExitIO, "%w: use a newer program if one wrote it, put a copy back, or move langfuse.db "+
		"away with its log (-wal): a new one is made then, without its datasets; runs are files of their own", err)
}
