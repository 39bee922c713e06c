package tracking_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// TestPublisher_replacedAttempt: the scores of a failed attempt are deleted when a newer one
// exists, and its trace remains.
func TestPublisher_replacedAttempt(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 3) // item 2 failed
	w.mustPublish(t, run)
	commitSecond(t, run, 2, 1)
	w.mustPublish(t, run)
	header := headerOf(t, run)
	attempts, err := run.Attempts(t.Context(), itemID(2), 1)
	if err != nil || len(attempts) != 2 || !attempts[0].Published.Has(runstore.Superseded|runstore.Withdrawn) {
		t.Fatalf("%+v %v", attempts, err)
	}
	scores := w.scoresOf(t, tracking.TraceID(header, attempts[0].Outcome))
	if len(scores) != 0 {
		t.Errorf("the replaced attempt still has %v", scores)
	}
	scores = w.scoresOf(t, tracking.TraceID(header, attempts[1].Outcome))
	if len(scores) != 2 || scores["error"] != 0 || scores["entity_f1"] != 1 {
		t.Errorf("the new attempt has %v", scores)
	}
}

// TestPublisher_neverPublishedAttempt: a failed attempt that was not published before the newer one
// is never published.
func TestPublisher_neverPublishedAttempt(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 3)
	commitSecond(t, run, 2, 1)
	w.mustPublish(t, run)
	items, scores := w.stored(t, "base") // fails if an item exists twice
	if len(items) != 3 || len(scores) != 6 {
		t.Errorf("%d items and %d scores, want 3 and 6", len(items), len(scores))
	}
}

// TestPublisher_deletionSurvives: Langfuse is unreachable when scores have to be deleted, and
// another process deletes them.
func TestPublisher_deletionSurvives(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 3)
	w.mustPublish(t, run)
	commitSecond(t, run, 2, 1)
	w.refuse("/scores", http.StatusBadGateway)
	err := w.publish(t, run)
	var left *tracking.UnpublishedError
	if !errors.As(err, &left) || left.Left != 0 || left.Withdrawn != 1 || !strings.Contains(err.Error(), "of 1 replaced attempt are") {
		t.Fatalf("got %v", err)
	}
	w.front.Store(nil)
	w.mustPublish(t, run)
	if page, err := run.ToWithdraw(t.Context(), 0, 10); err != nil || len(page) != 0 {
		t.Errorf("%d attempts are still to be withdrawn, %v", len(page), err)
	}
}

// TestModes_slowServer: the server shows accepted scores late, and loses deletions before that. The
// scores of the replaced attempt are deleted all the same, and Verify waits.
func TestModes_slowServer(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		w := newWorldOf(t, embedded.Config{Mode: mode, IngestionDelay: 300 * time.Millisecond, DeleteDelay: 200 * time.Millisecond})
		run := w.newRun(t, "base", 3)
		w.mustPublish(t, run)
		commitSecond(t, run, 2, 1)
		finish(t, run, start.Add(time.Minute))
		w.mustPublish(t, run)
		cfg := tracking.VerifyConfig{Site: w.site(), Run: run.Reader, Wait: langfuse.Wait{Timeout: time.Minute, MinPause: 10 * time.Millisecond}}
		verification, err := tracking.Verify(t.Context(), cfg)
		if err != nil || !verification.OK() || verification.SupersededCount != 1 {
			t.Errorf("%+v %v", verification, err)
		}
	})
}

// TestPublisher_scoresBetweenLooks: the scores of a replaced attempt appear after the publisher
// looked for them and before it looks for those of the newest. They are deleted.
func TestPublisher_scoresBetweenLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.newRun(t, "base", 3)
	w.mustPublish(t, run)
	commitSecond(t, run, 2, 1)
	finish(t, run, start.Add(time.Minute))
	var looks atomic.Int64
	w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/v3/scores") || looks.Add(1) > 1 {
			return false
		}
		_, _ = rw.Write([]byte(`{"data":[],"meta":{"limit":100}}`))
		return true
	})
	w.mustPublish(t, run)
	verification, err := w.verify(t, run)
	if err != nil || !verification.OK() || looks.Load() < 2 {
		t.Errorf("%d looks, %+v %v", looks.Load(), verification, err)
	}
}

// TestPublisher_lostDeletion: if deletions have no effect the publisher ends, and the attempt
// remains to be withdrawn.
func TestPublisher_lostDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.newRun(t, "base", 3)
	w.mustPublish(t, run)
	commitSecond(t, run, 2, 1)
	w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		rw.WriteHeader(http.StatusAccepted)
		_, _ = rw.Write([]byte(`{"message":"queued"}`))
		return true
	})
	cfg := tracking.Config{Site: w.site(), Run: run, Patience: 200 * time.Millisecond}
	var left *tracking.UnpublishedError
	if err := tracking.Publish(t.Context(), cfg, closed()); !errors.As(err, &left) || left.Withdrawn != 1 || left.Left != 0 {
		t.Fatalf("got %v", err)
	}
}

// TestPublisher_backlog: Langfuse shows accepted scores of an attempt only later. Their
// withdrawal is not acknowledged before they were seen. Another process completes it, without
// seeing them again.
func TestPublisher_backlog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t, embedded.Config{IngestionDelay: 5 * time.Minute, DeleteDelay: 3 * time.Minute})
		run := w.newRun(t, "base", 3)
		w.mustPublish(t, run)
		commitSecond(t, run, 2, 1)
		publish := func() (error, time.Duration) {
			began := time.Now()
			return tracking.Publish(t.Context(), tracking.Config{Site: w.site(), Run: run}, closed()), time.Since(began)
		}
		publishUnfinished := func(name string) {
			t.Helper()
			err, took := publish()
			var left *tracking.UnpublishedError
			if !errors.As(err, &left) || left.Withdrawn != 1 || left.Left != 0 || left.ExitCode() != 69 || took > 2*time.Minute+10*time.Second {
				t.Fatalf("%s: after %s: %v", name, took, err)
			}
		}
		publishUnfinished("not shown yet")
		time.Sleep(3 * time.Minute)
		publishUnfinished("shown, deleted, and not gone yet")
		time.Sleep(5 * time.Minute)
		if err, took := publish(); err != nil || took > time.Second {
			t.Errorf("gone: after %s: %v", took, err)
		}
		verification, err := w.verify(t, run)
		if err != nil || !verification.OK() || verification.SupersededCount != 1 {
			t.Errorf("%+v, %v", verification, err)
		}
	})
}

// TestPublisher_lostScore: Langfuse has lost the scores of a replaced attempt. The publisher
// stops to wait for them an hour after the end of the newest attempt, whose scores Langfuse
// shows.
func TestPublisher_lostScore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWorld(t, embedded.Config{})
		run := w.newRun(t, "base", 3)
		lost := tracking.ScoreID(run, t, itemID(2), 1, "error")
		drop := func(kind, id string) bool { return kind == embedded.DropScore && id == lost }
		w.drop.Store(&drop)
		w.mustPublish(t, run)
		commitSecond(t, run, 2, 1)
		attempts, err := run.Attempts(t.Context(), itemID(2), 1)
		if err != nil || len(attempts) != 2 {
			t.Fatalf("%+v, %v", attempts, err)
		}
		ended := attempts[1].Ended
		follow := func(at time.Time) error {
			time.Sleep(time.Until(at))
			cfg := tracking.Config{Site: w.site(), Run: run}
			return tracking.Publish(t.Context(), cfg, closed())
		}
		var left *tracking.UnpublishedError
		if err := follow(ended.Add(50 * time.Minute)); !errors.As(err, &left) || left.Withdrawn != 1 {
			t.Errorf("after 50 minutes: %v", err)
		}
		if err := follow(ended.Add(time.Hour)); err != nil {
			t.Errorf("after an hour: %v", err)
		}
	})
}
