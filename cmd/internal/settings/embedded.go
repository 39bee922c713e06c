package settings

import (
	"bytes"
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

	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// storePath and addressPath are the embedded server's data, and the note by
// which "experiment serve" is found.
func storePath() string   { return filepath.Join(Folder, "langfuse.db") }
func addressPath() string { return filepath.Join(Folder, "langfuse.json") }

// address is what a running "experiment serve" writes down.
type address struct {
	URL  string        `json:"url"`
	PID  int           `json:"pid"`
	Mode embedded.Mode `json:"mode"`
}

// patience is how long a server is waited for that is there and does not answer.
const patience = 30 * time.Second

// openEmbedded finds the server that runs in this folder, or starts one inside
// this process, on a free port of the loopback address and in the mode that the store was
// served in last.
func openEmbedded(ctx context.Context, mode langfuse.Mode) (*Langfuse, error) {
	if err := MakeFolder(); err != nil {
		return nil, err
	}
	l, noted, err := findRunning(ctx, mode, patience)
	if l != nil || err != nil {
		return l, err
	}
	listener, err := listen(0, false)
	if err != nil {
		return nil, err
	}
	return serve(ctx, listener, mode, noted) // a server that was not ended in order may come back
}

// kept says that it is the folder where the server inside could not keep something:
// that is all that its 500 can mean.
func kept(err error) error {
	if answer, ok := errors.AsType[*langfuse.APIError](err); ok && answer.Status == http.StatusInternalServerError {
		return folderError(err)
	}
	return err
}

// findRunning connects to the server of the address note. A note without a
// server behind it is what a killed process leaves, and its port may have gone
// to the server of another folder meanwhile: both count as none, and noted is the
// mode in which the store was served. A server that is there and does not answer for
// so long is an error, and so is one that does not speak the mode that is insisted on.
func findRunning(ctx context.Context, mode langfuse.Mode, patience time.Duration) (l *Langfuse, noted embedded.Mode, err error) {
	at, err := readAddress(ctx)
	if err != nil || at.URL == "" {
		return nil, "", err
	}
	for began := time.Now(); l == nil; {
		quick, cancel := context.WithTimeout(ctx, 3*time.Second)
		l, err = dial(quick, withKeys(at.URL), "", nil)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case !at.alive():
			return nil, at.Mode, nil
		case time.Since(began) > patience:
			return nil, "", cli.Errorf(cli.ExitUnavailable, "the embedded Langfuse of this folder, process %d at %s, does not answer: wait, or stop it (%w)", at.PID, at.URL, err)
		default:
			time.Sleep(100 * time.Millisecond) // it may have refused at once
		}
	}
	if l.Server.Project.Name != projectName() {
		return nil, at.Mode, l.Close()
	}
	if l.Server, err = inMode(l.Server, mode); err != nil {
		return nil, "", errors.Join(err, l.Close())
	}
	l.Embedded, l.Shared = true, true
	return l, at.Mode, nil
}

// readAddress reads the address note; without one it is zero. What names another
// machine was not written by a server of this folder.
func readAddress(ctx context.Context) (at address, err error) {
	raw, err := files.Read(ctx, addressPath(), 64<<10)
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

// alive reports whether the process still runs that wrote the note. That its number
// is in use does not say so where nobody has the store open.
func (a address) alive() bool {
	p, err := os.FindProcess(a.PID)
	if err != nil || !embedded.InUse(storePath()) {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}

func withKeys(url string) langfuse.Config {
	return langfuse.Config{BaseURL: url, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey), MaxAttempts: 3, Uncompressed: true}
}

// projectName tells the servers of different folders apart.
func projectName() string {
	folder, _ := filepath.Abs(".") // where the folder is gone, opening the store says so
	return "embedded in " + folder
}

// serve serves the store of this folder in a mode, with the built-in dataset and prompt, and
// connects to it; insisted is the mode that it must have, if one is insisted on.
func serve(ctx context.Context, listener net.Listener, insisted langfuse.Mode, mode embedded.Mode) (*Langfuse, error) {
	server, err := embedded.Open(embedded.Config{Path: storePath(), ProjectName: projectName(), Mode: mode})
	if _, other := errors.AsType[*embedded.ModeError](err); other {
		return nil, errors.Join(err, listener.Close())
	}
	if embedded.IsBusy(err) {
		err = cli.Errorf(cli.ExitUnavailable, "%w: another process of this folder holds it and does not go on; continue that one (fg), or end it", err)
		return nil, errors.Join(err, listener.Close())
	}
	if err != nil {
		return nil, folderError(errors.Join(err, listener.Close()))
	}
	if err := server.Import(configs.SampleName, configs.SampleDescription, builtIn); err != nil {
		return nil, folderError(errors.Join(fmt.Errorf("writing the built-in dataset: %w", err), listener.Close(), server.Close()))
	}
	serving, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	var failed error
	go func() {
		defer close(gone)
		failed = server.Serve(serving, listener)
	}()
	stop := sync.OnceValue(func() error {
		cancel()
		<-gone
		return errors.Join(failed, server.Close())
	})
	l, err := dial(ctx, withKeys("http://"+listener.Addr().String()), insisted, nil)
	if err == nil {
		err = kept(tracking.CreateDefaultPrompt(ctx, l.Client))
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	l.Embedded, l.stop, l.server, l.gone = true, stop, server, gone
	return l, nil
}

// DefaultPort is where "experiment serve" listens unless told otherwise; the
// next free one is taken if it is in use.
const DefaultPort = 4711

// Serve runs the embedded server of this folder until ctx is done, or it cannot
// go on. It listens on the port, or if that is in use and next is set, on the next
// free one.
// Of play the mode and the faults count; the faults begin once the server is
// ready. pages is called once, with a connection to it, and makes what is served
// outside of the API. started is called with its address then.
func Serve(ctx context.Context, port int, next bool, play embedded.Config, pages func(*Langfuse) http.Handler, started func(url string)) error {
	if err := MakeFolder(); err != nil {
		return err
	}
	switch l, _, err := findRunning(ctx, "", patience); {
	case err != nil:
		return err
	case l != nil:
		return errors.Join(cli.Usage("the embedded Langfuse of this folder runs already at %s", l.Client.BaseURL()), l.Close())
	}
	listener, err := listen(port, next)
	if err != nil {
		return err
	}
	l, err := serve(ctx, listener, "", play.Mode)
	if err != nil {
		return err
	}
	url := l.Client.BaseURL()
	l.server.SetPages(pages(l))
	if err = announce(url, play.Mode); err == nil {
		err = l.server.SetFaults(play.Faults)
	}
	if err == nil {
		started(url)
		serving, stop := context.WithCancel(ctx)
		go func() {
			defer stop()
			select {
			case <-serving.Done():
			case <-l.gone: // by an error, which Close returns
			}
		}()
		l.server.SettleIdle(serving)
	}
	return errors.Join(err, withdraw(url), l.Close())
}

// announce writes down where the store is served.
func announce(url string, mode embedded.Mode) error {
	return folderError(files.Write(addressPath(), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(address{URL: url, PID: os.Getpid(), Mode: mode})
	}))
}

// withdraw removes the address note, unless another server wrote its own.
func withdraw(url string) error {
	if at, err := readAddress(context.Background()); err != nil || at.URL != url {
		return err
	}
	return os.Remove(addressPath())
}

func listen(port int, next bool) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, cli.Usage("there is no port %d: it is a number from 0 to 65535", port)
	}
	last := port
	if next {
		last = min(port+50, 65535)
	}
	var err error
	for p := port; p <= last; p++ {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p)); err == nil {
			return l, nil
		}
	}
	return nil, cli.Errorf(cli.ExitUnavailable, "listening on port %d: %w", port, err)
}

// builtIn gives the items of the built-in dataset, whose lines are what a server is told.
func builtIn() ([]json.RawMessage, error) {
	var bodies []json.RawMessage
	lines, err := io.ReadAll(configs.OpenSample())
	for line := range bytes.Lines(lines) {
		bodies = append(bodies, line)
	}
	return bodies, err
}
