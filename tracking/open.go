package tracking

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

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
	if h.Dataset.ID != "" {
		if id, err = p.link(ctx, o); err != nil {
			return "", fmt.Errorf("opening the run in Langfuse: %w", err)
		}
	}
	return id, p.cfg.Run.SetExperiment(ctx, runstore.Experiment{Trial: trial, ID: id, URL: p.page(id)})
}

// page returns where to look at the run; "" where there is nothing to look at.
func (p *Publisher) page(id string) string {
	base, project := p.cfg.Client.BaseURL(), p.cfg.Server.Project.ID
	switch {
	case !p.cfg.Pages:
		return ""
	case p.header.Dataset.ID == "":
		return langfuse.ExperimentsURL(base, project)
	}
	return langfuse.RunURL(base, project, p.header.Dataset.ID, id)
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
