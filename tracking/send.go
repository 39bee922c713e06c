package tracking

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// exports returns how many requests of spans are under way at once, and what one holds at most,
// in bytes. The embedded server answers at once and has its memory in this process, where
// a request is there as spans, as it is sent and as it is received.
func (p *publisher) exports() (atOnce, bytes int) {
	if p.cfg.Place == Embedded {
		return 1, 1 << 20
	}
	return 4, langfuse.DefaultBatchBytes
}

// parcel is the outcomes whose spans go in one request.
type parcel struct {
	some []runstore.Pending
	err  error
}

// traces sends the spans of the batch, those of many outcomes in one request and
// several requests at once. In memory are the spans of those requests. If the
// server refuses one for good, each outcome of it is sent alone.
func (f *inFlightBatch) traces(ctx context.Context) error {
	var parcels []*parcel
	group, inner := errgroup.WithContext(ctx)
	atOnce, most := f.exports()
	group.SetLimit(atOnce)
	failure := f.pack(ctx, most, func(some []runstore.Pending, spans []langfuse.Span) {
		one := &parcel{some: some}
		parcels = append(parcels, one)
		group.Go(func() error {
			if one.err = f.cfg.Client.ExportSpans(inner, f.cfg.Runner, spans); isRefusal(one.err) {
				return nil
			}
			return one.err
		})
	})
	failure = errors.Join(failure, group.Wait())
	for _, one := range parcels {
		switch {
		case one.err == nil:
			failure = errors.Join(failure, f.ack(ctx, runstore.Spans, one.some))
		case isRefusal(one.err):
			failure = errors.Join(failure, f.singly(ctx, one))
		}
	}
	return failure
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
		item, err := f.source(ctx, o)
		if err != nil {
			return err
		}
		more := f.builders[o.Trial].spans(item, o.Outcome)
		size := len(item.Input) + len(item.Expected) + len(item.Metadata) + sizeOf(o.Outcome)
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

// source returns the item of an outcome.
func (p *publisher) source(ctx context.Context, o runstore.Pending) (dataset.Item, error) {
	if o.Source != nil {
		return *o.Source, nil
	}
	item, err := p.cfg.Run.Item(ctx, o.Item)
	return item.Item, err
}

// sizeOf estimates the bytes of an outcome's spans, without the item's part:
// what every span carries, and the texts.
func sizeOf(o outcome.Outcome) int {
	const perSpan = 2 << 10
	size := perSpan + len(o.Output)
	for _, call := range o.Calls {
		size += perSpan + len(call.Input) + len(call.Output)
	}
	return size
}

// singly sends the outcomes of a refused request one by one, so that a bad one
// does not hold up the others.
func (f *inFlightBatch) singly(ctx context.Context, refused *parcel) error {
	if len(refused.some) == 1 {
		f.refuse(refused.some[0], runstore.Spans, refused.err)
		return nil
	}
	for i, o := range refused.some {
		item, err := f.source(ctx, o)
		if err != nil {
			return err
		}
		err = f.cfg.Client.ExportSpans(ctx, f.cfg.Runner, f.builders[o.Trial].spans(item, o.Outcome))
		switch {
		case err == nil:
			err = f.ack(ctx, runstore.Spans, refused.some[i:i+1])
		case isRefusal(err):
			f.refuse(o, runstore.Spans, err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isRefusal reports whether the same request can never succeed.
func isRefusal(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, langfuse.ErrTooLarge) {
		return true
	}
	var api *langfuse.APIError
	if errors.As(err, &api) {
		return api.Status == http.StatusBadRequest
	}
	var connection *langfuse.ConnectionError
	return !errors.As(err, &connection) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

const (
	scoreBatch = 100 // scores in one request
	// scoreTries is how often scores of which the server says that it failed on
	// them alone are sent again at once.
	scoreTries = 3
)

// scores sends the scores of the batch. An outcome whose scores were not all
// taken is not acknowledged: another round sends them again, unchanged.
func (f *inFlightBatch) scores(ctx context.Context) error {
	most := len(f.opened) * (len(scoring.Headlines()) + 1) // but where more are asked for
	todo := make([]runstore.Pending, 0, len(f.opened))
	scores := make([]langfuse.ScoreCreate, 0, most)
	owner := make(map[string]int, most)
	for _, o := range f.opened {
		if o.Published.Has(runstore.Scores) || f.refused.is(o.OID, runstore.Spans) {
			continue
		}
		for _, s := range f.builders[o.Trial].scores(o) {
			owner[s.ID] = len(todo)
			scores = append(scores, s)
		}
		todo = append(todo, o)
	}
	results, failure := f.createScores(ctx, scores)
	f.incomplete = map[int64]bool{}
	for _, r := range results {
		o := todo[owner[r.ID]]
		if r.State != langfuse.ScoreAccepted {
			f.incomplete[o.OID] = true
		}
		if r.State == langfuse.ScoreRefused {
			f.refuse(o, runstore.Scores, r.Err)
		} else if r.Err != nil && failure == nil {
			failure = r.Err
		}
	}
	done := slices.DeleteFunc(todo, func(o runstore.Pending) bool { return f.incomplete[o.OID] })
	return errors.Join(f.ack(ctx, runstore.Scores, done), failure)
}

// createScores sends scores in requests of a hundred, several at once, and those
// that the server failed on alone once more. The results stand in the order of
// the scores.
func (p *publisher) createScores(ctx context.Context, scores []langfuse.ScoreCreate) ([]langfuse.ScoreResult, error) {
	results := make([]langfuse.ScoreResult, len(scores))
	todo := make([]int, len(scores))
	for i := range todo {
		todo[i] = i
	}
	for try := 1; ; try++ {
		if err := p.sendScores(ctx, scores, todo, results); err != nil {
			return results, err
		}
		var again []int
		for _, i := range todo {
			if results[i].State == langfuse.ScoreUnknown {
				again = append(again, i)
			}
		}
		if len(again) == 0 || try == scoreTries {
			return results, nil
		}
		todo = again
		p.wait(ctx, pause(1)/10, nil, nil)
	}
}

// sendScores sends those scores that todo names.
func (p *publisher) sendScores(ctx context.Context, scores []langfuse.ScoreCreate, todo []int, results []langfuse.ScoreResult) error {
	var mu sync.Mutex
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	for len(todo) > 0 {
		n := min(scoreBatch, len(todo))
		part := todo[:n]
		todo = todo[n:]
		group.Go(func() error {
			some := make([]langfuse.ScoreCreate, len(part))
			for k, i := range part {
				some[k] = scores[i]
			}
			answers, err := p.cfg.Client.CreateScores(inner, some)
			mu.Lock()
			defer mu.Unlock()
			for k, i := range part {
				results[i] = answers[k]
			}
			return err
		})
	}
	return group.Wait()
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

// add reports whether it is the first of its outcome; others do not count.
func (r *refused) add(oid int64, why refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.by[oid]; known {
		return false
	}
	if r.by == nil {
		r.by = map[int64]refusal{}
	}
	r.by[oid] = why
	return true
}

func (r *refused) has(oid int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.by[oid]
	return known
}

// is reports whether it was that part of the outcome that was refused.
func (r *refused) is(oid int64, part runstore.Published) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	why, known := r.by[oid]
	return known && why.part == part
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

// RefusedError says what Langfuse will never take as it is, by reason, the first
// one first.
type RefusedError struct{ Reasons []Reason }

// Reason is one answer of the server, and what met it.
type Reason struct {
	Text  string
	Items int
	// RunScores counts scores of the run as a whole.
	RunScores int
	// Item and Score name the first that met it; empty where that was a score of
	// the run, or not about a score.
	Item, Score string
}

// String returns the reason as "11 items: … (first: ID)".
func (r Reason) String() string {
	var who, first []string
	if r.Items > 0 {
		who = append(who, textutil.Counted(r.Items, "item"))
		first = append(first, fmt.Sprintf("item %q", r.Item))
	}
	if r.RunScores > 0 {
		who = append(who, textutil.Counted(r.RunScores, "score")+" of the run")
	}
	if r.Score != "" {
		first = append(first, fmt.Sprintf("score %q", r.Score))
	}
	return fmt.Sprintf("%s: %s (first: %s)", strings.Join(who, " and "), r.Text, strings.Join(first, ", "))
}

// Error gives each reason once.
func (e *RefusedError) Error() string {
	var texts []string
	for _, r := range e.Reasons {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, "; ")
}

// refuse sets an outcome aside for what Langfuse says to a part of it. The
// parts that follow a refused link are sent all the same.
func (p *publisher) refuse(o runstore.Pending, part runstore.Published, err error) {
	if p.refused.add(o.OID, refusal{part, o.Item, err}) {
		p.cfg.Log.Debug("Langfuse refuses a result for good", "item", o.Item, "error", err)
	}
}

// refusals sums up what was set aside; nil where nothing was.
func (p *publisher) refusals() error {
	var reasons []Reason
	reasonOf := func(err error) *Reason {
		text, name := err.Error(), ""
		var score *langfuse.ScoreError
		if errors.As(err, &score) {
			text, name = score.Err.Error(), score.Name
		}
		i := slices.IndexFunc(reasons, func(r Reason) bool { return r.Text == text })
		if i < 0 {
			i = len(reasons)
			reasons = append(reasons, Reason{Text: text, Score: name})
		}
		return &reasons[i]
	}
	for _, why := range p.refused.all() {
		r := reasonOf(why.err)
		if r.Items++; r.Items == 1 {
			r.Item = why.item
		}
	}
	for _, err := range p.refusedTotals {
		reasonOf(err).RunScores++
	}
	if len(reasons) == 0 {
		return nil
	}
	return &RefusedError{reasons}
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
		parts = append(parts, fmt.Sprintf("%s scored and not published", isOrAre(e.Left, "result")))
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

func isOrAre(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return fmt.Sprintf("%d %ss are", n, noun)
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
