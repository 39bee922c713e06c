package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Config configures Publish. Site.Client and Run are required.
type Config struct {
	Site
	Run *runstore.Run
	// LastTries is the number of failed rounds in a row, none of which published anything,
	// after which Publish gives up once the run is finished; 0 means 3.
	LastTries int
	// Patience is how long Publish waits at the end until the scores of replaced attempts
	// are deleted, because Langfuse queues deletions; 0 means two minutes. Scores that
	// Langfuse accepted but has not shown by then remain to be deleted.
	Patience time.Duration
	// Log receives messages that users do not need; nil discards them.
	Log *slog.Logger
	// Published, if not nil, is called with the number of outcomes published so far.
	Published func(outcomes int)
	// Summary returns the summary of the ended run, for a run of one trial. If it is nil,
	// Publish computes the summary from the run file.
	Summary func() (outcome.Summary, error)
	// Runner is the name and version of this program on the spans.
	Runner langfuse.Scope
}

// maxRequests bounds the concurrent requests for links, and also those for scores. A request
// holds one link or up to 100 scores.
const maxRequests = 64

// publisher publishes one run.
type publisher struct {
	cfg    Config
	header outcome.Header
	// refused holds a refusal for each outcome that Langfuse refused for good, by OID. They
	// stay unpublished in the run file.
	refused sync.Map
	// refusedRunScores holds the refused scores of the run as a whole.
	refusedRunScores []refusal
	finished         <-chan struct{} // closed when the run has finished
	rounds           []*round        // those under way, oldest first
	lastRead         int64           // the highest OID that a round has read
	builders         map[int]builder // of the trials that are open; replaced, never changed
	linkSlots        chan struct{}   // holds a value for each request for a link under way
	// spansTurn and scoresTurn hold a value while a round is in that stage.
	spansTurn, scoresTurn chan struct{}

	sent    int // outcomes that were published
	settled int // outcomes that were published or refused
	// datasetUnchecked is true if the dataset of the run is still to be compared. It is not if
	// there was no earlier attempt to publish: then it has just been read from here.
	datasetUnchecked bool
	serverChecked    bool // checkServerOnce has succeeded
	// withdrawals holds the withdrawals under way, by the OID of the attempt.
	withdrawals map[int64]*withdrawal
	// runScoresSent is true if the scores of the run as a whole are in Langfuse, or if
	// there are none because the run has not ended.
	runScoresSent bool
}

// Publish publishes the outcomes in the run file that are not acknowledged, including those
// committed while it runs. It returns when finished is closed and everything is sent. To
// publish a run that has ended, pass a closed channel.
//
// A round has up to 200 outcomes. It sends links, then spans, then scores, and acknowledges
// each stage in the run file. A stage of one round and the next stage of the previous round
// run concurrently. A round begins when 20 outcomes wait, at least a fifth of a second after
// the start of the previous one, or a second after it with fewer outcomes. A request holds
// the spans of many outcomes (up to 4 MiB, 512 KiB for the embedded server, and 512 spans),
// or up to 100 scores. If the run file has a footer, Publish sends the scores of the run as
// a whole together with the last round. At the end it deletes the published scores of
// attempts that newer ones replaced.
//
// Publish retries a failed round with growing pauses: without limit while the run goes on or
// rounds publish at least some outcomes, otherwise LastTries times. A wrong key ends it at
// once. It sets aside outcomes that Langfuse refuses for good, and publishes the rest. The
// error is an *UnpublishedError, which may wrap the cause of the end of ctx. If the run was
// published to another server, or if the dataset of that name has another id on this one,
// the error is a *WrongServerError; if another run has its name, it matches ErrNameTaken; and
// if the run is to be published in a form of a later version, it matches runstore.ErrNewer;
// nothing was sent.
//
// There must be at most one call for a run at a time. Publish never blocks the workers.
func Publish(ctx context.Context, cfg Config, finished <-chan struct{}) error {
	cfg.LastTries = cmp.Or(cfg.LastTries, 3)
	cfg.Patience = cmp.Or(cfg.Patience, 2*time.Minute)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	p := &publisher{
		cfg: cfg, finished: finished, builders: map[int]builder{}, withdrawals: map[int64]*withdrawal{},
		linkSlots: make(chan struct{}, maxRequests),
		spansTurn: make(chan struct{}, 1), scoresTurn: make(chan struct{}, 1),
	}
	return p.follow(ctx)
}

// follow carries out rounds until everything is sent, or an error ends it.
func (p *publisher) follow(ctx context.Context) error {
	failures, ending := 0, false
	for {
		began := time.Now()
		ready := p.waitReady(p.finished)
		last := limit.Closed(p.finished)
		if last && !ending {
			failures, ending = 0, true // failures during the run do not count
		}
		changed := p.cfg.Run.Changed() // before reading, so that no commit is missed
		settled := p.settled
		started, err := p.nextRound(ctx, ready, last)
		idle := started == 0 && p.settled == settled
		ended := err == nil && idle && last
		if ended {
			err = p.finish(ctx)
		}
		if p.settled > settled {
			failures = 0
		}
		switch {
		case ctx.Err() != nil:
			_ = p.waitAll(nil) // unpublishedError counts the rest
			return p.unpublishedError(context.Cause(ctx))
		case errors.As(err, new(*WrongServerError)), errors.Is(err, ErrNameTaken), errors.Is(err, runstore.ErrNewer):
			return err
		case errors.Is(err, langfuse.ErrUnauthorized):
			return p.unpublishedError(err)
		case err != nil:
			p.cfg.Log.Info("publishing will be tried again", "error", err)
			if failures++; last && failures >= p.cfg.LastTries {
				return p.unpublishedError(err)
			}
			finished := p.finished
			if last {
				finished = nil // it is closed
			}
			p.waitChange(ctx, min(retryDelayMin<<min(failures-1, 10), retryDelayMax), nil, finished)
		case ended:
			return p.unpublishedError(nil)
		case last || started >= roundSize:
		case idle:
			p.waitChange(ctx, 0, changed, p.finished)
			p.waitForRound(ctx, time.Now())
		default:
			p.waitForRound(ctx, began)
		}
	}
}

// finish sends the scores of the run as a whole, and deletes those of replaced attempts. It
// is called when all outcomes are sent.
func (p *publisher) finish(ctx context.Context) error {
	if err := p.checkServerOnce(ctx); err != nil {
		return err
	}
	if err := p.sendRunScores(ctx); err != nil {
		return err
	}
	return p.withdraw(ctx) // unpublishedError counts the rest
}

func (p *publisher) ack(ctx context.Context, stage runstore.Published, outcomes []runstore.Pending) error {
	if len(outcomes) == 0 {
		return nil
	}
	oids := cli.Each(outcomes, func(o runstore.Pending) int64 { return o.OID })
	return p.cfg.Run.Ack(context.WithoutCancel(ctx), stage, oids...)
}

// openTrials checks that the batch belongs to this server, and that every trial in it has an
// experiment id. It obtains the id only once in the life of the run, because a second id
// would split the run in two. If the item of an outcome cannot be linked because it was
// deleted, openTrials tries the next outcome of the trial. It returns the builders by trial.
func (p *publisher) openTrials(ctx context.Context, batch []runstore.Pending) (map[int]builder, error) {
	if err := p.checkServerOnce(ctx); err != nil {
		return nil, err
	}
	if p.datasetUnchecked {
		if err := p.cfg.checkDataset(ctx, p.header); err != nil {
			return nil, err
		}
		p.datasetUnchecked = false
	}
	builders := maps.Clone(p.builders)
	unlinkable := make([]error, len(batch))
	for i := range batch {
		trial := batch[i].Trial
		if _, known := builders[trial]; known {
			continue
		}
		id, err := p.experimentID(ctx, &batch[i])
		switch {
		case errors.Is(err, langfuse.ErrNotFound):
			unlinkable[i] = err
		case err != nil:
			return nil, err
		default:
			builders[trial] = newBuilder(p.header, trial, id)
		}
	}
	for i, err := range unlinkable {
		if err != nil {
			_, open := builders[batch[i].Trial]
			p.refuse(batch[i], runstore.Link, unlinkableError(p.header, err, open))
		}
	}
	p.builders = builders
	return builders, nil
}

// experimentID returns the committed id of a trial. If there is none, it opens the run in
// Langfuse with the link of this outcome and commits the id. If the server stores links, the
// link of the outcome is thereby sent.
func (p *publisher) experimentID(ctx context.Context, o *runstore.Pending) (string, error) {
	h, trial := p.header, o.Trial
	known, ok, err := p.cfg.Run.Experiment(ctx, trial)
	if err != nil || ok {
		return known.ID, err
	}
	id := digest(8, h.RunUID, "experiment", RunName(h, trial))
	if h.Dataset.ID != "" {
		if err = p.cfg.checkName(ctx, h, trial); err != nil {
			return "", err
		}
		if id, err = p.sendLink(ctx, *o, Metadata(h, trial)); err != nil {
			return "", fmt.Errorf("opening the run in Langfuse: %w", err)
		}
	}
	err = p.cfg.Run.SetExperiment(ctx, runstore.Experiment{Trial: trial, ID: id, URL: p.cfg.runURL(h, id)})
	if err != nil || h.Dataset.ID == "" || !p.cfg.Server.StoresLinks() {
		return id, err
	}
	o.Published |= runstore.Link
	return id, p.ack(ctx, runstore.Link, []runstore.Pending{*o})
}

// checkServerOnce reads the header, checks that this is the server of the run, and records
// the server in the run file before anything is sent. After a success it does nothing.
func (p *publisher) checkServerOnce(ctx context.Context) (err error) {
	if p.serverChecked {
		return nil
	}
	if p.header, err = p.cfg.Run.Header(ctx); err != nil {
		return err
	}
	known, movable, err := p.cfg.checkPlace(ctx, p.cfg.Run.Reader, p.header)
	if err == nil && movable && known != p.cfg.place() {
		err = p.cfg.Run.SetServer(ctx, p.cfg.place())
	}
	p.serverChecked, p.datasetUnchecked = err == nil, known != ""
	return err
}
