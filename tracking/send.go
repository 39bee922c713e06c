package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// sendLinks sends the links of the batch concurrently. It sends none to a server that does
// not store links. If an item was deleted, sendLinks refuses the outcome and goes on with
// the others; the trace of the item is sent all the same.
func (r *round) sendLinks(ctx context.Context) error {
	var todo []runstore.Pending
	for _, o := range r.sendable {
		if !o.Published.Has(runstore.Link) && r.refusal(o.OID).part == 0 {
			todo = append(todo, o)
		}
	}
	if r.header.Dataset.ID == "" || !r.cfg.Server.StoresLinks() {
		return r.ack(ctx, runstore.Link, todo)
	}
	var mu sync.Mutex
	var done []runstore.Pending
	group, inner := errgroup.WithContext(ctx)
	for _, o := range todo {
		r.linkSlots <- struct{}{}
		group.Go(func() error {
			defer func() { <-r.linkSlots }()
			_, err := r.sendLink(inner, o, r.builders[o.Trial].metadata)
			if errors.Is(err, langfuse.ErrNotFound) {
				r.refuse(o, runstore.Link, unlinkableError(r.header, err, true))
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
	return errors.Join(r.ack(ctx, runstore.Link, done), failure)
}

// unlinkableError returns the error for a deleted item, with the same text for every item. Trace
// and scores are sent if the run of the trial is open, by the link of another item.
func unlinkableError(h outcome.Header, err error, open bool) error {
	consequence := "nothing of it was sent"
	if open {
		consequence = "its trace and scores were sent without"
	}
	if answer, ok := errors.AsType[*langfuse.APIError](err); ok {
		err = answer
	}
	return fmt.Errorf("cannot be linked any more, because the item or its dataset %q was deleted in Langfuse; %s: %w", h.Dataset.Name, consequence, err)
}

// sendLink sends one link and returns the id of the run.
func (p *publisher) sendLink(ctx context.Context, o runstore.Pending, metadata map[string]string) (string, error) {
	h := p.header
	id := identify(h, o.Outcome)
	link := langfuse.DatasetRunItemCreate{
		RunName:        RunName(h, o.Trial),
		RunDescription: description(h),
		Metadata:       metadata,
		DatasetItemID:  o.Item,
		TraceID:        id.trace(),
		ObservationID:  id.span(0),
	}
	if p.cfg.Server.DatasetVersions() {
		link.DatasetVersion = h.Dataset.Version
	}
	runID, err := p.cfg.Client.CreateDatasetRunItem(ctx, link)
	gone := errors.Is(err, langfuse.ErrEndpointGone) || errors.Is(err, langfuse.ErrNotFound)
	if gone && !p.cfg.Server.StoresLinks() {
		// This server would only compute the id, and not store the link.
		return langfuse.ExperimentID(p.cfg.Server.Project.ID, h.Dataset.ID, link.RunName), nil
	}
	return runID, err
}

// sendSpans sends the spans of the batch, with the spans of many outcomes in one request and
// up to four requests at once. The embedded server gets smaller requests one at a time: it
// answers at once, and this process would hold each request three times, as spans, as sent
// and as received.
func (r *round) sendSpans(ctx context.Context) error {
	atOnce, maxBytes := 4, langfuse.DefaultBatchBytes
	if r.cfg.Embedded {
		atOnce, maxBytes = 1, 512<<10
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	var outcomes []runstore.Pending
	var spans []langfuse.Span
	total := 0
	send := func() {
		o, s := outcomes, spans
		group.Go(func() error { return r.export(inner, o, s) })
		outcomes, spans, total = nil, nil, 0
	}
	for _, o := range r.sendable {
		if o.Published.Has(runstore.Spans) {
			continue
		}
		added, size, err := r.spans(ctx, o)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		// A single outcome may exceed both bounds.
		if len(outcomes) > 0 && (total+size > maxBytes || len(spans)+len(added) > langfuse.DefaultBatchSpans) {
			send()
		}
		outcomes, spans, total = append(outcomes, o), append(spans, added...), total+size
	}
	if len(outcomes) > 0 {
		send()
	}
	return group.Wait()
}

// export sends the spans of outcomes in one request. If the server refuses the request for
// good, export sends each outcome alone, so that only a bad one is refused.
func (r *round) export(ctx context.Context, outcomes []runstore.Pending, spans []langfuse.Span) error {
	err := r.cfg.Client.ExportSpans(ctx, r.cfg.Runner, spans)
	switch {
	case err == nil:
		return r.ack(ctx, runstore.Spans, outcomes)
	case !isRefusal(err):
		return err
	case len(outcomes) == 1:
		r.refuse(outcomes[0], runstore.Spans, err)
		return nil
	}
	for i, o := range outcomes {
		alone, _, err := r.spans(ctx, o)
		if err == nil {
			err = r.export(ctx, outcomes[i:i+1], alone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spans returns the spans of an outcome and their approximate size in bytes: a fixed part
// for each span, and its inputs and outputs.
func (r *round) spans(ctx context.Context, o runstore.Pending) (spans []langfuse.Span, size int, err error) {
	item := o.Source
	if item == nil {
		stored, err := r.cfg.Run.Item(ctx, o.Item)
		if err != nil {
			return nil, 0, err
		}
		item = &stored.Item
	}
	const perSpan = 2 << 10
	size = perSpan + len(item.Input) + len(item.Expected) + len(item.Metadata) + len(o.Output)
	for _, call := range o.Calls {
		size += perSpan + len(call.Input) + len(call.Output)
	}
	return r.builders[o.Trial].spans(*item, o.Outcome), size, nil
}

// isRefusal reports whether an error means that the same request can never succeed.
func isRefusal(err error) bool {
	if api, ok := errors.AsType[*langfuse.APIError](err); ok {
		return api.Status == http.StatusBadRequest || errors.Is(err, langfuse.ErrTooLarge)
	}
	_, unanswered := errors.AsType[*langfuse.ConnectionError](err)
	return !unanswered && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// scoreBatch is the number of scores in one request.
const scoreBatch = 100

// sendScores sends the scores of the batch. It does not acknowledge an outcome if Langfuse
// did not accept all of its scores; another round sends them again, unchanged.
func (r *round) sendScores(ctx context.Context) error {
	capacity := len(r.sendable) * (len(scoring.Headlines()) + 1) // enough unless the user publishes more
	todo := make([]runstore.Pending, 0, len(r.sendable))
	scores := make([]langfuse.ScoreCreate, 0, capacity)
	owners := make([]int, 0, capacity) // for each score, the index of its outcome in todo
	for _, o := range r.sendable {
		if o.Published.Has(runstore.Scores) || r.refusal(o.OID).part == runstore.Spans {
			continue
		}
		for _, s := range scoreRequests(r.header, o) {
			scores, owners = append(scores, s), append(owners, len(todo))
		}
		todo = append(todo, o)
	}
	r.incomplete = map[int64]bool{}
	var failure error
	for i, err := range r.createScores(ctx, scores) {
		if err == nil {
			continue
		}
		o := todo[owners[i]]
		r.incomplete[o.OID] = true
		if errors.Is(err, langfuse.ErrRefused) {
			r.refuse(o, runstore.Scores, err)
		} else {
			failure = cmp.Or(failure, err)
		}
	}
	done := slices.DeleteFunc(todo, func(o runstore.Pending) bool { return r.incomplete[o.OID] })
	return errors.Join(r.ack(ctx, runstore.Scores, done), failure)
}

// createScores sends scores in requests of up to 100, concurrently. It returns one error or
// nil for each score, in the order of scores.
func (p *publisher) createScores(ctx context.Context, scores []langfuse.ScoreCreate) []error {
	results := make([]error, len(scores))
	group := new(errgroup.Group)
	group.SetLimit(maxRequests)
	for first := 0; first < len(scores); first += scoreBatch {
		group.Go(func() error {
			copy(results[first:], p.cfg.Client.CreateScores(ctx, scores[first:min(first+scoreBatch, len(scores))]))
			return nil
		})
	}
	_ = group.Wait() // the errors are the results
	return results
}

// refusal is the reason why Langfuse refused a part of an outcome, or a score of the run, for
// good.
type refusal struct {
	oid  int64
	part runstore.Published
	item string // "" for a score of the run
	err  error
}

// refusal returns the refusal of an outcome. Its part is 0 if there is none.
func (p *publisher) refusal(oid int64) refusal {
	stored, _ := p.refused.Load(oid)
	r, _ := stored.(refusal)
	return r
}

// refusals returns the refusals of outcomes by OID.
func (p *publisher) refusals() (list []refusal) {
	for _, r := range p.refused.Range {
		list = append(list, r.(refusal))
	}
	slices.SortFunc(list, func(a, b refusal) int { return cmp.Compare(a.oid, b.oid) })
	return list
}

// refuse records that Langfuse refused a part of an outcome for good. Only the first refusal
// of an outcome counts. After a refused link, the other parts are sent all the same.
func (p *publisher) refuse(o runstore.Pending, part runstore.Published, err error) {
	if part == runstore.Spans {
		p.cfg.Run.Forget(o.OID)
	}
	if _, known := p.refused.LoadOrStore(o.OID, refusal{o.OID, part, o.Item, err}); !known {
		p.cfg.Log.Debug("Langfuse refuses a result for good", "item", o.Item, "error", err)
	}
}

// reason is one error text of the server, with the number of items and scores that it
// applies to.
type reason struct {
	text      string
	items     int
	runScores int    // scores of the run as a whole
	firstItem string // the first of them
}

// String returns the reason as "11 items: … (first: ID)".
func (r *reason) String() string {
	var who []string
	if r.items > 0 {
		who = append(who, textutil.Counted(r.items, "item"))
	}
	if r.runScores > 0 {
		who = append(who, textutil.Counted(r.runScores, "score")+" of the run")
	}
	return fmt.Sprintf("%s: %s (first: %s)", strings.Join(who, " and "), r.text, r.firstItem)
}

// refusalError returns an error that lists all refusals by reason, or nil if there are none.
func (p *publisher) refusalError() error {
	var reasons []*reason
	for _, r := range append(p.refusals(), p.refusedRunScores...) {
		text := r.err.Error()
		var origin []string
		if r.item != "" {
			origin = append(origin, fmt.Sprintf("item %q", r.item))
		}
		if score, ok := errors.AsType[*langfuse.ScoreError](r.err); ok {
			text = score.Err.Error()
			origin = append(origin, fmt.Sprintf("score %q", score.Name))
		}
		i := slices.IndexFunc(reasons, func(r *reason) bool { return r.text == text })
		if i < 0 {
			i = len(reasons)
			reasons = append(reasons, &reason{text: text, firstItem: strings.Join(origin, ", ")})
		}
		if r.item != "" {
			reasons[i].items++
		} else {
			reasons[i].runScores++
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return errors.New(strings.Join(cli.Each(reasons, (*reason).String), "; "))
}

// UnpublishedError reports differences between the run file and Langfuse that remain after
// Publish.
type UnpublishedError struct {
	Left int64 // outcomes that are not completely published
	// RunScores is true if the scores of the run as a whole are not published.
	RunScores bool
	// Withdrawn is the number of replaced attempts whose scores Langfuse still shows, or
	// may yet show.
	Withdrawn int
	// Refused is true if Langfuse refused all of this for good: publishing again would
	// change nothing.
	Refused bool
	Err     error // the cause
}

// Error describes what is unpublished, and why.
func (e *UnpublishedError) Error() string {
	var parts []string
	if e.Left > 0 {
		verb := "are"
		if e.Left == 1 {
			verb = "is"
		}
		parts = append(parts, fmt.Sprintf("%s %s scored and not published", textutil.Counted(e.Left, "result"), verb))
	}
	if e.RunScores {
		parts = append(parts, "the scores of the run as a whole are not published")
	}
	if e.Withdrawn > 0 {
		parts = append(parts, fmt.Sprintf("the scores of %s are not deleted yet", textutil.Counted(e.Withdrawn, "replaced attempt")))
	}
	text := fmt.Sprintf("%s: %v", strings.Join(parts, ", "), e.Err)
	if e.Refused {
		text += "; sending it again has no effect until the cause is fixed; everything is in the run file"
	}
	return text
}

// Unwrap returns Err.
func (e *UnpublishedError) Unwrap() error { return e.Err }

// ExitCode returns 69. Nothing is lost: unless Langfuse refused it, the rest can be published
// later.
func (e *UnpublishedError) ExitCode() int { return cli.ExitUnavailable }

// unpublishedError returns an *UnpublishedError for whatever is not published, or nil if
// everything is.
func (p *publisher) unpublishedError(cause error) error {
	ctx := context.Background()
	counts, err := p.cfg.Run.Counts(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	refused := p.refusalError()
	unsent := &UnpublishedError{
		Left: counts.Done - counts.Published, Withdrawn: int(counts.ToWithdraw), Err: errors.Join(refused, cause),
	}
	if !p.runScoresSent && counts.Done > 0 {
		_, unsent.RunScores, err = p.cfg.Run.Footer(ctx)
	}
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case unsent.Left == 0 && !unsent.RunScores && unsent.Withdrawn == 0:
		return nil
	case unsent.Err == nil && unsent.Left == 0 && !unsent.RunScores:
		unsent.Err = errors.New("not all of them are shown in Langfuse yet, or its deletions take their time")
	case unsent.Err == nil:
		unsent.Err = errors.New("publishing stopped early")
	}
	unsent.Refused = cause == nil && refused != nil && unsent.Withdrawn == 0 &&
		unsent.Left == int64(len(p.refusals())) && unsent.RunScores == (len(p.refusedRunScores) > 0)
	return unsent
}
