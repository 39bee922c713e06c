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

// AuditItem is an item with the extractions of all systems.
type AuditItem struct {
	ID              string
	Input, Expected json.RawMessage
	// Outputs are the extractions in the order of the systems. nil means that the item failed,
	// which says nothing about gold.
	Outputs []json.RawMessage
}

// AuditConfig configures Audit.
type AuditConfig struct {
	// Systems are the names of the systems, at least two.
	Systems []string
	Rules   *scoring.Scorer
	// Items returns the items. It is called up to three times and must give the same items each
	// time.
	Items func() iter.Seq2[AuditItem, error]
	// Top is how many findings are kept, those with the highest doubt.
	Top int
	// MinDoubt is the lowest doubt of a finding that is kept.
	MinDoubt float64
	// Brief omits what needs a third pass: Gold, Places, Says and Effects.
	Brief bool
	// Keep holds keys of findings that are kept whatever their doubt.
	Keep map[string]bool
	// Confirmed reports whether a person confirmed gold against a finding; nil means never.
	Confirmed func(item, finding string) bool
}

// AuditResult is the result of an audit.
type AuditResult struct {
	Systems []AuditedSystem `json:"systems"`
	// Weight is the factor for the evidence of all systems, in (0, 1]; it is lower if systems
	// miss the same elements.
	Weight struct {
		Entities      float64 `json:"entities"`
		Relationships float64 `json:"relationships"`
	} `json:"weight"`
	Items int `json:"items"`
	// Skipped counts items without a usable document or gold, or with outputs of fewer than two
	// systems.
	Skipped   int `json:"skipped"`
	Confirmed int `json:"confirmed"` // findings against which a person confirmed gold
	Total     int `json:"total"`     // all others with MinDoubt, or in Keep, even if not among Top
	// Tenths counts the findings by doubt: [0, 0.1), … [0.9, 1].
	Tenths   [10]int `json:"tenths"`
	Findings []Doubt `json:"findings"`
}

// AuditedSystem holds the rates of a system, see Audit.
type AuditedSystem struct {
	Name          string      `json:"name"`
	Entities      systemRates `json:"entities"`
	Relationships systemRates `json:"relationships"`
	// Moves is how much the mean of each score of the run would change if gold had all Findings.
	// Of two about one element of gold, only the one with the higher doubt counts.
	Moves map[string]float64 `json:"moves"`
}

// Audit finds gold that may be wrong, from the extractions of several systems.
//
// A finding is a claim that an element of gold should be removed or replaced, or that gold
// lacks one. A replacement or an addition needs at least two systems that agree, a type that
// the schemas of the item have, and for a replacement a name that the text has. Its doubt is
//
//	σ( ln(p/(1−p)) + w · Σ_s ln LR_s )
//
// The prior p is 0.05, or 0.5 if gold itself gives a reason: a name that the text does not
// have, a contradiction, or an end of a relationship that is not an entity. For a system s with
// systemRates, LR_s is Found/Shared if it has an element that gold lacks and
// (1−Found)/(1−Shared) if it has not. For the removal of an element of gold, LR_s is the
// inverse of these. For a change it is Right/(1−Right) if the system states the change, and the
// inverse if it has what gold has. Rates are counted over all items, separately for entities
// and relationships, and shrunk by ten observations towards 0.7, 0.05 and 0.9. w is 1/(1 +
// (S−1)ρ), where S is the number of systems and ρ the mean correlation of the misses of two
// systems, so that systems with the same errors count less. The doubt orders findings; it is
// not a probability.
//
// Rules compares the extractions. Audit makes three passes over the items; the last one reads
// only the items of kept findings. Each pass scores every output once or twice. The error is
// that of Items or ctx, or has exit code 64 for fewer than two systems.
func Audit(ctx context.Context, cfg AuditConfig) (AuditResult, error) {
	result := AuditResult{Findings: []Doubt{}}
	n := len(cfg.Systems)
	if n < 2 {
		return result, cli.Usage("an audit needs the extractions of at least two systems, or of two trials of one; there is %d", n)
	}
	a := &audit{cfg: cfg, result: &result}
	tallies := map[string]*tally{scoring.FaultEntity: newTally(n), scoring.FaultRelationship: newTally(n)}
	every := func(string) bool { return true }
	var err error
	a.counts, err = a.eachItem(ctx, every, func(_ string, r *comparison) func() {
		observed := r.elements()
		for i, e := range elementsOf(&r.pool) { // beyond gold
			observed = append(observed, claim{proposed: &e, stances: r.poolStances[e.what][i]})
		}
		return func() {
			result.Items++
			for _, c := range observed {
				if count := tallies[c.subject().what]; c.expected != nil {
					count.addElement(c.stances)
				} else {
					count.addBeyond(c.stances)
				}
			}
		}
	})
	result.Skipped = a.counts.skipped
	if err != nil {
		return result, err
	}
	entities, relationships := tallies[scoring.FaultEntity].rates(), tallies[scoring.FaultRelationship].rates()
	a.rates = map[string]rates{scoring.FaultEntity: entities, scoring.FaultRelationship: relationships}
	result.Weight.Entities, result.Weight.Relationships = entities.weight, relationships.weight
	for s, name := range cfg.Systems {
		result.Systems = append(result.Systems, AuditedSystem{name, entities.systems[s], relationships.systems[s], map[string]float64{}})
	}
	_, err = a.eachItem(ctx, every, func(id string, r *comparison) func() {
		claims := r.claims()
		return func() { a.addFindings(id, claims) }
	})
	a.trim()
	if err == nil && !cfg.Brief {
		err = a.addEffects(ctx)
	}
	return result, err
}

type audit struct {
	cfg    AuditConfig
	result *AuditResult
	rates  map[string]rates // by element.what
	counts itemCounts
	inputs extraction.Decoder
}

// itemCounts counts the items of a pass.
type itemCounts struct {
	skipped int
	// entities and relationships count items, also skipped ones, of which gold has the list. These
	// are the items of which the mean of a score is taken, with failures counted as 0.
	entities, relationships int
}

// eachItem reads the included items on all processors with find, and calls the resulting
// functions in order.
func (a *audit) eachItem(ctx context.Context, include func(id string) bool, find func(id string, r *comparison) (apply func())) (n itemCounts, err error) {
	results := stats.Parallel(0, a.cfg.Items(), func(item AuditItem) (apply func(), err error) {
		if !include(item.ID) {
			return func() {}, nil
		}
		gold, _, _ := extraction.DecodeExtraction(item.Expected) // gold that cannot be read has neither list
		found := func() { n.skipped++ }
		if r, ok := a.read(item, gold); ok {
			found = find(item.ID, r)
		}
		return func() {
			if gold.Entities != nil {
				n.entities++
			}
			if gold.Relationships != nil {
				n.relationships++
			}
			found()
		}, nil
	})
	for apply, err := range results {
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return n, err
		}
		apply()
	}
	return n, nil
}

// read compares the outputs of an item with its gold; ok is false without gold or without two
// outputs.
func (a *audit) read(item AuditItem, gold extraction.Extraction) (*comparison, bool) {
	document, _, err := a.inputs.Document(item.Input)
	if err != nil || gold.Entities == nil && gold.Relationships == nil {
		return nil, false
	}
	n := len(item.Outputs)
	r := &comparison{gold: gold, expected: item.Expected, rules: a.cfg.Rules, index: extraction.NewIndex(document.Text),
		outputs: make([]*extraction.Extraction, n), results: make([]scoring.Result, n), faults: make([][]scoring.Fault, n),
		poolStances: map[string][][]stance{}, goldFindings: map[string]seed.Finding{}, allowedTypes: map[string][]string{}}
	addType := func(what, key, name string) {
		r.allowedTypes[what] = append(r.allowedTypes[what], textutil.FoldType(key), textutil.FoldType(name))
	}
	for key, s := range document.Objects {
		addType(scoring.FaultEntity, key, s.Name)
	}
	for key, s := range document.Relationships {
		addType(scoring.FaultRelationship, key, s.Name)
	}
	if len(document.AllowedTypes) > 0 {
		r.allowedTypes[scoring.FaultEntity] = cli.Each(document.AllowedTypes, textutil.FoldType)
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
	for i, kinds := range r.poolTypes {
		r.pool.Entities[i].Type = r.mostCommonType(kinds)
	}
	for _, f := range seed.CheckGold(document, gold) {
		place, _, ok := strings.Cut(f.Path, "]")
		if ok && slices.Contains([]seed.Kind{seed.Duplicate, seed.Redundant, seed.Contradicts, seed.UnknownType, seed.EndType, seed.EmptyName}, f.Kind) {
			r.goldFindings[place] = f
		}
	}
	return r, true
}

// addFindings adds the claims of an item with their doubts.
func (a *audit) addFindings(id string, claims []claim) {
	for _, c := range claims {
		what := c.subject().what
		d := Doubt{Item: id, Kind: c.kind, What: what, Doubt: a.rates[what].doubt(c), claim: c}
		d.Expected, d.Proposed = c.expected.String(), c.proposed.String()
		d.Key = d.key()
		if a.cfg.Confirmed != nil && a.cfg.Confirmed(d.Item, d.Key) {
			a.result.Confirmed++
			continue
		}
		if d.Doubt < a.cfg.MinDoubt && !a.cfg.Keep[d.Key] {
			continue
		}
		a.result.Total++
		a.result.Tenths[min(9, int(d.Doubt*10))]++
		if a.cfg.Brief {
			d.claim = claim{} // it references the whole item
		}
		a.result.Findings = append(a.result.Findings, d)
	}
	if n := len(a.result.Findings); n > 1000 && n/4 > a.cfg.Top {
		a.trim()
	}
}

// trim keeps the findings with the highest doubt, and those in Keep.
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

// addEffects completes the kept findings from their items.
func (a *audit) addEffects(ctx context.Context) error {
	byItem := map[string][]*Doubt{}
	for i := range a.result.Findings {
		d := &a.result.Findings[i]
		byItem[d.Item] = append(byItem[d.Item], d)
	}
	_, err := a.eachItem(ctx, func(id string) bool { return len(byItem[id]) > 0 }, func(id string, r *comparison) func() {
		var claims []claim
		changed := map[string]bool{} // by claim.place
		for _, d := range byItem[id] {
			d.Gold = dataset.GoldHash(r.expected)
			d.complete(a.cfg.Systems, r, a.counts)
			if d.claim.expected == nil {
				claims = append(claims, d.claim)
			} else if place := d.claim.place(); !changed[place] {
				changed[place] = true
				claims = append(claims, d.claim)
			}
		}
		together := r.effects(a.cfg.Systems, a.counts, claims...)
		return func() {
			for _, e := range together {
				if s := slices.Index(a.cfg.Systems, e.System); e.Run != nil {
					a.result.Systems[s].Moves[e.Score] += *e.Run
				}
			}
		}
	})
	return err
}
