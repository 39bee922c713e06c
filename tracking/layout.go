package tracking

import (
	"time"

	"extraction-experiment/outcome"
)

// period is when a span begins and ends.
type period struct{ start, end time.Time }

// layOut returns when the spans of an outcome begin and end in Langfuse, the root
// and one for each call. Langfuse shows the length of the root as the latency of
// the item, so it is that of the run file: what was waited is left out, and the
// calls move together as if it had not been. Calls keep their length and whether
// they overlap, and lie within the root. What a judging model took is no part of
// the latency: its calls stand at the end of the root, without a length. The real
// times are in the metadata.
//
// With Form 0 everything is where it was.
func layOut(h outcome.Header, o outcome.Outcome) (root period, calls []period) {
	calls = make([]period, len(o.Calls))
	if h.Publication.Form == 0 {
		for i, c := range o.Calls {
			calls[i] = period{c.Started, later(c.Started, c.Ended)}
		}
		return period{o.Started, later(o.Started, o.Ended)}, calls
	}
	root = period{o.Started, o.Started.Add(max(0, o.Latency))}
	waits := outcome.WaitsOf(o.Calls)
	last := root.end
	for i, c := range o.Calls {
		if c.Kind == outcome.JudgingKind {
			calls[i] = period{root.end, root.end}
			continue
		}
		calls[i] = period{c.Started.Add(-waits.Before(c.Started)), c.Ended.Add(-waits.Before(c.Ended))}
		last = latest(last, calls[i].end)
	}
	beyond := last.Sub(root.end) // by a clock that was set, or a pipeline of its own
	for i, c := range o.Calls {
		if c.Kind != outcome.JudgingKind {
			calls[i] = calls[i].within(root, beyond)
		}
	}
	return root, calls
}

// within moves a period to an earlier time, and into the other one.
func (p period) within(root period, earlier time.Duration) period {
	length := max(0, p.end.Sub(p.start))
	start := latest(root.start, p.start.Add(-earlier))
	if start.After(root.end) {
		start = root.end
	}
	if left := root.end.Sub(start); length > left {
		length = left
	}
	return period{start, start.Add(length)}
}

// times adds to metadata when something really began and ended.
func times(m map[string]any, started, ended time.Time, waited time.Duration) {
	m["started"], m["ended"] = started.UTC(), ended.UTC()
	if waited > 0 {
		m["waited_ms"] = waited.Milliseconds()
	}
}
