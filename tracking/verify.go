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

// VerifyConfig says what is compared with what, and how patiently. Site.Client and
// Run are required.
type VerifyConfig struct {
	Site
	Run *runstore.Reader
	// Wait says for how long nothing more must have come before what is missing
	// counts as missing; its zero value is two minutes, and a negative time looks
	// once.
	Wait langfuse.Wait
	// Looked is told what each look found; nil is told nothing.
	Looked func(Verdict)
	// Compared is told how many outcomes a look has compared; nil is told nothing.
	Compared func(outcomes int)
}

// Verify reads a run back from Langfuse and compares it with the run file: the
// trace of every item with all its spans, the prompt on its generations, its
// place in the lists of runs and of experiments (whichever the server has), its
// scores and those of the run, each once and with its value. Of spans it compares
// that they are there, the level of a failed item's and the prompt of generations,
// not inputs, outputs and metadata, which would take many times the requests. What
// counts is the newest attempt of each item; superseded ones are listed, and must
// not have scores. Spans are told apart by trace and span id, scores by id, so that
// something that the server shows twice for a while is there once.
//
// It looks until nothing differs or nothing more came for the time of Wait; what was
// found in order is not looked at again. A deadline of ctx bounds it: it ends before
// it with what was seen, and says whether Langfuse was still at work (OnItsWay), which
// it was unless nothing came in the last half of the time. Memory is a page of outcomes with their traces
// and scores, and about 50 bytes per outcome. Requests for n items: n/50 for
// traces on v4 (n on v3), as many hundreds as there are scores, and n/100 per view.
//
// A difference is not an error. Errors are those of reading: of the run file, or of
// the client (ExitCode 69 where the server cannot be reached, or the deadline comes
// before the first look has ended), or an *ElsewhereError for another server than the
// run was published to.
func Verify(ctx context.Context, cfg VerifyConfig) (Verdict, error) {
	header, err := cfg.Run.Header(ctx)
	if err == nil {
		_, _, err = cfg.checkPlace(ctx, cfg.Run, header)
	}
	if err != nil {
		return Verdict{}, err
	}
	return newVerifier(cfg, header).patiently(ctx)
}

// Repair verifies, and where something differs sends again what is missing or
// different, with the same ids and times (a changed value at a later time,
// without which Langfuse would keep it; where it does all the same, because the
// clock that it was stored by is ahead, it is deleted first), deletes doubled
// scores, of which only those with an id that this run derives and copies that say
// the same as its own, and verifies again. Findings that are Left stay. It returns
// what was found before and after. What it will send again is in the run file
// before it is sent. Where Langfuse is still at work after half of the time that a
// deadline of ctx leaves, nothing is changed; at the deadline it ends with what was
// seen, or with an *UnpublishedError. The errors are those of Verify and
// of Publish; on another server, or where the dataset was deleted and
// made again, nothing is read back and nothing is written. What Langfuse refuses
// for good does not keep the rest from being mended: both verdicts are whole then,
// with an *UnpublishedError that says so.
func Repair(ctx context.Context, cfg VerifyConfig, publish Config) (before, after Verdict, err error) {
	cfg.Run = publish.Run.Reader
	header, err := cfg.Run.Header(ctx)
	if err == nil {
		_, _, err = cfg.checkPlace(ctx, cfg.Run, header)
	}
	if err == nil {
		err = cfg.checkDataset(ctx, header)
	}
	if err != nil {
		return before, after, err
	}
	v := newVerifier(cfg, header)
	first := ctx
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
		first = half
	}
	if before, err = v.patiently(first); err != nil || before.OnItsWay || before.mendable() == 0 {
		return before, before, err
	}
	after, err = v.repair(ctx, before, publish)
	unsent := (*UnpublishedError)(nil)
	switch {
	case errors.As(err, &unsent):
		after.OnItsWay = !unsent.Refused // it can be sent later
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		after.OnItsWay, err = true, nil
	}
	return before, after, err
}

// repair mends what was found, and returns what is found after that.
func (v *verifier) repair(ctx context.Context, before Verdict, publish Config) (after Verdict, err error) {
	after = before
	ended := make(chan struct{})
	close(ended)
	// What is mended can bring up one thing more: a run that was deleted gets
	// another id when its items are linked again, and a score that Langfuse keeps
	// has to go first.
	var refused *UnpublishedError
	for try := 0; try < 2 && after.mendable() > 0 && refused == nil; try++ {
		v.mend = &publish
		if gone, err := v.deleteUnchanged(ctx, before, after, try); err != nil || !gone {
			after.explainUnchanged(before)
			return after, err
		}
		if err := v.pass(ctx); err != nil {
			return after, err
		}
		if err := Publish(ctx, publish, ended); err != nil && (!errors.As(err, &refused) || !refused.Refused) {
			return after, err
		}
		v = newVerifier(v.cfg, v.header)
		v.sent = true
		found, err := v.patiently(ctx)
		if err != nil {
			return after, err
		}
		after = found
	}
	after.explainUnchanged(before)
	if refused != nil {
		return after, refused
	}
	return after, nil
}

// verifier compares one run, in one pass or several.
type verifier struct {
	cfg    VerifyConfig
	header outcome.Header
	// mend says where the run is published, whose acknowledgements are taken back
	// for what is found; nil: nothing is changed.
	mend *Config
	// sent says that what was missing or different was just sent again.
	sent bool
	// moved names the trials whose spans carry an id that Langfuse has replaced.
	moved map[int]bool

	// shown says, by outcome, which views show it in this pass.
	shown map[int64]sighting
	// fine counts what belongs to the outcomes that were found in order, which
	// are in inOrder.
	fine    Checked
	inOrder map[int64]bool
	others  []OtherScore // on the traces of outcomes in order
	verdict Verdict
	repairs repairs
}

func newVerifier(cfg VerifyConfig, header outcome.Header) *verifier {
	return &verifier{cfg: cfg, header: header, inOrder: map[int64]bool{}}
}

// patiently looks until nothing differs, until nothing more came for the time of
// Wait, or until shortly before the deadline of ctx.
func (v *verifier) patiently(ctx context.Context) (Verdict, error) {
	began := time.Now()
	quiet, all := cmp.Or(v.cfg.Wait.Timeout, langfuse.DefaultWaitTimeout), time.Duration(math.MaxInt64)
	if deadline, ok := ctx.Deadline(); ok {
		all = deadline.Sub(began)
	}
	var seen Verdict
	looks, first, most, came := 0, 0, 0, began
	// The tenth that is left is for the last look.
	wait := langfuse.Wait{Timeout: max(all/10*9, 1), First: v.cfg.Wait.First, Most: v.cfg.Wait.Most}
	err := wait.Until(ctx, func(ctx context.Context) (bool, error) {
		if err := v.pass(ctx); err != nil {
			return false, err
		}
		there := v.verdict.there()
		if looks++; looks == 1 {
			first, most = there, there
		}
		if there > most {
			most, came = there, time.Now()
		}
		v.verdict.Came = most - first
		if seen = v.verdict; v.cfg.Looked != nil {
			v.cfg.Looked(seen)
		}
		return seen.OK() || time.Since(came) >= quiet, nil
	})
	_, late := errors.AsType[*langfuse.NotYetError](err)
	switch {
	case err == nil:
		return seen, nil
	case !late && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return seen, err
	case looks == 0:
		return seen, fmt.Errorf("reading the run back: %w", &langfuse.NotYetError{Waited: time.Since(began)})
	}
	if !v.sent {
		quiet = min(quiet, all/2)
	}
	seen.OnItsWay = time.Since(came) < quiet && seen.mayCome(v.sent)
	return seen, nil
}

// pass compares everything once.
func (v *verifier) pass(ctx context.Context) error {
	v.shown, v.moved = map[int64]sighting{}, map[int]bool{}
	v.verdict = Verdict{
		Run: v.header.Name, Mode: v.cfg.Server.Mode(), Counts: map[Kind]int{},
		Experiments: []string{}, Findings: []Finding{}, Superseded: []SupersededEntry{}, Checked: v.fine,
		Others: append([]OtherScore{}, v.others...), OthersCount: len(v.others),
	}
	v.verdict.Checked.Shown = map[langfuse.View]int{}
	for trial := 1; trial <= max(1, v.header.Trials); trial++ {
		if err := v.trial(ctx, trial); err != nil {
			return err
		}
	}
	atOnce := 1 // where a page is one request for each trace
	if v.cfg.Server.NewReads {
		atOnce = pagesAtOnce
	}
	known := maps.Clone(v.inOrder)           // pages are read ahead, while those before are compared
	reading, stop := context.WithCancel(ctx) // it ends with the first error
	defer stop()
	read := func(page []runstore.Pending) (pageRead, error) { return v.read(reading, known, page) }
	compared := 0
	for page, err := range stats.Parallel(atOnce, v.committed(ctx), read) {
		if err == nil {
			v.page(page)
			err = v.repairs.apply(ctx, v)
		}
		if err != nil {
			stop()
			return err
		}
		if compared += len(page.outcomes); v.cfg.Compared != nil {
			v.cfg.Compared(compared)
		}
	}
	v.verdict.sort()
	return v.repairs.apply(ctx, v)
}

// pagesAtOnce is how many pages are read at once where a request reads many traces.
const pagesAtOnce = 4

// listed appends to a list of a Verdict, up to its bound.
func listed[T any](list []T, entry T) []T {
	if len(list) < maxListed {
		list = append(list, entry)
	}
	return list
}

// found notes a difference.
func (v *verifier) found(f Finding) {
	v.verdict.Counts[f.Kind]++
	if f.Left {
		v.verdict.LeftCount++
	}
	v.verdict.Findings = listed(v.verdict.Findings, f)
}

// compared notes what is different of the scores on a trace, or on a run. It
// remembers scores of somebody else with an outcome that is in order.
func (v *verifier) compared(c comparison, trial int, item, trace string) {
	for _, s := range c.others {
		s.Trial, s.Item, s.Trace = trial, item, trace
		v.verdict.OthersCount++
		v.verdict.Others = listed(v.verdict.Others, s)
		if item != "" && len(c.findings) == 0 {
			v.others = listed(v.others, s)
		}
	}
	for _, f := range c.findings {
		f.Trial, f.Item, f.Trace = trial, item, trace
		v.found(f)
	}
	v.repairs.deletes = append(v.repairs.deletes, c.doubled...)
}

// page compares some outcomes with their traces and scores.
func (v *verifier) page(r pageRead) {
	for _, o := range r.outcomes {
		id := TraceID(v.header, o.Outcome)
		if o.Published.Has(runstore.Superseded) {
			v.superseded(o, id, r.scores[id])
			continue
		}
		if v.moved[o.Trial] {
			v.repairs.again(o.OID, runstore.Spans)
		}
		v.outcome(o, id, r.traces[id], r.scores[id])
	}
}

// outcome compares one newest attempt. When nothing differs it is in order.
func (v *verifier) outcome(o runstore.Pending, id string, trace langfuse.Trace, scores []langfuse.Score) {
	v.verdict.Outcomes++
	if v.inOrder[o.OID] {
		return
	}
	there := map[string]langfuse.Observation{}
	for _, span := range trace.Observations {
		there[span.ID] = span
	}
	var c Checked
	findings := append(v.invisible(o, there), v.spans(o, there, &c)...)
	want := (builder{header: v.header}).scores(o)
	compared := compareScores(want, scoreOfAny(v.header, o.Outcome), scores)
	c.Scores += compared.right
	if compared.wrong { // at a later time where they were changed
		later := compared.later(v.cfg.Server)
		v.repairs.resets = append(v.repairs.resets, runstore.Reset{OID: o.OID, Bits: runstore.Scores, Corrected: later})
	}
	compared.findings = append(findings, compared.findings...)
	v.compared(compared, o.Trial, o.Item, id)
	if len(compared.findings) == 0 {
		c.Items++
		v.inOrder[o.OID] = true
		v.fine = v.fine.plus(c)
	}
	v.verdict.Checked = v.verdict.Checked.plus(c)
}

// plus adds what was found in order; Shown is counted for itself.
func (c Checked) plus(d Checked) Checked {
	c.Items += d.Items
	c.Spans += d.Spans
	c.Prompts += d.Prompts
	c.Scores += d.Scores
	return c
}

// invisible says in which views the outcome is not. Without its root span it is
// in no list of experiments, which needs no finding of its own.
func (v *verifier) invisible(o runstore.Pending, there map[string]langfuse.Observation) []Finding {
	seen := v.shown[o.OID]
	_, rooted := there[identify(v.header, o.Outcome).span(0)]
	var findings []Finding
	if slices.Contains(v.views(), langfuse.ViewRuns) && seen&(inRuns|astray) == 0 {
		findings = append(findings, Finding{Kind: MissingRunItem, Detail: "the list of runs does not have the item"})
		v.repairs.again(o.OID, runstore.Link)
	}
	if v.cfg.Server.NewReads && seen&inExperiments == 0 && rooted {
		findings = append(findings, Finding{Kind: NotInExperiment, Detail: "the list of experiments does not have the item"})
		v.repairs.again(o.OID, runstore.Spans)
	}
	return findings
}

// spans compares the trace with the outcome's calls.
func (v *verifier) spans(o runstore.Pending, there map[string]langfuse.Observation, c *Checked) []Finding {
	id := identify(v.header, o.Outcome)
	var findings []Finding
	wanted, missing := 1+len(o.Calls), 0
	for position := range wanted {
		span, ok := there[id.span(position)]
		if !ok {
			missing++
			continue
		}
		c.Spans++
		findings = append(findings, v.span(o.Outcome, position, span, c)...)
	}
	switch {
	case missing == wanted:
		findings = append(findings, Finding{Kind: MissingTrace, Detail: fmt.Sprintf("none of its %d spans is there", wanted)})
	case missing > 0:
		findings = append(findings, Finding{Kind: MissingSpan, Detail: fmt.Sprintf("%d of its %d spans are not there", missing, wanted)})
	}
	if len(findings) > 0 {
		v.repairs.again(o.OID, runstore.Spans)
	}
	return findings
}

// span compares one span with what the outcome says of it.
func (v *verifier) span(o outcome.Outcome, position int, span langfuse.Observation, c *Checked) []Finding {
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

// superseded lists an attempt that a newer one replaced. Its trace may stay, its
// scores may not.
func (v *verifier) superseded(o runstore.Pending, id string, scores []langfuse.Score) {
	v.verdict.SupersededCount++
	v.verdict.Superseded = listed(v.verdict.Superseded,
		SupersededEntry{Trial: o.Trial, Item: o.Item, Attempt: o.Attempt, Trace: id, Class: string(o.Class)})
	ids, stale := scoreIDs(v.header, o), false
	for _, s := range scores {
		if !slices.Contains(ids, s.ID) {
			continue
		}
		stale = true
		v.found(Finding{
			Kind: StaleScore, Trial: o.Trial, Item: o.Item, Trace: id, Score: s.Name,
			Detail: fmt.Sprintf("attempt %d was replaced, and its score is still there", o.Attempt),
		})
	}
	if stale && o.Published.Has(runstore.Withdrawn) {
		v.repairs.again(o.OID, runstore.Withdrawn)
	}
}
