package gold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/seed"
	"extraction-experiment/tracking"
)

// checkedConfig is the score configuration of a queue that is made here: the API
// asks for one. People may set it or not; a completed item counts.
const checkedConfig = "gold_checked"

// queue puts the items of findings into an annotation queue: for each its trace in the
// newest run, with a comment and a score that say what is doubtful. A trace that is
// there already is left alone, so that it is safe to repeat. An error with exit code 4
// names the items that could not be queued.
func (a *audited) queue(ctx context.Context, name string, create bool, findings []harness.Doubt) (*report.Queued, error) {
	if err := a.connect(ctx); err != nil {
		return nil, err
	}
	client, project := a.langfuse.Client, a.langfuse.Server.Project
	header, traces, err := a.traces(ctx, project)
	if err != nil {
		return nil, err
	}
	queue, created, err := openQueue(ctx, client, name, create)
	if err != nil {
		return nil, err
	}
	out := &report.Queued{Name: queue.Name, Created: created, Run: header.Name}
	var ready []string
	var failed []error
	byItem := map[string][]harness.Doubt{}
	for _, d := range findings {
		byItem[d.Item] = append(byItem[d.Item], d)
	}
	for _, d := range findings {
		trace, of := traces[d.Item], byItem[d.Item]
		delete(byItem, d.Item)
		if len(of) == 0 { // it had its turn
			continue
		}
		if trace == "" {
			failed = append(failed, fmt.Errorf("item %q: the run %s has no outcome of it", named(d.Item), header.Name))
			continue
		}
		err := remark(ctx, client, project, header, trace, of)
		api, answered := errors.AsType[*langfuse.APIError](err)
		switch {
		case err == nil:
			ready = append(ready, trace)
		case answered && api.Status < 500 && !errors.Is(err, langfuse.ErrUnauthorized):
			failed = append(failed, fmt.Errorf("item %q: trace %s: %w", named(d.Item), trace, err))
		default:
			return out, err
		}
	}
	added, err := client.QueueTraces(ctx, queue.ID, ready)
	out.Added, out.There, out.Failed = len(added), len(ready)-len(added), len(failed)
	if err != nil {
		return out, err
	}
	if len(failed) > 0 {
		return out, cli.Errorf(cli.ExitFailures, "%d of %d items were not queued:\n%w", len(failed), len(failed)+len(ready), errors.Join(failed...))
	}
	return out, nil
}

// traces returns the newest run that is in this Langfuse, and by item its trace there.
func (a *audited) traces(ctx context.Context, project langfuse.Project) (h outcome.Header, traces map[string]string, err error) {
	newest := -1
	for i, run := range a.runs {
		counts, err := run.Counts(ctx)
		if err != nil {
			return h, nil, err
		}
		if counts.Published > 0 && a.headers[i].Project == project.ID && (newest < 0 || a.headers[i].Started.After(a.headers[newest].Started)) {
			newest = i
		}
	}
	if newest < 0 {
		return h, nil, cli.Usage("none of the runs is in this Langfuse (%s), so that there is no trace to look at: experiment publish %s sends one there",
			a.langfuse.Client.BaseURL(), cli.Quote(a.header.Name))
	}
	h, traces = a.headers[newest], map[string]string{}
	for o, err := range a.runs[newest].Outcomes(ctx, runstore.Query{Newest: true, Trial: 1}) {
		if err != nil {
			return h, nil, err
		}
		traces[o.Item] = tracking.TraceID(h, o)
	}
	return h, traces, nil
}

// openQueue finds the queue, or makes it.
func openQueue(ctx context.Context, client *langfuse.Client, name string, create bool) (queue langfuse.AnnotationQueue, created bool, err error) {
	queue, err = client.GetAnnotationQueue(ctx, name)
	if !errors.Is(err, langfuse.ErrNotFound) {
		return queue, false, err
	}
	if !create {
		return queue, false, cli.Usage("%w; --create-queue makes it", err)
	}
	const task = "The gold of this item was looked at. Correct the output of the trace where gold is wrong, then complete the item."
	config := langfuse.ScoreConfig{Name: checkedConfig, Type: langfuse.ScoreBoolean, Description: task}
	for c, err := range client.ListScoreConfigs(ctx) {
		if err != nil {
			return queue, false, err
		}
		if c.Name == checkedConfig && c.Type == langfuse.ScoreBoolean && !c.Archived {
			config = c
		}
	}
	if config.ID == "" {
		if config, err = client.CreateScoreConfig(ctx, config); err != nil {
			return queue, false, err
		}
	}
	queue, err = client.CreateAnnotationQueue(ctx, langfuse.AnnotationQueue{Name: name, Description: task, ScoreConfigIDs: []string{config.ID}})
	return queue, true, err
}

// remark puts the comment and the score onto a trace. The same comment is not written
// twice, and the score of the same gold replaces itself.
func remark(ctx context.Context, client *langfuse.Client, project langfuse.Project, h outcome.Header, trace string, findings []harness.Doubt) error {
	doubt := seed.Doubt{Dataset: h.Dataset.Name, Item: findings[0].Item, Run: h.Name, Gold: findings[0].Gold}
	highest := 0.0
	var lines []string
	for _, d := range findings {
		doubt.Findings = append(doubt.Findings, d.Key)
		highest = max(highest, d.Doubt)
		lines = append(lines, fmt.Sprintf("%.2f %s: %s (%s)", d.Doubt, d.Kind, d.Change(), d.Reason))
	}
	text := textutil.Cut(strings.Join(lines, "\n"), 4000)
	there := false
	for c, err := range client.ListComments(ctx, langfuse.ObjectTrace, trace) {
		if err != nil {
			return err
		}
		there = there || c.Content == text
	}
	if !there {
		if _, err := client.CreateComment(ctx, langfuse.Comment{ProjectID: project.ID, ObjectType: langfuse.ObjectTrace, ObjectID: trace, Content: text}); err != nil {
			return err
		}
	}
	metadata, err := json.Marshal(doubt)
	if err != nil {
		return err
	}
	results, err := client.CreateScores(ctx, []langfuse.ScoreCreate{{
		ID: "gold-" + trace, Name: seed.DoubtScore, Value: langfuse.NumberValue(highest), Type: langfuse.ScoreNumeric,
		TraceID: trace, Comment: text, Metadata: metadata, Environment: h.ScoreEnvironment(), Timestamp: time.Now(),
	}})
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}
