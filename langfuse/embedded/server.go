// Package embedded is a server that speaks the public API of Langfuse over
// real HTTP and keeps everything in one SQLite file. It is what the commands
// use where no Langfuse account is configured, and what the tests talk to.
//
// It is not Langfuse: it has no user interface, no users, one project, one key
// pair, no prices of models, and of the API the part that this project and its
// witnesses use. What was acknowledged survives the death of the process and can be
// read at once, where Langfuse shows it a while later: spans and scores wait in the
// store as they came (inbox.go) until somebody reads.
//
// It imports no client of this project. A server and a client that share types
// agree with each other and with nobody else; these two meet over HTTP only.
//
// A request takes these steps: the host is checked, the route is looked up in
// the table of http.go, the request fails where Faults say so, the key pair is
// checked, the table says whether the route exists in the mode that
// is played, what waits in the inbox is put into the tables unless the route has
// nothing to do with it, the handler reads its
// form or query, works in one transaction, and its answer or fault is written.
//
// Where the behaviour comes from: running servers of Langfuse 4.16 and 3.225 as
// they were seen in November 2026, and their published source where nothing was
// seen. Three deployments are played:
//
//   - ModeV4: a run exists only through the langfuse.experiment.* attributes of
//     spans, every root span of an item is listed, legacy reads answer 404, events
//     of traces are refused one by one, and POST /dataset-run-items answers with the
//     computed experiment id and stores nothing.
//   - ModeV3: a run exists through its run items, of which the newest per item
//     is read; one bad span loses its whole request behind a 200; experiments and
//     v2/observations are 404.
//   - ModeV4Dual: both are written and both can be read.
//
// What a test wants besides is configured: Faults for slow, failing and limiting
// servers, IngestionDelay and DeleteDelay for eventual consistency, Drop for a
// server that accepts and loses. Server.Annotate, also as
// POST /api/embedded/annotations, sets what a person sets in the user interface:
// a score or correction with an author. POST /api/embedded/datasets/{name}/run presses
// the Run button of a dataset. A Handler leaves the route that it found in the Pattern
// of a request.
//
// A query key of lists of scores, observations, traces and experiments that is not played
// is refused with 400: to pass it over would be to answer another question.
//
// Limits: request bodies of 1 MB, of 4.5 MB for dataset items and ingestion, of
// 64 MB for OTLP after decompression; JSON that nests 1000 deep. Pages are cut
// by rows and not by bytes, as in Langfuse: a page of 100 items of 4 MB is 400
// MB in memory, so ask for fewer at a time where items are big.
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
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The keys and the project of every server. The keys are not a secret: they open a
// server that only this machine can reach.
const (
	DefaultPublicKey = "pk-lf-embedded"
	DefaultSecretKey = "sk-lf-embedded"
	DefaultProjectID = "embedded"
)

// Mode names the Langfuse deployment whose behaviour is played. A store keeps
// what the mode of its time wrote: like a real server that is switched over, a
// store that was written in ModeV4 has no traces and no dataset runs to show in
// ModeV3, and one written in ModeV3 has no experiments to show in ModeV4.
type Mode string

// The modes that exist.
const (
	// ModeV4 is Langfuse 4 with its default write mode, events_only: runs exist
	// through the attributes of spans, legacy reads are 404.
	ModeV4 Mode = "v4"
	// ModeV4Dual is Langfuse 4 while it is migrated: both worlds are written and
	// both can be read.
	ModeV4Dual Mode = "v4-dual"
	// ModeV3 is Langfuse 3 with its default write mode, legacy: runs exist
	// through run items, the reads that came with Langfuse 4 are 404.
	ModeV3 Mode = "v3"
)

// Modes returns all modes, the default first.
func Modes() []Mode {
	return []Mode{ModeV4, ModeV4Dual, ModeV3}
}

// legacy says whether traces, run items and dataset runs are kept.
func (m Mode) legacy() bool { return m != ModeV4 }

// events says whether experiments are made from spans.
func (m Mode) events() bool { return m != ModeV3 }

// Config says where a Server keeps its data and who it pretends to be. The zero
// value is a server in memory with the documented keys.
type Config struct {
	// Path is the SQLite file; it is created with mode 0600 where it is absent.
	// Empty or ":memory:" keeps everything in memory until Close.
	Path string
	// Mode is the deployment that is played; empty means ModeV4.
	Mode Mode
	// SecretKey is the only one that is let in, beside DefaultPublicKey. Empty means
	// DefaultSecretKey.
	SecretKey string
	// ProjectName is what GET /projects shows; empty means the project id.
	ProjectName string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// IngestionDelay is how long spans, events, scores and links stay invisible
	// after they were acknowledged; 0 means that they can be read at once.
	// Langfuse takes 15 s and more.
	IngestionDelay time.Duration
	// DeleteDelay is how long a score stays after its deletion was acknowledged.
	// A deletion that is done before the score was stored is lost, as in Langfuse.
	DeleteDelay time.Duration
	// Drop is asked about every span, score and link that is about to be stored:
	// where it returns true the thing is lost, and the answer is that of a success.
	// It is called from several goroutines. nil loses nothing.
	Drop func(kind, id string) bool
	// Faults makes requests fail; the zero value lets all succeed.
	Faults Faults
}

// The kinds that Drop is asked about, and what it is given as the id.
const (
	DropSpan    = "span"     // the span id
	DropScore   = "score"    // the score id
	DropRunItem = "run-item" // the id of the dataset item that is linked
)

// drops says whether a thing is to be lost.
func (c Config) drops(kind, id string) bool {
	return c.Drop != nil && c.Drop(kind, strings.Clone(id)) // it may be a part of a buffer
}

// Validate returns all problems of the configuration that can be told without
// opening the file, or nil. Open does the same first.
func (c Config) Validate() error {
	_, err := c.complete()
	return err
}

// complete returns the configuration with every empty field filled in, or all
// problems that it has.
func (c Config) complete() (Config, error) {
	c.Path = cmp.Or(c.Path, ":memory:")
	c.Mode = Mode(cmp.Or(string(c.Mode), string(ModeV4)))
	c.SecretKey = cmp.Or(c.SecretKey, DefaultSecretKey)
	c.ProjectName = cmp.Or(c.ProjectName, DefaultProjectID)
	if c.Now == nil {
		c.Now = time.Now
	}
	known := unless(slices.Contains(Modes(), c.Mode), "mode %q is not known: use one of %q", c.Mode, Modes())
	return c, errors.Join(known, c.Faults.check())
}

// Server answers the Langfuse API from one store. It is safe for concurrent use.
type Server struct {
	cfg   Config
	store *store
	mux   *http.ServeMux
	// maxSpans bounds an OTLP body, and maxSettled a transaction of settle; fields, so that
	// tests can lower them.
	maxSpans   int64
	maxSettled int
	asked      atomic.Bool // somebody asked for something, see SettleIdle
	faults     atomic.Pointer[faulty]
	pages      atomic.Pointer[http.Handler]
	past       atomic.Pointer[pastList] // see pastItems
	// small and large are pools of *bytes.Buffer, see buffer.
	small, large sync.Pool
}

// buffer lends a buffer for so many bytes: what a new one costs is system calls. Small ones
// are kept apart, or each would grow to the size of the largest.
func (s *Server) buffer(size int64) (b *bytes.Buffer, release func()) {
	pool, most := &s.small, 256<<10
	if size > int64(most) {
		pool, most = &s.large, 8<<20
	}
	b, _ = pool.Get().(*bytes.Buffer)
	if b == nil {
		b = new(bytes.Buffer)
	}
	return b, func() {
		if b.Reset(); b.Cap() <= most {
			pool.Put(b)
		}
	}
}

// Open opens or creates the store and returns a server for it; the caller
// closes it. It fails with every problem of the configuration, and where the
// file cannot be created, is not a store of this package, or was written by a
// newer version; with a *ModeError while a server of another mode has it open,
// in whatever process.
func Open(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("opening embedded Langfuse: %w", err)
	}
	s := &Server{cfg: cfg, maxSpans: maxSpansBody, maxSettled: maxSettled}
	if s.store, err = openStore(cfg.Path, cfg.Mode); err != nil {
		return nil, fmt.Errorf("opening embedded Langfuse %s: %w", cfg.Path, err)
	}
	s.mux = s.newMux()
	s.faults.Store(newFaulty(cfg.Faults))
	return s, nil
}

// SetFaults makes the server behave badly, or well again, from the next request
// on. It fails where Open would.
func (s *Server) SetFaults(f Faults) error {
	err := f.check()
	if err == nil {
		s.faults.Store(newFaulty(f))
	}
	return err
}

// SetPages gives requests outside of /api/ to h, from the next one on; without
// they are answered 404. The Host header is checked first; keys are not asked
// for, and faults do not happen there.
func (s *Server) SetPages(h http.Handler) { s.pages.Store(&h) }

// Handler returns the HTTP interface of the server, with the faults that are
// configured.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

// Close waits for statements under way and closes the store. In memory, this is the end of the data. Requests that come
// later are answered 500.
func (s *Server) Close() error { return s.store.close() }

// Serve answers requests on l until ctx is done, then takes no new ones, gives
// those under way up to ten seconds, and returns nil. It closes l but not the
// store. Any other end is an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var silent silentConns
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

// silentConns knows the connections that were opened and never used, as clients
// do that send several requests at once. A stopping http.Server would wait five
// seconds for a request on each.
type silentConns struct{ conns sync.Map }

// watch is the ConnState hook of an http.Server.
func (c *silentConns) watch(conn net.Conn, state http.ConnState) {
	if state == http.StateNew {
		c.conns.Store(conn, nil)
	} else {
		c.conns.Delete(conn)
	}
}

func (c *silentConns) close() {
	c.conns.Range(func(conn, _ any) bool {
		_ = conn.(net.Conn).Close() // nobody speaks on it
		return true
	})
}

// now is the instant of the clock in milliseconds, the precision of the API.
func (s *Server) now() int64 { return s.cfg.Now().UnixMilli() }
