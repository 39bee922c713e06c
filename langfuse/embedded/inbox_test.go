package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// TestInbox_survives checks that acknowledged requests are in the file, also for another server,
// and visible when they are due.
func TestInbox_survives(t *testing.T) {
	cfg := Config{Path: t.TempDir() + "/s.db", IngestionDelay: time.Hour}
	first := newTestServer(t, cfg)
	first.must(207, first.post(api+"/ingestion", batchOf(scoreEvent("e1", "a", 0, at1))))
	first.must(200, first.post(api+"/scores", object{"id": "b", "name": "n", "value": 1, "traceId": "t"}))
	first.must(202, first.do("DELETE", api+"/scores/c", nil))
	second := newTestServer(t, cfg)
	equal(t, "before", second.get(api+"/v3/scores").column("id"), []string{})
	second.clock.advance(time.Hour)
	equal(t, "after", second.get(api+"/v3/scores?fields=core").column("id"), []string{"b", "a"})
	second.must(202, second.do("DELETE", api+"/scores/b", nil))
	equal(t, "deleted", second.get(api+"/v3/scores").column("id"), []string{"a"})
}

// TestInbox_ofOlderPrograms checks that messages that an older program compressed are read.
func TestInbox_ofOlderPrograms(t *testing.T) {
	r := newTestServer(t, Config{IngestionDelay: time.Hour})
	r.must(207, r.post(api+"/ingestion", batchOf(scoreEvent("e1", "a", 0, at1))))
	bodies, err := queryRows(r.server.store.r, scanValue[[]byte], "SELECT body FROM inbox")
	if err != nil || len(bodies) != 1 {
		t.Fatal(bodies, err)
	}
	body, err := s2.Decode(nil, bodies[0])
	encoder, zstdErr := zstd.NewWriter(nil)
	if err = errors.Join(err, zstdErr); err != nil {
		t.Fatal(err)
	}
	if err := r.server.store.exec("UPDATE inbox SET packing = 'zstd', body = ?", encoder.EncodeAll(body, nil)); err != nil {
		t.Fatal(err)
	}
	r.clock.advance(time.Hour)
	equal(t, "scores", r.get(api+"/v3/scores?fields=core").column("id"), []string{"a"})
}

// TestInbox_modeOfItsTime checks that a message is stored in the mode of the server that received
// it.
func TestInbox_modeOfItsTime(t *testing.T) {
	path := t.TempDir() + "/s.db"
	t.Run("v3", func(t *testing.T) {
		first := newTestServer(t, Config{Path: path, Mode: ModeV3})
		first.must(200, first.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i"))))
	})
	second := newTestServer(t, Config{Path: path, Mode: ModeV4Dual})
	equal(t, "traces", second.get(api+"/traces").column("id"), []string{"t"})
	equal(t, "experiments", second.get(api+"/experiments?fromStartTime=2020-01-01").column("id"), []string{})
}

// TestInbox_manyReaders checks that several readers see all messages if there are more than one
// transaction stores.
func TestInbox_manyReaders(t *testing.T) {
	path := t.TempDir() + "/s.db"
	servers := []*testServer{newTestServer(t, Config{Path: path}), newTestServer(t, Config{Path: path})}
	const spans = 40
	for _, r := range servers {
		r.server.maxSettleBytes = 1000
	}
	for i := range spans {
		id := fmt.Sprintf("%02d", i)
		servers[i%2].must(200, servers[i%2].post(api+"/otel/v1/traces", export(rootSpan("t"+id, "s"+id, "e", id))))
	}
	seen := make(chan int)
	for i := range 6 {
		go func() { seen <- len(servers[i%2].get(api + "/v2/observations?limit=100").column("id")) }()
	}
	for range 6 {
		if n := <-seen; n != spans {
			t.Errorf("%d of %d spans", n, spans)
		}
	}
}

// TestInbox_unstorable checks that a message that cannot be stored is kept with the reason and
// blocks no others.
func TestInbox_unstorable(t *testing.T) {
	r := newTestServer(t, Config{})
	for _, kind := range []string{"smoke", "link", protobufSpans} {
		if err := r.server.enqueue(0, kind, []byte("\xff")); err != nil {
			t.Fatal(err)
		}
	}
	r.must(200, r.post(api+"/scores", object{"id": "a", "name": "n", "value": 1, "traceId": "t"}))
	equal(t, "scores", r.get(api+"/v3/scores").column("id"), []string{"a"})
	problems, err := queryRows(r.server.store.r, scanValue[string], "SELECT problem FROM inbox ORDER BY seq")
	if err != nil || len(problems) != 3 || !strings.Contains(problems[0], `"smoke"`) {
		t.Errorf("%q, %v", problems, err)
	}
}

// TestInbox_packing checks that a message with an impossible size is kept with the reason and
// blocks no others.
func TestInbox_packing(t *testing.T) {
	r := newTestServer(t, Config{})
	for _, id := range []string{"whole", "damaged"} {
		r.must(200, r.post(api+"/scores", object{"id": id, "name": "n", "value": 1, "traceId": "t"}))
	}
	err := r.server.store.update(func(tx *transaction) error {
		tx.exec("UPDATE inbox SET body = ? WHERE seq = 2", []byte("\xff\xff\xff\xff\x0f")) // 4 GiB
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "scores", r.get(api+"/v3/scores").column("id"), []string{"whole"})
	problems, err := queryRows(r.server.store.r, scanValue[string], "SELECT problem FROM inbox")
	equal(t, "problems", problems, []string{s2.ErrTooLarge.Error()})
	if err != nil {
		t.Error(err)
	}
}

// TestInbox_idle checks that SettleIdle stores messages in the tables after a second without
// requests.
func TestInbox_idle(t *testing.T) {
	r := newTestServer(t, Config{})
	r.must(200, r.post(api+"/scores", object{"id": "a", "name": "n", "value": 1, "traceId": "t"}))
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go r.server.SettleIdle(ctx)
		time.Sleep(1500 * time.Millisecond)
		if n := r.count("inbox"); n != 1 {
			t.Errorf("%d wait in the second after a request, want 1", n)
		}
		time.Sleep(time.Second)
		if n := r.count("inbox"); n != 0 {
			t.Errorf("%d wait after two seconds, want none", n)
		}
	})
}

// TestInbox_idleFullDisk checks the pauses of SettleIdle if messages cannot be stored: it tries
// after 2, 4, 8 and 16 s; in the first second there was a request.
func TestInbox_idleFullDisk(t *testing.T) {
	r := newTestServer(t, Config{Path: t.TempDir() + "/s.db"})
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", strings.Repeat("i", 1<<20)))))
	if _, err := r.server.store.w.Exec("PRAGMA max_page_count = 1"); err != nil { // the present size
		t.Fatal(err)
	}
	looks := 0
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		now := r.server.cfg.Now
		r.server.cfg.Now = func() time.Time {
			if looks++; looks == 10 {
				stop()
			}
			return now()
		}
		go r.server.SettleIdle(ctx)
		time.Sleep(15 * time.Second)
	})
	if looks != 3 {
		t.Errorf("%d tries in 15 s, want 3", looks)
	}
}

// TestInbox_experiments checks that a list of experiments waits for the messages that may change
// it, and for no others.
func TestInbox_experiments(t *testing.T) {
	r := newTestServer(t, Config{})
	list := func(query string) []any { return r.get(api + "/experiments?" + query).column("id") }
	for name, step := range map[string]struct {
		send       func()
		affected   []string // queries that the message may affect
		unaffected []string
	}{
		"span": {
			func() { r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i")))) },
			[]string{"fromStartTime=2020-01-01", "fromStartTime=2020-01-01&id=x,e"},
			[]string{"fromStartTime=2020-01-01&id=x"},
		},
		"score of a run": {
			func() {
				r.must(200, r.post(api+"/scores", object{"id": "a", "name": "n", "value": 1, "datasetRunId": "e"}))
			},
			[]string{"fromStartTime=2030-01-01&fields=scores", "fromStartTime=2020-01-01&id=e&fields=core,scores"},
			[]string{"fromStartTime=2020-01-01&id=x&fields=scores", "fromStartTime=2020-01-01&id=e"},
		},
		"score of an item": {
			func() { r.must(207, r.post(api+"/ingestion", batchOf(scoreEvent("e1", "s1", 0, at1)))) },
			nil,
			[]string{"fromStartTime=2020-01-01", "fromStartTime=2020-01-01&id=e"},
		},
		"deletion": {
			func() { r.must(202, r.do("DELETE", api+"/scores/a", nil)) },
			[]string{"fromStartTime=2030-01-01&id=x&fields=scores"},
			[]string{"fromStartTime=2020-01-01"},
		},
	} {
		for _, query := range step.unaffected {
			step.send()
			if list(query); r.count("inbox") == 0 {
				t.Errorf("%s: %s did not have to wait", name, query)
			}
		}
		for _, query := range step.affected {
			step.send()
			if list(query); r.count("inbox") != 0 {
				t.Errorf("%s: %s does not have it", name, query)
			}
		}
		if err := r.server.settle(); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "ids", list("fromStartTime=2020-01-01&id=e"), []string{"e"})
}
