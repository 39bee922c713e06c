package tracking

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

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
		who = append(who, printable.Counted(r.Items, "item"))
		first = append(first, fmt.Sprintf("item %q", r.Item))
	}
	if r.RunScores > 0 {
		who = append(who, printable.Counted(r.RunScores, "score")+" of the run")
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
func (p *Publisher) refuse(o runstore.Pending, part runstore.Published, err error) {
	if p.refused.add(o.OID, refusal{part, o.Item, err}) {
		p.cfg.Log.Debug("Langfuse refuses a result for good", "item", o.Item, "error", err)
	}
}

// refusals sums up what was set aside; nil where nothing was.
func (p *Publisher) refusals() error {
	var reasons []Reason
	met := func(err error) *Reason {
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
		r := met(why.err)
		if r.Items++; r.Items == 1 {
			r.Item = why.item
		}
	}
	for _, err := range p.refusedTotals {
		met(err).RunScores++
	}
	if len(reasons) == 0 {
		return nil
	}
	return &RefusedError{reasons}
}
