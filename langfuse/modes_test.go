package langfuse_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// deployment is the embedded server in one of its modes, with a client and a
// dataset of two items.
type deployment struct {
	*testing.T
	client  *langfuse.Client
	server  langfuse.Server
	dataset langfuse.Dataset
	version time.Time
	start   time.Time
}

func deploy(t *testing.T, mode embedded.Mode, version string) deployment {
	t.Helper()
	inner, err := embedded.Open(embedded.Config{Mode: mode, Version: version})
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(inner.Handler())
	t.Cleanup(func() {
		hs.Close()
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	d := deployment{T: t, start: time.Now().UTC().Truncate(time.Millisecond)}
	d.client, err = langfuse.New(langfuse.Config{
		BaseURL: hs.URL, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey),
		HTTPClient: hs.Client(), MaxAttempts: 1,
	})
	d.must(err)
	d.server, err = d.client.Probe(t.Context())
	d.must(err)
	d.dataset, err = d.client.UpsertDataset(t.Context(), langfuse.DatasetUpsert{Name: "team/docs 50%"})
	d.must(err)
	for _, id := range []string{"i1", "i2"} {
		_, err := d.client.UpsertDatasetItem(t.Context(), langfuse.DatasetItemUpsert{
			DatasetName: d.dataset.Name, ID: id, Input: []byte(`{"text":"x"}`), ExpectedOutput: []byte(`{}`),
		})
		d.must(err)
	}
	return d
}

func (d deployment) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func traceID(n int) string { return fmt.Sprintf("%032x", n) }
func spanID(n int) string  { return fmt.Sprintf("%016x", n) }

// attempt writes one item of the run as the publisher does: link, spans, score.
func (d deployment) attempt(run, item string, n int, failed bool) string {
	d.Helper()
	ctx := d.Context()
	link := langfuse.DatasetRunItemCreate{RunName: run, DatasetItemID: item, TraceID: traceID(n), ObservationID: spanID(10 * n), RunDescription: "nightly", Metadata: map[string]string{"model": "gpt-x"}}
	stored, err := d.client.CreateDatasetRunItem(ctx, link)
	d.must(err)
	at := d.start.Add(time.Duration(n) * time.Second)
	common := []langfuse.Attribute{
		langfuse.TextAttribute("langfuse.experiment.id", stored.DatasetRunID),
		langfuse.TextAttribute("langfuse.experiment.name", run),
		langfuse.TextAttribute("langfuse.experiment.dataset.id", d.dataset.ID),
		langfuse.TextAttribute("langfuse.experiment.item.id", item),
		langfuse.TextAttribute("langfuse.experiment.item.root_observation_id", spanID(10*n)),
		langfuse.TextAttribute("langfuse.trace.name", "extract"),
		langfuse.TextAttribute("langfuse.environment", "sdk-experiment"),
		langfuse.TextsAttribute("langfuse.trace.tags", "validated", item),
	}
	root := langfuse.Span{TraceID: traceID(n), SpanID: spanID(10 * n), Name: "item", Start: at, End: at.Add(time.Second), Attributes: append(slices.Clone(common),
		langfuse.TextAttribute("langfuse.observation.input", `{"text":"x"}`),
		langfuse.TextAttribute("langfuse.observation.output", `{"n":1}`))}
	if failed {
		root.Status, root.StatusMessage = langfuse.SpanError, "timeout"
	}
	call := langfuse.Span{TraceID: traceID(n), SpanID: spanID(10*n + 1), ParentID: spanID(10 * n), Name: "llm", Start: at.Add(time.Millisecond), End: at.Add(time.Second), Attributes: append(slices.Clone(common),
		langfuse.TextAttribute("langfuse.observation.type", "generation"),
		langfuse.TextAttribute("langfuse.observation.model.name", "gpt-x"),
		langfuse.TextAttribute("langfuse.observation.usage_details", `{"input":812,"output":64,"total":876}`),
		langfuse.TextAttribute("langfuse.observation.cost_details", `{"total":0.0031}`),
		langfuse.TextAttribute("langfuse.observation.prompt.name", "extract"),
		langfuse.IntAttribute("langfuse.observation.prompt.version", 1))}
	d.must(d.client.ExportSpans(ctx, langfuse.Scope{Name: "test"}, []langfuse.Span{root, call}))
	return stored.DatasetRunID
}

func (d deployment) score(score langfuse.ScoreCreate) {
	d.Helper()
	score.Timestamp = d.start
	results, err := d.client.CreateScores(d.Context(), []langfuse.ScoreCreate{score})
	d.must(err)
	if results[0].State != langfuse.ScoreAccepted {
		d.Fatal(results[0].Err)
	}
}

func collect[T any](t *testing.T, list iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for one, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// One run, written the same way on every kind of server, must read back the same
// through the reads that do not name a mode.
func TestRunReadsBackInEveryMode(t *testing.T) {
	for name, test := range map[string]struct {
		mode    embedded.Mode
		version string
		want    langfuse.Mode
	}{
		"v4":      {embedded.ModeV4, "", langfuse.ModeEventsOnly},
		"v4 dual": {embedded.ModeV4Dual, "", langfuse.ModeDual},
		"v3":      {embedded.ModeV3, "", langfuse.ModeLegacy},
		"old v3":  {embedded.ModeV3, "3.100.0", langfuse.ModeLegacy},
	} {
		t.Run(name, func(t *testing.T) {
			d := deploy(t, test.mode, test.version)
			if d.server.Mode() != test.want || d.server.Skew != 0 {
				t.Fatalf("%+v", d.server)
			}
			_, err := d.client.CreatePrompt(t.Context(), langfuse.PromptCreate{Name: "extract", Type: langfuse.PromptText, Prompt: []byte(`"x"`)})
			d.must(err)
			const run = " a/b, 50% #2"
			id := d.attempt(run, "i1", 1, true)
			d.attempt(run, "i1", 2, false)
			d.attempt(run, "i2", 3, false)
			for n := 1; n <= 3; n++ {
				d.score(langfuse.ScoreCreate{ID: fmt.Sprint("f1-", n), Name: "f1", Value: langfuse.NumberValue(0), Type: langfuse.ScoreNumeric, TraceID: traceID(n), ObservationID: spanID(10 * n)})
				d.score(langfuse.ScoreCreate{ID: fmt.Sprint("ok-", n), Name: "ok", Value: langfuse.BoolValue(n != 1), Type: langfuse.ScoreBoolean, TraceID: traceID(n)})
			}
			d.score(langfuse.ScoreCreate{ID: "micro", Name: "micro_f1", Value: langfuse.NumberValue(0.91), Type: langfuse.ScoreNumeric, DatasetRunID: id})

			d.checkRun(run, id)
			d.checkItems(run)
			d.checkScores(run)
			d.checkTraces()
			d.checkRemoval()
		})
	}
}

func (d deployment) checkRun(name, id string) {
	d.Helper()
	ref := langfuse.RunRef{DatasetID: d.dataset.ID, Name: name, DatasetName: d.dataset.Name}
	found, err := d.client.RunID(d.Context(), d.server, ref)
	if err != nil || found != id {
		d.Errorf("run id %q, %v, want %q", found, err, id)
	}
	for _, view := range d.server.Views() {
		run, err := d.client.GetRun(d.Context(), d.server, view, ref)
		want := map[langfuse.View]int{langfuse.ViewRuns: 2, langfuse.ViewExperiments: 3}[view]
		if err != nil || run.ID != id || run.Name != name || run.ItemCount != want || run.DatasetID != d.dataset.ID {
			d.Errorf("%s: %+v, %v", view, run, err)
		}
		if view == langfuse.ViewRuns && run.Description != "nightly" {
			d.Errorf("%s: description %q", view, run.Description)
		}
		if runs := collect(d.T, d.client.ListRuns(d.Context(), view, d.dataset.ID, d.dataset.Name)); len(runs) != 1 || runs[0].ID != id {
			d.Errorf("%s lists %+v", view, runs)
		}
		ref := ref
		ref.Name, ref.ID = "no such run", ""
		if _, err := d.client.GetRun(d.Context(), d.server, view, ref); !errors.Is(err, langfuse.ErrNotFound) {
			d.Errorf("%s: %v", view, err)
		}
	}
}

// checkItems: the runs view shows the newest attempt of an item, the other one
// every attempt.
func (d deployment) checkItems(name string) {
	d.Helper()
	ref := langfuse.RunRef{DatasetID: d.dataset.ID, Name: name}
	for _, view := range d.server.Views() {
		var got []string
		for _, item := range collect(d.T, d.client.ListRunItems(d.Context(), d.server, view, ref)) {
			got = append(got, strings.Join([]string{item.ItemID, item.TraceID[30:], item.ObservationID[14:], item.Level}, " "))
		}
		slices.Sort(got)
		want := map[langfuse.View][]string{
			langfuse.ViewRuns:        {"i1 02 14 ", "i2 03 1e "},
			langfuse.ViewExperiments: {"i1 01 0a ERROR", "i1 02 14 DEFAULT", "i2 03 1e DEFAULT"},
		}[view]
		if !slices.Equal(got, want) {
			d.Errorf("%s: %q, want %q", view, got, want)
		}
		ref.Name = "no such run"
		if items := collect(d.T, d.client.ListRunItems(d.Context(), d.server, view, ref)); len(items) != 0 {
			d.Errorf("%s: %+v", view, items)
		}
		ref.Name = name
	}
}

func (d deployment) checkScores(name string) {
	d.Helper()
	var got []string
	query := langfuse.ScoresQuery{TraceIDs: []string{traceID(1), traceID(2), traceID(3), traceID(9)}}
	for _, s := range collect(d.T, d.client.ReadScores(d.Context(), d.server.Capabilities, query)) {
		got = append(got, s.ID+" "+s.Value.String()+" "+s.Subject.Kind+" "+s.TraceID()[31:])
	}
	slices.Sort(got)
	want := []string{"f1-1 0 observation 1", "f1-2 0 observation 2", "f1-3 0 observation 3", "ok-1 0 trace 1", "ok-2 1 trace 2", "ok-3 1 trace 3"}
	if !slices.Equal(got, want) {
		d.Errorf("%q, want %q", got, want)
	}
	scores := collect(d.T, d.client.ListRunScores(d.Context(), d.server, langfuse.RunRef{DatasetID: d.dataset.ID, Name: name}))
	if len(scores) != 1 || scores[0].ID != "micro" || scores[0].Value != langfuse.NumberValue(0.91) || scores[0].Subject.Kind != "experiment" {
		d.Errorf("%+v", scores)
	}
	half := 0.5
	for what, query := range map[string]langfuse.ScoresQuery{
		"true":     {Names: []string{"ok"}, Type: langfuse.ScoreBoolean, Value: "true"},
		"at least": {Names: []string{"ok"}, Min: &half},
		"ids":      {IDs: []string{"ok-2", "ok-3", "no"}},
	} {
		if found := collect(d.T, d.client.ReadScores(d.Context(), d.server.Capabilities, query)); len(found) != 2 {
			d.Errorf("%s: %+v", what, found)
		}
	}
}

func (d deployment) checkTraces() {
	d.Helper()
	ids := []string{traceID(3), traceID(9), traceID(1)}
	traces := collect(d.T, d.client.ReadTraces(d.Context(), d.server.Capabilities, ids, langfuse.TraceParts{IO: true}))
	if len(traces) != 2 || traces[0].ID != traceID(3) || traces[1].ID != traceID(1) {
		d.Fatalf("%+v", traces)
	}
	for i, trace := range traces {
		root, ok := trace.Root()
		if !ok || len(trace.Observations) != 2 || trace.Name != "extract" || string(trace.Input) != `{"text":"x"}` || string(trace.Output) != `{"n":1}` ||
			root.Level != []string{"DEFAULT", "ERROR"}[i] || root.EndTime.Sub(root.StartTime) != time.Second || !slices.Contains(trace.Tags, "validated") || trace.Environment != "sdk-experiment" {
			d.Errorf("%+v", trace)
		}
		g := trace.Observations[1]
		if g.Type != "GENERATION" || g.ModelName() != "gpt-x" || g.PromptName != "extract" || g.PromptVersion != 1 || g.TotalCost != 0.0031 || g.UsageDetails["input"] != 812 || g.ParentID != root.ID {
			d.Errorf("%+v", g)
		}
	}
	if _, err := d.client.GetTrace(d.Context(), d.server.Capabilities, traceID(9), langfuse.TraceParts{}); !errors.Is(err, langfuse.ErrNotFound) {
		d.Errorf("%v", err)
	}
	o, err := d.client.GetObservation(d.Context(), d.server.Capabilities, spanID(30))
	if err != nil || o.TraceID != traceID(3) || string(o.Output) != `{"n":1}` {
		d.Errorf("%+v, %v", o, err)
	}
	if _, err := d.client.GetObservation(d.Context(), d.server.Capabilities, spanID(99)); !errors.Is(err, langfuse.ErrNotFound) {
		d.Errorf("%v", err)
	}
	for what, test := range map[string]struct {
		query langfuse.TraceQuery
		want  int
	}{
		"all":         {langfuse.TraceQuery{}, 3},
		"a tag":       {langfuse.TraceQuery{Tags: []string{"validated"}}, 3},
		"both tags":   {langfuse.TraceQuery{Tags: []string{"validated", "i1"}}, 2},
		"name":        {langfuse.TraceQuery{Name: "extract", Tags: []string{"i2"}}, 1},
		"other name":  {langfuse.TraceQuery{Name: "other"}, 0},
		"environment": {langfuse.TraceQuery{Environments: []string{"sdk-experiment", "x"}}, 3},
		"other place": {langfuse.TraceQuery{Environments: []string{"production"}}, 0},
		"since":       {langfuse.TraceQuery{From: d.start.Add(2 * time.Second)}, 2},
		"until":       {langfuse.TraceQuery{To: d.start.Add(2 * time.Second)}, 1},
	} {
		list := collect(d.T, d.client.ListTraces(d.Context(), d.server.Capabilities, test.query, langfuse.TraceParts{IO: true}))
		if len(list) != test.want {
			d.Errorf("%s: %d traces, want %d", what, len(list), test.want)
		}
		for _, trace := range list {
			if string(trace.Input) != `{"text":"x"}` || trace.Name != "extract" || trace.Time.IsZero() {
				d.Errorf("%s: %+v", what, trace)
			}
		}
	}
}

func (d deployment) checkRemoval() {
	d.Helper()
	removal, err := d.client.DeleteScores(d.Context(), d.server.Capabilities, []string{"f1-1", "ok-1", "no"}, langfuse.Wait{Timeout: -1})
	if err != nil || !slices.Equal(removal.Gone, []string{"f1-1", "ok-1"}) || !slices.Equal(removal.Unseen, []string{"no"}) || len(removal.Left) != 0 {
		d.Errorf("%+v, %v", removal, err)
	}
	left := collect(d.T, d.client.ReadScores(d.Context(), d.server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{traceID(1), traceID(2)}}))
	if len(left) != 2 {
		d.Errorf("%+v", left)
	}
}

// A forced mode on the wrong server ends in an error that names the endpoint.
func TestWrongModeIsAnError(t *testing.T) {
	for mode, forced := range map[embedded.Mode]langfuse.Mode{embedded.ModeV4: langfuse.ModeLegacy, embedded.ModeV3: langfuse.ModeEventsOnly} {
		d := deploy(t, mode, "")
		server := d.server
		server.Capabilities = server.WithMode(forced)
		_, err := d.client.GetRun(context.WithoutCancel(t.Context()), server, server.Views()[0], langfuse.RunRef{DatasetID: d.dataset.ID, Name: "r"})
		if !errors.Is(err, langfuse.ErrEndpointGone) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
