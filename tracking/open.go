package tracking

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// open makes sure that every trial of the batch has an experiment id, asked
// for once in the life of the run: a second one would split it in two. An item
// that cannot be linked any more does not open its trial; the next one may.
func (p *Publisher) open(ctx context.Context, batch []runstore.Pending) error {
	for i := range batch {
		trial := batch[i].Trial
		if _, known := p.builders[trial]; known {
			continue
		}
		id, err := p.experimentID(ctx, &batch[i])
		if errors.Is(err, langfuse.ErrNotFound) {
			p.refuse(batch[i], runstore.Link, unlinkable(p.header, err, "nothing of it was sent"))
			continue
		}
		if err != nil {
			return err
		}
		made, err := newBuilder(p.header, trial, id)
		if err != nil {
			return err
		}
		builders := map[int]builder{trial: made}
		maps.Copy(builders, p.builders)
		p.builders = builders
	}
	return nil
}

// experimentID returns the committed id of a trial, or opens the run with the
// link of this outcome and commits what the server calls it. Where links are
// stored the outcome has its own with that.
func (p *Publisher) experimentID(ctx context.Context, o *runstore.Pending) (string, error) {
	h, trial := p.header, o.Trial
	known, ok, err := p.cfg.Run.Experiment(ctx, trial)
	if err != nil || ok {
		return known.ID, err
	}
	id := digest(8, h.RunUID, "experiment", RunName(h, trial))
	if h.Dataset.ID != "" {
		if id, err = p.link(ctx, h, *o); err != nil {
			return "", fmt.Errorf("opening the run in Langfuse: %w", err)
		}
	}
	err = p.cfg.Run.SetExperiment(ctx, runstore.Experiment{Trial: trial, ID: id, URL: pageOf(p.cfg, h, id)})
	if err != nil || h.Dataset.ID == "" || !p.cfg.Server.StoresLinks() {
		return id, err
	}
	o.Published |= runstore.Link
	return id, p.ack(ctx, runstore.Link, []runstore.Pending{*o})
}

// pageOf returns where to look at a run; "" where there is nothing to look at.
func pageOf(cfg Config, h outcome.Header, id string) string {
	base, project := cfg.Client.BaseURL(), cfg.Server.Project.ID
	switch {
	case !cfg.Pages:
		return ""
	case h.Dataset.ID != "":
		return langfuse.RunURL(base, project, h.Dataset.ID, id)
	case cfg.Server.NewReads:
		return langfuse.ExperimentsURL(base, project)
	}
	return "" // v3 shows traces only
}

// links sends the links of the flight, several at once. A server that stores
// none is not asked. An item that is gone cannot be linked, which holds up
// neither the others nor its own trace.
func (f *flight) links(ctx context.Context) error {
	var todo []runstore.Pending
	for _, o := range f.opened {
		if !o.Published.Has(runstore.Link) && !f.refused.has(o.OID) {
			todo = append(todo, o)
		}
	}
	if f.header.Dataset.ID == "" || !f.cfg.Server.StoresLinks() {
		return f.ack(ctx, runstore.Link, todo)
	}
	answers := make([]error, len(todo))
	group, inner := errgroup.WithContext(ctx)
	for i, o := range todo {
		f.linking <- struct{}{}
		group.Go(func() error {
			defer func() { <-f.linking }()
			_, answers[i] = f.link(inner, f.header, o)
			if errors.Is(answers[i], langfuse.ErrNotFound) {
				return nil
			}
			return answers[i]
		})
	}
	failure := group.Wait()
	var done []runstore.Pending
	for i, o := range todo {
		switch {
		case answers[i] == nil:
			done = append(done, o)
		case errors.Is(answers[i], langfuse.ErrNotFound):
			f.refuse(o, runstore.Link, unlinkable(f.header, answers[i], "its trace and scores were sent without"))
		}
	}
	return errors.Join(f.ack(ctx, runstore.Link, done), failure)
}

// unlinkable explains that an item is gone, in the same words for every item.
func unlinkable(h outcome.Header, err error, rest string) error {
	var answer *langfuse.APIError
	if errors.As(err, &answer) {
		err = answer
	}
	return fmt.Errorf("cannot be linked any more, because the item or its dataset %q was deleted in Langfuse; %s: %w", h.Dataset.Name, rest, err)
}

// link sends one link and returns the id of the run.
func (p *Publisher) link(ctx context.Context, h outcome.Header, o runstore.Pending) (string, error) {
	id := identify(h, o.Outcome)
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
		link.DatasetVersion = version.version.Time
	}
	answer, err := p.cfg.Client.CreateDatasetRunItem(ctx, link)
	gone := errors.Is(err, langfuse.ErrEndpointGone) || errors.Is(err, langfuse.ErrNotFound)
	if gone && !p.cfg.Server.StoresLinks() {
		// Nothing would have been stored; what it computes is known here too.
		return langfuse.ExperimentID(p.cfg.Server.Project.ID, h.Dataset.ID, link.RunName), nil
	}
	return answer.DatasetRunID, err
}
