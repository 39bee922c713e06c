package tracking_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// scene is a published run of six items. Items 2 and 5 failed, and item 2 was run again with
// success.
type scene struct {
	*world
	t   *testing.T
	run *runstore.Run
}

func newScene(t *testing.T, mode embedded.Mode, h harm) *scene {
	t.Helper()
	s := &scene{newWorldIn(t, mode), t, nil}
	s.run = s.newRun(t, "base", 6)
	if h.beforePublish != nil {
		h.beforePublish(s)
	}
	s.mustPublish(t, s.run)
	if h.beforeSecond != nil {
		h.beforeSecond(s)
	}
	commitSecond(t, s.run, 2, 1)
	finish(t, s.run, start.Add(time.Minute))
	s.mustPublish(t, s.run)
	s.drop.Store(nil)
	if h.afterPublish != nil {
		h.afterPublish(s)
	}
	return s
}

// trace returns the id of the trace of an item's attempt.
func (s *scene) trace(item, attempt int) string {
	s.t.Helper()
	header := headerOf(s.t, s.run)
	return tracking.TraceID(header, outcome.Outcome{Item: itemID(item), Trial: 1, Attempt: attempt})
}

// runScore returns a score on the run itself.
func (s *scene) runScore(name string) langfuse.Score {
	s.t.Helper()
	e, _, err := s.run.Experiment(s.t.Context(), 1)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, score := range collect(s.t, s.client.ListRunScores(s.t.Context(), s.server, langfuse.RunRef{ID: e.ID})) {
		if score.Name == name {
			return score
		}
	}
	s.t.Fatalf("the run has no score %s", name)
	return langfuse.Score{}
}

// harm is a change to the run by the server or by another program.
type harm struct {
	// beforePublish is called before the run is published, beforeSecond before the second attempt
	// of item 2 is, and afterPublish when everything is sent.
	beforePublish, beforeSecond, afterPublish func(*scene)
	want                                      map[tracking.Kind]int
	needsRuns                                 bool // only for servers that have runs
	needsExperiments                          bool // only for servers that have experiments
	unrepairable                              bool // Repair leaves it
}

// harms returns all harms by name. A trace has a root and a generation, and up to two scores. The
// second attempt of item 2 has only a root.
func harms() map[string]harm {
	kinds := func(k ...tracking.Kind) map[tracking.Kind]int {
		m := map[tracking.Kind]int{}
		for _, kind := range k {
			m[kind]++
		}
		return m
	}
	return map[string]harm{
		"nothing": {},
		"a dropped trace": {
			beforePublish: func(s *scene) { s.loseSpans(1, 1, 0, 1) },
			want:          kinds(tracking.MissingTrace),
		},
		"a dropped trace of a second attempt": {
			beforeSecond: func(s *scene) { s.loseSpans(2, 2, 0) },
			want:         kinds(tracking.MissingTrace),
		},
		"a dropped root span": {
			beforePublish: func(s *scene) { s.loseSpans(1, 1, 0) },
			want:          kinds(tracking.MissingSpan),
		},
		"a dropped generation": {
			beforePublish: func(s *scene) { s.loseSpans(1, 1, 1) },
			want:          kinds(tracking.MissingSpan),
		},
		"a dropped link": {
			beforePublish: func(s *scene) { s.lose(embedded.DropRunItem, itemID(1)) },
			want:          kinds(tracking.MissingRunItem), needsRuns: true,
		},
		"a dropped link of a second attempt": {
			beforeSecond: func(s *scene) { s.lose(embedded.DropRunItem, itemID(2)) },
			want:         kinds(tracking.WrongRunItem), needsRuns: true, // the list has the failed attempt
		},
		"a score lost on its way": {
			beforePublish: func(s *scene) {
				s.lose(embedded.DropScore, tracking.ScoreID(s.run, s.t, itemID(1), 1, "error"), tracking.ScoreID(s.run, s.t, itemID(4), 1, "entity_f1"))
			},
			want: map[tracking.Kind]int{tracking.MissingScore: 2},
		},
		"a dropped score": {
			afterPublish: func(s *scene) { s.deleteScore(s.t, s.score(s.t, s.trace(1, 1), "entity_f1").ID) },
			want:         kinds(tracking.MissingScore),
		},
		"a dropped score of 0": {
			afterPublish: func(s *scene) { s.deleteScore(s.t, s.score(s.t, s.trace(0, 1), "entity_f1").ID) },
			want:         kinds(tracking.MissingScore),
		},
		"a doubled score": {
			afterPublish: func(s *scene) {
				// The id of the first attempt, on the trace of the second.
				s.overwriteScore(s.t, tracking.ScoreID(s.run, s.t, itemID(2), 1, "error"), s.score(s.t, s.trace(2, 2), "error"), 1)
			},
			want: kinds(tracking.DoubledScore),
		},
		"another program's copy of a score": {
			afterPublish: func(s *scene) { s.copyScore("copy", s.score(s.t, s.trace(1, 1), "entity_f1"), 0.25) },
			want:         kinds(tracking.DoubledScore),
		},
		"another program's copy of a score of the run": {
			afterPublish: func(s *scene) { s.copyScore("copy", s.runScore("items_planned"), 6) },
			want:         kinds(tracking.DoubledScore),
		},
		"a copy beside a score that is lost": {
			afterPublish: func(s *scene) {
				like := s.score(s.t, s.trace(1, 1), "entity_f1")
				s.copyScore("copy", like, 0.25)
				s.deleteScore(s.t, like.ID)
			},
			want: kinds(tracking.MissingScore), // without the run's own score the copy is not a double
		},
		"another program's score": {
			afterPublish: func(s *scene) { s.copyScore("theirs", s.score(s.t, s.trace(1, 1), "entity_f1"), 0.5) },
			want:         kinds(tracking.DoubledScore), unrepairable: true,
		},
		"another program's score of the run": {
			afterPublish: func(s *scene) { s.copyScore("theirs", s.runScore("items_planned"), 5) },
			want:         kinds(tracking.DoubledScore), unrepairable: true,
		},
		"the scores of another run of this name": {
			afterPublish: func(s *scene) {
				for _, name := range []string{"items_planned", "items_scored", "items_failed"} {
					like := s.runScore(name)
					value, _ := like.Value.Number()
					s.copyScore("theirs "+name, like, value)
				}
			},
			want: map[tracking.Kind]int{tracking.DoubledScore: 3}, unrepairable: true,
		},
		"a changed value": {
			afterPublish: func(s *scene) {
				like := s.score(s.t, s.trace(1, 1), "entity_f1")
				s.overwriteScore(s.t, like.ID, like, 0.9)
			},
			want: kinds(tracking.ChangedScore),
		},
		"a score that became 0": {
			afterPublish: func(s *scene) {
				like := s.score(s.t, s.trace(1, 1), "entity_f1")
				s.overwriteScore(s.t, like.ID, like, 0)
			},
			want: kinds(tracking.ChangedScore),
		},
		"the run's own scores": {
			afterPublish: func(s *scene) {
				s.deleteScore(s.t, s.runScore("items_failed").ID)
				mean := s.runScore("entity_f1_as_zero")
				s.overwriteScore(s.t, mean.ID, mean, 0.99)
			},
			want: kinds(tracking.MissingScore, tracking.ChangedScore),
		},
		"a stale score": {
			afterPublish: func(s *scene) {
				like := s.score(s.t, s.trace(2, 2), "error")
				stale := langfuse.ScoreCreate{ID: s.staleID(), Name: "error", Type: like.Type, Value: langfuse.NumberValue(1), TraceID: s.trace(2, 1)}
				if err := s.client.CreateScore(s.t.Context(), stale); err != nil {
					s.t.Fatal(err)
				}
			},
			want: kinds(tracking.StaleScore),
		},
		"generations without their prompt": {
			afterPublish: func(s *scene) {
				prompt := outcome.Prompt{Name: "people", Version: 3}
				err := s.run.ChangeHeader(s.t.Context(), func(h *outcome.Header) { h.System.Prompt = prompt })
				if err != nil {
					s.t.Fatal(err)
				}
			},
			want: map[tracking.Kind]int{tracking.PromptNotLinked: 5},
		},
		"a trace that no longer says that its item failed": {
			afterPublish: func(s *scene) { s.resend(5, s.inExperiment(5)...) },
			want:         kinds(tracking.WrongLevel), needsExperiments: true,
		},
		"a trace that was taken out of the experiment": {
			afterPublish: func(s *scene) { s.resend(1) },
			want:         kinds(tracking.NotInExperiment), needsExperiments: true,
		},
		"somebody else's trace in the run": {
			afterPublish: func(s *scene) { s.addForeignTrace() },
			want:         kinds(tracking.DoubledItem), needsExperiments: true, unrepairable: true,
		},
	}
}

// staleID returns the id of the error score of the first attempt of item 2.
func (s *scene) staleID() string { return tracking.ScoreID(s.run, s.t, itemID(2), 1, "error") }

// addForeignTrace adds a root span of item 1 to the experiment.
func (s *scene) addForeignTrace() {
	const id = "ffffffffffffffff"
	s.export(id+id, id, append(s.inExperiment(1), langfuse.TextAttribute("langfuse.experiment.item.root_observation_id", id))...)
}

// resend sends the root span of an item again, as another program may do.
func (s *scene) resend(item int, attributes ...langfuse.Attribute) {
	id := tracking.SpanID(s.run, s.t, itemID(item), 1, 0)
	if len(attributes) > 0 {
		attributes = append(attributes, langfuse.TextAttribute("langfuse.experiment.item.root_observation_id", id))
	}
	s.export(s.trace(item, 1), id, attributes...)
}

// inExperiment returns the attributes that put a trace of the item into the experiment.
func (s *scene) inExperiment(item int) []langfuse.Attribute {
	e, _, err := s.run.Experiment(s.t.Context(), 1)
	if err != nil {
		s.t.Fatal(err)
	}
	text := langfuse.TextAttribute
	return []langfuse.Attribute{text("langfuse.experiment.id", e.ID), text("langfuse.experiment.name", "base"), text("langfuse.experiment.item.id", itemID(item))}
}

func (s *scene) export(trace, id string, attributes ...langfuse.Attribute) {
	root := langfuse.Span{TraceID: trace, SpanID: id, Name: "other", Start: start, End: start.Add(time.Second), Attributes: attributes}
	if err := s.client.ExportSpans(s.t.Context(), langfuse.Scope{Name: "test"}, []langfuse.Span{root}); err != nil {
		s.t.Fatal(err)
	}
}

// TestModes_verify applies each harm in each mode. Verify must find exactly it, and Repair must
// repair it.
func TestModes_verify(t *testing.T) {
	for _, mode := range embedded.Modes() {
		for name, h := range harms() {
			if h.needsRuns && mode == embedded.ModeV4 || h.needsExperiments && mode == embedded.ModeV3 {
				continue // this server does not have what the harm changes
			}
			first := embedded.ModeV4
			if h.needsRuns {
				first = embedded.ModeV3
			}
			if mode != first && name != "nothing" && !suite.Full() {
				continue // the first mode covers it
			}
			t.Run(string(mode)+"/"+name, func(t *testing.T) {
				t.Parallel()
				newScene(t, mode, h).checkVerdict(h)
			})
		}
	}
}

func (s *scene) checkVerdict(h harm) {
	t := s.t
	t.Helper()
	verification, err := s.verify(t, s.run)
	if err != nil {
		t.Fatal(err)
	}
	want := h.want
	if want == nil {
		want = map[tracking.Kind]int{}
	}
	if diff := cmp.Diff(want, verification.Counts); diff != "" || len(verification.Findings) != verification.Total() {
		t.Fatalf("found (-want +got):\n%s\n%+v", diff, verification.Findings)
	}
	if verification.OK() {
		// Newest attempts: 6. Spans: 5 × 2 + 1. Scores: 6 error, and entity_f1 except for item 5.
		// On the run: 3 counts, 2 of entity_f1.
		got := verification.Checked
		if verification.Outcomes != 6 || got.Items != 6 || got.Spans != 11 || got.Scores != 11 || got.RunScores != 5 || verification.SupersededCount != 1 {
			t.Errorf("checked %+v", verification)
		}
		for _, view := range s.server.Views() {
			if got.Shown[view] != 6 {
				t.Errorf("%s shows %d of 6", view, got.Shown[view])
			}
		}
	}
	before, after, err := s.repair(t, s.run)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(verification, before); diff != "" {
		t.Errorf("found another thing the second time:\n%s", diff)
	}
	if after.OK() == h.unrepairable || after.NeedsDecisionCount != after.Total() {
		t.Errorf("after the repair: %+v", after.Findings)
	}
}

// TestModes_runDeleted: the run was deleted. New links give it another id, which everything must
// use.
func TestModes_runDeleted(t *testing.T) {
	t.Parallel()
	inModes(t, []embedded.Mode{embedded.ModeV4Dual, embedded.ModeV3}, func(t *testing.T, mode embedded.Mode) {
		s := newScene(t, mode, harm{})
		old, _, err := s.run.Experiment(t.Context(), 1)
		if err == nil {
			s.delete(t, "datasets/d/runs/base")
		}
		if err != nil {
			t.Fatal(err)
		}
		before, after, err := s.repair(t, s.run)
		if err != nil || before.Counts[tracking.MissingRunItem] != 6 || !after.OK() {
			t.Fatalf("%v\n%+v\n%+v", err, before.Findings, after.Findings)
		}
		current, _, err := s.run.Experiment(t.Context(), 1)
		if err != nil || current.ID == old.ID || after.Experiments[0] != current.ID {
			t.Errorf("the id was %s, is %s, verified as %s; %v", old.ID, current.ID, after.Experiments, err)
		}
		if got := s.runScores(t, s.run); got["items_planned"] != 6 {
			t.Errorf("the scores of the run with the new id: %v", got)
		}
	})
}

// TestVerify_earlierOutcomes: a run whose outcomes began days before it, because it is a copy by
// rescore or its clock was set back, is read back whole.
func TestVerify_earlierOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.started = start.Add(72 * time.Hour)
	run := w.newRun(t, "copy", 3)
	finish(t, run, w.started)
	w.mustPublish(t, run)
	if found, err := w.verify(t, run); err != nil || !found.OK() {
		t.Errorf("%v\n%+v", err, found.Findings)
	}
}

// TestVerify_patient: a missing score appears while Verify looks repeatedly.
func TestVerify_patient(t *testing.T) {
	s := newScene(t, embedded.ModeV4, harm{})
	id := s.score(t, s.trace(1, 1), "entity_f1").ID
	looks := 0
	s.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/api/public/v3/scores" && r.URL.Query().Get("traceId") != "" {
			if looks++; looks == 1 {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = rw.Write([]byte(`{"data":[],"meta":{"limit":100}}`))
				return true
			}
		}
		return false
	})
	cfg := s.verifyConfig(s.run)
	cfg.Wait = langfuse.Wait{Timeout: 10 * time.Second, MinPause: time.Millisecond}
	verification, err := tracking.Verify(t.Context(), cfg)
	if err != nil || !verification.OK() || looks < 2 {
		t.Errorf("after %d looks: %+v, %v (score %s)", looks, verification.Findings, err, id)
	}
}

// TestVerify_neverPublished: everything is missing of a run that was never published, and Repair
// publishes it.
func TestVerify_neverPublished(t *testing.T) {
	s := &scene{newWorld(t), t, nil}
	s.run = s.newRun(t, "base", 3)
	verification, err := s.verify(t, s.run)
	if err != nil || verification.Counts[tracking.MissingTrace] != 3 {
		t.Errorf("%+v, %v", verification, err)
	}
	if _, after, err := s.repair(t, s.run); err != nil || !after.OK() {
		t.Errorf("%+v, %v", after, err)
	}
}

// TestVerify_unreachable: an unreachable server is an error, and not a difference.
func TestVerify_unreachable(t *testing.T) {
	s := newScene(t, embedded.ModeV4, harm{})
	s.refuse("/", http.StatusBadGateway)
	_, err := s.verify(t, s.run)
	var coded interface{ ExitCode() int }
	if !errors.As(err, &coded) || coded.ExitCode() != 69 {
		t.Errorf("got %v", err)
	}
}

// backlog makes the server accept all scores at once, and store one per interval. It loses those
// after the first keep.
func (w *world) backlog(t *testing.T, interval time.Duration, keep int) {
	type event struct {
		ID string `json:"id"`
	}
	var accepted atomic.Int64 // requests are concurrent
	w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path != "/api/public/ingestion" {
			return false
		}
		var body struct {
			Batch []json.RawMessage `json:"batch"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		ids := []event{}
		for _, raw := range body.Batch {
			var e event
			one, err := json.Marshal(map[string]any{"batch": []json.RawMessage{raw}})
			if err = errors.Join(err, json.Unmarshal(raw, &e)); err != nil {
				t.Error(err)
			}
			ids = append(ids, e)
			n := accepted.Add(1)
			if n > int64(keep) {
				continue
			}
			later := r.Clone(context.Background())
			later.Body, later.ContentLength = io.NopCloser(bytes.NewReader(one)), int64(len(one))
			time.AfterFunc(time.Duration(n)*interval, func() { w.store.Handler().ServeHTTP(httptest.NewRecorder(), later) })
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusMultiStatus)
		if err := json.NewEncoder(rw).Encode(map[string]any{"successes": ids, "errors": []any{}}); err != nil {
			t.Error(err)
		}
		return true
	})
}

// TestVerify_stillWorking: the server has 10 scores in its queue and stores one every 30 s: 3
// error, 2 entity_f1 and 5 of the run. Verify distinguishes scores that still come from those
// that do not.
func TestVerify_stillWorking(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kept    int           // scores that the server stores
		timeout time.Duration // 0: no timeout
		changed bool          // another program changes a score before Verify
		took    [2]time.Duration
		came    int
		missing int
		exit    int // 0: no difference
	}{
		"waits as long as they come":        {kept: 10, took: [2]time.Duration{300 * time.Second, 306 * time.Second}, came: 10},
		"some never come":                   {kept: 4, took: [2]time.Duration{180 * time.Second, 190 * time.Second}, came: 4, missing: 6, exit: 1},
		"none comes":                        {kept: 0, took: [2]time.Duration{60 * time.Second, 66 * time.Second}, missing: 10, exit: 1},
		"time is up while they come":        {kept: 10, timeout: 130 * time.Second, took: [2]time.Duration{110 * time.Second, 130 * time.Second}, came: 3, missing: 7, exit: 69},
		"time is up, and none came at all":  {kept: 0, timeout: 30 * time.Second, took: [2]time.Duration{27 * time.Second, 30 * time.Second}, missing: 10, exit: 1},
		"time is up, and none came of late": {kept: 1, timeout: 90 * time.Second, took: [2]time.Duration{80 * time.Second, 90 * time.Second}, came: 1, missing: 9, exit: 1},
		// Seven are stored by then, at least one of them on an item.
		"time is up, and one is another": {kept: 10, timeout: 70 * time.Second, changed: true, took: [2]time.Duration{60 * time.Second, 70 * time.Second}, came: 2, missing: 1, exit: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{newFakeWorld(t, embedded.Config{}), t, nil}
				s.run = s.newRun(t, "base", 3)
				finish(t, s.run, start.Add(time.Minute))
				s.backlog(t, 30*time.Second, c.kept)
				s.mustPublish(t, s.run)
				if c.changed {
					time.Sleep(211 * time.Second)
					s.front.Store(nil)
					query := langfuse.ScoresQuery{TraceIDs: []string{s.trace(0, 1), s.trace(1, 1), s.trace(2, 1)}}
					score := collect(t, s.client.ReadScores(t.Context(), s.server.Capabilities, query))[0]
					value, _ := score.Value.Number()
					another := langfuse.ScoreCreate{
						ID: score.ID, Name: score.Name, Type: score.Type, Value: langfuse.NumberValue(1 - value), TraceID: score.TraceID(),
						ObservationID: score.Subject.ID, Environment: score.Environment, Timestamp: score.Timestamp.Add(time.Second),
					}
					if err := s.client.CreateScores(t.Context(), []langfuse.ScoreCreate{another})[0]; err != nil {
						t.Fatal(err)
					}
				}
				ctx, looked := t.Context(), 0
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				cfg := s.verifyConfig(s.run)
				cfg.Wait, cfg.OnVerification = langfuse.Wait{Timeout: time.Minute}, func(tracking.Verification) { looked++ }
				began := time.Now()
				verification, err := tracking.Verify(ctx, cfg)
				took := time.Since(began)
				if err != nil || took < c.took[0] || took > c.took[1] || looked < 3 {
					t.Fatalf("after %s and %d looks: %v", took, looked, err)
				}
				if verification.Appeared != c.came || verification.Counts[tracking.MissingScore] != c.missing || exitCode(verification.Err()) != c.exit || verification.Pending != (c.exit == 69) {
					t.Errorf("%d came, %v: %v", verification.Appeared, verification.Counts, verification.Err())
				}
			})
		})
	}
}

// exitCode returns the exit code of an error, 0 for nil, or -1 if the error has none.
func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	}
	return -1
}

// TestRepair_deadline: Repair returns in time whatever the server does, and sends nothing while the
// missing parts are still arriving.
func TestRepair_deadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server embedded.Config
		harm   func(*scene)
		sends  bool
		exit   int
	}{
		"what is missing arrives": {harm: func(s *scene) { s.backlog(s.t, 10*time.Second, 11) }, exit: 69},
		"what is sent takes long": {
			server: embedded.Config{IngestionDelay: 10 * time.Minute},
			harm:   func(s *scene) { s.lose(embedded.DropScore, tracking.ScoreID(s.run, s.t, itemID(1), 1, "error")) }, sends: true, exit: 69,
		},
		"the server hangs": {harm: func(s *scene) {
			s.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/api/public/v3/scores" {
					<-r.Context().Done()
					return true
				}
				return false
			})
		}, exit: 69},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scene{newFakeWorld(t, c.server), t, nil}
				s.run = s.newRun(t, "base", 3)
				finish(t, s.run, start.Add(time.Minute))
				c.harm(s)
				s.mustPublish(t, s.run)
				if c.server.IngestionDelay > 0 {
					time.Sleep(time.Hour)
				}
				s.drop.Store(nil)
				counts := func() runstore.Counts {
					counts, err := s.run.Counts(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					return counts
				}
				sent := 0
				inner := s.front.Load()
				s.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
					if r.Method == http.MethodPost {
						sent++
					}
					return inner != nil && (*inner)(rw, r)
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cfg, publish := s.verifyConfig(s.run), s.publishConfig(s.run)
				cfg.Wait = langfuse.Wait{}
				began := time.Now()
				before, after, err := tracking.Repair(ctx, cfg, publish)
				if took := time.Since(began); took > time.Minute {
					t.Errorf("took %s", took)
				}
				if err == nil {
					err = after.Err()
				}
				if exitCode(err) != c.exit || sent > 0 != c.sends || counts().Published != 3 {
					t.Errorf("%d requests sent, %+v: %v\n%+v\n%+v", sent, counts(), err, before, after)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}
