package tracking_test

import (
	"strings"
	"testing"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// TestModes_otherScores: another tool scores a trace, its root span and the run,
// under names that the run has. That is no difference, and Repair leaves it.
func TestModes_otherScores(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mode, harm{})
			like, mean := s.score(t, s.trace(1, 1), "entity_f1"), s.runScore("entity_f1_mean")
			judge := langfuse.ScoreCreate{ID: "judge", Name: like.Name, Type: like.Type, Value: langfuse.NumberValue(0.1), TraceID: s.trace(1, 1), Environment: "judges"}
			if err := s.client.CreateScore(t.Context(), judge); err != nil {
				t.Fatal(err)
			}
			s.overwrite(t, "another-id", like, 0.9)
			s.overwrite(t, "another-mean", mean, 0.5)
			s.deleteScore(t, s.score(t, s.trace(3, 1), "error").ID) // something to mend
			before, after, err := tracking.Repair(t.Context(), s.config(), s.publish())
			if err != nil || before.Total() != 1 || !after.OK() {
				t.Fatalf("%+v\n%+v\n%v", before.Findings, after.Findings, err)
			}
			var ids []string
			for _, other := range after.Others {
				ids = append(ids, other.ID)
			}
			// By item, the run itself first, then by id.
			if after.OthersCount != 3 || len(ids) != 3 || ids[0] != "another-mean" || ids[1] != "another-id" || ids[2] != "judge" {
				t.Errorf("others: %+v", after.Others)
			}
			there := 0
			for score, err := range s.client.ReadScores(t.Context(), s.server.Capabilities, langfuse.ScoresQuery{IDs: []string{"judge", "another-id", "another-mean"}}) {
				if err != nil {
					t.Fatal(err)
				}
				t.Log(score.ID)
				there++
			}
			if there != 3 {
				t.Errorf("%d of 3 scores of others are left", there)
			}
		})
	}
}

// TestModes_scoreAhead: a score was changed by a program whose clock is ahead.
// Langfuse keeps what is stored as of the latest time, which no answer shows;
// the finding that stays says so. Deleted, it is mended.
func TestModes_scoreAhead(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mode, harm{})
			like := s.score(t, s.trace(1, 1), "entity_f1")
			ahead := langfuse.ScoreCreate{
				ID: like.ID, Name: like.Name, Type: like.Type, Value: langfuse.NumberValue(0.9),
				TraceID: s.trace(1, 1), ObservationID: like.Subject.ID, Timestamp: time.Now().AddDate(1, 0, 0),
			}
			if _, err := s.client.CreateScores(t.Context(), []langfuse.ScoreCreate{ahead}); err != nil {
				t.Fatal(err)
			}
			before, after, err := tracking.Repair(t.Context(), s.config(), s.publish())
			if err != nil || before.Total() != 1 || after.Total() != 1 {
				t.Fatalf("%+v\n%+v\n%v", before.Findings, after.Findings, err)
			}
			if detail := after.Findings[0].Detail; !strings.Contains(detail, "a clock that is ahead; delete score "+like.ID) {
				t.Errorf("the reason is not named: %s", detail)
			}
			s.deleteScore(t, like.ID)
			if _, after, err := tracking.Repair(t.Context(), s.config(), s.publish()); err != nil || !after.OK() {
				t.Errorf("%+v %v", after.Findings, err)
			}
		})
	}
}
