// Package natsserver starts a NATS server with JetStream for tests. The server is not part of
// the program.
package natsserver

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is a NATS server on the loopback address.
type Server struct {
	*server.Server
	options server.Options
	t       testing.TB
}

// Start starts a server with JetStream on a free port, with its data in a temporary folder of the
// test. change may set further options. The server stops when the test ends. Start fails the test
// if the server does not start.
func Start(t testing.TB, change ...func(*server.Options)) *Server {
	t.Helper()
	s := &Server{t: t, options: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}}
	for _, f := range change {
		f(&s.options)
	}
	s.start()
	t.Cleanup(s.Stop)
	return s
}

// start starts a server with the same options, and keeps its port for the next start.
func (s *Server) start() {
	s.t.Helper()
	options := s.options
	started, err := server.NewServer(&options)
	if err != nil {
		s.t.Fatal(err)
	}
	started.Start()
	if !started.ReadyForConnections(20 * time.Second) {
		s.t.Fatal("the NATS server did not start")
	}
	s.Server, s.options.Port = started, options.Port
}

// URL returns the address of the server.
func (s *Server) URL() string { return s.ClientURL() }

// Stop stops the server and waits until it has stopped.
func (s *Server) Stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

// Restart starts the server again on the same port, without its data if emptied is set.
func (s *Server) Restart(emptied bool) {
	s.t.Helper()
	s.Stop()
	if emptied {
		s.options.StoreDir = s.t.TempDir()
	}
	s.start()
}
