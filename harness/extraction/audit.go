package extraction

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
	"extraction-experiment/seed"
)

// AuditItem is an item with what every system extracted from it.
type AuditItem struct {
	ID              string
	Input, Expected json.RawMessage
	// Outputs are the extractions in the order of the systems; nil where the item
	// failed, which says nothing about gold.
	Outputs []json.RawMessage
}

// AuditConfig says what is audited.
type AuditConfig struct {
	// Systems are the names of those that extracted, two at least.
	Systems []string
	Rules   *scoring.Scorer
	// Items are the items; it is called up to three times and gives the same each time.
	Items func() iter.Seq2[AuditItem, error]
	// Top is how many findings are kept, those of the highest doubt.
	Top int
	// Least is the doubt from which findings are kept.
	Least float64
	// Brief leaves out what needs a third pass: gold, places, words and effects.
	Brief bool
	// Keep are keys of findings that are kept whatever their doubt.
	Keep map[string]bool
	// Confirmed reports whether a person confirmed gold against a finding; nil: never.
	Confirmed func(item, finding string) bool
}

// AuditResult is what an audit found.
type AuditResult struct {
	Systems []AuditedSystem `json:"systems"`
	// Weight is what the words of all systems count for, in (0,1]: less the more they
	// miss the same, of entities and of relationships.
	Weight struct {
		Entities      float64 `json:"entities"`
		Relationships float64 `json:"relationships"`
	} `json:"weight"`
	Items int `json:"items"`
	// Skipped counts items without usable gold, or without two systems that delivered.
	Skipped   int `json:"skipped"`
	Confirmed int `json:"confirmed"` // findings that a person has answered
	Total     int `json:"total"`     // findings, shown or not
	// Tenths counts the findings by doubt: [0, 0.1), … [0.9, 1].
	Tenths   [10]int `json:"tenths"`
	Findings []Doubt `json:"findings"`
}

// AuditedSystem is how far a system is believed, see Audit.
type AuditedSystem struct {
	Name          string      `json:"name"`
	Entities      systemRates `json:"entities"`
	Relationships systemRates `json:"relationships"`
}

// Audit finds gold that may be wrong by what several systems extracted.
//
// A finding is a claim that an element of gold is none, that another one is in its
// place, or that gold lacks one; for the last two at least two systems must agree, on a type
// that the item's schemas have and, in place of another, on a name that the text has. Its
// doubt is
//
//	σ( ln(p/(1−p)) + w · Σ_s ln LR_s )
//
// p = 0.05 is assumed to be wrong in gold, 0.5 where gold itself gives a reason: a name
// that the text does not hold, a contradiction, an end of a relationship that is no
// entity. For a system s with the rates of systemRates, LR_s is Found/Shared where
// it has what gold lacks and (1−Found)/(1−Shared) where it has not, the inverse of these
// for an element that gold has, Right/(1−Right) for a change that it states and the
// inverse where it has what gold has. Rates are counted over all items, apart for entities
// and relationships, and shrunk by ten observations towards 0.7, 0.05 and 0.9.
// w = 1/(1 + (S−1)ρ) with the mean correlation ρ of the misses of two of S systems:
// systems that err alike count less. The doubt orders findings; it is not a probability.
//
// Extractions are compared as Rules does. Cost: three passes over the items, of which the
// last reads those of the findings that are kept; each scores every output once or twice.
// The error is one of Items, ctx, or of fewer than two systems (exit code 64).
func Audit(ctx context.Context, cfg AuditConfig) (AuditResult, error) {
	var result AuditResult
	n := len(cfg.Systems)
	if n < 2 {
		return result, cli.Usage("an audit needs what two systems or more extracted, or two trials of one; there is %d", n)
	}
	a := &audit{cfg: cfg, result: &result}
	tallies := map[string]*tally{scoring.AnEntity: newTally(n), scoring.ARelationship: newTally(n)}
	all := func(string) bool { return true }
	var err error
	result.Skipped, err = a.eachItem(ctx, all, func(_ string, r *reading) func() {
		counted := r.counted()
		return func() {
			result.Items++
			for _, c := range counted {
				if count := tallies[c.about().what]; c.expected != nil {
					count.element(c.stances)
				} else {
					count.beyond(c.stances)
				}
			}
		}
	})
	if err != nil {
		return result, err
	}
	entities, relationships := tallies[scoring.AnEntity].rates(), tallies[scoring.ARelationship].rates()
	a.rates = map[string]rates{scoring.AnEntity: entities, scoring.ARelationship: relationships}
	result.Weight.Entities, result.Weight.Relationships = entities.weight, relationships.weight
	for s, name := range cfg.Systems {
		result.Systems = append(result.Systems, AuditedSystem{name, entities.systems[s], relationships.systems[s]})
	}
	_, err = a.eachItem(ctx, all, func(id string, r *reading) func() {
		claims := r.claims()
		return func() { a.judge(id, claims) }
	})
	a.trim()
	if err == nil && !cfg.Brief {
		err = a.effects(ctx)
	}
	return result, err
}

type audit struct {
	cfg    AuditConfig
	result *AuditResult
	rates  map[string]rates // by what they are about
	inputs extraction.Decoder
}

// eachItem reads every item that is wanted on all processors, and calls what find makes of
// it in order. It returns how many cannot be used.
func (a *audit) eachItem(ctx context.Context, wanted func(id string) bool, find func(id string, r *reading) (take func())) (skipped int, err error) {
	items := func(yield func(AuditItem, error) bool) {
		for item, err := range a.cfg.Items() {
			if (err != nil || wanted(item.ID)) && !yield(item, err) {
				return
			}
		}
	}
	found := stats.Parallel(0, items, func(item AuditItem) (take func(), err error) {
		if r, ok := a.read(item); ok {
			return find(item.ID, r), nil
		}
		return func() { skipped++ }, nil
	})
	for take, err := range found {
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return skipped, err
		}
		take()
	}
	return skipped, nil
}

// read compares an item; not ok without gold, or without two outputs.
func (a *audit) read(item AuditItem) (*reading, bool) {
	gold, _, err := extraction.DecodeExtraction(item.Expected)
	if err != nil || gold.Entities == nil && gold.Relationships == nil {
		return nil, false
	}
	document, _, err := a.inputs.Document(item.Input)
	if err != nil {
		return nil, false
	}
	n := len(item.Outputs)
	r := &reading{gold: gold, expected: item.Expected, rules: a.cfg.Rules, index: extraction.NewIndex(document.Text),
		outputs: make([]*extraction.Extraction, n), results: make([]scoring.Result, n), faults: make([][]scoring.Fault, n),
		pooled: map[string][][]stance{}, warned: map[string]seed.Finding{}, types: map[string][]string{}}
	known := func(what, key, name string) {
		r.types[what] = append(r.types[what], textutil.FoldType(key), textutil.FoldType(name))
	}
	for key, s := range document.Objects {
		known(scoring.AnEntity, key, s.Name)
	}
	for key, s := range document.Relationships {
		known(scoring.ARelationship, key, s.Name)
	}
	if len(document.AllowedTypes) > 0 {
		r.types[scoring.AnEntity] = cli.Each(document.AllowedTypes, textutil.FoldType)
	}
	delivered := 0
	for s, raw := range item.Outputs {
		if output, _, err := extraction.DecodeExtraction(raw); err == nil {
			r.outputs[s] = &output
			delivered++
		}
	}
	if delivered < 2 {
		return nil, false
	}
	for s, output := range r.outputs {
		if output != nil {
			r.results[s] = r.rules.Score(gold, *output)
			r.faults[s] = scoring.Classify(r.results[s], r.contains)
			r.addToPool(s)
		}
	}
	for i, kinds := range r.kinds {
		r.pool.Entities[i].Type = r.commonest(kinds)
	}
	for _, f := range seed.CheckGold(document, gold) {
		place, _, ok := strings.Cut(f.Path, "]")
		if ok && slices.Contains([]seed.Kind{seed.Duplicate, seed.Redundant, seed.Contradicts, seed.UnknownType, seed.EndType, seed.EmptyName}, f.Kind) {
			r.warned[place] = f
		}
	}
	return r, true
}

// counted is what the rates are counted from: every element of gold, and every
// statement beyond it.
func (r *reading) counted() []claim {
	list := r.elements()
	for i, e := range elementsOf(&r.pool) {
		list = append(list, claim{proposed: &e, stances: r.pooled[e.what][i]})
	}
	return list
}

// judge gives the claims of an item their doubts.
func (a *audit) judge(id string, claims []claim) {
	for _, c := range claims {
		what := c.about().what
		d := Doubt{Item: id, Kind: c.kind, What: what, Doubt: a.rates[what].doubt(c), claim: c}
		d.Expected, d.Proposed = c.expected.String(), c.proposed.String()
		d.Key = d.key()
		if a.cfg.Confirmed != nil && a.cfg.Confirmed(d.Item, d.Key) {
			a.result.Confirmed++
			continue
		}
		a.result.Total++
		a.result.Tenths[min(9, int(d.Doubt*10))]++
		if a.cfg.Brief {
			d.claim = claim{} // it holds the whole item
		}
		if d.Doubt >= a.cfg.Least || a.cfg.Keep[d.Key] {
			a.result.Findings = append(a.result.Findings, d)
		}
	}
	if n := len(a.result.Findings); n > 1000 && n/4 > a.cfg.Top {
		a.trim()
	}
}

// trim keeps the findings of the highest doubt, and those that are asked for.
func (a *audit) trim() {
	list := a.result.Findings
	slices.SortStableFunc(list, func(x, y Doubt) int { return cmp.Or(cmp.Compare(y.Doubt, x.Doubt), cmp.Compare(x.Item, y.Item)) })
	kept := list[:0]
	for i, d := range list {
		if i < a.cfg.Top || a.cfg.Keep[d.Key] {
			kept = append(kept, d)
		}
	}
	clear(list[len(kept):])
	a.result.Findings = kept
}

// effects completes the findings that are kept with what needs their items again.
func (a *audit) effects(ctx context.Context) error {
	of := map[string][]*Doubt{}
	for i := range a.result.Findings {
		d := &a.result.Findings[i]
		of[d.Item] = append(of[d.Item], d)
	}
	_, err := a.eachItem(ctx, func(id string) bool { return len(of[id]) > 0 }, func(id string, r *reading) func() {
		for _, d := range of[id] {
			d.Gold = dataset.GoldHash(r.expected)
			d.complete(a.cfg.Systems, r, a.result.Items)
		}
		return func() {}
	})
	return err
}
