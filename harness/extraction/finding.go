package extraction

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// Doubt is a finding: a place in gold that may be wrong.
type Doubt struct {
	// Key identifies the finding. It depends only on the item, the gold element and the change,
	// so that it is the same in the next audit.
	Key  string    `json:"key"`
	Item string    `json:"item"`
	Kind DoubtKind `json:"kind"`
	What string    `json:"what"` // "entity" or "relationship"
	// Doubt is in [0, 1]; it is not a probability.
	Doubt float64 `json:"doubt"`
	// Expected is the element of gold and Proposed its replacement. Expected is "" if gold
	// lacks the element, and Proposed is "" for a removal. Both are "" for the removal of an
	// entity without name and type.
	Expected string `json:"expected,omitempty"`
	Proposed string `json:"proposed,omitempty"`
	Reason   string `json:"reason"`
	// Gold is the dataset.GoldHash of the expected output of the item.
	Gold string `json:"gold"`
	// Places are the places of the names in the text.
	Places  []Place         `json:"places,omitempty"`
	Says    []SystemOpinion `json:"says"`
	Effects []Effect        `json:"effects,omitempty"`
	// Judged is the opinion of a model, or nil if none was asked.
	Judged *Judged `json:"judged,omitempty"`

	claim claim
}

// Change describes the change of gold in one line.
func (d Doubt) Change() string {
	expected, proposed := textutil.Line(d.Expected), textutil.Line(d.Proposed)
	switch {
	case d.Expected == "" && d.Proposed == "":
		return "remove the entity without name and type"
	case d.Expected == "":
		return "add " + proposed
	case d.Proposed == "":
		return "take out " + expected
	}
	return expected + " → " + proposed
}

// Judged is the opinion of a model about a finding.
type Judged struct {
	Model  string `json:"model"`
	Wrong  *bool  `json:"gold_is_wrong"` // nil if the answer was not usable
	Reason string `json:"reason"`
}

// Verdict returns the opinion in words.
func (j Judged) Verdict() string {
	switch {
	case j.Wrong == nil:
		return "no usable answer"
	case *j.Wrong:
		return "gold is wrong"
	}
	return "gold is right"
}

// Place is a section of the document with the text around it; offsets count code points.
type Place struct {
	extraction.Span
	Before string `json:"before"`
	After  string `json:"after"`
}

// contextSize is how many code points of the document a Place has on each side.
const contextSize = 160

// SystemOpinion is the output of a system about a finding.
type SystemOpinion struct {
	System string `json:"system"`
	// For is true if the system supports the change, false if it has what gold has, and nil
	// otherwise.
	For *bool  `json:"for"`
	Has string `json:"has,omitempty"` // the other element of the system, if it has one
}

// Effect is how a score would change with gold.
type Effect struct {
	System string   `json:"system"`
	Score  string   `json:"score"`
	Before *float64 `json:"before"` // for the item; nil is undefined
	After  *float64 `json:"after"`
	// Run is the change of the mean of the run, with failures counted as 0, or nil if the score
	// is undefined before or after.
	Run *float64 `json:"run"`
}

// key returns a hash of the subject of the finding.
func (d Doubt) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s %d %q %q", d.Item, d.Kind, d.claim.occurrence, d.Expected, d.Proposed))
	return hex.EncodeToString(sum[:6])
}

// complete adds places, reason, outputs of the systems, and effects.
func (d *Doubt) complete(systems []string, r *comparison, items itemCounts) {
	c := d.claim
	near := 0
	for _, name := range c.subject().names() {
		span, found := r.index.Locate(name, near)
		if !found {
			continue
		}
		near = span.Start
		before, _ := r.index.Slice(max(0, span.Start-contextSize), span.Start)
		after, _ := r.index.Slice(span.End, min(span.End+contextSize, r.index.Len(extraction.CodePoints)))
		d.Places = append(d.Places, Place{Span: span, Before: before, After: after})
	}
	for s, st := range c.stances {
		says := SystemOpinion{System: systems[s]}
		if c.others != nil {
			says.Has = c.others[s].String()
		}
		if st == agrees || st == against {
			says.For = new(st == agrees)
		}
		d.Says = append(d.Says, says)
	}
	n := countStances(c.stances)
	d.Reason = c.why(n[agrees], n[against], len(c.stances)-n[absent])
	d.Effects = r.effects(systems, items, c)
}

// effects returns how the scores of each system would change with the claims.
func (r *comparison) effects(systems []string, items itemCounts, claims ...claim) (list []Effect) {
	changed := applyClaims(r.gold, claims...)
	for s, output := range r.outputs {
		if output == nil {
			continue
		}
		before, after := r.results[s].Scores, r.rules.Measure(changed, *output).Scores
		for _, score := range []struct {
			name  string
			items int
		}{{scoring.EntityF1, items.entities}, {scoring.RelationshipF1, items.relationships}} {
			oldScore, _ := outcome.Lookup(before, score.name)
			newScore, _ := outcome.Lookup(after, score.name)
			effect := Effect{System: systems[s], Score: score.name, Before: oldScore.Value, After: newScore.Value}
			defined := oldScore.Value != nil && newScore.Value != nil
			if defined {
				effect.Run = new((*newScore.Value - *oldScore.Value) / float64(score.items))
			}
			if defined && *oldScore.Value != *newScore.Value || (oldScore.Value == nil) != (newScore.Value == nil) {
				list = append(list, effect)
			}
		}
	}
	return list
}

// why returns a sentence with the evidence for the claim.
func (c claim) why(agree, have, total int) string {
	count := fmt.Sprintf("%d of %d systems", agree, total)
	noneFound := count + " find nothing of the kind"
	switch {
	case have == total:
		noneFound = fmt.Sprintf("all %d systems have it", total)
	case agree == 0:
		noneFound = fmt.Sprintf("all %d systems have it, or something in its place", total)
	}
	if c.kind == NotInGold && c.suspect {
		return count + " have it, and a relationship of gold names it"
	}
	if c.kind == OtherName && textutil.FoldType(c.expected.kind) != textutil.FoldType(c.proposed.kind) {
		return count + " have this other name and type"
	}
	return map[DoubtKind]string{
		NotFound:      noneFound + ", and the text has the name",
		NotInText:     "the text does not have the name; " + noneFound,
		NotInGold:     count + " have it, and gold does not",
		Contradiction: c.reason + "; " + noneFound,
		Reversed:      count + " have the other direction",
		OtherType:     count + " have this other type",
		OtherName:     count + " have this other name",
	}[c.kind]
}

// applyClaims returns gold with the changes of the claims.
func applyClaims(gold extraction.Extraction, claims ...claim) extraction.Extraction {
	entities, relationships := slices.Clone(gold.Entities), slices.Clone(gold.Relationships)
	removed := map[string]map[int]bool{scoring.FaultEntity: {}, scoring.FaultRelationship: {}}
	for _, c := range claims {
		entity := c.subject().what == scoring.FaultEntity
		switch {
		case c.expected == nil && entity:
			entities = append(entities, c.proposed.entity())
		case c.expected == nil:
			relationships = append(relationships, c.proposed.relationship())
		case c.proposed == nil:
			removed[c.expected.what][c.index] = true
		case entity:
			e := &entities[c.index]
			if textutil.FoldName(e.Name) != textutil.FoldName(c.proposed.name) {
				e.Mentions = nil
			}
			e.Name, e.Type = c.proposed.name, c.proposed.kind
			for i := range relationships { // relationships of the entity get its new name
				for _, end := range []*string{&relationships[i].Source, &relationships[i].Target} {
					if textutil.FoldName(*end) == textutil.FoldName(c.expected.name) {
						*end = e.Name
					}
				}
			}
		default:
			r := &relationships[c.index]
			r.Source, r.Target, r.Type = c.proposed.name, c.proposed.target, c.proposed.kind
		}
	}
	return extraction.Extraction{
		Entities:      removeIndexes(entities, removed[scoring.FaultEntity]),
		Relationships: removeIndexes(relationships, removed[scoring.FaultRelationship]),
	}
}

// removeIndexes removes elements from a list by their indexes.
func removeIndexes[T any](list []T, removed map[int]bool) []T {
	i := -1
	return slices.DeleteFunc(list, func(T) bool {
		i++
		return removed[i]
	})
}

// Corrected returns the expected output with the changes of findings, which must be from one
// audit of the item. It is an error if two findings change the same element of gold.
func Corrected(expected json.RawMessage, findings []Doubt) (json.RawMessage, error) {
	gold, _, err := extraction.DecodeExtraction(expected)
	if err != nil {
		return nil, err
	}
	changedBy := map[string]string{} // finding by claim.place
	var claims []claim
	for _, d := range findings {
		claims = append(claims, d.claim)
		if d.claim.expected == nil {
			continue
		}
		place := d.claim.place()
		if other := changedBy[place]; other != "" {
			return nil, fmt.Errorf("item %q: the findings %s and %s change the same %s of gold: accept one of them", d.Item, other, d.Key, d.What)
		}
		changedBy[place] = d.Key
	}
	return applyClaims(gold, claims...).MarshalJSON()
}

// LostEnds returns the names that relationships have in the corrected expected output of an entity
// that only the earlier one has.
func LostEnds(earlier, corrected json.RawMessage) (names []string) {
	var before, after comparison
	before.gold, _, _ = extraction.DecodeExtraction(earlier) // without entities if it cannot be read
	after.gold, _, _ = extraction.DecodeExtraction(corrected)
	for _, r := range after.gold.Relationships {
		for _, end := range []string{r.Source, r.Target} {
			if before.goldNames(end) && !after.goldNames(end) && !slices.Contains(names, end) {
				names = append(names, end)
			}
		}
	}
	return names
}

// systemRates are the rates of a system for one of the two lists. They decide how much the
// audit believes it.
type systemRates struct {
	// Found is the share of gold that the system finds.
	Found float64 `json:"found"`
	// Shared is the chance that the system repeats a wrong statement of another one.
	Shared float64 `json:"shared"`
	// Right is the share of the found elements of gold that the system has like gold.
	Right float64 `json:"right"`
}

// rates holds the rates of all systems for one of the two lists.
type rates struct {
	systems []systemRates
	// weight is the factor for the evidence of all systems, see tally.weight.
	weight float64
}

// The assumptions of the model; see Audit.
const (
	priorWrong    = 0.05 // share of gold that is wrong or missing
	priorSuspect  = 0.5  // if gold itself gives a reason
	shrinkage     = 10.0 // weight of the initial rates, in observations
	initialFound  = 0.7
	initialShared = 0.05
	initialRight  = 0.9
)

// tally counts the observations for the rates.
type tally struct {
	elements, missedByAll int // missedByAll counts elements that all systems miss
	systems               []systemCounts
	pairs                 map[missPair]float64
}

// missPair is which of two systems, by index, miss an element of gold.
type missPair struct {
	a, b         int
	missA, missB bool
}

// systemCounts are the observations of one system.
type systemCounts struct {
	found     int
	delivered int // elements of items that did not fail
	right     int // found as in gold
	shared    int // statements beyond gold that another system has
	repeated  int // statements of shared that this system has too
}

func newTally(systems int) *tally {
	return &tally{systems: make([]systemCounts, systems), pairs: map[missPair]float64{}}
}

// addElement counts an element of gold.
func (t *tally) addElement(stances []stance) {
	t.elements++
	if countStances(stances)[agrees] == len(stances) {
		t.missedByAll++
	}
	for s, st := range stances {
		n := &t.systems[s]
		if st == absent {
			continue
		}
		n.delivered++
		if st != agrees {
			n.found++
		}
		if st == against {
			n.right++
		}
		for b, other := range stances[:s] {
			if other != absent {
				t.pairs[missPair{s, b, st == agrees, other == agrees}]++
			}
		}
	}
}

// addBeyond counts a statement that gold does not have.
func (t *tally) addBeyond(stances []stance) {
	agreeing := countStances(stances)[agrees]
	for s, st := range stances {
		n := &t.systems[s]
		switch {
		case st == agrees && agreeing > 1:
			n.shared++
			n.repeated++
		case st != agrees && st != absent && agreeing > 0:
			n.shared++
		}
	}
}

// rates returns the rates, shrunk towards the initial ones.
func (t *tally) rates() rates {
	shrink := func(k, n, first float64) float64 {
		return min(0.98, max(0.02, (max(0, k)+shrinkage*first)/(max(0, n)+shrinkage)))
	}
	r := rates{weight: t.weight()}
	for _, n := range t.systems {
		found := shrink(float64(n.found), float64(n.delivered), initialFound)
		trueBeyond := priorWrong * float64(n.delivered) // expected number of true statements beyond gold
		shared, repeated := float64(n.shared)-trueBeyond, float64(n.repeated)-found*trueBeyond
		r.systems = append(r.systems, systemRates{
			Found:  found,
			Shared: min(found, shrink(min(repeated, shared), shared, initialShared)),
			Right:  max(0.5, shrink(float64(n.right), float64(n.found), initialRight)),
		})
	}
	return r
}

// weight returns 1/(1 + (S−1)ρ). ρ is the mean over pairs of systems of the correlation (phi,
// at least 0) of their misses over the elements of gold. Among the elements that all systems
// miss, as many are excluded as gold is assumed to have wrong, because they say nothing about
// the systems.
func (t *tally) weight() float64 {
	systems := len(t.systems)
	excused := float64(min(t.missedByAll, int(priorWrong*float64(t.elements))))
	sum := 0.0
	for a := range systems {
		for b := range a {
			both := t.pairs[missPair{a, b, true, true}] - excused
			missA, missB := both+t.pairs[missPair{a, b, true, false}], both+t.pairs[missPair{a, b, false, true}]
			n := missA + missB - both + t.pairs[missPair{a, b, false, false}]
			if deviation := math.Sqrt(missA * (n - missA) * missB * (n - missB)); deviation > 0 {
				sum += max(0, (n*both-missA*missB)/deviation)
			}
		}
	}
	return 1 / (1 + float64(systems-1)*sum/float64(systems*(systems-1)/2))
}

// doubt returns the doubt of a claim, see Audit.
func (r rates) doubt(c claim) float64 {
	prior := priorWrong
	if c.suspect {
		prior = priorSuspect
	}
	evidence := 0.0
	for s, st := range c.stances {
		evidence += r.systems[s].evidence(c.kind, st)
	}
	return 1 / (1 + math.Exp(-(math.Log(prior/(1-prior)) + r.weight*evidence)))
}

// evidence returns the logarithm of the likelihood ratio for the stance of a system.
func (s systemRates) evidence(kind DoubtKind, st stance) float64 {
	yes, no := math.Log(s.Found/s.Shared), math.Log((1-s.Found)/(1-s.Shared))
	switch kind {
	case OtherType, OtherName, Reversed:
		yes = math.Log(s.Right / (1 - s.Right))
		no = -yes
	case NotFound, NotInText, Contradiction: // for a removal, the signs are reversed
		yes, no = -no, -yes
		if st == silent {
			return 0
		}
	}
	switch st {
	case agrees:
		return yes
	case against:
		return no
	}
	return 0
}
