package tracking

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

// Embedded is the place of a run that is published to the embedded server of its
// folder, whose address is another one each time.
const Embedded = "embedded"

// site is the server that is asked, and what it is called.
type site struct {
	client *langfuse.Client
	server langfuse.Server
	place  string // "" is the client's address
}

func (s site) name() string {
	if s.place == "" {
		return s.client.BaseURL()
	}
	return s.place
}

// ElsewhereError says that a run was published to another server than the one
// that is asked now.
type ElsewhereError struct {
	Run       string
	Published string // where it is
	Asked     string
}

// Error tells which variables lead to the right one.
func (e *ElsewhereError) Error() string {
	way := fmt.Sprintf("set %s to %s, and %s and %s to its keys", langfuse.EnvBaseURL, e.Published, langfuse.EnvPublicKey, langfuse.EnvSecretKey)
	if e.Published == Embedded {
		way = fmt.Sprintf("unset %s, %s and %s in the folder that it was run in", langfuse.EnvBaseURL, langfuse.EnvPublicKey, langfuse.EnvSecretKey)
	}
	return fmt.Sprintf("the run %q was published to %s, and this is %s, which shows nothing of it; nothing was written; %s",
		e.Run, placeName(e.Published), placeName(e.Asked), way)
}

// ExitCode returns 64: the variables name the wrong server.
func (*ElsewhereError) ExitCode() int { return 64 }

func placeName(place string) string {
	if place == Embedded {
		return "the embedded server of its folder"
	}
	return place
}

// OtherDatasetError says that the dataset of a run is another one there.
type OtherDatasetError struct {
	Run, Dataset string
	Had, Has     string // ids
	Asked        string // the server
}

// Error tells both ids and what that means.
func (e *OtherDatasetError) Error() string {
	return fmt.Sprintf("the run %q was made over the dataset %q with the id %s, and on %s the dataset of that name has the id %s: "+
		"it was deleted and made again, or this is another server; nothing was written; run anew over this dataset, or set %s to the server of the run",
		e.Run, e.Dataset, e.Had, placeName(e.Asked), e.Has, langfuse.EnvBaseURL)
}

// ExitCode returns 64: what is asked for cannot be done here.
func (*OtherDatasetError) ExitCode() int { return 64 }

// isMisplaced reports whether an error says that this is not the run's server.
func isMisplaced(err error) bool {
	var elsewhere *ElsewhereError
	var other *OtherDatasetError
	return errors.As(err, &elsewhere) || errors.As(err, &other)
}

// checkPlace returns an *ElsewhereError if the run was published to a server of
// another name, unless nothing was opened or acknowledged there, which leaves the
// run free to go elsewhere, or this one shows the run or a trace of it: then it is
// the same server under another address. The names are compared in the run file
// alone; only when they differ is the server asked.
func (s site) checkPlace(ctx context.Context, run *runstore.Reader) (free bool, err error) {
	known, err := run.Place(ctx)
	if err != nil {
		return false, err
	}
	header, err := run.Header(ctx)
	if err != nil {
		return false, err
	}
	if known == s.name() {
		return false, nil
	}
	traces, err := acknowledged(ctx, run, header)
	if err != nil || known == "" {
		return len(traces) == 0, err
	}
	opened, err := openedRuns(ctx, run, header)
	if err != nil {
		return false, err
	}
	if len(traces) == 0 && len(opened) == 0 {
		return true, nil
	}
	if shown, err := s.showsTrace(ctx, traces); err != nil || shown {
		return false, err
	}
	if shown, err := s.showsRun(ctx, opened); err != nil || shown {
		return false, err
	}
	return false, &ElsewhereError{header.Name, known, s.name()}
}

// checkDataset returns an *OtherDatasetError if the dataset of the run has
// another id than it had. One that is gone is no such error: what hangs on it
// says so.
func (s site) checkDataset(ctx context.Context, run *runstore.Reader) error {
	header, err := run.Header(ctx)
	if err != nil || header.Dataset.ID == "" {
		return err
	}
	found, err := s.client.GetDataset(ctx, header.Dataset.Name)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the dataset of the run: %w", err)
	}
	if found.ID != header.Dataset.ID {
		return &OtherDatasetError{header.Name, header.Dataset.Name, header.Dataset.ID, found.ID, s.name()}
	}
	return nil
}

// place makes sure, once, that this is the server of the run, and notes which
// one that is before anything is sent.
func (p *Publisher) place(ctx context.Context) error {
	if p.placed {
		return nil
	}
	here := site{p.cfg.Client, p.cfg.Server, p.cfg.Place}
	free, err := here.checkPlace(ctx, p.cfg.Run.Reader)
	if err != nil {
		return err
	}
	known, err := p.cfg.Run.Place(ctx)
	if err != nil {
		return err
	}
	if free && known != here.name() {
		if err := p.cfg.Run.SetPlace(ctx, here.name()); err != nil {
			return err
		}
	}
	p.placed, p.unchecked = true, known != ""
	return nil
}

// dataset makes sure, once, that outcomes go to the dataset that they are of. A
// run that nobody tried to publish before is not checked: its dataset was read
// here a moment ago.
func (p *Publisher) dataset(ctx context.Context) error {
	if !p.unchecked {
		return nil
	}
	err := site{p.cfg.Client, p.cfg.Server, p.cfg.Place}.checkDataset(ctx, p.cfg.Run.Reader)
	p.unchecked = err != nil
	return err
}
