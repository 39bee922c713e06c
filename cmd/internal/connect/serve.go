package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/langfuse/embedded"
)

// DefaultPort is where "experiment serve" listens unless told otherwise; the
// next free one is taken if it is in use.
const DefaultPort = 4711

// servedError says that a server runs in this folder already.
type servedError struct{ url string }

// Error names its address.
func (e *servedError) Error() string {
	return "the embedded Langfuse of this folder runs already at " + e.url
}

// ExitCode returns 64.
func (e *servedError) ExitCode() int { return cli.ExitUsage }

// Serve runs the embedded server of this folder until ctx is done, or it cannot
// go on. It listens on the port, or if that is in use and next is set, on the next
// free one.
// Of play the mode and the faults count; the faults begin once the server is
// ready. pages is called once, with a connection to it, and makes what is served
// outside of the API. started is called with its address then.
func Serve(ctx context.Context, port int, next bool, play embedded.Config, pages func(*Langfuse) http.Handler, started func(url string)) error {
	if err := makeFolder(); err != nil {
		return err
	}
	switch l, _, err := findRunning(ctx, "", patience); {
	case err != nil:
		return err
	case l != nil:
		return errors.Join(&servedError{l.Client.BaseURL()}, l.Close())
	}
	listener, err := listen(port, next)
	if err != nil {
		return err
	}
	in, err := serve(listener, embedded.Config{Mode: play.Mode})
	if err != nil {
		return err
	}
	err = in.show(ctx, pages)
	if err == nil {
		err = announce(in.url, play.Mode)
	}
	if err == nil {
		err = in.server.SetFaults(play.Faults)
	}
	if err == nil {
		started(in.url)
		select {
		case <-ctx.Done():
		case <-in.gone: // by an error, which stop returns
		}
	}
	return errors.Join(err, withdraw(in.url), in.stop())
}

// show fills a new store and puts the pages in place; they keep the connection.
func (in *inside) show(ctx context.Context, pages func(*Langfuse) http.Handler) error {
	l, err := dial(ctx, withKeys(in.url), "", nil)
	if err != nil {
		return err
	}
	if err := seedBuiltIn(ctx, l.Client); err != nil {
		return err
	}
	in.server.SetPages(pages(l))
	return nil
}

// announce writes down where the store is served.
func announce(url string, mode embedded.Mode) error {
	err := files.Write(addressPath(), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(address{URL: url, PID: os.Getpid(), Mode: mode})
	})
	if err != nil {
		return &folderError{err}
	}
	return nil
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
