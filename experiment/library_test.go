package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// TestRun_invalid checks that an item whose task or scorer returns what a run file cannot hold
// fails, and that the others do not.
func TestRun_invalid(t *testing.T) {
	score := func(name string, value float64) outcome.Score { return outcome.Score{Name: name, Value: &value} }
	yes := score("yes", 2)
	yes.Boolean = true
	for name, c := range map[string]struct {
		output string
		cost   float64
		scores []outcome.Score
		class  outcome.Class
		says   string
	}{
		"output":   {output: "positive", class: outcome.InvalidOutput, says: "not JSON"},
		"NaN":      {scores: []outcome.Score{score("acc", math.NaN())}, class: outcome.Internal, says: "acc is not a finite number"},
		"cost":     {cost: math.Inf(1), class: outcome.Internal, says: "a cost is negative or not a finite number"},
		"below 0":  {cost: -1, class: outcome.Internal, says: "a cost is negative or not a finite number"},
		"unnamed":  {scores: []outcome.Score{score("", 1)}, class: outcome.Internal, says: `name ""`},
		"reserved": {scores: []outcome.Score{score("error", 1)}, class: outcome.Internal, says: `name "error"`},
		"twice":    {scores: []outcome.Score{score("acc", 1), score("acc", 0)}, class: outcome.Internal, says: "acc twice"},
		"boolean":  {scores: []outcome.Score{yes}, class: outcome.Internal, says: "2 for yes, which is boolean"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := experiment.RunnerConfig{Run: create(t), Source: list(3), Scorer: half{}, Task: task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
				result, err := echo(ctx, item)
				if item.ID == "i01" && c.output != "" {
					result.Output = json.RawMessage(c.output)
				}
				if item.ID == "i01" {
					result.Calls = []outcome.Call{{Kind: "generation", CostUSD: &c.cost, Usage: outcome.Usage{Input: 7}}}
				}
				return result, err
			})}
			if c.scores != nil {
				cfg.Scorer = half{scores: c.scores}
			}
			found, footer, err := carryOut(t, t.Context(), cfg)
			o := found["i01"]
			if err != nil || footer.Status != outcome.Complete || len(found) != 3 {
				t.Fatalf("%v, %s, %d outcomes", err, footer.Status, len(found))
			}
			if o.Class != c.class || !strings.Contains(o.Failure.Message, c.says) || o.Usage.Input != 7 {
				t.Errorf("%s: %+v, usage %+v", o.Class, o.Failure, o.Usage)
			}
			if other := found["i02"]; c.scores == nil && other.Failed() {
				t.Errorf("another item failed: %v", other.Failure)
			}
		})
	}
}

// TestRun_goexit checks that a task that ends the goroutine of its worker ends the run, which
// can be resumed.
func TestRun_goexit(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		cfg := experiment.Config{
			Header: outcome.Header{Name: "r"}, Source: list(20), Scorer: half{}, Concurrency: concurrency, Path: filepath.Join(t.TempDir(), "r.run"),
			Task: task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
				if item.ID > "i04" {
					runtime.Goexit()
				}
				return echo(ctx, item)
			}),
		}
		if _, err := experiment.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "runtime.Goexit") {
			t.Errorf("%d at once: %v", concurrency, err)
		}
		cfg.Task, cfg.Resume = task(echo), true
		if r, err := experiment.Run(t.Context(), cfg); err != nil || r.Summary.Items.Scored != 20 {
			t.Errorf("%d at once, resumed: %v, %+v", concurrency, err, r.Summary.Items)
		}
	}
}

// TestRun_canceled checks that the error of a canceled run wraps that of the context, and that
// nothing begins if the context has ended.
func TestRun_canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := experiment.Config{
		Header: outcome.Header{Name: "r"}, Source: list(20), Scorer: half{}, Concurrency: 1, Path: filepath.Join(t.TempDir(), "r.run"),
		Task: task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
			if item.ID == "i02" {
				cancel()
			}
			return echo(ctx, item)
		}),
	}
	_, err := experiment.Run(ctx, cfg)
	if !errors.Is(err, experiment.ErrInterrupted) || !errors.Is(err, context.Canceled) || cli.ExitCode(err) != cli.ExitInterrupted {
		t.Errorf("exit code %d: %v", cli.ExitCode(err), err)
	}
	cfg.Path += ".other"
	if _, err := experiment.Run(ctx, cfg); !errors.Is(err, context.Canceled) || exists(cfg.Path) {
		t.Errorf("with a canceled context: %v", err)
	}
}

// connect starts a server with the dataset words, in a folder of its own, and connects to it.
func connect(t *testing.T) *experiment.Langfuse {
	t.Helper()
	t.Chdir(t.TempDir())
	lookup, done := startServer()
	t.Cleanup(done)
	cfg, _, err := langfuse.ConfigFromEnv(lookup)
	noError(t, err)
	lf, err := experiment.Connect(t.Context(), cfg)
	noError(t, err)
	t.Cleanup(lf.Client.CloseIdleConnections)
	return lf
}

// TestRun_publishesOwnScores checks which scores of a scorer of one's own are in Langfuse, and that
// all settings of a publication are kept.
func TestRun_publishesOwnScores(t *testing.T) {
	lf := connect(t)
	for environment, publication := range map[string]outcome.Publication{
		"default": {},
		"prod":    {Scores: []string{}, Mentions: true, ScoreEnvironment: "prod"},
	} {
		r, err := experiment.Run(t.Context(), experiment.Config{
			Header:  outcome.Header{Name: environment, Publication: publication, Scorer: outcome.Scorer{Version: "1", Primary: "correct"}},
			Dataset: "words", Task: length{}, Scorer: exact{}, Langfuse: lf, Verify: true,
		})
		if err != nil || r.Header.Publication.Mentions != publication.Mentions || r.Verification.Total() != 0 {
			t.Errorf("%s: %v, published as %+v, %d differences", environment, err, r.Header.Publication, r.Verification.Total())
		}
	}
	found := map[string]int{}
	for score, err := range lf.Client.ReadScores(t.Context(), lf.Server.Capabilities, langfuse.ScoresQuery{}) {
		noError(t, err)
		if score.TraceID() != "" {
			found[score.Environment+" "+score.Name]++
		}
	}
	if want := map[string]int{"default correct": 2, "default error": 2, "prod error": 2}; !maps.Equal(found, want) {
		t.Errorf("Langfuse has %v, want %v", found, want)
	}
}

// TestRescore_config checks that what is missing is named, and that Moved is optional.
func TestRescore_config(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	_, err := experiment.Run(t.Context(), experiment.Config{Header: outcome.Header{Name: "r"}, Source: list(3), Scorer: half{}, Task: task(echo), Path: path})
	noError(t, err)
	from, err := runstore.Load(path)
	noError(t, err)
	defer from.Close()
	if _, _, err := experiment.Rescore(t.Context(), experiment.RescoreConfig{From: from}); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("without name and scorer: %v", err)
	}
	beside := path + ".again.run"
	h, at, err := experiment.Rescore(t.Context(), experiment.RescoreConfig{From: from, Name: "again", Path: beside, Scorer: half{}})
	if err != nil || h.Name != "again" || at != beside || !exists(beside) {
		t.Errorf("%v: %s at %s", err, h.Name, at)
	}
}

// faulty is a Scorer and an ItemScorer with the given methods.
type faulty struct {
	half
	undelivered func() []outcome.Score
	nothing     func() bool
	none        bool
}

func (f faulty) ForItem(dataset.Item) (experiment.ItemScorer, error) {
	if f.none {
		return nil, nil
	}
	return f, nil
}

func (f faulty) Undelivered() []outcome.Score { return f.undelivered() }

func (f faulty) NothingExpected() bool { return f.nothing != nil && f.nothing() }

// TestRun_faultyScorer checks that a scorer that panics, or gives a failed item what no item can
// have, neither ends the program nor the run.
func TestRun_faultyScorer(t *testing.T) {
	one, nan := 1.0, math.NaN()
	plain := func() []outcome.Score { return []outcome.Score{{Name: "acc"}} }
	for name, c := range map[string]struct {
		scorer faulty
		class  outcome.Class
		scores string
		warns  string
	}{
		"panic":           {faulty{undelivered: func() []outcome.Score { panic("boom") }}, outcome.Provider, "error", "boom"},
		"value":           {faulty{undelivered: func() []outcome.Score { return []outcome.Score{{Name: "acc", Value: &one}} }}, outcome.Provider, "acc=nil error", ""},
		"weight":          {faulty{undelivered: func() []outcome.Score { return []outcome.Score{{Name: "acc", Weight: &nan}} }}, outcome.Provider, "error", "weight NaN"},
		"not UTF-8":       {faulty{undelivered: func() []outcome.Score { return []outcome.Score{{Name: "a\xff"}} }}, outcome.Provider, "error", "cannot have"},
		"nothingExpected": {faulty{undelivered: plain, nothing: func() bool { panic("boom") }}, outcome.Internal, "error", ""},
		"no judge":        {faulty{undelivered: plain, none: true}, outcome.Internal, "error", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := experiment.RunnerConfig{Run: create(t), Source: list(3), Scorer: c.scorer, Task: task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
				if item.ID == "i01" {
					return experiment.TaskResult{}, errors.New("no answer")
				}
				return echo(ctx, item)
			})}
			found, footer, err := carryOut(t, t.Context(), cfg)
			if err != nil || footer.Status != outcome.Complete || len(found) != 3 {
				t.Fatalf("%v, %s, %d outcomes", err, footer.Status, len(found))
			}
			o := found["i01"]
			var scores []string
			for _, s := range o.Scores {
				if s.Name != outcome.ErrorScore && s.Value == nil {
					s.Name += "=nil"
				}
				scores = append(scores, s.Name)
			}
			warnings := strings.Join(o.Warnings, " ")
			if o.Class != c.class || strings.Join(scores, " ") != c.scores || (c.warns == "") != (warnings == "") || !strings.Contains(warnings, c.warns) {
				t.Errorf("%s, scores %v, warnings %q", o.Class, scores, warnings)
			}
		})
	}
}

// TestRun_sharedScores checks that scores are not written into memory that the scorer returns for
// every item.
func TestRun_sharedScores(t *testing.T) {
	value := 0.5
	shared := append(make([]outcome.Score, 0, 8), outcome.Score{Name: "half", Value: &value})
	cfg := experiment.RunnerConfig{Run: create(t), Source: list(40), Scorer: faulty{half: half{scores: shared}, undelivered: func() []outcome.Score { return shared }}}
	cfg.Task = task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		if item.ID > "i20" {
			return experiment.TaskResult{}, errors.New("no answer")
		}
		return echo(ctx, item)
	})
	if _, _, err := carryOut(t, t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if beyond := shared[:2][1]; beyond.Name != "" {
		t.Errorf("the scorer's memory has %+v", beyond)
	}
}

// panicking is a Source with a bug.
type panicking struct{}

func (panicking) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(func([]dataset.Item, error) bool) { panic("no pages") }
}

// TestRun_panickingSource checks that a panic of a source is an error of the run.
func TestRun_panickingSource(t *testing.T) {
	cfg := experiment.Config{Header: outcome.Header{Name: "r"}, Source: panicking{}, Task: task(echo), Scorer: half{}, Path: filepath.Join(t.TempDir(), "r.run")}
	if _, err := experiment.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "no pages") || exists(cfg.Path) {
		t.Errorf("%v", err)
	}
}

// TestRun_resumedSource checks that a run of a Source whose dataset has a name is not compared
// with a file of that name when it is resumed.
func TestRun_resumedSource(t *testing.T) {
	cfg := experiment.Config{Header: outcome.Header{Name: "r"}, Dataset: "mine", Source: list(3), Task: task(echo), Scorer: half{}, Path: filepath.Join(t.TempDir(), "r.run")}
	for _, c := range []struct {
		items int
		note  string
	}{{3, ""}, {3, ""}, {4, "the dataset changed since the run began; the run continues with the items that it began with"}} {
		cfg.Source = list(c.items)
		r, err := experiment.Run(t.Context(), cfg)
		if cfg.Resume = true; err != nil || r.Note != c.note {
			t.Errorf("%d items: %v, %q", c.items, err, r.Note)
		}
	}
}

// TestRun_header checks that a header that Langfuse or the run file would not take is refused
// before anything is paid for, and that scores follow the environment, as those of the command do.
func TestRun_header(t *testing.T) {
	run := func(h outcome.Header) (experiment.Result, error) {
		return experiment.Run(t.Context(), experiment.Config{Header: h, Source: list(1), Task: task(echo), Scorer: half{}, Path: filepath.Join(t.TempDir(), "r.run")})
	}
	for says, h := range map[string]outcome.Header{
		"Options is not JSON":  {Name: "r", Scorer: outcome.Scorer{Options: json.RawMessage("{x")}},
		`environment "Prod"`:   {Name: "r", Environment: "Prod"},
		`environment "Scores"`: {Name: "r", Publication: outcome.Publication{ScoreEnvironment: "Scores"}},
	} {
		if r, err := run(h); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), says) || r.Path != "" {
			t.Errorf("%s: %v", says, err)
		}
	}
	for given, want := range map[string]string{"": outcome.ScoreEnvironment, outcome.SpanEnvironment: outcome.ScoreEnvironment, "prod": "prod"} {
		if r, err := run(outcome.Header{Name: "r", Environment: given}); err != nil || r.Header.ScoreEnvironment() != want {
			t.Errorf("scores of %q are in %q: %v", given, r.Header.ScoreEnvironment(), err)
		}
	}
}

// TestPublish_without checks the errors without a server, and for a run that was made without one.
func TestPublish_without(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	cfg := experiment.Config{Header: outcome.Header{Name: "r"}, Source: list(1), Task: task(echo), Scorer: half{}, Path: path, Langfuse: &experiment.Langfuse{}}
	if _, err := experiment.Run(t.Context(), cfg); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("an empty Langfuse: %v", err)
	}
	cfg.Langfuse = nil
	_, err := experiment.Run(t.Context(), cfg)
	noError(t, err)
	if _, err := experiment.Publish(t.Context(), &experiment.Langfuse{}, path, nil, experiment.Observer{}); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("an empty Langfuse: %v", err)
	}
	client, err := langfuse.New(langfuse.Config{PublicKey: "pk", SecretKey: langfuse.NewSecret("sk")})
	noError(t, err)
	lf := &experiment.Langfuse{Site: tracking.Site{Client: client}}
	_, err = experiment.Publish(t.Context(), lf, path, nil, experiment.Observer{})
	if err == nil || err.Error() != `the run "r" was made without Langfuse, and such runs are not published` {
		t.Errorf("%v", err)
	}
	cfg.Langfuse, cfg.Path = lf, path+".other" // without its Server, spans would belong to no run
	if _, err := experiment.Run(t.Context(), cfg); cli.ExitCode(err) != cli.ExitUsage || exists(cfg.Path) {
		t.Errorf("a Langfuse that was not probed: %v", err)
	}
}

// TestRun_unnamedCall checks that a call that a task did not name, or not in UTF-8, is published.
func TestRun_unnamedCall(t *testing.T) {
	lf := connect(t)
	r, err := experiment.Run(t.Context(), experiment.Config{
		Header: outcome.Header{Name: "calls"}, Source: list(1), Scorer: half{}, Langfuse: lf, Verify: true,
		Task: task(func(context.Context, experiment.Item) (experiment.TaskResult, error) {
			return experiment.TaskResult{Output: json.RawMessage(`1`), Calls: []outcome.Call{{}, {Name: "a\xff", Kind: "generation", Model: "m\xff"}}}, nil
		}),
	})
	if err != nil || r.Verification.Total() != 0 {
		t.Errorf("%v: %+v", err, r.Verification)
	}
}

// TestRun_selection checks that the header describes the filter, as that of the command does, so
// that a run is not resumed with another.
func TestRun_selection(t *testing.T) {
	cfg := experiment.Config{
		Header: outcome.Header{Name: "r"}, Source: list(3), Filter: dataset.Filter{Limit: 2}, Task: task(echo), Scorer: half{},
		Path: filepath.Join(t.TempDir(), "r.run"),
	}
	r, err := experiment.Run(t.Context(), cfg)
	if err != nil || r.Header.Dataset.Selection != cfg.Filter.String() || r.Summary.Items.Scored != 2 {
		t.Errorf("%v: selection %q", err, r.Header.Dataset.Selection)
	}
	cfg.Resume, cfg.Filter.Limit = true, 1
	if _, err := experiment.Run(t.Context(), cfg); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "selection of items") {
		t.Errorf("resumed with another filter: %v", err)
	}
}

// TestEstimate_nothingOpened checks that a system without a task is an error, as it is for Run, and
// not a dataset of unusable items.
func TestEstimate_nothingOpened(t *testing.T) {
	open := func(context.Context, bool) (experiment.System, error) { return experiment.System{}, nil }
	_, err := experiment.Estimate(t.Context(), experiment.Config{Header: outcome.Header{Name: "e"}, Source: list(2), Open: open}, nil)
	if cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("%v", err)
	}
}

// decoding is a Scorer that decodes the input for the task. It cannot read the expected output of i01.
type decoding struct{ half }

func (d decoding) ForItem(item dataset.Item) (experiment.ItemScorer, error) {
	if item.ID == "i01" {
		return nil, errors.New("no gold")
	}
	return d, nil
}

func (decoding) Decoded() any { return "decoded" }

// TestEstimate_scorer checks that an item whose expected output cannot be read is unusable, as it fails
// before the task in a run, and that the task gets what the scorer decoded.
func TestEstimate_scorer(t *testing.T) {
	var asked []string
	cfg := experiment.Config{Header: outcome.Header{Name: "e"}, Source: list(3), Scorer: decoding{}, Task: task(func(_ context.Context, item experiment.Item) (experiment.TaskResult, error) {
		asked = append(asked, item.ID+" "+item.Decoded.(string))
		return experiment.TaskResult{}, nil
	})}
	e, err := experiment.Estimate(t.Context(), cfg, nil)
	if err != nil || e.Items != 3 || e.Unusable != 1 || !slices.Equal(asked, []string{"i00 decoded", "i02 decoded"}) {
		t.Errorf("%v, %+v, asked %q", err, e, asked)
	}
}

// TestRun_panicAfterTimeout checks that a panic is reported as such even if the time of the item
// is over, as that of a task that does not expect its context to end.
func TestRun_panicAfterTimeout(t *testing.T) {
	cfg := experiment.RunnerConfig{Run: create(t), Source: list(2), Scorer: half{}, Timeout: time.Millisecond, Task: task(func(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
		<-ctx.Done()
		if item.ID == "i01" {
			panic("boom")
		}
		return experiment.TaskResult{}, ctx.Err()
	})}
	found, _, err := carryOut(t, t.Context(), cfg)
	if err != nil || found["i00"].Class != outcome.Timeout || found["i01"].Class != outcome.Internal || !strings.Contains(found["i01"].Failure.Message, "boom") {
		t.Errorf("%v: %+v, %+v", err, found["i00"].Failure, found["i01"].Failure)
	}
}

// TestRun_nilError checks that an error that is a nil pointer, as of a function that returns a
// *Failure, fails its item like a panic: its text cannot be read, and the other items go on.
func TestRun_nilError(t *testing.T) {
	nilIf := func(condition bool) error {
		if condition {
			return (*outcome.Failure)(nil)
		}
		return nil
	}
	for name, cfg := range map[string]experiment.RunnerConfig{
		"task": {Scorer: half{}, Task: task(func(_ context.Context, item experiment.Item) (experiment.TaskResult, error) {
			return experiment.TaskResult{Output: item.Input}, nilIf(item.ID == "i01")
		})},
		"gold":   {Task: task(echo), Scorer: half{judge: func(item dataset.Item) error { return nilIf(item.ID == "i01") }}},
		"scorer": {Task: task(echo), Scorer: half{score: func(output json.RawMessage) error { return nilIf(string(output) == `{"n":1}`) }}},
	} {
		cfg.Run, cfg.Source = create(t), list(3)
		found, _, err := carryOut(t, t.Context(), cfg)
		if err != nil || len(found) != 3 || found["i00"].Failed() || found["i02"].Failed() {
			t.Fatalf("%s: %v, %d outcomes", name, err, len(found))
		}
		if o := found["i01"]; o.Class != outcome.Internal || !strings.Contains(o.Failure.Message, "nil pointer") {
			t.Errorf("%s: %q: %+v", name, o.Class, o.Failure)
		}
	}
}

// TestRun_resumedElsewhere checks that a run is not published to two projects: with a path of its own,
// the file of a run is found whatever the project is.
func TestRun_resumedElsewhere(t *testing.T) {
	lf := connect(t)
	other := *lf
	other.Server.Project.ID = "other"
	for says, begunWith := range map[string]*experiment.Langfuse{`the Langfuse project "embedded"`: lf, "made without Langfuse": nil} {
		cfg := experiment.Config{
			Header: outcome.Header{Name: "r"}, Source: list(2), Task: task(echo), Scorer: half{}, Path: filepath.Join(t.TempDir(), "r.run"),
			Langfuse: begunWith, Accepts: func(context.Context, string) error { return experiment.ErrInterrupted },
		}
		_, err := experiment.Run(t.Context(), cfg)
		if !errors.Is(err, experiment.ErrInterrupted) {
			t.Fatal(err)
		}
		cfg.Accepts, cfg.Resume, cfg.Langfuse = nil, true, &other
		if _, err = experiment.Run(t.Context(), cfg); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
		cfg.Langfuse = begunWith
		if r, err := experiment.Run(t.Context(), cfg); err != nil || r.Summary.Items.Scored != 2 {
			t.Errorf("%v, %+v", err, r.Summary.Items)
		}
	}
}

// TestRun_output checks that the scorer gets the output as the run file has it, so that Rescore gives
// the same scores, and is not asked about an output that is not JSON.
func TestRun_output(t *testing.T) {
	var judged []string
	scorer := half{score: func(output json.RawMessage) error {
		judged = append(judged, string(output))
		return nil
	}}
	outputs := map[string]string{"i00": " {\n \"a\" : \"b c\"\n}\n", "i01": "no JSON", "i02": "", "i03": "no JSON"}
	cfg := experiment.RunnerConfig{Run: create(t), Source: list(4), Scorer: scorer, Task: task(func(_ context.Context, item experiment.Item) (experiment.TaskResult, error) {
		result := experiment.TaskResult{Output: json.RawMessage(outputs[item.ID]), Calls: []outcome.Call{{Name: "step"}}}
		if item.ID == "i03" {
			return result, errors.New("cut off")
		}
		return result, nil
	}), Concurrency: 1}
	found, _, err := carryOut(t, t.Context(), cfg)
	noError(t, err)
	if want := []string{`{"a":"b c"}`, ""}; !slices.Equal(judged, want) {
		t.Errorf("judged %q, want %q", judged, want)
	}
	if o := found["i01"]; o.Class != outcome.InvalidOutput || len(o.Calls) != 1 || len(o.Output) != 0 {
		t.Errorf("%q, %+v", o.Class, o.Detail)
	}
	if o := found["i03"]; o.Class != outcome.Provider || o.Failure.Message != "cut off" {
		t.Errorf("with an error: %q, %+v", o.Class, o.Failure)
	}
}

// TestRun_sharedSource carries out several runs at once over one pinned dataset, for the race detector.
func TestRun_sharedSource(t *testing.T) {
	lf := connect(t)
	source, err := experiment.Open(t.Context(), lf, "words")
	noError(t, err)
	var runs errgroup.Group
	for i := range 4 {
		runs.Go(func() error {
			r, err := experiment.Run(t.Context(), experiment.Config{
				Header: outcome.Header{Name: fmt.Sprintf("r%d", i)}, Dataset: "words", Source: source, Task: length{}, Scorer: exact{}, Langfuse: lf,
			})
			if err == nil && r.Summary.Items.Scored != 2 {
				err = fmt.Errorf("%+v", r.Summary.Items)
			}
			return err
		})
	}
	noError(t, runs.Wait())
}
