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
	"extraction-experiment/tracking"
)

// TestModes_otherScores: another program scores a trace, its root span and the run, with names
// that the run has. That is not a difference, and Repair leaves it.
func TestModes_otherScores(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		s := newScene(t, mode, harm{})
		like, mean := s.score(t, s.trace(1, 1), "entity_f1"), s.runScore("entity_f1_as_zero")
		judge := langfuse.ScoreCreate{ID: "judge", Name: like.Name, Type: like.Type, Value: langfuse.NumberValue(0.1), TraceID: s.trace(1, 1), Environment: "judges"}
		if err := s.client.CreateScore(t.Context(), judge); err != nil {
			t.Fatal(err)
		}
		s.overwriteScore(t, "another-id", like, 0.9)
		s.overwriteScore(t, "another-mean", mean, 0.5)
		s.deleteScore(t, s.score(t, s.trace(3, 1), "error").ID) // something to repair
		before, after, err := s.repair(t, s.run)
		if err != nil || before.Total() != 1 || !after.OK() {
			t.Fatalf("%+v\n%+v\n%v", before.Findings, after.Findings, err)
		}
		var ids []string
		for _, other := range after.Others {
			ids = append(ids, other.ID)
		}
		// Sorted by item, with the run itself first, then by id.
		if after.OthersCount != 3 || len(ids) != 3 || ids[0] != "another-mean" || ids[1] != "another-id" || ids[2] != "judge" {
			t.Errorf("others: %+v", after.Others)
		}
		query := langfuse.ScoresQuery{IDs: []string{"judge", "another-id", "another-mean"}}
		if left := collect(t, s.client.ReadScores(t.Context(), s.server.Capabilities, query)); len(left) != 3 {
			t.Errorf("%d of 3 scores of others are left: %+v", len(left), left)
		}
	})
}

// TestVerify_needsDecision: Verify does not wait for the score of another program to go away.
func TestVerify_needsDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{newFakeWorld(t, embedded.Config{}), t, nil}
		s.run = s.newRun(t, "base", 3)
		s.mustPublish(t, s.run)
		s.copyScore("theirs", s.score(t, s.trace(1, 1), "entity_f1"), 0.5)
		cfg, began := s.verifyConfig(s.run), time.Now()
		cfg.Wait.Timeout = time.Minute
		verification, err := tracking.Verify(t.Context(), cfg)
		if took := time.Since(began); err != nil || verification.Total() != 1 || verification.NeedsDecisionCount != 1 || took > 10*time.Second {
			t.Errorf("after %s: %+v %v", took, verification.Findings, err)
		}
	})
}

// TestModes_scoreAhead: a program whose clock is ahead changed a score. Langfuse keeps the score
// with the latest timestamp, which no response shows. Repair deletes the score and sends it again.
// If the deletion has no effect, Repair sends nothing, and the remaining finding explains why.
func TestModes_scoreAhead(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		s := newScene(t, mode, harm{})
		like := s.score(t, s.trace(1, 1), "entity_f1")
		ahead := langfuse.ScoreCreate{
			ID: like.ID, Name: like.Name, Type: like.Type, Value: langfuse.NumberValue(0.9), Environment: like.Environment,
			TraceID: s.trace(1, 1), ObservationID: like.Subject.ID, Timestamp: time.Now().AddDate(1, 0, 0),
		}
		mean := s.runScore("entity_f1_as_zero")
		aheadMean := ahead
		aheadMean.ID, aheadMean.Name, aheadMean.TraceID, aheadMean.ObservationID, aheadMean.DatasetRunID = mean.ID, mean.Name, "", "", mean.Subject.ID
		if err := errors.Join(s.client.CreateScores(t.Context(), []langfuse.ScoreCreate{ahead, aheadMean})...); err != nil {
			t.Fatal(err)
		}
		var sent atomic.Int32 // requests after a deletion
		var deleted atomic.Bool
		s.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if deleted.Load() && strings.HasSuffix(r.URL.Path, "/ingestion") {
				sent.Add(1)
			}
			if r.Method != http.MethodDelete {
				return false
			}
			deleted.Store(true)
			_, _ = rw.Write([]byte(`{"message":"queued"}`))
			return true
		})
		before, after, err := s.repair(t, s.run)
		if err != nil || before.Total() != 2 || after.Total() != 2 || !deleted.Load() || sent.Load() > 0 {
			t.Fatalf("%d sent\n%+v\n%+v\n%v", sent.Load(), before.Findings, after.Findings, err)
		}
		for _, f := range after.Findings {
			if !strings.Contains(f.Detail, "a clock that is ahead") || !strings.Contains(f.Detail, "score "+f.ScoreID) {
				t.Errorf("the reason is not named: %s", f.Detail)
			}
		}
		var failing atomic.Bool
		s.intercept(func(rw http.ResponseWriter, r *http.Request) bool { // the first look after a deletion fails
			if r.Method == http.MethodDelete {
				failing.Store(true)
				_, _ = rw.Write([]byte(`{"message":"queued"}`))
				return true
			}
			fails := failing.Swap(false)
			if fails {
				rw.WriteHeader(http.StatusBadGateway)
			}
			return fails
		})
		if _, _, err := s.repair(t, s.run); err == nil {
			t.Error("nobody knows whether the scores are gone, and there is no error")
		}
		s.front.Store(nil)
		if _, after, err := s.repair(t, s.run); err != nil || !after.OK() {
			t.Errorf("%+v %v", after.Findings, err)
		}
	})
}
