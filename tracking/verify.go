package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/stats"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// VerifyConfig configures Verify. Site.Client and Run are required.
type VerifyConfig struct {
	Site
	Run *runstore.Reader
	// Wait.Timeout is the time without progress after which missing parts count as missing;
	// 0 means two minutes. If it is negative, Verify looks only once.
	Wait langfuse.Wait
	// OnVerification, if not nil, is called with the verification of each look.
	OnVerification func(Verification)
	// OnCompared, if not nil, is called with the number of outcomes that a look has compared so
	// far.
	OnCompared func(outcomes int)
}

// Verify reads a run back from Langfuse and compares it with the run file. It compares the
// newest attempt of each item: the spans of its trace, its entries in the lists of runs and
// of experiments (those that the server has), and its scores, each of which must exist once
// and have its value. It also compares the scores of the run. Of the spans it checks that
// they exist, the level of failed items, and the prompt of generations, but not metadata, nor
// inputs and outputs, which would take many times the requests. It lists superseded attempts,
// which must not have scores. It identifies spans by trace and span id, and scores
// by id, so that something that the server shows twice for a while counts once.
//
// Verify looks repeatedly until nothing differs, or until there was no progress for the time
// of Wait. It does not look again at items without findings. If ctx has a deadline, Verify
// returns before it with the last verification, and Pending says whether Langfuse was still
// working: it was if something appeared in the last half of the time. Verify keeps a few
// pages of outcomes with their traces and scores in memory, and about 50 bytes per outcome.
// For n items it sends n/50 requests for traces on v4 (n on v3), one for every 100 scores,
// and n/100 per view.
//
// A difference is not an error. Errors are those of reading the run file, those of the
// client (ExitCode 69 if the server cannot be reached, or if the deadline passes before the
// first look has ended), and a *WrongServerError if the run was published to another server.
func Verify(ctx context.Context, cfg VerifyConfig) (Verification, error) {
	v, err := openVerifier(ctx, cfg)
	if err != nil {
		return Verification{}, err
	}
	verification, err := v.poll(ctx)
	if err == nil && verification.Repairable() > 0 {
		if wrong, is := errors.AsType[*WrongServerError](cfg.checkDataset(ctx, v.header)); is {
			verification.RepairRefused = wrong.Error()
		}
	}
	return verification, err
}

// verifier compares one run with Langfuse, repeatedly if necessary.
type verifier struct {
	cfg    VerifyConfig
	header outcome.Header
	// publish, if not nil, makes the verifier repair: it resets the acknowledgements of
	// differing parts in publish.Run. If it is nil, the verifier changes nothing.
	publish *Config
	// sent is true if everything missing or different has just been sent again.
	sent bool
	// movedTrials holds the trials whose spans carry a run id that Langfuse has replaced.
	movedTrials map[int]bool

	// shown holds the outcomes that each view shows in this pass, the list of runs perhaps with
	// another trace.
	shown map[place]bool
	// verified holds the OIDs of the outcomes without findings, which later passes skip, and
	// ofVerified what was found of them: counts, and scores of other programs.
	verified     map[int64]bool
	ofVerified   Verification
	verification Verification
	repairs      repairs
}

// place is the place of an outcome in a view.
type place struct {
	view langfuse.View
	oid  int64
}

// openVerifier returns the verifier of a run that belongs to this server.
func openVerifier(ctx context.Context, cfg VerifyConfig) (*verifier, error) {
	header, err := cfg.Run.Header(ctx)
	if err == nil {
		_, _, err = cfg.checkPlace(ctx, cfg.Run, header)
	}
	return newVerifier(cfg, header), err
}

func newVerifier(cfg VerifyConfig, header outcome.Header) *verifier {
	return &verifier{cfg: cfg, header: header, verified: map[int64]bool{}}
}

// poll compares repeatedly until nothing differs but what a person has to decide, until there was
// no progress for the time of Wait, or until shortly before the deadline of ctx.
func (v *verifier) poll(ctx context.Context) (Verification, error) {
	began := time.Now()
	quiet, budget := cmp.Or(v.cfg.Wait.Timeout, langfuse.DefaultWaitTimeout), time.Duration(math.MaxInt64)
	if deadline, ok := ctx.Deadline(); ok {
		budget = deadline.Sub(began)
	}
	var seen Verification
	polls, first, best, lastArrival := 0, 0, 0, began
	// The remaining tenth of the time is for the last look.
	wait := langfuse.Wait{Timeout: max(budget/10*9, 1), MinPause: v.cfg.Wait.MinPause, MaxPause: v.cfg.Wait.MaxPause}
	err := wait.Until(ctx, func(ctx context.Context) (bool, error) {
		if err := v.compareAll(ctx); err != nil {
			return false, err
		}
		correct := v.verification.correct()
		if polls++; polls == 1 {
			first, best = correct, correct
		}
		if correct > best {
			best, lastArrival = correct, time.Now()
		}
		v.verification.Appeared = best - first
		if seen = v.verification; v.cfg.OnVerification != nil {
			v.cfg.OnVerification(seen)
		}
		return seen.Repairable() == 0 || time.Since(lastArrival) >= quiet, nil
	})
	_, late := errors.AsType[*langfuse.NotYetError](err)
	switch {
	case err == nil:
		return seen, nil
	case !late && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return seen, err
	case polls == 0:
		return seen, fmt.Errorf("reading the run back: %w", &langfuse.NotYetError{Waited: time.Since(began)})
	}
	if !v.sent {
		quiet = min(quiet, budget/2)
	}
	seen.Pending = time.Since(lastArrival) < quiet && seen.mayResolve(v.sent)
	return seen, nil
}

// begin starts a pass with the results of the outcomes that earlier passes verified.
func (v *verifier) begin() {
	v.shown, v.movedTrials = map[place]bool{}, map[int]bool{}
	v.verification = Verification{
		Run: v.header.Name, Mode: v.cfg.Server.Mode(), Counts: map[Kind]int{},
		Experiments: []string{}, Findings: []Finding{}, Superseded: []SupersededEntry{}, Checked: v.ofVerified.Checked,
		Others: append([]OtherScore{}, v.ofVerified.Others...), OthersCount: v.ofVerified.OthersCount,
	}
	v.verification.Checked.Shown = map[langfuse.View]int{}
}

// compareAll compares everything once, except what earlier calls verified.
func (v *verifier) compareAll(ctx context.Context) error {
	v.begin()
	for trial := 1; trial <= max(1, v.header.Trials); trial++ {
		if err := v.compareTrial(ctx, trial); err != nil {
			return err
		}
	}
	atOnce := 1 // on v3 a page already takes one request for each trace
	if v.cfg.Server.NewReads {
		atOnce = pagesAtOnce
	}
	verified := maps.Clone(v.verified)       // a copy, because pages are read ahead while others are compared
	readCtx, stop := context.WithCancel(ctx) // canceled at the first error
	defer stop()
	readPage := func(page []runstore.Pending) (comparedPage, error) { return v.readPage(readCtx, verified, page) }
	compared := 0
	for page, err := range stats.Parallel(atOnce, v.outcomePages(ctx), readPage) {
		if err == nil {
			v.comparePage(page)
			err = v.repairs.apply(ctx, v)
		}
		if err != nil {
			stop()
			return err
		}
		if compared += len(page.outcomes); v.cfg.OnCompared != nil {
			v.cfg.OnCompared(compared)
		}
	}
	v.verification.sort()
	return v.repairs.apply(ctx, v)
}

// pagesAtOnce is the number of pages to read concurrently if a request reads many traces.
const pagesAtOnce = 4

// appendBounded appends entries to a list of a Verification, up to maxListed in all.
func appendBounded[T any](list []T, entries ...T) []T {
	return append(list, entries[:min(len(entries), maxListed-len(list))]...)
}

// addFinding adds a difference to the verification.
func (v *verifier) addFinding(f Finding) {
	v.verification.Counts[f.Kind]++
	if f.NeedsDecision {
		v.verification.NeedsDecisionCount++
	}
	v.verification.Findings = appendBounded(v.verification.Findings, f)
}

// addComparison adds the result of comparing an outcome or the scores of a run.
func (v *verifier) addComparison(c comparison, trial int, item, trace string) {
	for i := range c.others {
		c.others[i].Trial, c.others[i].Item, c.others[i].Trace = trial, item, trace
	}
	v.verification.addCorrect(c)
	for _, f := range c.findings {
		f.Trial, f.Item, f.Trace = trial, item, trace
		v.addFinding(f)
	}
	v.repairs.deletes = append(v.repairs.deletes, c.doubles...)
	if item != "" && len(c.findings) == 0 {
		v.ofVerified.addCorrect(c)
	}
}

// outcomePages yields all outcomes of the run file in pages.
func (v *verifier) outcomePages(ctx context.Context) iter.Seq2[[]runstore.Pending, error] {
	return func(yield func([]runstore.Pending, error) bool) {
		for after := int64(0); ; {
			page, err := v.cfg.Run.Committed(ctx, after, 100)
			if err == nil && len(page) == 0 || !yield(page, err) || err != nil {
				return
			}
			after = page[len(page)-1].OID
		}
	}
}

// comparedPage is a page of outcomes with their traces and scores in Langfuse, by trace id.
type comparedPage struct {
	outcomes []runstore.Pending
	traces   map[string]langfuse.Trace
	scores   map[string][]langfuse.Score
}

// readPage reads the traces and scores of a page of outcomes, except of those in known.
func (v *verifier) readPage(ctx context.Context, known map[int64]bool, page []runstore.Pending) (comparedPage, error) {
	r := comparedPage{outcomes: page}
	var newestIDs, allIDs []string
	for _, o := range page {
		if known[o.OID] {
			continue
		}
		id := TraceID(v.header, o.Outcome)
		allIDs = append(allIDs, id)
		if !o.Published.Has(runstore.Superseded) {
			newestIDs = append(newestIDs, id)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		r.traces, err = v.cfg.readTraces(ctx, newestIDs, langfuse.TraceParts{})
		return err
	})
	group.Go(func() (err error) {
		r.scores, err = v.cfg.readScores(ctx, allIDs)
		return err
	})
	err := group.Wait()
	return r, err
}
