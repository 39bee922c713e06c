package embedded

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestServe_stopsAtOnce: a connection on which nothing was ever said does not
// hold up the end.
func TestServe_stopsAtOnce(t *testing.T) {
	server, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	for range 3 {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		time.Sleep(20 * time.Millisecond) // until it is accepted
	}
	began := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 4*time.Second { // without care it is five
		t.Errorf("it took %s", took)
	}
}
