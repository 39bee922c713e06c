// Package embedded is a server for the public API of Langfuse over real HTTP, which keeps all data
// in one SQLite file. The commands use it if no Langfuse account is configured, and tests talk to it.
//
// It is not Langfuse: it has no user interface, no users, one project, one key pair and no prices of
// models, and of the API only the part that this project and its witnesses use. Acknowledged data
// survives the death of the process and can be read at once, while Langfuse shows it some time
// later: spans and scores are stored as they were sent (inbox.go) until the next read.
//
// The package imports no client of this project. If server and client shared types, they would agree
// with each other and perhaps with no other program; these two meet over HTTP only.
//
// A request takes these steps: serveHTTP checks the host, the mux finds the route in the table of
// http.go, the request fails if Faults say so, the key pair and the mode of the route are checked,
// the inbox is settled if the route needs it, the handler reads its form or query and works in one
// transaction, and its answer or error is written.
//
// The behaviour is that of running servers of Langfuse 4.16 and 3.225, as observed in November 2026,
// and that of their published source for everything else. There are three modes:
//
//   - ModeV4: a run exists only through the langfuse.experiment.* attributes of spans, every root
//     span of an item is listed, legacy reads answer 404, events of traces are refused one by one,
//     and POST /dataset-run-items answers with the computed experiment id and stores nothing.
//   - ModeV3: a run exists through its run items, and the newest one per item is read; a span
//     without an id loses its whole request behind a 200; experiments and v2/observations are 404.
//   - ModeV4Dual: both forms are written and can be read.
//
// Tests can configure Faults for slow, failing and limiting servers, IngestionDelay and DeleteDelay
// for eventual consistency, and Drop for a server that acknowledges and loses. Server.Annotate, or
// POST /api/embedded/annotations, sets a score or correction with an author, as a person does in the
// user interface. POST /api/embedded/datasets/{name}/run does what the Run button of a dataset does.
// Handler sets the Pattern of a request to that of its route.
//
// Lists of scores, observations, traces and experiments answer 400 to unsupported query keys, because
// ignoring a key would answer a different question.
//
// Limits: request bodies of 1 MB, of 4.5 MB for dataset items and ingestion, and of 64 MB for OTLP
// after decompression; JSON with a nesting depth of 1000. As in Langfuse, pages are limited in rows
// and not in bytes: a page of 100 items of 4 MB takes 400 MB of memory, so ask for fewer large items.
//
//	s, err := embedded.Open(embedded.Config{Path: "langfuse.db"})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	l, err := net.Listen("tcp", "127.0.0.1:4711")
//	if err != nil {
//		return err
//	}
//	return s.Serve(ctx, l)
package embedded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/textutil"
)

// The key pair and the project of every server. The keys are not secret, because only this
// machine can reach the server.
const (
	DefaultPublicKey = "pk-lf-embedded"
	DefaultSecretKey = "sk-lf-embedded"
	DefaultProjectID = "embedded"
)

// Mode is the Langfuse deployment that a server imitates. A store keeps what it wrote in earlier
// modes: like a real server that is switched over, a store written in ModeV4 has no traces and no
// dataset runs in ModeV3, and one written in ModeV3 has no experiments in ModeV4.
type Mode string

// The supported modes.
const (
	// ModeV4 is Langfuse 4 with its default write mode, events_only: runs exist through the
	// attributes of spans, and legacy reads are 404.
	ModeV4 Mode = "v4"
	// ModeV4Dual is Langfuse 4 during its migration: both forms are written and can be read.
	ModeV4Dual Mode = "v4-dual"
	// ModeV3 is Langfuse 3 with its default write mode, legacy: runs exist through run items, and
	// reads that came with Langfuse 4 are 404.
	ModeV3 Mode = "v3"
)

// Modes returns all modes, the default first.
func Modes() []Mode {
	return []Mode{ModeV4, ModeV4Dual, ModeV3}
}

// hasTraces reports whether traces, run items and dataset runs are stored.
func (m Mode) hasTraces() bool { return m != ModeV4 }

// hasExperiments reports whether experiments are derived from spans.
func (m Mode) hasExperiments() bool { return m != ModeV3 }

// Config configures a Server. The zero value is a server in memory with the documented keys.
type Config struct {
	// Path is the SQLite file, which is created with mode 0600 if it is missing. Empty or
	// ":memory:" keeps all data in memory until Close.
	Path string
	// Mode is the imitated deployment; empty means ModeV4.
	Mode Mode
	// SecretKey is the secret key of DefaultPublicKey; empty means DefaultSecretKey. No other key
	// pair is accepted.
	SecretKey string
	// ProjectName is the name in GET /projects; empty means the project id.
	ProjectName string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// IngestionDelay is the time for which spans, events, scores and links are invisible after
	// they are acknowledged; 0 means that they can be read at once. Langfuse takes 15 s and more.
	IngestionDelay time.Duration
	// DeleteDelay is the time for which a score stays after its deletion is acknowledged. A
	// deletion that is due before the score is stored has no effect, as in Langfuse.
	DeleteDelay time.Duration
	// Drop is called for every span, score and link before it is stored. If it returns true, the
	// object is lost, although the answer reports success. It is called from several goroutines.
	// nil loses nothing.
	Drop func(kind, id string) bool
	// Faults makes requests fail; the zero value means no faults.
	Faults Faults
}

// The kinds that Drop is called with; the id of each is in its comment.
const (
	DropSpan    = "span"     // the span id
	DropScore   = "score"    // the score id
	DropRunItem = "run-item" // the id of the dataset item that is linked
)

// drops reports whether an object is to be lost.
func (c Config) drops(kind, id string) bool {
	return c.Drop != nil && c.Drop(kind, strings.Clone(id)) // the id may share the memory of a buffer
}

// Validate returns all problems of the configuration that can be found without opening the file,
// or nil. Open does the same first.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns the configuration with every empty field filled in, or all its problems.
func (c Config) withDefaults() (Config, error) {
	c.Path = cmp.Or(c.Path, ":memory:")
	c.Mode = cmp.Or(c.Mode, ModeV4)
	c.SecretKey = cmp.Or(c.SecretKey, DefaultSecretKey)
	c.ProjectName = cmp.Or(c.ProjectName, DefaultProjectID)
	if c.Now == nil {
		c.Now = time.Now
	}
	var problems textutil.Problems
	problems.Add(!slices.Contains(Modes(), c.Mode), "mode %q is not known; there are: %s",
		c.Mode, strings.Trim(fmt.Sprint(Modes()), "[]"))
	problems.Join(c.Faults.check())
	return c, errors.Join(problems...)
}

// Server answers the Langfuse API from one store. It is safe for concurrent use.
type Server struct {
	cfg   Config
	store *store
	mux   *http.ServeMux
	// maxSpansBody limits an OTLP body and maxSettleBytes a transaction of settle. They are
	// fields so that tests can lower them.
	maxSpansBody   int64
	maxSettleBytes int
	requested      atomic.Bool // since the last check of SettleIdle
	faults         atomic.Pointer[faultInjector]
	pages          atomic.Pointer[http.Handler]
	pastCache      atomic.Pointer[pastList] // see pastItems
	// small and large are pools of *bytes.Buffer; see buffer.
	small, large sync.Pool
}

// buffer returns a pooled buffer for size bytes, because allocating a large one takes system
// calls. Small and large buffers have separate pools, so that small requests do not hold large
// buffers. release returns the buffer to its pool.
func (s *Server) buffer(size int64) (b *bytes.Buffer, release func()) {
	pool, maxSize := &s.small, 256<<10
	if size > int64(maxSize) {
		pool, maxSize = &s.large, 8<<20
	}
	b, _ = pool.Get().(*bytes.Buffer)
	if b == nil {
		b = new(bytes.Buffer)
	}
	return b, func() {
		if b.Reset(); b.Cap() <= maxSize {
			pool.Put(b)
		}
	}
}

// Open opens or creates the store and returns a server for it. The caller must close it. Open
// returns an error with every problem of the configuration, or if the file cannot be created, is
// not a store of this package, or was written by a newer version. It returns a *ModeError while a
// server of another mode, in any process, has the store open.
func Open(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("opening embedded Langfuse: %w", err)
	}
	s := &Server{cfg: cfg, maxSpansBody: maxSpansBody, maxSettleBytes: maxSettleBytes}
	if s.store, err = openStore(cfg.Path, cfg.Mode); err != nil {
		return nil, fmt.Errorf("opening embedded Langfuse %s: %w", cfg.Path, err)
	}
	s.mux = s.newMux()
	s.faults.Store(newFaultInjector(cfg.Faults))
	return s, nil
}

// SetFaults replaces the faults, from the next request on. It returns an error, and keeps the
// former faults, if Open would refuse them.
func (s *Server) SetFaults(f Faults) error {
	err := f.check()
	if err == nil {
		s.faults.Store(newFaultInjector(f))
	}
	return err
}

// SetPages makes h answer requests outside of /api/, from the next one on; without it they are
// 404. The Host header is checked first. Pages need no key and have no faults.
func (s *Server) SetPages(h http.Handler) { s.pages.Store(&h) }

// Handler returns the HTTP handler of the server, with the configured faults.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

// Close waits for running statements and closes the store. A store in memory is lost. Later
// requests are answered with 500.
func (s *Server) Close() error { return s.store.close() }

// Serve answers requests on l until ctx is done. It then accepts no new requests, gives the
// running ones up to ten seconds, and returns nil. It closes l but not the store. If it ends in
// any other way, it returns an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Connections without a request, which clients open when they send several requests at once.
	// A stopping http.Server would wait five seconds for a request on each.
	var unused sync.Map
	hs := &http.Server{
		Handler: s.Handler(),
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateNew {
				unused.Store(conn, nil)
			} else {
				unused.Delete(conn)
			}
		},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       5 * time.Minute,
		WriteTimeout:      5 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(os.Stderr, "", log.LstdFlags),
	}
	hs.RegisterOnShutdown(func() { // after the last new connection
		for conn := range unused.Range {
			_ = conn.(net.Conn).Close() // no request uses it
		}
	})
	serveErr := make(chan error, 1)
	go func() { serveErr <- hs.Serve(l) }()
	select {
	case err := <-serveErr:
		return fmt.Errorf("serving embedded Langfuse: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := hs.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("stopping embedded Langfuse: %w", err), hs.Close())
	}
	<-serveErr
	return err
}

// now returns the time of the clock in milliseconds, the precision of the API.
func (s *Server) now() int64 { return s.cfg.Now().UnixMilli() }
