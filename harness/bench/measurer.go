package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// mostCauses is how many causes a report keeps.
const mostCauses = 100

// sum adds judgements up.
type sum struct {
	cases, outcomes, success int
	count, shaped, quoted    int
	coverage                 stats.Sum
}

func (s *sum) add(r judgement) {
	s.outcomes++
	s.success += toInt(r.success)
	s.count += r.count
	s.shaped += r.shaped
	s.quoted += r.quoted
	s.coverage.Add(rate(r.covered, r.wanted))
}

// trial is one pass over the cases.
type trial struct {
	sum
	keys map[string]bool
}

// measured is a case with what it came to in each trial.
type measured struct {
	gold       gold
	signatures map[int]string
}

type measurer struct {
	trials     int
	perTrial   []trial
	cases      map[string]*measured
	categories map[string]*sum
	all        sum
	errors     map[Code]int
	causes     []Cause
	more       int
}

func newMeasurer(trials int) *measurer {
	m := &measurer{trials: trials, perTrial: make([]trial, trials), cases: map[string]*measured{}, categories: map[string]*sum{}, errors: map[Code]int{}}
	for i := range m.perTrial {
		m.perTrial[i].keys = map[string]bool{}
	}
	return m
}

func (m *measurer) addCase(id string, g gold) {
	m.cases[id] = &measured{g, map[int]string{}}
	category := m.category(g)
	category.cases++
	m.all.cases++
}

// category returns the sum of the category of a case; smoke cases without one
// are their own.
func (m *measurer) category(g gold) *sum {
	name := g.Category
	if name == "" {
		name = "smoke"
	}
	if m.categories[name] == nil {
		m.categories[name] = &sum{}
	}
	return m.categories[name]
}

// add takes the outcome of a case in one trial.
func (m *measurer) add(o outcome.Outcome) {
	c := m.cases[o.Item]
	if c == nil || o.Trial < 1 || o.Trial > m.trials {
		return
	}
	a := answerOf(o)
	r := c.gold.judge(a)
	if o.Failed() && r.success { // a failure is expected of the answer, not of the case
		r.success, r.why = false, "there is no answer: "+a.Failures[0].Message
	}
	t := &m.perTrial[o.Trial-1]
	for _, s := range []*sum{&m.all, &t.sum, m.category(c.gold)} {
		s.add(r)
	}
	var keys []string
	for _, rec := range a.Records {
		key := rec.key(o.Item)
		t.keys[key] = true
		keys = append(keys, key)
		m.explain(o, rec)
	}
	if !r.success {
		m.cause(Cause{CaseID: o.Item, Trial: o.Trial, Metric: "successRate", Detail: r.why})
	}
	slices.Sort(keys)
	c.signatures[o.Trial] = fmt.Sprint(a.Kind, len(a.Failures) > 0, slices.Compact(keys))
}

// answerOf returns the answer of an outcome; a case that failed has none.
func answerOf(o outcome.Outcome) Answer {
	var a Answer
	if o.Failed() || json.Unmarshal(o.Output, &a) != nil {
		message := "the output is no answer"
		if o.Failure != nil {
			message = o.Failure.Error()
		}
		return newAnswer(nil, 0, Failure{string(o.Class), message})
	}
	return a
}

// explain notes what is wrong with a record.
func (m *measurer) explain(o outcome.Outcome, rec Record) {
	c := Cause{CaseID: o.Item, Trial: o.Trial, Class: shortened(rec.Class), Quote: shortened(rec.Quote)}
	if rec.Shape != "" {
		c.Metric, c.Detail = "schemaValidRate", rec.Shape
		m.cause(c)
	}
	if rec.Code != "" {
		m.errors[rec.Code]++
		c.Metric, c.Code, c.Detail = "quoteInvariantRate", rec.Code, fmt.Sprintf("at %s to %s (%s)", number(rec.Start), number(rec.End), rec.Mode)
		m.cause(c)
	}
}

func (m *measurer) cause(c Cause) {
	m.causes = append(m.causes, c)
	if len(m.causes) >= 2*mostCauses {
		m.trimCauses()
	}
}

// trimCauses keeps the first by case, cause and trial, whatever order they came in.
func (m *measurer) trimCauses() {
	slices.SortFunc(m.causes, compareCauses)
	if extra := len(m.causes) - mostCauses; extra > 0 {
		m.causes, m.more = m.causes[:mostCauses], m.more+extra
	}
}

func compareCauses(a, b Cause) int {
	return cmp.Or(strings.Compare(a.CaseID, b.CaseID), strings.Compare(a.Metric, b.Metric), strings.Compare(string(a.Code), string(b.Code)),
		strings.Compare(a.Quote, b.Quote), strings.Compare(a.Class, b.Class), strings.Compare(a.Detail, b.Detail), a.Trial-b.Trial)
}
