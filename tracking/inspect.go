package tracking

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// page compares some outcomes with their traces and scores.
func (v *verifier) page(ctx context.Context, page []runstore.Pending) error {
	var newest, all []string
	for _, o := range page {
		if v.settled[o.OID] {
			continue
		}
		id := TraceID(v.header, o.Outcome)
		all = append(all, id)
		if !o.Published.Has(runstore.Superseded) {
			newest = append(newest, id)
		}
	}
	traces, err := v.traces(ctx, newest)
	if err != nil {
		return err
	}
	scores, err := v.scores(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range page {
		id := TraceID(v.header, o.Outcome)
		if o.Published.Has(runstore.Superseded) {
			v.superseded(o, id, scores[id])
			continue
		}
		if v.moved[o.Trial] {
			v.repairs.again(o.OID, runstore.Spans)
		}
		v.outcome(o, id, traces[id], scores[id])
	}
	return nil
}

// outcome compares one newest attempt. When nothing differs it is settled.
func (v *verifier) outcome(o runstore.Pending, id string, trace langfuse.Trace, scores []langfuse.Score) {
	v.verdict.Outcomes++
	there := map[string]langfuse.Observation{}
	for _, span := range trace.Observations {
		there[span.ID] = span
	}
	missing := v.invisible(o, there)
	if v.settled[o.OID] {
		return
	}
	var c Checked
	findings := append(missing, v.spans(o, there, &c)...)
	want := map[string]wanted{}
	for _, s := range (builder{header: v.header}).scores(o) {
		value, _ := s.Value.Number()
		want[s.ID] = wanted{s.Name, value}
	}
	compared := compareScores(want, subject{identify(v.header, o.Outcome).span(0), v.header.ScoreEnvironment()}, scoreOfAny(v.header, o.Outcome), scores)
	c.Scores += compared.right
	for _, s := range compared.others {
		s.Trial, s.Item, s.Trace = o.Trial, o.Item, id
		v.other(s, len(findings)+len(compared.findings) == 0)
	}
	v.repairs.doubled(compared.doubled)
	if len(compared.missing) > 0 || len(compared.changed) > 0 {
		v.repairs.scores(o.OID, compared.later(v.cfg.Server))
	}
	findings = append(findings, compared.findings...)
	for _, f := range findings {
		f.Trial, f.Item, f.Trace = o.Trial, o.Item, id
		v.found(f)
	}
	if len(findings) == 0 {
		c.Items++
		v.settled[o.OID] = true
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
	if v.has(langfuse.ViewRuns) && seen&(inRuns|astray) == 0 {
		findings = append(findings, Finding{Kind: MissingRunItem, Detail: "the list of runs does not have the item"})
		v.repairs.again(o.OID, runstore.Link)
	}
	if v.has(langfuse.ViewExperiments) && seen&inExperiments == 0 && (rooted || v.settled[o.OID]) {
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
	if len(v.verdict.Superseded) < maxListed {
		v.verdict.Superseded = append(v.verdict.Superseded, SupersededEntry{Trial: o.Trial, Item: o.Item, Attempt: o.Attempt, Trace: id, Class: string(o.Class)})
	}
	gone := map[string]bool{}
	for _, s := range (builder{header: v.header}).scores(o) {
		gone[s.ID] = true
	}
	stale := false
	for _, s := range scores {
		if !gone[s.ID] {
			continue
		}
		stale = true
		delete(gone, s.ID)
		v.found(Finding{Kind: StaleScore, Trial: o.Trial, Item: o.Item, Trace: id, Score: s.Name, Detail: fmt.Sprintf("attempt %d was replaced, and its score is still there", o.Attempt)})
	}
	if stale && o.Published.Has(runstore.Withdrawn) {
		v.repairs.withdraw(o.OID, slices.Sorted(maps.Keys(gone)))
	}
}
