// Package readback reads, with our client, the run that the official SDK made,
// in every view that the server has of it, and compares it with what the SDK's
// script wrote down. It prints one line for each comparison and fails where one
// does not hold.
//
//	LANGFUSE_BASE_URL=… LANGFUSE_PUBLIC_KEY=… LANGFUSE_SECRET_KEY=… go test ./.ci/witness/readback -theirs theirs.json
package readback

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"extraction-experiment/langfuse"
)

// theirs is the run as the SDK's script knows it; the item that failed is not
// among the items.
type theirs struct {
	Project, Dataset, DatasetName, Run, Experiment string
	Description, Failing                           string
	Started                                        time.Time
	Metadata                                       map[string]any
	RunScores                                      map[string]any
	Items                                          map[string]theirItem
}

type theirItem struct {
	Trace  string
	Output any
	Scores map[string]any
}

var theirsFile = flag.String("theirs", "", "what the SDK's script wrote down")

func TestReadback(t *testing.T) {
	if *theirsFile == "" {
		t.Skip("without -theirs there is nothing to compare with")
	}
	if err := run(t.Context(), *theirsFile); err != nil {
		t.Fatal(err)
	}
}

func run(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var want theirs
	if err := json.Unmarshal(text, &want); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	config, _, err := langfuse.ConfigFromEnv(os.LookupEnv)
	if err != nil {
		return err
	}
	client, err := langfuse.New(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	server, err := client.Probe(ctx)
	if err != nil {
		return err
	}
	r := reader{client: client, server: server, want: want}
	r.equal("the project", server.Project.ID, want.Project)
	for _, view := range server.Views() {
		if err := r.view(ctx, view); err != nil {
			return err
		}
	}
	if err := r.traces(ctx); err != nil {
		return err
	}
	if err := r.scores(ctx); err != nil {
		return err
	}
	return r.finish()
}

// reader reads the run and compares as it goes.
type reader struct {
	client       *langfuse.Client
	server       langfuse.Server
	want         theirs
	held, broken int
}

func (r *reader) equal(what string, came, expected any) {
	short := func(v any) string { return fmt.Sprintf("%.70s", fmt.Sprint(v)) }
	if reflect.DeepEqual(came, expected) {
		r.held++
		fmt.Printf("  ok    %s: expected %s, came %s\n", what, short(expected), short(came))
		return
	}
	r.broken++
	fmt.Printf("  WRONG %s\n        expected %v\n        came     %v\n", what, expected, came)
}

func (r *reader) finish() error {
	fmt.Printf("our client, server in mode %s: %d comparisons hold, %d do not\n", r.server.Mode(), r.held, r.broken)
	if r.broken > 0 {
		return errors.New("what our client reads is not what the SDK wrote")
	}
	return nil
}

// view compares the run and its items as one view shows them.
func (r *reader) view(ctx context.Context, view langfuse.View) error {
	ref := langfuse.RunRef{DatasetID: r.want.Dataset, Name: r.want.Run, DatasetName: r.want.DatasetName, Since: r.want.Started}
	in := fmt.Sprintf("in the view of %s: ", view)
	run, err := r.client.GetRun(ctx, r.server, view, ref)
	if err != nil {
		return err
	}
	r.equal(in+"id, name, description and number of items of the run", []any{run.ID, run.Name, run.Description, run.ItemCount},
		[]any{r.want.Experiment, r.want.Run, r.want.Description, len(r.want.Items) + 1})
	metadata := map[string]any{}
	if err := json.Unmarshal(run.Metadata, &metadata); err != nil {
		return fmt.Errorf("the run's metadata: %w", err)
	}
	r.equal(in+"metadata of the run", fmt.Sprint(metadata), fmt.Sprint(r.want.Metadata)) // v4 keeps texts only
	came, expected := map[string]string{}, map[string]string{}
	for item, err := range r.client.ListRunItems(ctx, r.server, view, ref) {
		if err != nil {
			return err
		}
		if came[item.ItemID] != "" {
			r.equal(in+"an item that is there twice", item.ItemID, "")
		}
		came[item.ItemID] = item.TraceID
	}
	r.equal(in+"the item that failed is there", came[r.want.Failing] != "", true)
	delete(came, r.want.Failing)
	for id, item := range r.want.Items {
		expected[id] = item.Trace
	}
	r.equal(in+"the trace of every item", came, expected)
	return nil
}

// traces compares what every trace holds.
func (r *reader) traces(ctx context.Context) error {
	came, expected, cost := map[string]any{}, map[string]any{}, 0.0
	for trace, err := range r.client.ReadTraces(ctx, r.server.Capabilities, r.traceIDs(), langfuse.TraceParts{IO: true}) {
		if err != nil {
			return err
		}
		var output any
		if err := json.Unmarshal(langfuse.DecodeJSON(trace.Output), &output); err != nil {
			return fmt.Errorf("the output of trace %s: %w", trace.ID, err)
		}
		came[trace.ID] = output
		for _, o := range trace.Observations {
			cost += float64(o.TotalCost)
		}
	}
	for _, item := range r.want.Items {
		expected[item.Trace] = item.Output
	}
	r.equal("the output of every trace", came, expected)
	r.equal("the cost of all traces", fmt.Sprintf("%.3f", cost), fmt.Sprintf("%.3f", 0.001*float64(len(expected))))
	return nil
}

// scores compares those of the run and of every item.
func (r *reader) scores(ctx context.Context) error {
	ref := langfuse.RunRef{DatasetID: r.want.Dataset, Name: r.want.Run}
	onRun := map[string]any{}
	for score, err := range r.client.ListRunScores(ctx, r.server, ref) {
		if err != nil {
			return err
		}
		onRun[score.Name] = value(score.Value)
	}
	r.equal("the scores of the run", onRun, r.want.RunScores)
	came, expected, twice := map[string]any{}, map[string]any{}, []string{}
	for score, err := range r.client.ReadScores(ctx, r.server.Capabilities, langfuse.ScoresQuery{TraceIDs: r.traceIDs()}) {
		if err != nil {
			return err
		}
		key := score.TraceID() + " " + score.Name
		if _, there := came[key]; there {
			twice = append(twice, key)
		}
		came[key] = value(score.Value)
	}
	for _, item := range r.want.Items {
		for name, v := range item.Scores {
			expected[item.Trace+" "+name] = v
		}
	}
	r.equal("the scores of every item", came, expected)
	r.equal("scores that are there twice", twice, []string{})
	return nil
}

func (r *reader) traceIDs() []string {
	var ids []string
	for _, item := range r.want.Items {
		ids = append(ids, item.Trace)
	}
	return ids
}

// value returns the score as JSON had it in the SDK's script.
func value(v langfuse.ScoreValue) any {
	if number, ok := v.Number(); ok {
		return number
	}
	text, _ := v.Text()
	return text
}
