package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// storePath and addressPath are the embedded server's data, and the note by
// which "experiment serve" is found.
func storePath() string   { return filepath.Join(Folder, "langfuse.db") }
func addressPath() string { return filepath.Join(Folder, "langfuse.json") }

// address is what a running "experiment serve" writes down.
type address struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

// openEmbedded finds the server that runs in this folder, or starts one inside
// this process, and puts the built-in dataset into a new store.
func openEmbedded(ctx context.Context, mode langfuse.Mode) (*Langfuse, error) {
	if err := makeFolder(); err != nil {
		return nil, err
	}
	if l, err := findRunning(ctx, mode); l != nil || err != nil {
		return l, err
	}
	l, err := startInside(ctx, mode)
	if err != nil {
		return nil, err
	}
	if err := seedBuiltIn(ctx, l.Client); err != nil {
		return nil, errors.Join(kept(err), l.Close())
	}
	return l, nil
}

// kept says that it is the folder where the server inside could not keep something:
// that is all that its 500 can mean.
func kept(err error) error {
	var answer *langfuse.APIError
	if errors.As(err, &answer) && answer.Status == http.StatusInternalServerError {
		return &folderError{err}
	}
	return err
}

// findRunning connects to the server of the address note. A note without a
// server behind it is what a killed process leaves, and its port may have gone
// to the server of another folder meanwhile: both count as none. One that does
// not speak the mode that is insisted on is an error: beside it, the store must
// not be served in another mode.
func findRunning(ctx context.Context, mode langfuse.Mode) (*Langfuse, error) {
	raw, err := os.ReadFile(addressPath())
	if err != nil {
		return nil, nil
	}
	var at address
	if json.Unmarshal(raw, &at) != nil || at.URL == "" {
		return nil, nil
	}
	quick, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	l, err := dial(quick, withKeys(at.URL), "", nil)
	if err != nil {
		return nil, nil
	}
	if l.Server.Project.Name != projectName() {
		return nil, l.Close()
	}
	if l.Server, err = inMode(l.Server, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.Embedded, l.Shared = true, true
	return l, nil
}

func withKeys(url string) langfuse.Config {
	return langfuse.Config{BaseURL: url, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey), MaxAttempts: 3}
}

// projectName tells the servers of different folders apart.
func projectName() string {
	folder, err := filepath.Abs(".")
	if err != nil { // the folder is gone; opening the store will say so
		return "embedded"
	}
	return "embedded in " + folder
}

// startInside serves the store on a free loopback port until Close.
func startInside(ctx context.Context, mode langfuse.Mode) (*Langfuse, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Langfuse: %w", err)
	}
	in, err := serve(listener, embedded.Config{})
	if err != nil {
		return nil, err
	}
	l, err := dial(ctx, withKeys(in.url), mode, nil)
	if err != nil {
		return nil, errors.Join(err, in.stop())
	}
	l.Embedded, l.stop = true, in.stop
	return l, nil
}

// inside is an embedded server that answers on a listener until stop is called.
type inside struct {
	server *embedded.Server
	url    string
	gone   <-chan struct{} // closed when it answers no more
	stop   func() error
}

// serve serves the store of this folder; of play only mode and faults count.
func serve(listener net.Listener, play embedded.Config) (*inside, error) {
	server, err := embedded.Open(embedded.Config{Path: storePath(), ProjectName: projectName(), Mode: play.Mode, Faults: play.Faults})
	if err != nil {
		return nil, &folderError{errors.Join(err, listener.Close())}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, gone := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		ended <- server.Serve(ctx, listener)
	}()
	return &inside{server: server, url: "http://" + listener.Addr().String(), gone: gone, stop: sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ended, server.Close())
	})}, nil
}
