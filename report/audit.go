package report

import (
	"fmt"
	"io"

	"extraction-experiment/compare"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
)

// Audit is what "experiment audit" prints.
type Audit struct {
	Dataset string `json:"dataset"`
	harness.AuditResult
	// Outdated counts items that were left out, since the dataset has other gold for
	// them by now.
	Outdated int `json:"outdated"`
	// Judging is what became of --judge.
	Judging *Judging `json:"judging,omitempty"`
	// Queue is what became of --queue.
	Queue *Queued `json:"queue,omitempty"`
}

// Judging sums up what a model says of the findings.
type Judging struct {
	Model    string   `json:"model"`
	Wrong    int      `json:"gold_is_wrong"`
	Right    int      `json:"gold_is_right"`
	Unusable int      `json:"unusable"` // answers
	CostUSD  *float64 `json:"cost_usd"` // nil is unknown
}

// Queued is what was put into an annotation queue.
type Queued struct {
	Name    string `json:"name"`
	Created bool   `json:"created"`
	Run     string `json:"run"` // whose traces they are
	Added   int    `json:"added"`
	// There counts traces that the queue has already, answered or not.
	There  int `json:"there"`
	Failed int `json:"failed"`
}

// AuditText writes an audit for a person: the systems and how far they are believed, the
// findings by doubt, and each with its reason. Lines fit Options.Width. It writes once;
// the error is that of the writer.
func AuditText(w io.Writer, a Audit, opt Options) error {
	p := newPage(opt)
	p.wrapped(fmt.Sprintf("%s · %s · %s", textutil.Line(a.Dataset), Counted(a.Items, "item"), Counted(a.Total, "finding")), 0, 2, p.bold)
	systems := Table{Title: "Systems", Columns: []Column{name("system"), number("finds"), number("errs alike").wide(3), number("type right").wide(1),
		number("rel. finds"), number("rel. errs alike").wide(4), number("rel. right").wide(2)}}
	for _, s := range a.Systems {
		e, r := s.Entities, s.Relationships
		systems.add(s.Name, rate(e.Found), rate(e.Shared), rate(e.Right), rate(r.Found), rate(r.Shared), rate(r.Right))
	}
	p.table(systems)
	p.note(fmt.Sprintf("their words together count for %s (entities) and %s (relationships) of what independent systems' would", rate(a.Weight.Entities), rate(a.Weight.Relationships)))
	p.title("Findings")
	for _, d := range a.Findings {
		p.heading()
		p.wrapped(fmt.Sprintf("%s  %s · %s · %s", rate(d.Doubt), d.Kind, textutil.Line(d.Item), d.Key), 0, 0, p.bold)
		p.wrapped(d.Change(), 6, 0, nil)
		p.wrapped(textutil.Line(d.Reason), 6, 0, p.faint)
		if j := d.Judged; j != nil {
			p.wrapped(textutil.Line(j.Model)+": "+j.Verdict()+": "+textutil.Line(j.Reason), 6, 0, nil)
		}
	}
	if more := a.Total - len(a.Findings); more > 0 {
		p.note(Counted(more, "finding") + " of less doubt; --top shows more")
	}
	p.table(a.Moves())
	for _, part := range []struct {
		n    int
		text string
	}{
		{a.Confirmed, "left out, since people confirmed the gold"},
		{a.Outdated, "left out, since the dataset has other gold by now: experiment rescore --dataset " + textutil.Line(a.Dataset) + "@now"},
		{a.Skipped, "without gold, or without the output of two systems"},
	} {
		if part.n > 0 {
			p.note(fmt.Sprintf("%s %s", Count(part.n), part.text))
		}
	}
	if j := a.Judging; j != nil {
		cost := "unknown"
		if j.CostUSD != nil {
			cost = dollars(*j.CostUSD)
		}
		p.note(fmt.Sprintf("%s: gold is wrong in %d, right in %d, no usable answer in %d; cost %s", textutil.Line(j.Model), j.Wrong, j.Right, j.Unusable, cost))
	}
	if q := a.Queue; q != nil {
		p.note(fmt.Sprintf("queue %s: %s of %s added, %d there already, %d failed", textutil.Line(q.Name), Counted(q.Added, "trace"), textutil.Line(q.Run), q.There, q.Failed))
	}
	return p.writeTo(w)
}

// Moves is by how much the mean of each run would change if all findings that are shown
// were right, one by one and added up.
func (a Audit) Moves() Table {
	t := Table{Title: "If all of these were right", Columns: []Column{name("system"), number(scoring.EntityF1), number(scoring.RelationshipF1)}}
	for _, s := range a.Systems {
		moved := map[string]float64{}
		for _, d := range a.Findings {
			for _, e := range d.Effects {
				if e.System == s.Name && e.Run != nil {
					moved[e.Score] += *e.Run
				}
			}
		}
		if len(moved) > 0 {
			t.add(s.Name, fmt.Sprintf("%+.3f", moved[scoring.EntityF1]), fmt.Sprintf("%+.3f", moved[scoring.RelationshipF1]))
		}
	}
	return t
}

func rate(v float64) string { return fmt.Sprintf("%.2f", v) }

// Regold is what scoring runs over other gold comes to; its JSON is what experiment
// rescore --dataset NAME@now prints.
type Regold struct {
	Metric string        `json:"metric"`
	Runs   []MovesResult `json:"runs"`
	Ranks  []RankShift   `json:"ranks"`
	// Verdicts and Gates are those against the first run.
	Verdicts []VerdictShift `json:"verdicts"`
	Gates    []GateShift    `json:"gates"`
}

// RankShift is the place of a run by the mean of the metric, failed items as 0.
type RankShift struct {
	Run        string   `json:"run"`
	Rescored   string   `json:"rescored"`
	Before     *float64 `json:"before"`
	After      *float64 `json:"after"`
	RankBefore int      `json:"rank_before"` // 0 without a mean
	RankAfter  int      `json:"rank_after"`
}

// VerdictShift is what a comparison said and says.
type VerdictShift struct {
	Base      string          `json:"base"`
	Candidate string          `json:"candidate"`
	Before    compare.Verdict `json:"before"`
	After     compare.Verdict `json:"after"`
	// Incomparable says that the runs could not be compared before.
	Incomparable bool `json:"incomparable_before"`
}

// GateShift is what a rule said and says.
type GateShift struct {
	Candidate string         `json:"candidate"`
	Rule      string         `json:"rule"`
	Before    compare.Answer `json:"before"`
	After     compare.Answer `json:"after"`
}

// RegoldText writes what other gold changes: ranks, verdicts, gates, and the scores and
// items of each run that moved. It writes once; the error is that of the writer.
func RegoldText(w io.Writer, r Regold, opt Options) error {
	p := newPage(opt)
	ranks := Table{Title: "Ranks by " + textutil.Line(r.Metric), Columns: []Column{name("run"), number("rank"),
		number("before"), number("after"), number("difference"), name("new run")}}
	for _, s := range r.Ranks {
		ranks.add(s.Run, shift(Count(s.RankBefore), Count(s.RankAfter)), Score(s.Before, 3), Score(s.After, 3), difference(s.Before, s.After), s.Rescored)
	}
	p.table(ranks)
	said := func(title, about string) Table {
		return Table{Title: title, Columns: []Column{name("candidate"), name(about), {Title: "says"}}}
	}
	verdicts, gates := said("Verdicts", "against"), said("Gates", "rule")
	for _, v := range r.Verdicts {
		before := string(v.Before)
		if v.Incomparable {
			before = "not comparable"
		}
		verdicts.add(v.Candidate, v.Base, shift(before, string(v.After)))
	}
	for _, g := range r.Gates {
		gates.add(g.Candidate, g.Rule, shift(string(g.Before), string(g.After)))
	}
	p.table(verdicts)
	p.table(gates)
	for _, m := range r.Runs {
		t := movedTable(m)
		t.Title += " · " + textutil.Line(m.From.Name)
		p.table(t)
	}
	p.note("experiment publish NEW RUN sends a new run to Langfuse")
	return p.writeTo(w)
}

// shift names what was and is, once where that is the same.
func shift(before, after string) string {
	if before == after {
		return after
	}
	return before + " → " + after
}
