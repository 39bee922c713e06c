package tracking

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

// round publishes the next outcomes and returns how many it finished or set
// aside. What was acknowledged before an error stays acknowledged.
func (p *Publisher) round(ctx context.Context) (int, error) {
	batch, err := p.next(ctx)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	if p.header, err = p.cfg.Run.Header(ctx); err != nil {
		return 0, err
	}
	if err := p.open(ctx, batch); err != nil {
		return 0, err
	}
	for _, stage := range []func(context.Context, []runstore.Pending) error{p.links, p.traces, p.scores} {
		if err := stage(ctx, batch); err != nil {
			return 0, err
		}
	}
	for _, o := range batch {
		if p.refused[o.OID] == nil {
			p.sent++
		}
	}
	p.cfg.Published(p.sent)
	return len(batch), nil
}

// next returns outcomes that are not published, those set aside left out.
func (p *Publisher) next(ctx context.Context) ([]runstore.Pending, error) {
	var after int64
	for {
		page, err := p.cfg.Run.Unpublished(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].OID
		var batch []runstore.Pending
		for _, o := range page {
			if p.refused[o.OID] == nil {
				batch = append(batch, o)
			}
		}
		if len(batch) > 0 {
			return batch, nil
		}
	}
}

// open makes sure that every trial of the batch has an experiment id, asked
// for once in the life of the run: a second one would split it in two.
func (p *Publisher) open(ctx context.Context, batch []runstore.Pending) error {
	for _, o := range batch {
		trial := o.Trial
		if _, known := p.builders[trial]; known {
			continue
		}
		id, err := p.experimentID(ctx, o)
		if err != nil {
			return err
		}
		if p.builders[trial], err = newBuilder(p.header, trial, id); err != nil {
			return err
		}
	}
	return nil
}

// experimentID returns the committed id of a trial, or opens the run with the
// link of this outcome and commits what the server calls it.
func (p *Publisher) experimentID(ctx context.Context, o runstore.Pending) (string, error) {
	h, trial := p.header, o.Trial
	known, ok, err := p.cfg.Run.Experiment(ctx, trial)
	if err != nil || ok {
		return known.ID, err
	}
	id := digest(8, h.RunUID, "experiment", RunName(h, trial))
	url := langfuse.ExperimentsURL(p.cfg.Client.BaseURL(), p.cfg.Server.Project.ID)
	if h.Dataset.ID != "" {
		if id, err = p.link(ctx, o); err != nil {
			return "", fmt.Errorf("opening the run in Langfuse: %w", err)
		}
		url = langfuse.RunURL(p.cfg.Client.BaseURL(), p.cfg.Server.Project.ID, h.Dataset.ID, id)
	}
	return id, p.cfg.Run.SetExperiment(ctx, runstore.Experiment{Trial: trial, ID: id, URL: url})
}

// links sends the links of the batch. A server that stores none is not asked.
func (p *Publisher) links(ctx context.Context, batch []runstore.Pending) error {
	var todo []runstore.Pending
	for _, o := range batch {
		if !o.Published.Has(runstore.Link) {
			todo = append(todo, o)
		}
	}
	if p.header.Dataset.ID != "" && p.cfg.Server.StoresLinks() {
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(p.cfg.Links)
		for _, o := range todo {
			group.Go(func() error {
				_, err := p.link(inner, o)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return p.ack(ctx, runstore.Link, todo)
}

// link sends one link and returns the id of the run.
func (p *Publisher) link(ctx context.Context, o runstore.Pending) (string, error) {
	h, id := p.header, identify(p.header, o.Outcome)
	link := langfuse.DatasetRunItemCreate{
		RunName:        RunName(h, o.Trial),
		RunDescription: Description(h),
		Metadata:       Metadata(h, o.Trial),
		DatasetItemID:  o.Item,
		TraceID:        id.trace(),
		ObservationID:  id.span(0),
	}
	if p.cfg.Server.DatasetVersions() {
		version, err := ReopenDataset(p.cfg.Client, h.Dataset.ID, h.Dataset.Name, h.Dataset.Version)
		if err != nil {
			return "", err
		}
		link.DatasetVersion = version.version
	}
	answer, err := p.cfg.Client.CreateDatasetRunItem(ctx, link)
	if errors.Is(err, langfuse.ErrEndpointGone) {
		return langfuse.ExperimentID(p.cfg.Server.Project.ID, h.Dataset.ID, link.RunName), nil
	}
	return answer.DatasetRunID, err
}

// chunk is how many outcomes have their spans in memory at once.
const chunk = 20

// traces sends the spans of the batch, a chunk of outcomes at a time.
func (p *Publisher) traces(ctx context.Context, batch []runstore.Pending) error {
	var todo []runstore.Pending
	for _, o := range batch {
		if !o.Published.Has(runstore.Spans) {
			todo = append(todo, o)
		}
	}
	for len(todo) > 0 {
		n := min(chunk, len(todo))
		if err := p.export(ctx, todo[:n]); err != nil {
			return err
		}
		todo = todo[n:]
	}
	return nil
}

// export sends the spans of some outcomes. If the server refuses the request,
// each outcome is sent alone, so that one bad one does not hold up the others.
func (p *Publisher) export(ctx context.Context, some []runstore.Pending) error {
	var spans []langfuse.Span
	for _, o := range some {
		item, err := p.cfg.Run.Item(ctx, o.Item)
		if err != nil {
			return err
		}
		spans = append(spans, p.builders[o.Trial].spans(item.Item, o.Outcome)...)
	}
	err := p.send(ctx, spans)
	if err != nil && isRefusal(err) {
		if len(some) == 1 {
			p.refuse(some[0], err)
			return nil
		}
		for i := range some {
			if err := p.export(ctx, some[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return p.ack(ctx, runstore.Spans, some)
}

func (p *Publisher) send(ctx context.Context, spans []langfuse.Span) error {
	for batch := range langfuse.SplitSpans(spans, 0, 0) {
		if err := p.cfg.Client.ExportSpans(ctx, p.cfg.Runner, batch); err != nil {
			return err
		}
	}
	return nil
}

// scores sends the scores of the batch. An outcome whose scores were not all
// taken is not acknowledged: the next round sends them again, unchanged.
func (p *Publisher) scores(ctx context.Context, batch []runstore.Pending) error {
	var todo []runstore.Pending
	var scores []langfuse.ScoreCreate
	owner := map[string]int{}
	for _, o := range batch {
		if o.Published.Has(runstore.Scores) || p.refused[o.OID] != nil {
			continue
		}
		for _, s := range p.builders[o.Trial].scores(o.Outcome) {
			owner[s.ID] = len(todo)
			scores = append(scores, s)
		}
		todo = append(todo, o)
	}
	results, failure := p.cfg.Client.CreateScores(ctx, scores)
	incomplete := make([]bool, len(todo))
	for _, r := range results {
		i := owner[r.ID]
		incomplete[i] = incomplete[i] || r.State != langfuse.ScoreAccepted
		if r.State == langfuse.ScoreRefused {
			p.refuse(todo[i], r.Err)
		} else if r.Err != nil && failure == nil {
			failure = r.Err
		}
	}
	var done []runstore.Pending
	for i, o := range todo {
		if !incomplete[i] {
			done = append(done, o)
		}
	}
	return errors.Join(p.ack(ctx, runstore.Scores, done), failure)
}

func (p *Publisher) ack(ctx context.Context, stage runstore.Published, some []runstore.Pending) error {
	if len(some) == 0 {
		return nil
	}
	acks := make([]runstore.Ack, len(some))
	for i, o := range some {
		acks[i] = runstore.Ack{OID: o.OID, Bits: stage}
	}
	return p.cfg.Run.Ack(context.WithoutCancel(ctx), acks...)
}

// refuse sets an outcome aside.
func (p *Publisher) refuse(o runstore.Pending, err error) {
	err = fmt.Errorf("item %q: %w", o.Item, err)
	p.refused[o.OID] = err
	p.cfg.Log.Error("Langfuse refuses a result for good", "error", err)
}

// isRefusal reports whether the same request can never succeed.
func isRefusal(err error) bool {
	if errors.Is(err, langfuse.ErrTooLarge) {
		return true
	}
	var api *langfuse.APIError
	if errors.As(err, &api) {
		return api.Status == http.StatusBadRequest
	}
	var connection *langfuse.ConnectionError
	return !errors.As(err, &connection) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
