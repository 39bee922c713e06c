package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// traces sends the spans of the batch, those of many outcomes in one request and
// several requests at once. In memory are the spans of those requests. The embedded
// server answers at once and has its memory in this process, where a request is there
// as spans, as it is sent and as it is received.
func (f *inFlightBatch) traces(ctx context.Context) error {
	atOnce, most := 4, langfuse.DefaultBatchBytes
	if f.cfg.Embedded {
		atOnce, most = 1, 512<<10
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	failure := f.pack(ctx, most, func(some []runstore.Pending, spans []langfuse.Span) {
		group.Go(func() error { return f.export(inner, some, spans) })
	})
	return errors.Join(failure, group.Wait())
}

// pack makes the spans of the batch and hands them out in requests of so many bytes at most.
func (f *inFlightBatch) pack(ctx context.Context, most int, out func([]runstore.Pending, []langfuse.Span)) error {
	var some []runstore.Pending
	var spans []langfuse.Span
	bytes := 0
	for _, o := range f.opened {
		if o.Published.Has(runstore.Spans) {
			continue
		}
		more, size, err := f.spans(ctx, o)
		if err != nil {
			return err
		}
		if len(some) > 0 && (bytes+size > most || len(spans)+len(more) > langfuse.DefaultBatchSpans) {
			out(some, spans)
			some, spans, bytes = nil, nil, 0
		}
		some, spans, bytes = append(some, o), append(spans, more...), bytes+size
	}
	if len(some) > 0 {
		out(some, spans)
	}
	return nil
}

// export sends the spans of outcomes in one request. If the server refuses it for
// good, each outcome is sent alone, so that a bad one does not hold up the others.
func (f *inFlightBatch) export(ctx context.Context, some []runstore.Pending, spans []langfuse.Span) error {
	err := f.cfg.Client.ExportSpans(ctx, f.cfg.Runner, spans)
	switch {
	case err == nil:
		return f.ack(ctx, runstore.Spans, some)
	case !isRefusal(err):
		return err
	case len(some) == 1:
		f.refuse(some[0], runstore.Spans, err)
		return nil
	}
	for i, o := range some {
		alone, _, err := f.spans(ctx, o)
		if err == nil {
			err = f.export(ctx, some[i:i+1], alone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spans returns the spans of an outcome, and about how many bytes they take: what every
// span carries, and the texts.
func (f *inFlightBatch) spans(ctx context.Context, o runstore.Pending) (spans []langfuse.Span, size int, err error) {
	item := o.Source
	if item == nil {
		stored, err := f.cfg.Run.Item(ctx, o.Item)
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
	return f.builders[o.Trial].spans(*item, o.Outcome), size, nil
}

// isRefusal reports whether the same request can never succeed.
func isRefusal(err error) bool {
	if api, ok := errors.AsType[*langfuse.APIError](err); ok {
		return api.Status == http.StatusBadRequest || errors.Is(err, langfuse.ErrTooLarge)
	}
	_, unanswered := errors.AsType[*langfuse.ConnectionError](err)
	return !unanswered && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// scoreBatch is how many scores go in one request.
const scoreBatch = 100

// scores sends the scores of the batch. An outcome whose scores were not all
// taken is not acknowledged: another round sends them again, unchanged.
func (f *inFlightBatch) scores(ctx context.Context) error {
	most := len(f.opened) * (len(scoring.Headlines()) + 1) // but where more are asked for
	todo := make([]runstore.Pending, 0, len(f.opened))
	scores := make([]langfuse.ScoreCreate, 0, most)
	owner := make([]int, 0, most) // of each score, its outcome in todo
	for _, o := range f.opened {
		if o.Published.Has(runstore.Scores) || f.refused.of(o.OID).part == runstore.Spans {
			continue
		}
		for _, s := range f.builders[o.Trial].scores(o) {
			scores, owner = append(scores, s), append(owner, len(todo))
		}
		todo = append(todo, o)
	}
	f.incomplete = map[int64]bool{}
	var failure error
	for i, err := range f.createScores(ctx, scores) {
		if err == nil {
			continue
		}
		o := todo[owner[i]]
		f.incomplete[o.OID] = true
		if errors.Is(err, langfuse.ErrRefused) {
			f.refuse(o, runstore.Scores, err)
		} else {
			failure = cmp.Or(failure, err)
		}
	}
	done := slices.DeleteFunc(todo, func(o runstore.Pending) bool { return f.incomplete[o.OID] })
	return errors.Join(f.ack(ctx, runstore.Scores, done), failure)
}

// createScores sends scores in requests of a hundred, several at once, and returns what
// became of each, in their order.
func (p *publisher) createScores(ctx context.Context, scores []langfuse.ScoreCreate) []error {
	results := make([]error, len(scores))
	group := new(errgroup.Group)
	group.SetLimit(requests)
	for first := 0; first < len(scores); first += scoreBatch {
		group.Go(func() error {
			copy(results[first:], p.cfg.Client.CreateScores(ctx, scores[first:min(first+scoreBatch, len(scores))]))
			return nil
		})
	}
	_ = group.Wait() // the errors are the results
	return results
}

// refusal is why Langfuse will never take a part of an outcome.
type refusal struct {
	part runstore.Published
	item string
	err  error
}

// refused is what Langfuse will never take, by outcome. Safe for concurrent use.
type refused struct {
	mu sync.Mutex
	by map[int64]refusal
}

// of returns why an outcome was set aside; the part is 0 where it was not.
func (r *refused) of(oid int64) refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[oid]
}

// all returns the refusals by the numbers of their outcomes.
func (r *refused) all() []refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]refusal, 0, len(r.by))
	for _, oid := range slices.Sorted(maps.Keys(r.by)) {
		list = append(list, r.by[oid])
	}
	return list
}

// refuse sets an outcome aside for what Langfuse says first to a part of it. The
// parts that follow a refused link are sent all the same.
func (p *publisher) refuse(o runstore.Pending, part runstore.Published, err error) {
	p.refused.mu.Lock()
	defer p.refused.mu.Unlock()
	if p.refused.by[o.OID].part == 0 {
		p.refused.by[o.OID] = refusal{part, o.Item, err}
		p.cfg.Log.Debug("Langfuse refuses a result for good", "item", o.Item, "error", err)
	}
}

// reason is one answer of the server, and what met it.
type reason struct {
	text      string
	items     int
	runScores int    // scores of the run as a whole
	first     string // the first that met it
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
	return fmt.Sprintf("%s: %s (first: %s)", strings.Join(who, " and "), r.text, r.first)
}

// refusals returns what was set aside, by reason, the first one first; nil where nothing was.
func (p *publisher) refusals() error {
	var reasons []*reason
	reasonOf := func(err error, first ...string) *reason {
		text := err.Error()
		if score, ok := errors.AsType[*langfuse.ScoreError](err); ok {
			text = score.Err.Error()
			first = append(first, fmt.Sprintf("score %q", score.Name))
		}
		i := slices.IndexFunc(reasons, func(r *reason) bool { return r.text == text })
		if i < 0 {
			i = len(reasons)
			reasons = append(reasons, &reason{text: text, first: strings.Join(first, ", ")})
		}
		return reasons[i]
	}
	for _, why := range p.refused.all() {
		reasonOf(why.err, fmt.Sprintf("item %q", why.item)).items++
	}
	for _, err := range p.refusedTotals {
		reasonOf(err).runScores++
	}
	if len(reasons) == 0 {
		return nil
	}
	var texts []string
	for _, r := range reasons {
		texts = append(texts, r.String())
	}
	return errors.New(strings.Join(texts, "; "))
}

// UnpublishedError says what the run file holds and Langfuse does not, or the
// other way round.
type UnpublishedError struct {
	Left int64 // outcomes that are not published, or not all of them
	// Totals: the scores of the run as a whole are not published.
	Totals bool
	// Withdrawn counts attempts that newer ones replaced, and whose scores
	// Langfuse still shows, or may yet show.
	Withdrawn int
	// Refused says that all of this was refused for good: to publish again will
	// change nothing.
	Refused bool
	Err     error
}

// Error tells how much, why, and what to do.
func (e *UnpublishedError) Error() string {
	var parts []string
	if e.Left > 0 {
		verb := "are"
		if e.Left == 1 {
			verb = "is"
		}
		parts = append(parts, fmt.Sprintf("%s %s scored and not published", textutil.Counted(e.Left, "result"), verb))
	}
	if e.Totals {
		parts = append(parts, "the scores of the run as a whole are not published")
	}
	if e.Withdrawn > 0 {
		parts = append(parts, fmt.Sprintf("the scores of %s are not deleted yet", textutil.Counted(e.Withdrawn, "replaced attempt")))
	}
	text := fmt.Sprintf("%s: %v", strings.Join(parts, ", "), e.Err)
	if e.Refused {
		text += "; sending it again changes nothing before the cause is gone; everything is in the run file"
	}
	return text
}

// Unwrap returns the reason.
func (e *UnpublishedError) Unwrap() error { return e.Err }

// ExitCode returns 69: nothing is lost, and unless it was refused, it can be
// published later.
func (e *UnpublishedError) ExitCode() int { return 69 }

// unpublished says what is left; nil where that is nothing.
func (p *publisher) unpublished(cause error) error {
	ctx := context.Background()
	counts, err := p.cfg.Run.Counts(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	refused := p.refusals()
	left := &UnpublishedError{Left: counts.Done - counts.Published, Err: errors.Join(refused, cause)}
	if !p.totalled && counts.Done > 0 {
		_, left.Totals, err = p.cfg.Run.Footer(ctx)
	}
	if err == nil {
		left.Withdrawn, err = p.retracted(ctx)
	}
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case left.Left == 0 && !left.Totals && left.Withdrawn == 0:
		return nil
	case left.Err == nil && left.Left == 0 && !left.Totals:
		left.Err = errors.New("Langfuse has not shown all of them yet, or takes its time with deletions")
	case left.Err == nil:
		left.Err = errors.New("publishing stopped early")
	}
	left.Refused = cause == nil && refused != nil && left.Withdrawn == 0 &&
		left.Left == int64(len(p.refused.all())) && left.Totals == (len(p.refusedTotals) > 0)
	return left
}

// retracted counts the attempts whose scores are to be deleted.
func (p *publisher) retracted(ctx context.Context) (n int, err error) {
	for after := int64(0); ; {
		page, err := p.cfg.Run.Retracted(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return n, err
		}
		n, after = n+len(page), page[len(page)-1].OID
	}
}
