package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Bounds of one round of publishing; see Publish.
const (
	roundSize  = 200         // outcomes read from the run file at once
	many       = 20          // outcomes for which a round begins at once,
	stride     = linger / 5  // but not sooner than this after the one before;
	linger     = time.Second // for fewer it waits so long that there are more
	firstPause = time.Second // after a round that failed
	maxPause   = 30 * time.Second
)

// Site is a server of Langfuse.
type Site struct {
	Client *langfuse.Client
	// Server is what the client's Probe found.
	Server langfuse.Server
	// Embedded says that it is the server of this folder, which has no pages for
	// links to lead to, and shows at once what it has taken.
	Embedded bool
}

// Config says what to publish, and where. Site.Client and Run are required.
type Config struct {
	Site
	Run *runstore.Run
	// LastTries is how often a round may fail in a row, and get nothing there, once
	// the run is finished before Publish gives up; 0 means 3.
	LastTries int
	// Patience is how long Publish waits, when all is sent, until the scores of
	// replaced attempts are gone; 0 means two minutes: Langfuse queues deletions.
	// Those that it took and did not show meanwhile stay to be withdrawn.
	Patience time.Duration
	// Log takes what a person need not see; nil means nowhere.
	Log *slog.Logger
	// Published is told how many outcomes are in Langfuse now; nil is told nothing.
	Published func(outcomes int)
	// Withdrawing is told of how many replaced attempts the scores are still to go,
	// while that is waited for, and 0 when it is not any more; nil is told nothing.
	Withdrawing func(attempts int)
	// Summary is what a run that has ended came to, where somebody knows it; nil has it
	// summed up from the run file.
	Summary func() (outcome.Summary, error)
	// Runner names this program on the spans, with its version.
	Runner langfuse.Scope
}

// requests is how many requests are under way at once, of a link each or of up to 100
// scores.
const requests = 64

// publisher carries one run into Langfuse.
type publisher struct {
	cfg    Config
	header outcome.Header
	// refused is what Langfuse will never take; it stays unpublished in the run
	// file.
	refused refused
	// refusedTotals holds why Langfuse will never take scores of the run.
	refusedTotals []error
	finished      <-chan struct{} // closed when the run has
	inFlight      inFlightBatches
	read          int64         // the last outcome that was in a round
	linking       chan struct{} // takes requests, one for each link under way
	sent          int
	unchecked     bool // whether the dataset is still that of the run
	placed        bool // it is known that this is the run's server
	// withdrawals by outcome, as far as they are under way.
	withdrawals map[int64]*withdrawal
	// totalled: the scores of the run as a whole are in Langfuse, or the run has
	// not ended.
	totalled bool
}

// Publish publishes what is committed to the run file and not acknowledged,
// and what is committed meanwhile, until finished is closed and all of it is
// sent. Give it a closed channel to publish a run that has ended.
//
// Each round takes up to 200 outcomes: links, then spans, then scores, in that
// order, and acknowledges each stage in the run file. A stage of one round and the
// next stage of the round before are on their way together. A round begins when 20
// outcomes wait, a fifth of a second after the one before at the earliest, or a second
// after it with fewer. Spans of many outcomes share a request (4 MiB, to the embedded
// server 512 KiB, and 512 spans), and so do 100 scores. With the last round go the scores of
// the run as a whole, if the run file has a footer, and then what was published of attempts
// that newer ones replaced is withdrawn.
//
// A round that fails is tried again, with growing pauses; while the run goes on, or
// some of it gets there, without end, after that LastTries times. A wrong key ends it
// at once. What Langfuse refuses for good is set aside and does not hold up the rest.
// The error is an *UnpublishedError, or that of ctx. Where it turns out that the run
// was published to another server, or that its dataset is another one here, it is an
// *ElsewhereError, and nothing was sent.
//
// Only one may be under way for a run. It never touches what the workers wait for.
func Publish(ctx context.Context, cfg Config, finished <-chan struct{}) error {
	cfg.LastTries = cmp.Or(cfg.LastTries, 3)
	cfg.Patience = cmp.Or(cfg.Patience, 2*time.Minute)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Published == nil {
		cfg.Published = func(int) {}
	}
	if cfg.Withdrawing == nil {
		cfg.Withdrawing = func(int) {}
	}
	p := &publisher{
		cfg: cfg, finished: finished, linking: make(chan struct{}, requests),
		refused: refused{by: map[int64]refusal{}}, withdrawals: map[int64]*withdrawal{},
	}
	return p.follow(ctx)
}

// follow carries out one round after the other until nothing is left, or cannot be sent.
func (p *publisher) follow(ctx context.Context) error {
	failures, ending := 0, false
	for {
		began := time.Now()
		ready := p.inFlight.ready(p.finished)
		last := limit.Closed(p.finished)
		if last && !ending {
			failures, ending = 0, true // what failed during the run does not count
		}
		more := p.cfg.Run.Changed() // before reading, so that no commit is missed
		done, err := p.round(ctx, ready, last)
		idle := done == progress{}
		ended := err == nil && idle && last
		if ended {
			err = p.conclude(ctx)
		}
		if done.finished > 0 {
			failures = 0
		}
		switch {
		case ctx.Err() != nil:
			_, _ = p.waitAll(done, nil) // what it lacks is counted
			return p.unpublished(context.Cause(ctx))
		case errors.As(err, new(*ElsewhereError)):
			return err
		case errors.Is(err, langfuse.ErrUnauthorized):
			return p.unpublished(err)
		case err != nil:
			p.cfg.Log.Info("publishing will be tried again", "error", err)
			if failures++; last && failures >= p.cfg.LastTries {
				return p.unpublished(err)
			}
			finished := p.finished
			if last {
				finished = nil
			}
			p.wait(ctx, pause(failures), nil, finished)
		case ended:
			return p.unpublished(nil)
		case last || done.took >= roundSize:
		case idle:
			p.wait(ctx, 0, more, p.finished)
			p.fill(ctx, time.Now())
		default:
			p.fill(ctx, began)
		}
	}
}

// conclude sends what concerns the run as a whole, when everything else is sent.
func (p *publisher) conclude(ctx context.Context) error {
	if err := p.place(ctx); err != nil {
		return err
	}
	if err := p.totals(ctx); err != nil {
		return err
	}
	return p.withdraw(ctx) // what is left is counted in unpublished
}

// progress is what a round did.
type progress struct {
	took     int // outcomes that it began with
	finished int // outcomes that are published or set aside now, also of rounds before
}

// round sends the next outcomes on their way. Where more are to follow soon it does
// not wait for them to arrive; see inFlightBatch. What was acknowledged before an error stays
// acknowledged. Where it is not ready, as inFlightBatches.ready says, nothing new is sent.
// Last says that the run has ended: its own scores go beside its last outcomes, also
// where those are on their way already.
func (p *publisher) round(ctx context.Context, ready, last bool) (progress, error) {
	var done progress
	if !ready {
		return p.waitAll(done, nil)
	}
	batch, err := p.next(ctx)
	if err != nil {
		return p.waitAll(done, err)
	}
	if last && len(batch) == roundSize && !p.inFlight.ready(nil) {
		return p.waitAll(done, nil)
	}
	if done.took = len(batch); done.took > 0 {
		builders, err := p.open(ctx, batch)
		if err != nil {
			return p.waitAll(done, err)
		}
		p.start(ctx, batch, builders)
	}
	if last && len(batch) < roundSize && len(p.inFlight) > 0 {
		return p.waitAll(done, p.totals(ctx))
	}
	if f := p.inFlight.newest(); len(batch) == 0 && f != nil {
		select {
		case <-f.left[scored]:
		case <-p.finished:
		}
	}
	if done.finished, err = p.collect(); err != nil {
		return p.waitAll(done, err)
	}
	return done, nil
}

// next returns outcomes that are not published, those set aside left out. As long
// as others are on their way, only those after them: what failed before is taken
// up again when no others come.
func (p *publisher) next(ctx context.Context) ([]runstore.Pending, error) {
	after := int64(0)
	if f := p.inFlight.newest(); f != nil {
		after = f.batch[len(f.batch)-1].OID
	}
	for {
		page, err := p.cfg.Run.Unpublished(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return nil, err
		}
		after = page[len(page)-1].OID
		p.read = max(p.read, after)
		page = slices.DeleteFunc(page, func(o runstore.Pending) bool { return p.refused.of(o.OID).part != 0 })
		if len(page) > 0 {
			return page, nil
		}
	}
}

func (p *publisher) ack(ctx context.Context, stage runstore.Published, some []runstore.Pending) error {
	if len(some) == 0 {
		return nil
	}
	oids := cli.Each(some, func(o runstore.Pending) int64 { return o.OID })
	return p.cfg.Run.Ack(context.WithoutCancel(ctx), stage, oids...)
}

// open makes sure that the batch may go to this server, and that every trial of it has
// an experiment id, asked for once in the life of the run: a second one would split it in two. An item
// that cannot be linked any more does not open its trial; the next one may. It
// returns the builders of the trials.
func (p *publisher) open(ctx context.Context, batch []runstore.Pending) (map[int]builder, error) {
	if err := p.place(ctx); err != nil {
		return nil, err
	}
	if err := p.dataset(ctx); err != nil {
		return nil, err
	}
	builders := map[int]builder{}
	for i := range batch {
		trial := batch[i].Trial
		if _, known := builders[trial]; known {
			continue
		}
		id, err := p.experimentID(ctx, &batch[i])
		switch {
		case errors.Is(err, langfuse.ErrNotFound):
			p.refuse(batch[i], runstore.Link, unlinkable(p.header, err, "nothing of it was sent"))
		case err != nil:
			return nil, err
		default:
			builders[trial] = newBuilder(p.header, trial, id)
		}
	}
	return builders, nil
}

// experimentID returns the committed id of a trial, or opens the run with the
// link of this outcome and commits what the server calls it. Where links are
// stored the outcome has its own with that.
func (p *publisher) experimentID(ctx context.Context, o *runstore.Pending) (string, error) {
	h, trial := p.header, o.Trial
	known, ok, err := p.cfg.Run.Experiment(ctx, trial)
	if err != nil || ok {
		return known.ID, err
	}
	id := digest(8, h.RunUID, "experiment", RunName(h, trial))
	if h.Dataset.ID != "" {
		if id, err = p.link(ctx, h, *o, Metadata(h, trial)); err != nil {
			return "", fmt.Errorf("opening the run in Langfuse: %w", err)
		}
	}
	err = p.cfg.Run.SetExperiment(ctx, runstore.Experiment{Trial: trial, ID: id, URL: p.cfg.page(h, id)})
	if err != nil || h.Dataset.ID == "" || !p.cfg.Server.StoresLinks() {
		return id, err
	}
	o.Published |= runstore.Link
	return id, p.ack(ctx, runstore.Link, []runstore.Pending{*o})
}

// page returns where to look at a run; "" where there is nothing to look at.
func (s Site) page(h outcome.Header, id string) string {
	base, project := s.Client.BaseURL(), s.Server.Project.ID
	switch {
	case s.Embedded:
		return ""
	case h.Dataset.ID != "":
		return langfuse.RunURL(base, project, h.Dataset.ID, id)
	case s.Server.NewReads:
		return langfuse.ExperimentsURL(base, project)
	}
	return "" // v3 shows traces only
}

// links sends the links of the batch, several at once. A server that stores
// none is not asked. An item that is gone cannot be linked, which holds up
// neither the others nor its own trace.
func (f *inFlightBatch) links(ctx context.Context) error {
	var todo []runstore.Pending
	for _, o := range f.opened {
		if !o.Published.Has(runstore.Link) && f.refused.of(o.OID).part == 0 {
			todo = append(todo, o)
		}
	}
	if f.header.Dataset.ID == "" || !f.cfg.Server.StoresLinks() {
		return f.ack(ctx, runstore.Link, todo)
	}
	var mu sync.Mutex
	var done []runstore.Pending
	group, inner := errgroup.WithContext(ctx)
	for _, o := range todo {
		f.linking <- struct{}{}
		group.Go(func() error {
			defer func() { <-f.linking }()
			_, err := f.link(inner, f.header, o, f.builders[o.Trial].metadata)
			if errors.Is(err, langfuse.ErrNotFound) {
				f.refuse(o, runstore.Link, unlinkable(f.header, err, "its trace and scores were sent without"))
				return nil
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				done = append(done, o)
			}
			return err
		})
	}
	failure := group.Wait()
	return errors.Join(f.ack(ctx, runstore.Link, done), failure)
}

// unlinkable explains that an item is gone, in the same words for every item.
func unlinkable(h outcome.Header, err error, rest string) error {
	if answer, ok := errors.AsType[*langfuse.APIError](err); ok {
		err = answer
	}
	return fmt.Errorf("cannot be linked any more, because the item or its dataset %q was deleted in Langfuse; %s: %w", h.Dataset.Name, rest, err)
}

// link sends one link and returns the id of the run.
func (p *publisher) link(
	ctx context.Context, h outcome.Header, o runstore.Pending, metadata map[string]string,
) (string, error) {
	of := identify(h, o.Outcome)
	link := langfuse.DatasetRunItemCreate{
		RunName:        RunName(h, o.Trial),
		RunDescription: description(h),
		Metadata:       metadata,
		DatasetItemID:  o.Item,
		TraceID:        of.trace(),
		ObservationID:  of.span(0),
	}
	if p.cfg.Server.DatasetVersions() {
		link.DatasetVersion = h.Dataset.Version
	}
	id, err := p.cfg.Client.CreateDatasetRunItem(ctx, link)
	gone := errors.Is(err, langfuse.ErrEndpointGone) || errors.Is(err, langfuse.ErrNotFound)
	if gone && !p.cfg.Server.StoresLinks() {
		// Nothing would have been stored; what it computes is known here too.
		return langfuse.ExperimentID(p.cfg.Server.Project.ID, h.Dataset.ID, link.RunName), nil
	}
	return id, err
}
