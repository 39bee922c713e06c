package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

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
	// OnVerdict, if not nil, is called with the verdict of each look.
	OnVerdict func(Verdict)
	// OnCompared, if not nil, is called with the number of outcomes that a look has compared so
	// far.
	OnCompared func(outcomes int)
}

// Verify reads a run back from Langfuse and compares it with the run file. It compares the
// newest attempt of each item: the spans of its trace, its entries in the lists of runs and
// of experiments (those that the server has), and its scores, each of which must exist once
// and have its value. It also compares the scores of the run. Of the spans it checks that
// they exist, the level of failed items, and the prompt of generations, but not inputs,
// outputs and other metadata, which would take many times the requests. It lists superseded
// attempts, which must not have scores. It identifies spans by trace and span id, and scores
// by id, so that something that the server shows twice for a while counts once.
//
// Verify looks repeatedly until nothing differs, or until there was no progress for the time
// of Wait. It does not look again at items without findings. If ctx has a deadline, Verify
// returns before it with the last verdict, and Pending says whether Langfuse was still
// working: it was if something appeared in the last half of the time. Verify keeps a few
// pages of outcomes with their traces and scores in memory, and about 50 bytes per outcome.
// For n items it sends n/50 requests for traces on v4 (n on v3), one for every 100 scores,
// and n/100 per view.
//
// A difference is not an error. Errors are those of reading the run file, those of the
// client (ExitCode 69 if the server cannot be reached, or if the deadline passes before the
// first look has ended), and a *WrongServerError if the run was published to another server.
func Verify(ctx context.Context, cfg VerifyConfig) (Verdict, error) {
	v, err := openVerifier(ctx, cfg)
	if err != nil {
		return Verdict{}, err
	}
	return v.poll(ctx)
}

// Repair verifies a run, repairs the differences, and verifies it again. It returns the
// verdicts before and after.
//
// Repair sends missing or different parts again with the same ids and times. A changed score
// gets a later timestamp, because Langfuse keeps the score with the latest one; if Langfuse
// still keeps the changed score, because the clock of its writer was ahead, Repair deletes it
// and sends it once more. Repair deletes doubled scores if the run derives their id or if
// their value equals that of the run's own score. It does not touch findings with Left. It
// records in the run file what to send again before it sends it.
//
// If Langfuse is still working after half of the time until a deadline of ctx, Repair changes
// nothing. At the deadline it returns the last verdicts, or an *UnpublishedError. Its errors
// are those of Verify and Publish. If the run belongs to another server, or if its dataset was
// deleted and created again, Repair reads nothing back and writes nothing. If Langfuse refuses
// some parts for good, Repair repairs the rest, and returns complete verdicts together with an
// *UnpublishedError.
func Repair(ctx context.Context, cfg VerifyConfig, publish Config) (before, after Verdict, err error) {
	cfg.Run = publish.Run.Reader
	v, err := openVerifier(ctx, cfg)
	if err == nil {
		err = cfg.checkDataset(ctx, v.header)
	}
	if err != nil {
		return before, after, err
	}
	firstCtx := ctx
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
		firstCtx = half
	}
	if before, err = v.poll(firstCtx); err != nil || before.Pending || before.repairable() == 0 {
		return before, before, err
	}
	after, err = v.repair(ctx, before, publish)
	unpublished := (*UnpublishedError)(nil)
	switch {
	case errors.As(err, &unpublished):
		after.Pending = !unpublished.Refused // the rest can be sent later
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		after.Pending, err = true, nil
	}
	return before, after, err
}

// repair repairs the findings of before, and returns the verdict after that.
func (v *verifier) repair(ctx context.Context, before Verdict, publish Config) (after Verdict, err error) {
	after = before
	ended := make(chan struct{})
	close(ended)
	// The first repair may require a second one: a deleted run gets another id when its
	// items are linked again, and a score that Langfuse keeps must be deleted first.
	var refused *UnpublishedError
	for try := 0; try < 2 && after.repairable() > 0 && refused == nil; try++ {
		v.publish = &publish
		if gone, err := v.deleteUnchanged(ctx, before, after, try); err != nil || !gone {
			after.explainUnchanged(before)
			return after, err
		}
		if err := v.compareAll(ctx); err != nil {
			return after, err
		}
		if err := Publish(ctx, publish, ended); err != nil && (!errors.As(err, &refused) || !refused.Refused) {
			return after, err
		}
		v = newVerifier(v.cfg, v.header)
		v.sent = true
		verdict, err := v.poll(ctx)
		if err != nil {
			return after, err
		}
		after = verdict
	}
	after.explainUnchanged(before)
	if refused != nil {
		return after, refused
	}
	return after, nil
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

	// shown holds the views that show an outcome in this pass, by OID.
	shown map[int64]visibility
	// verified holds the OIDs of the outcomes without findings, and verifiedCounts counts
	// their parts.
	verifiedCounts Checked
	verified       map[int64]bool
	others         []OtherScore // on the traces of verified outcomes
	verdict        Verdict
	repairs        repairs
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

// poll compares repeatedly until nothing differs, until there was no progress for the time
// of Wait, or until shortly before the deadline of ctx.
func (v *verifier) poll(ctx context.Context) (Verdict, error) {
	began := time.Now()
	quiet, budget := cmp.Or(v.cfg.Wait.Timeout, langfuse.DefaultWaitTimeout), time.Duration(math.MaxInt64)
	if deadline, ok := ctx.Deadline(); ok {
		budget = deadline.Sub(began)
	}
	var seen Verdict
	polls, first, best, lastArrival := 0, 0, 0, began
	// The remaining tenth of the time is for the last look.
	wait := langfuse.Wait{Timeout: max(budget/10*9, 1), MinPause: v.cfg.Wait.MinPause, MaxPause: v.cfg.Wait.MaxPause}
	err := wait.Until(ctx, func(ctx context.Context) (bool, error) {
		if err := v.compareAll(ctx); err != nil {
			return false, err
		}
		correct := v.verdict.correct()
		if polls++; polls == 1 {
			first, best = correct, correct
		}
		if correct > best {
			best, lastArrival = correct, time.Now()
		}
		v.verdict.Appeared = best - first
		if seen = v.verdict; v.cfg.OnVerdict != nil {
			v.cfg.OnVerdict(seen)
		}
		return seen.OK() || time.Since(lastArrival) >= quiet, nil
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

// compareAll compares everything once, except what earlier calls verified.
func (v *verifier) compareAll(ctx context.Context) error {
	v.shown, v.movedTrials = map[int64]visibility{}, map[int]bool{}
	v.verdict = Verdict{
		Run: v.header.Name, Mode: v.cfg.Server.Mode(), Counts: map[Kind]int{},
		Experiments: []string{}, Findings: []Finding{}, Superseded: []SupersededEntry{}, Checked: v.verifiedCounts,
		Others: append([]OtherScore{}, v.others...), OthersCount: len(v.others),
	}
	v.verdict.Checked.Shown = map[langfuse.View]int{}
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
	v.verdict.sort()
	return v.repairs.apply(ctx, v)
}

// pagesAtOnce is the number of pages to read concurrently if a request reads many traces.
const pagesAtOnce = 4

// appendBounded appends an entry to a list of a Verdict unless the list has maxListed entries.
func appendBounded[T any](list []T, entry T) []T {
	if len(list) < maxListed {
		list = append(list, entry)
	}
	return list
}

// addFinding adds a difference to the verdict.
func (v *verifier) addFinding(f Finding) {
	v.verdict.Counts[f.Kind]++
	if f.NeedsDecision {
		v.verdict.NeedsDecisionCount++
	}
	v.verdict.Findings = appendBounded(v.verdict.Findings, f)
}

// addComparison adds the result of comparing the scores of a trace or of a run. If there are
// no findings it keeps the scores of other programs for later passes, which skip the outcome.
func (v *verifier) addComparison(c comparison, trial int, item, trace string) {
	for _, s := range c.others {
		s.Trial, s.Item, s.Trace = trial, item, trace
		v.verdict.OthersCount++
		v.verdict.Others = appendBounded(v.verdict.Others, s)
		if item != "" && len(c.findings) == 0 {
			v.others = appendBounded(v.others, s)
		}
	}
	for _, f := range c.findings {
		f.Trial, f.Item, f.Trace = trial, item, trace
		v.addFinding(f)
	}
	v.repairs.deletes = append(v.repairs.deletes, c.doubles...)
}

// comparePage compares a page of outcomes with their traces and scores.
func (v *verifier) comparePage(r comparedPage) {
	for _, o := range r.outcomes {
		id := TraceID(v.header, o.Outcome)
		if o.Published.Has(runstore.Superseded) {
			v.addSuperseded(o, id, r.scores[id])
			continue
		}
		if v.movedTrials[o.Trial] {
			v.repairs.resend(o.OID, runstore.Spans)
		}
		v.compareOutcome(o, id, r.traces[id], r.scores[id])
	}
}

// compareOutcome compares one newest attempt. If nothing differs the outcome is verified.
func (v *verifier) compareOutcome(o runstore.Pending, id string, trace langfuse.Trace, scores []langfuse.Score) {
	v.verdict.Outcomes++
	if v.verified[o.OID] {
		return
	}
	stored := map[string]langfuse.Observation{}
	for _, span := range trace.Observations {
		stored[span.ID] = span
	}
	var c Checked
	findings := append(v.missingViews(o, stored), v.compareSpans(o, stored, &c)...)
	want := scoreRequests(v.header, o)
	compared := compareScores(want, isOwnScore(v.header, o.Outcome), scores)
	c.Scores += compared.matched
	if compared.wrong { // changed scores are sent with a later timestamp
		corrected := compared.correctionTime(v.cfg.Server)
		v.repairs.resets = append(v.repairs.resets, runstore.Reset{OID: o.OID, Bits: runstore.Scores, Corrected: corrected})
	}
	compared.findings = append(findings, compared.findings...)
	v.addComparison(compared, o.Trial, o.Item, id)
	if len(compared.findings) == 0 {
		c.Items++
		v.verified[o.OID] = true
		v.verifiedCounts = v.verifiedCounts.add(c)
	}
	v.verdict.Checked = v.verdict.Checked.add(c)
}

// add returns c with the counts of d added, except Shown and RunScores.
func (c Checked) add(d Checked) Checked {
	c.Items += d.Items
	c.Spans += d.Spans
	c.Prompts += d.Prompts
	c.Scores += d.Scores
	return c
}

// missingViews returns a finding for each view that does not show the outcome. A missing root
// span explains why the list of experiments does not, and needs no further finding.
func (v *verifier) missingViews(o runstore.Pending, stored map[string]langfuse.Observation) []Finding {
	shown := v.shown[o.OID]
	_, hasRoot := stored[identify(v.header, o.Outcome).span(0)]
	var findings []Finding
	if slices.Contains(v.views(), langfuse.ViewRuns) && shown&(inRuns|inRunsElsewhere) == 0 {
		findings = append(findings, Finding{Kind: MissingRunItem, Detail: "the list of runs does not have the item"})
		v.repairs.resend(o.OID, runstore.Link)
	}
	if v.cfg.Server.NewReads && shown&inExperiments == 0 && hasRoot {
		findings = append(findings, Finding{Kind: NotInExperiment, Detail: "the list of experiments does not have the item"})
		v.repairs.resend(o.OID, runstore.Spans)
	}
	return findings
}

// compareSpans compares the spans of a trace with the calls of the outcome.
func (v *verifier) compareSpans(o runstore.Pending, stored map[string]langfuse.Observation, c *Checked) []Finding {
	id := identify(v.header, o.Outcome)
	var findings []Finding
	want, missing := 1+len(o.Calls), 0
	for position := range want {
		span, ok := stored[id.span(position)]
		if !ok {
			missing++
			continue
		}
		c.Spans++
		findings = append(findings, v.compareSpan(o.Outcome, position, span, c)...)
	}
	switch {
	case missing == want:
		findings = append(findings, Finding{Kind: MissingTrace, Detail: fmt.Sprintf("none of its %d spans is there", want)})
	case missing > 0:
		findings = append(findings, Finding{Kind: MissingSpan, Detail: fmt.Sprintf("%d of its %d spans are not there", missing, want)})
	}
	if len(findings) > 0 {
		v.repairs.resend(o.OID, runstore.Spans)
	}
	return findings
}

// compareSpan checks the level of the root span, or the prompt of a generation.
func (v *verifier) compareSpan(o outcome.Outcome, position int, span langfuse.Observation, c *Checked) []Finding {
	if position == 0 {
		if o.Failed() && span.Level != "ERROR" {
			return []Finding{{Kind: WrongLevel, Detail: fmt.Sprintf("the item failed (%s), and its trace has the level %q", o.Class, span.Level)}}
		}
		return nil
	}
	p := v.header.System.Prompt
	if p.Name == "" || o.Calls[position-1].Kind != "generation" {
		return nil
	}
	if span.PromptName != p.Name || int(span.PromptVersion) != p.Version {
		return []Finding{{Kind: PromptNotLinked, Detail: fmt.Sprintf("a generation has the prompt %q, version %d, instead of %q, version %d",
			span.PromptName, int(span.PromptVersion), p.Name, p.Version)}}
	}
	c.Prompts++
	return nil
}

// addSuperseded lists an attempt that a newer one replaced, and adds a finding for each of
// its scores that still exists. Its trace may exist.
func (v *verifier) addSuperseded(o runstore.Pending, id string, scores []langfuse.Score) {
	v.verdict.SupersededCount++
	v.verdict.Superseded = appendBounded(v.verdict.Superseded,
		SupersededEntry{Trial: o.Trial, Item: o.Item, Attempt: o.Attempt, Trace: id, Class: string(o.Class)})
	ids, stale := scoreIDs(v.header, o), false
	for _, s := range scores {
		if !slices.Contains(ids, s.ID) {
			continue
		}
		stale = true
		v.addFinding(Finding{
			Kind: StaleScore, Trial: o.Trial, Item: o.Item, Trace: id, Score: s.Name,
			Detail: fmt.Sprintf("attempt %d was replaced, and its score is still there", o.Attempt),
		})
	}
	if stale && o.Published.Has(runstore.Withdrawn) {
		v.repairs.resend(o.OID, runstore.Withdrawn)
	}
}
