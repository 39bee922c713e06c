package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Server answers the Langfuse API from one store. It is safe for concurrent use.
type Server struct {
	cfg    Config
	store  *store
	routes []route
	// maxSpans bounds an OTLP body; a field, so that a test can lower it.
	maxSpans int64
	queue    queue
	meter    meter
	faults   atomic.Pointer[faulty]
	pages    atomic.Pointer[http.Handler]
}

// Open opens or creates the store and returns a server for it; the caller
// closes it. It fails with every problem of the configuration, and where the
// file cannot be created, is not a store of this package, was written by a
// newer version, or belongs to another project; with a *ModeError while a server of
// another mode has it open, in whatever process.
func Open(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("opening embedded Langfuse: %w", err)
	}
	st, err := openStore(cfg.Path, cfg.Mode)
	if err != nil {
		return nil, fmt.Errorf("opening embedded Langfuse %s: %w", cfg.Path, err)
	}
	cfg.ProjectID, err = st.project(cfg.ProjectID)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening embedded Langfuse %s: %w", cfg.Path, err), st.close())
	}
	cfg.ProjectName = orElse(cfg.ProjectName, cfg.ProjectID)
	s := &Server{cfg: cfg, store: st, routes: routes(), maxSpans: maxSpansBody}
	s.faults.Store(newFaulty(cfg.Faults))
	return s, nil
}

// SetFaults makes the server behave badly, or well again, from the next request
// on. It fails where Open would.
func (s *Server) SetFaults(f Faults) error {
	if err := f.check(); err != nil {
		return fmt.Errorf("setting faults: %w", err)
	}
	s.faults.Store(newFaulty(f))
	return nil
}

// SetPages gives requests outside of /api/ to h, from the next one on; without
// they are answered 404. The Host header is checked first; keys are not asked
// for, and faults do not happen there.
func (s *Server) SetPages(h http.Handler) { s.pages.Store(&h) }

// Handler returns the HTTP interface of the server, with the faults that are
// configured.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(s.serveHTTP)
}

// Close does what still waits in the queue, waits for statements under way and
// closes the store. In memory, this is the end of the data. Requests that come
// later are answered 500.
func (s *Server) Close() error {
	return errors.Join(s.settleAll(), s.store.close())
}

// Serve answers requests on l until ctx is done, then takes no new ones, gives
// those under way up to ten seconds, and returns nil. It closes l but not the
// store. Any other end is an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var silent unused
	hs := &http.Server{
		Handler:           s.Handler(),
		ConnState:         silent.watch,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       5 * time.Minute,
		WriteTimeout:      5 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	hs.RegisterOnShutdown(silent.close) // when no connection comes any more
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving embedded Langfuse: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := hs.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("stopping embedded Langfuse: %w", err), hs.Close())
	}
	<-ended
	return err
}

// now is the instant of the clock in milliseconds, the precision of the API.
func (s *Server) now() int64 {
	return s.cfg.Now().UnixMilli()
}
