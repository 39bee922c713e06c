package langfuse_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// deployment is the embedded server in one of its modes, with a client and a dataset of two
// items.
type deployment struct {
	*testing.T
	inner   *embedded.Server
	client  *langfuse.Client
	server  langfuse.Server
	dataset langfuse.Dataset
	start   time.Time
}

// deploy starts the embedded server, with a client. If version is not empty, the server reports
// this version and lacks v3/scores.
func deploy(t *testing.T, mode embedded.Mode, version string) deployment {
	t.Helper()
	inner, err := embedded.Open(embedded.Config{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	answers := inner.Handler()
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/api/public/"); {
		case version != "" && path == "health":
			fmt.Fprintf(w, `{"status":"OK","version":%q}`, version)
		case version != "" && path == "v3/scores": // available from 3.179 on
			http.NotFound(w, r)
		default:
			answers.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		hs.Close()
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	d := deployment{T: t, inner: inner, start: time.Now().UTC().Truncate(time.Millisecond)}
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
		_, err := d.client.UpsertDatasetItem(t.Context(), langfuse.DatasetItem{
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

// attempt writes an attempt of an item like a publication, with a link and spans, and returns
// the run id.
func (d deployment) attempt(run, item string, n int, failed bool) string {
	d.Helper()
	ctx := d.Context()
	link := langfuse.DatasetRunItemCreate{RunName: run, DatasetItemID: item, TraceID: traceID(n), ObservationID: spanID(10 * n), RunDescription: "nightly", Metadata: map[string]string{"model": "gpt-x"}}
	stored, err := d.client.CreateDatasetRunItem(ctx, link)
	d.must(err)
	at := d.start.Add(time.Duration(n) * time.Second)
	common := []langfuse.Attribute{
		langfuse.TextAttribute("langfuse.experiment.id", stored),
		langfuse.TextAttribute("langfuse.experiment.name", run),
		langfuse.TextAttribute("langfuse.experiment.dataset.id", d.dataset.ID),
		langfuse.TextAttribute("langfuse.experiment.item.id", item),
		langfuse.TextAttribute("langfuse.experiment.item.root_observation_id", spanID(10*n)),
		langfuse.TextAttribute("langfuse.trace.name", "extract"),
		langfuse.TextAttribute("langfuse.environment", "sdk-experiment"),
		langfuse.TextAttribute("langfuse.trace.tags", fmt.Sprintf(`["validated",%q]`, item)),
	}
	root := langfuse.Span{TraceID: traceID(n), SpanID: spanID(10 * n), Name: "item", Start: at, End: at.Add(time.Second), Attributes: append(slices.Clone(common),
		langfuse.TextAttribute("langfuse.observation.input", `{"text":"x"}`),
		langfuse.TextAttribute("langfuse.observation.output", `{"n":1}`))}
	if failed {
		root.Failed, root.StatusMessage = true, "timeout"
	}
	call := langfuse.Span{TraceID: traceID(n), SpanID: spanID(10*n + 1), ParentID: spanID(10 * n), Name: "llm", Start: at.Add(time.Millisecond), End: at.Add(time.Second), Attributes: append(slices.Clone(common),
		langfuse.TextAttribute("langfuse.observation.type", "generation"),
		langfuse.TextAttribute("langfuse.observation.model.name", "gpt-x"),
		langfuse.TextAttribute("langfuse.observation.usage_details", `{"input":812,"output":64,"total":876}`),
		langfuse.TextAttribute("langfuse.observation.cost_details", `{"total":0.0031}`),
		langfuse.TextAttribute("langfuse.observation.prompt.name", "extract"),
		langfuse.IntAttribute("langfuse.observation.prompt.version", 1))}
	d.must(d.client.ExportSpans(ctx, langfuse.Scope{Name: "test"}, []langfuse.Span{root, call}))
	return stored
}

func (d deployment) score(score langfuse.ScoreCreate) {
	d.Helper()
	score.Timestamp = d.start
	d.must(d.client.CreateScores(d.Context(), []langfuse.ScoreCreate{score})[0])
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

// A run that is written in the same way to every kind of server reads back the same.
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
			_, err := d.client.CreatePrompt(t.Context(), langfuse.Prompt{Name: "extract", Type: langfuse.PromptText, Prompt: []byte(`"x"`)})
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
			d.checkAnnotations()
			d.checkComments()
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

		ref := ref
		ref.Name, ref.ID = "no such run", ""
		if _, err := d.client.GetRun(d.Context(), d.server, view, ref); !errors.Is(err, langfuse.ErrNotFound) {
			d.Errorf("%s: %v", view, err)
		}
	}
}

// checkItems checks that ViewRuns shows the newest attempt of an item and ViewExperiments all
// attempts.
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

// A forced mode that the server does not have leads to ErrEndpointGone.
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
