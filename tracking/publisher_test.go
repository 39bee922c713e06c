package tracking_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

func TestMain(m *testing.M) {
	if err := suite.SetParallel(4); err != nil { // most tests wait for a server
		panic(err)
	}
	debug.SetGCPercent(400) // servers and clients are short-lived
	suite.InMemory()
	goleak.VerifyTestMain(m)
}

// world is an embedded Langfuse with a client that does not wait long. A test may put a handler in
// front of it.
type world struct {
	config langfuse.Config
	client *langfuse.Client
	server langfuse.Server
	front  atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	calls  atomic.Int64
	// routes counts the requests to the server by route.
	routes sync.Map
	// publication is the form of the runs that newRun makes.
	publication outcome.Publication
	// uid is that of the runs that newRun makes, if it is not empty.
	uid string
	// trials is the number of their trials; 0 means 1. Outcomes are those of the first.
	trials int
	// started is when they began; zero if they do not say so.
	started time.Time
	// drop selects what the server accepts and loses.
	drop  atomic.Pointer[func(kind, id string) bool]
	store *embedded.Server
}

func newWorld(t *testing.T) *world { return newWorldIn(t, embedded.ModeV4) }

func newWorldIn(t *testing.T, mode embedded.Mode) *world {
	t.Helper()
	return newWorldOf(t, embedded.Config{Mode: mode})
}

func newWorldOf(t *testing.T, cfg embedded.Config) *world {
	t.Helper()
	w := &world{}
	hs := httptest.NewServer(w.open(t, cfg))
	t.Cleanup(hs.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	w.connect(t, hs.URL, transport)
	return w
}

// newFakeWorld returns a world without a network, for fake time.
func newFakeWorld(t *testing.T, cfg embedded.Config) *world {
	t.Helper()
	w := &world{}
	w.connect(t, "http://localhost", inProcess{w.open(t, cfg)})
	return w
}

// inProcess is a transport that passes requests to a handler.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, asked := httptest.NewRecorder(), r.Clone(r.Context())
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	p.handler.ServeHTTP(answer, asked)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}

// open starts the server of the world.
func (w *world) open(t *testing.T, cfg embedded.Config) http.Handler {
	t.Helper()
	w.publication = outcome.Publication{Form: outcome.PublicationForm, ScoreEnvironment: outcome.ScoreEnvironment}
	cfg.Drop = func(kind, id string) bool {
		drop := w.drop.Load()
		return drop != nil && (*drop)(kind, id)
	}
	store, err := embedded.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.store = store
	inner := store.Handler()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.calls.Add(1)
		if front := w.front.Load(); front != nil && (*front)(rw, r) {
			return
		}
		inner.ServeHTTP(rw, r)
		n, _ := w.routes.LoadOrStore(r.Pattern, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	})
}

// connect creates the client of the world.
func (w *world) connect(t *testing.T, address string, transport http.RoundTripper) {
	t.Helper()
	w.config = langfuse.Config{
		BaseURL: address, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey),
		MaxAttempts: 1, HTTPClient: &http.Client{Transport: transport},
	}
	var err error
	if w.client, err = langfuse.New(w.config); err != nil {
		t.Fatal(err)
	}
	if w.server, err = w.client.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// intercept lets a handler see each request before the server. The server handles the request
// unless the handler returns true.
func (w *world) intercept(front func(http.ResponseWriter, *http.Request) bool) { w.front.Store(&front) }

// refuse makes the server answer requests whose path contains match with a status.
func (w *world) refuse(match string, status int) {
	w.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, match) {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		fmt.Fprint(rw, `{"message":"refused by the test"}`)
		return true
	})
}

// newRun creates a dataset of n items, and a run file with an outcome for each. Every third item
// failed.
func (w *world) newRun(t *testing.T, name string, n int) *runstore.Run {
	t.Helper()
	return w.newRunOf(t, name, n, n)
}

// newRunOf is like newRun, but only the first items have outcomes.
func (w *world) newRunOf(t *testing.T, name string, n, done int) *runstore.Run {
	t.Helper()
	ctx := t.Context()
	if _, err := w.client.UpsertDataset(ctx, langfuse.DatasetUpsert{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	limit := 1 // in order, unless there are many items
	if n > 100 {
		limit = 32
	}
	inParallel(t, limit, n, func(i int) error {
		_, err := w.client.UpsertDatasetItem(ctx, langfuse.DatasetItem{
			DatasetName: "d", ID: itemID(i), Input: json.RawMessage(`{"document_text":"Ann met Bob."}`),
			ExpectedOutput: json.RawMessage(`{"entities":[{"name":"Ann"}]}`),
		})
		return err
	})
	source, err := tracking.OpenDataset(ctx, w.client, "d")
	if err != nil {
		t.Fatal(err)
	}
	run, err := runstore.Create(filepath.Join(t.TempDir(), "r.run"), outcome.Header{
		RunUID: cmp.Or(w.uid, strings.Repeat("ab", 16)), Name: name, Trials: max(1, w.trials), Environment: outcome.SpanEnvironment,
		Publication: w.publication, Harness: "extraction", Scorer: outcome.Scorer{Version: "1", Primary: "entity_f1"},
		Dataset: outcome.Dataset{ID: source.ID(), Name: "d", Version: source.Version()}, Started: w.started,
		System: outcome.System{Model: "m", Provider: "p"}, Project: w.server.Project.ID,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	for page, err := range source.Pages(ctx) {
		if err == nil {
			err = run.AddItems(ctx, page)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	inParallel(t, limit, done, func(i int) error { return run.Commit(ctx, outcomeAt(i)) })
	return run
}

// inParallel calls f for 0…n-1, with up to limit calls at once.
func inParallel(t *testing.T, limit, n int, f func(int) error) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(limit)
	for i := range n {
		group.Go(func() error { return f(i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// collect returns the values of a sequence without errors.
func collect[T any](t *testing.T, seq iter.Seq2[T, error]) (values []T) {
	t.Helper()
	for value, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	return values
}

func headerOf(t *testing.T, run *runstore.Run) outcome.Header {
	t.Helper()
	header, err := run.Header(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return header
}

func itemID(i int) string { return fmt.Sprintf("item-%03d", i) }

// start is constant, so that everything sent is.
var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// outcomeAt returns the outcome of item i. Every third item failed.
func outcomeAt(i int) outcome.Outcome {
	value := float64(i%5) / 4 // includes 0
	weight := float64(i) / 2  // includes 0
	begin := start.Add(time.Duration(i) * time.Second)
	o := outcome.Outcome{
		Item: itemID(i), Trial: 1, Attempt: 1, Started: begin, Ended: begin.Add(time.Second), Latency: time.Second,
		Scores: []outcome.Score{
			{Name: "entity_f1", Value: &value, Ratio: &outcome.Ratio{Num: int64(i % 5), Den: 4}, Comment: "so many matched", Weight: &weight},
			{Name: "type_accuracy", Reason: "nothing matched"},
		},
	}
	o.CostUSD, o.Usage = new(0.01*float64(i)), outcome.Usage{Input: 3, Output: 1}
	o.Output = json.RawMessage(`{"entities":[]}`)
	o.Calls = []outcome.Call{{Name: "extract", Kind: "generation", Model: "m", Started: begin, Ended: begin.Add(time.Second), Usage: outcome.Usage{Input: 3, Output: 1}}}
	failed := 0.0
	if i%3 == 2 {
		failed = 1
		o.Class, o.Failure = outcome.Timeout, &outcome.Failure{Class: outcome.Timeout, Message: "too slow"}
		o.Output = nil
		o.Scores[0] = outcome.Score{Name: "entity_f1", Reason: "failed", Weight: &weight}
	} else { // what only the run file and the metadata of the root span have
		o.Scores = append(o.Scores, outcome.Score{
			Name: "grounded_rate", Value: new(0.75), Ratio: &outcome.Ratio{Num: 3, Den: 4}, Counts: outcome.Counts{{Name: "invented_entities", N: 1}}, Comment: "3 of 4",
		})
		o.Groups = []outcome.Group{{Kind: "entity_type", Name: "person", Expected: 4, Extracted: 4, Matched: int64(i % 5)}}
		o.Causes = []outcome.Cause{{What: "entity", Name: "missed", Count: 2}}
		o.Counts = outcome.Counts{{Name: "duplicates", N: int64(i)}}
		o.Explanation = json.RawMessage(`{"entities":[]}`)
	}
	o.Scores = append(o.Scores, outcome.Score{Name: "error", Boolean: true, Value: &failed})
	return o
}

// TestPublisher_publishedScores: the form of the publication decides which scores of items and of
// the run are in Langfuse, and Verify expects the same.
func TestPublisher_publishedScores(t *testing.T) {
	few := []string{"entity_f1", "error"}
	all := []string{"entity_f1", "error", "grounded_rate"}
	current := []string{"entity_f1_as_zero", "entity_f1_pooled", "items_failed", "items_planned", "items_scored"}
	today := func(named ...string) outcome.Publication {
		return outcome.Publication{Form: outcome.PublicationForm, ScoreEnvironment: "default", Scores: named}
	}
	for name, tt := range map[string]struct {
		form          outcome.Publication
		items, scores []string
	}{
		"of today": {today(), few, current},
		"named":    {today("grounded_rate"), all, current},
		"all":      {today(outcome.AllScores), all, current},
		"of before": {outcome.Publication{}, all, []string{
			"entity_f1_mean", "entity_f1_pooled", "error_mean", "grounded_rate_mean", "grounded_rate_pooled", "items_failed", "items_planned", "items_scored"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.publication = tt.form
			run := w.newRun(t, "base", 3)
			finish(t, run, start.Add(time.Minute))
			w.refuse("ingestion", http.StatusBadGateway) // the first attempt publishes half, the second the rest
			if err := w.publish(t, run); err == nil {
				t.Error("scores were refused, and nothing is said")
			}
			w.front.Store(nil)
			w.mustPublish(t, run)
			h := headerOf(t, run)
			names := map[string]bool{}
			for _, s := range collect(t, w.client.ReadScores(t.Context(), w.server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{tracking.TraceID(h, outcomeAt(0)), tracking.TraceID(h, outcomeAt(1))}})) {
				names[s.Name] = true
			}
			if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, tt.items) {
				t.Errorf("items have the scores %v, want %v", got, tt.items)
			}
			if got := slices.Sorted(maps.Keys(w.runScores(t, run))); !slices.Equal(got, tt.scores) {
				t.Errorf("the run has the scores %v, want %v", got, tt.scores)
			}
			verification, err := w.verify(t, run)
			if want := 2*(len(tt.items)-1) + 3; err != nil || !verification.OK() || verification.Checked.Scores != want || verification.Checked.RunScores != len(tt.scores) {
				t.Errorf("%v, %+v; want %d scores", err, verification, want)
			}
		})
	}
}

func (w *world) site() tracking.Site { return tracking.Site{Client: w.client, Server: w.server} }

// publishConfig returns a configuration that gives up after one failed round.
func (w *world) publishConfig(run *runstore.Run) tracking.Config {
	return tracking.Config{Site: w.site(), Run: run, LastTries: 1}
}

// publish publishes a run that has ended.
func (w *world) publish(t *testing.T, run *runstore.Run) error {
	return tracking.Publish(t.Context(), w.publishConfig(run), closed())
}

func (w *world) mustPublish(t *testing.T, run *runstore.Run) {
	t.Helper()
	if err := w.publish(t, run); err != nil {
		t.Fatal(err)
	}
}

// verifyConfig returns a configuration that looks once.
func (w *world) verifyConfig(run *runstore.Run) tracking.VerifyConfig {
	return tracking.VerifyConfig{Site: w.site(), Run: run.Reader, Wait: langfuse.Wait{Timeout: -1}}
}

func (w *world) repair(t *testing.T, run *runstore.Run) (before, after tracking.Verification, err error) {
	return tracking.Repair(t.Context(), w.verifyConfig(run), w.publishConfig(run))
}

func (w *world) verify(t *testing.T, run *runstore.Run) (tracking.Verification, error) {
	return tracking.Verify(t.Context(), w.verifyConfig(run))
}

// closed returns the finished channel of a run that has ended.
func closed() <-chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}

// stored reads the run from Langfuse.
func (w *world) stored(t *testing.T, name string) (items map[string]langfuse.ExperimentItem, scores map[string]langfuse.Score) {
	t.Helper()
	items, scores = map[string]langfuse.ExperimentItem{}, map[string]langfuse.Score{}
	found, err := w.client.GetDataset(t.Context(), "d")
	if err != nil {
		t.Fatal(err)
	}
	id := langfuse.ExperimentID(w.server.Project.ID, found.ID, name)
	traces := map[string]string{}
	for _, item := range collect(t, w.client.ListExperimentItems(t.Context(), start.Add(-time.Hour), id)) {
		if _, duplicate := items[item.ItemID]; duplicate {
			t.Errorf("item %s is there twice", item.ItemID)
		}
		items[item.ItemID], traces[item.TraceID] = item, item.ItemID
	}
	for _, s := range collect(t, w.client.ListScores(t.Context(), langfuse.ScoresQuery{})) {
		key := traces[s.Subject.TraceID] + " " + s.Name
		if _, duplicate := scores[key]; duplicate {
			t.Errorf("score %s is there twice", key)
		}
		scores[key] = s
	}
	return items, scores
}

func TestPublisher_readBack(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 7)
	w.mustPublish(t, run)
	items, scores := w.stored(t, "base")
	if len(items) != 7 {
		t.Fatalf("%d of 7 items", len(items))
	}
	// 7 error scores, and entity_f1 of the 5 items that did not fail (2 and 5 did).
	if len(scores) != 12 {
		t.Errorf("%d scores, want 12", len(scores))
	}
	for i := range 7 {
		id, failed := itemID(i), i%3 == 2
		e := scores[id+" error"]
		if n, _ := e.Value.Number(); (n == 1) != failed || e.Type != langfuse.ScoreBoolean || e.Subject.Kind != "observation" {
			t.Errorf("%s: error score %+v", id, e)
		}
		f1, ok := scores[id+" entity_f1"]
		if n, _ := f1.Value.Number(); ok == failed || ok && n != float64(i%5)/4 {
			t.Errorf("%s: entity_f1 %+v", id, f1)
		}
		if failed {
			if items[id].Level != "ERROR" || !strings.Contains(string(langfuse.DecodeJSON(items[id].Output)), "too slow") {
				t.Errorf("%s: level %s, output %s", id, items[id].Level, items[id].Output)
			}
		}
	}
	var counts map[string]float64
	if err := json.Unmarshal(scores[itemID(1)+" entity_f1"].Metadata, &counts); err != nil || counts["numerator"] != 1 || counts["denominator"] != 4 {
		t.Errorf("the counts of a score: %v, %v", counts, err)
	}
	counted, err := run.Counts(t.Context())
	if err != nil || counted.Published != 7 {
		t.Errorf("published %d of 7, %v", counted.Published, err)
	}
}

func TestPublisher_againChangesNothing(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 4)
	w.mustPublish(t, run)
	before, scoresBefore := w.stored(t, "base")
	calls := w.calls.Load()
	w.mustPublish(t, run)
	if requests := w.calls.Load() - calls; requests != 0 {
		t.Errorf("%d requests for a run that is published", requests)
	}
	after, scoresAfter := w.stored(t, "base")
	if len(after) != len(before) || len(scoresAfter) != len(scoresBefore) {
		t.Errorf("%d items and %d scores became %d and %d", len(before), len(scoresBefore), len(after), len(scoresAfter))
	}
}

// TestPublisher_outages refuses each kind of request. Nothing is lost or doubled once the server
// works again, and the error says how much is unpublished.
func TestPublisher_outages(t *testing.T) {
	for _, path := range []string{"dataset-run-items", "otel", "ingestion"} {
		t.Run(path, func(t *testing.T) {
			w := newWorld(t)
			run := w.newRun(t, "base", 5)
			w.refuse(path, http.StatusBadGateway)
			err := w.publish(t, run)
			var left *tracking.UnpublishedError
			if !errors.As(err, &left) || left.Left != 5 || left.ExitCode() != 69 {
				t.Fatalf("got %v, want an error about 5 unpublished outcomes", err)
			}
			w.front.Store(nil)
			w.mustPublish(t, run)
			if items, scores := w.stored(t, "base"); len(items) != 5 || len(scores) != 9 { // 5 error, 4 entity_f1
				t.Errorf("%d items, %d scores", len(items), len(scores))
			}
		})
	}
}

func TestPublisher_wrongKeyEndsAtOnce(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 2)
	w.refuse("/", http.StatusUnauthorized)
	cfg := tracking.Config{Site: w.site(), Run: run}
	never := make(chan struct{})
	if err := tracking.Publish(t.Context(), cfg, never); !errors.Is(err, langfuse.ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}

// TestPublisher_oneRefusedOutcome: the server refuses the trace of one item for good. The scores of
// the item stay away, too, and the other items are published.
func TestPublisher_oneRefusedOutcome(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 3)
	bad := outcome.Outcome{
		Item: itemID(0), Trial: 1, Attempt: 2, Started: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC), // earlier than a span can represent
		Ended: start, Scores: []outcome.Score{{Name: "error", Value: new(float64), Boolean: true}},
	}
	if err := run.Commit(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	err := w.publish(t, run)
	var left *tracking.UnpublishedError
	if !errors.As(err, &left) || left.Left != 1 || !strings.Contains(err.Error(), itemID(0)) {
		t.Fatalf("got %v", err)
	}
	if items, _ := w.stored(t, "base"); len(items) != 2 {
		t.Errorf("%d items", len(items))
	}
	query := langfuse.ScoresQuery{IDs: []string{tracking.ScoreID(run, t, itemID(0), 2, "error")}}
	if scores := collect(t, w.client.ListScores(t.Context(), query)); len(scores) > 0 {
		t.Errorf("scores of the trace that was refused: %+v", scores)
	}
}

// TestPublisher_follows publishes while outcomes are committed.
func TestPublisher_follows(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 1)
	cfg := tracking.Config{Site: w.site(), Run: run}
	finished := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- tracking.Publish(t.Context(), cfg, finished) }()
	changed := run.Changed()
	for { // until the first outcome is acknowledged
		counts, err := run.Counts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if counts.Published == 1 {
			break
		}
		<-changed
		changed = run.Changed()
	}
	close(finished)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// scoresOf reads the scores of one trace.
func (w *world) scoresOf(t *testing.T, trace string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, s := range collect(t, w.client.ListScores(t.Context(), langfuse.ScoresQuery{TraceIDs: []string{trace}})) {
		values[s.Name], _ = s.Value.Number()
	}
	return values
}
