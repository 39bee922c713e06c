package tracking

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Site is a Langfuse server.
type Site struct {
	Client *langfuse.Client
	// Server is the result of the client's Probe.
	Server langfuse.Server
	// Embedded marks the embedded server of this folder. It has no pages to link to, and
	// shows everything that it accepted at once.
	Embedded bool
}

// runURL returns the address of the page of a run, or "" if there is none.
func (s Site) runURL(h outcome.Header, id string) string {
	base, project := s.Client.BaseURL(), s.Server.Project.ID
	switch {
	case s.Embedded:
		return ""
	case h.Dataset.ID != "":
		return langfuse.RunURL(base, project, h.Dataset.ID, id)
	case s.Server.NewReads:
		return langfuse.ExperimentsURL(base, project)
	}
	return "" // v3 shows only traces
}

// Embedded is the place of a run that is published to the embedded server of its folder. It
// stands for the address, which differs at each start of that server.
const Embedded = "embedded"

// place returns the name of the server in a run file. A run is published to one server only.
func (s Site) place() string {
	if s.Embedded {
		return Embedded
	}
	return s.Client.BaseURL()
}

// WrongServerError reports that a run does not belong to the current server: it was published
// to another server, or the dataset of that name has another id on this one.
type WrongServerError struct{ reason string }

// Error names the variables to set for the right server, or describes the dataset.
func (e *WrongServerError) Error() string { return e.reason }

// ExitCode returns 64, a usage error.
func (*WrongServerError) ExitCode() int { return cli.ExitUsage }

// newElsewhereError returns the error for a run that was published to another server.
func newElsewhereError(run, published, current string) *WrongServerError {
	advice := fmt.Sprintf("set %s to %s, and %s and %s to its keys", langfuse.EnvBaseURL, published, langfuse.EnvPublicKey, langfuse.EnvSecretKey)
	if published == Embedded {
		advice = fmt.Sprintf("unset %s, %s and %s in the folder that it was run in", langfuse.EnvBaseURL, langfuse.EnvPublicKey, langfuse.EnvSecretKey)
	}
	return &WrongServerError{fmt.Sprintf("the run %q was published to %s, and this is %s, which shows nothing of it; nothing was written; %s",
		run, serverLabel(published), serverLabel(current), advice)}
}

func serverLabel(place string) string {
	if place == Embedded {
		return "the embedded server of its folder"
	}
	return place
}

// probedTraces is the number of acknowledged traces to look for on a server with another
// address than the one that acknowledged them.
const probedTraces = 3

// checkPlace returns a *runstore.Fault for a run of a newer form of publication, and a
// *WrongServerError if the run file names another server than this one.
// There are two exceptions. If the other server neither opened the run nor acknowledged
// anything, the run is movable to this one. If this server shows a trace of the run, it is
// the same server under another address. checkPlace sends requests only if the names differ.
// It returns the name in the run file, which is empty if there is none.
func (s Site) checkPlace(
	ctx context.Context, run *runstore.Reader, header outcome.Header,
) (known string, movable bool, err error) {
	if form := header.Publication.Form; form > outcome.PublicationForm {
		return "", false, &runstore.Fault{Path: run.Path(), Kind: runstore.ErrNewer,
			Err: fmt.Errorf("it is published in form %d, and this program knows %d", form, outcome.PublicationForm)}
	}
	if known, err = run.Server(ctx); err != nil || known == s.place() {
		return known, false, err
	}
	sent, err := run.Acknowledged(ctx, runstore.Spans, probedTraces)
	if err != nil || known == "" {
		return known, len(sent) == 0, err
	}
	// Without a dataset, the publisher derives the ids of trials before it sends anything.
	opened, err := run.Experiments(ctx)
	if err != nil || len(sent) == 0 && (len(opened) == 0 || header.Dataset.ID == "") {
		return known, true, err
	}
	ids := cli.Each(sent, func(o runstore.Pending) string { return TraceID(header, o.Outcome) })
	shown, err := s.readTraces(ctx, ids, langfuse.TraceParts{})
	if err == nil && len(shown) == 0 {
		err = newElsewhereError(header.Name, known, s.place())
	}
	return known, false, err
}

// checkDataset returns a *WrongServerError if the dataset with the name of the run's dataset
// has another id. A deleted dataset is not an error here: links to its items will fail.
func (s Site) checkDataset(ctx context.Context, header outcome.Header) error {
	if header.Dataset.ID == "" {
		return nil
	}
	found, err := s.Client.GetDataset(ctx, header.Dataset.Name)
	switch {
	case errors.Is(err, langfuse.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the dataset of the run: %w", err)
	case found.ID != header.Dataset.ID:
		again := "it was deleted and made again, or this is another server"
		if s.Embedded {
			again = "it was deleted and made again, perhaps with all of langfuse.db, or this is another folder"
		}
		return &WrongServerError{fmt.Sprintf("the run %q was made over the dataset %q with the id %s, and on %s the dataset of that name has the id %s: "+
			"%s; nothing was written; run again over this dataset, or set %s to the server of the run",
			header.Name, header.Dataset.Name, header.Dataset.ID, serverLabel(s.place()), found.ID, again, langfuse.EnvBaseURL)}
	}
	return nil
}

// ErrNameTaken is the error for a run that is not published because Langfuse has another one of its name.
var ErrNameTaken = errors.New("is the name of another run")

// checkName returns ErrNameTaken if the server has a run with the name of this trial that is not this one: of
// two that began at once, or a copy made elsewhere. The first item listed shows whose it is, since this run may
// have been opened by a process that could not commit its id.
func (s Site) checkName(ctx context.Context, h outcome.Header, trial int) error {
	ref := langfuse.RunRef{DatasetID: h.Dataset.ID, Name: RunName(h, trial)}
	for _, view := range s.Server.Views() {
		for item, err := range s.Client.ListRunItems(ctx, s.Server, view, ref) {
			if errors.Is(err, langfuse.ErrNotFound) {
				break
			}
			if err != nil {
				return fmt.Errorf("looking for another run of that name: %w", err)
			}
			for attempt := 1; attempt <= maxOwnAttempts; attempt++ {
				if (identity{h.RunUID, item.ItemID, trial, attempt}).trace() == item.TraceID {
					return nil
				}
			}
			return cli.Usage("%q %w in Langfuse (%s): nothing was written; experiment rescore %s --name NEW copies this run, "+
				"and experiment publish NEW sends the copy", ref.Name, ErrNameTaken, serverLabel(s.place()), cli.Quote(h.Name))
		}
	}
	return nil
}

// find looks for a run by its name in the views of the server, and returns the first view
// that has it.
func (s Site) find(ctx context.Context, ref langfuse.RunRef) (run langfuse.Run, in langfuse.View, err error) {
	for _, in = range s.Server.Views() {
		run, err = s.Client.GetRun(ctx, s.Server, in, ref)
		if !errors.Is(err, langfuse.ErrNotFound) {
			break
		}
	}
	return run, in, err
}

// readScores reads the scores of traces, by trace id.
func (s Site) readScores(ctx context.Context, traces []string) (map[string][]langfuse.Score, error) {
	found := map[string][]langfuse.Score{}
	if len(traces) == 0 { // an empty query would read all scores of the project
		return found, nil
	}
	query := langfuse.ScoresQuery{TraceIDs: traces, Limit: 100}
	for score, err := range s.Client.ReadScores(ctx, s.Server.Capabilities, query) {
		if err != nil {
			return nil, err
		}
		found[score.TraceID()] = append(found[score.TraceID()], score)
	}
	return found, nil
}

// readTraces reads traces. The result is by trace id, without those that do not exist.
func (s Site) readTraces(ctx context.Context, ids []string, want langfuse.TraceParts) (map[string]langfuse.Trace, error) {
	found := map[string]langfuse.Trace{}
	for trace, err := range s.Client.ReadTraces(ctx, s.Server.Capabilities, ids, want) {
		if err != nil {
			return nil, err
		}
		found[trace.ID] = trace
	}
	return found, nil
}

// deleteScores deletes scores. It ignores those that do not exist.
func (s Site) deleteScores(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.Client.DeleteScore(ctx, id); err != nil && !errors.Is(err, langfuse.ErrNotFound) {
			return err
		}
	}
	return nil
}

// readableScores returns the ids of the scores that Langfuse shows.
func (s Site) readableScores(ctx context.Context, ids []string) (map[string]bool, error) {
	found := map[string]bool{}
	if len(ids) == 0 {
		return found, nil
	}
	for score, err := range s.Client.ReadScores(ctx, s.Server.Capabilities, langfuse.ScoresQuery{IDs: ids, Limit: 100}) {
		if err != nil {
			return nil, fmt.Errorf("looking for scores to delete: %w", err)
		}
		found[score.ID] = true
	}
	return found, nil
}
