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

// Doubt is a finding: gold that may be wrong.
type Doubt struct {
	// Key names the finding; it depends on the item, the gold element and the change
	// alone, so that it is the same in the next audit.
	Key  string    `json:"key"`
	Item string    `json:"item"`
	Kind DoubtKind `json:"kind"`
	What string    `json:"what"` // "entity" or "relationship"
	// Doubt is from 0 to 1, and no probability.
	Doubt float64 `json:"doubt"`
	// Expected is what gold says, and Proposed what would replace it: "" where
	// gold lacks it, and where it would be taken out. Both are "" where an entity is
	// taken out that has neither name nor type.
	Expected string `json:"expected,omitempty"`
	Proposed string `json:"proposed,omitempty"`
	Reason   string `json:"reason"`
	// Gold is dataset.GoldHash of the item's expected output.
	Gold string `json:"gold"`
	// Places are where the text names it.
	Places  []Place      `json:"places,omitempty"`
	Says    []SystemSays `json:"says"`
	Effects []Effect     `json:"effects,omitempty"`
	// Judged is what a model says of it; nil where none was asked.
	Judged *Judged `json:"judged,omitempty"`

	claim claim
}

// Change says in a line what would change in gold.
func (d Doubt) Change() string {
	expected, proposed := textutil.Line(d.Expected), textutil.Line(d.Proposed)
	switch {
	case d.Expected == "" && d.Proposed == "":
		return "take out what has no name and no type"
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
	Wrong  *bool  `json:"gold_is_wrong"` // nil where the answer could not be used
	Reason string `json:"reason"`
}

// Verdict is the opinion in words.
func (j Judged) Verdict() string {
	switch {
	case j.Wrong == nil:
		return "no usable answer"
	case *j.Wrong:
		return "gold is wrong"
	}
	return "gold is right"
}

// Place is a stretch of the document with what is around it; offsets count code
// points.
type Place struct {
	extraction.Span
	Before string `json:"before"`
	After  string `json:"after"`
}

// around is how many code points of the document are on each side of a place.
const around = 160

// SystemSays is what one system has to do with a finding.
type SystemSays struct {
	System string `json:"system"`
	// For is true where the system speaks for the change, false where it has what gold
	// has, and nil where it says neither.
	For *bool  `json:"for"`
	Has string `json:"has,omitempty"` // where it has something else
}

// Effect is how a score would change if gold were changed.
type Effect struct {
	System string   `json:"system"`
	Score  string   `json:"score"`
	Before *float64 `json:"before"` // of the item; nil is undefined
	After  *float64 `json:"after"`
	// Run is the change of the run's mean, failures counted as 0; nil where the score
	// is undefined before or after.
	Run *float64 `json:"run"`
}

// key is a hash of what the finding is about.
func (d Doubt) key() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s %d %q %q", d.Item, d.Kind, d.claim.nth, d.Expected, d.Proposed))
	return hex.EncodeToString(sum[:6])
}

// complete adds places, reason, words of the systems and effects.
func (d *Doubt) complete(systems []string, r *reading, items int) {
	c := d.claim
	near := 0
	for _, name := range c.about().names() {
		span, found := r.index.Locate(name, near)
		if !found {
			continue
		}
		near = span.Start
		before, _ := r.index.Slice(max(0, span.Start-around), span.Start)
		after, _ := r.index.Slice(span.End, min(span.End+around, r.index.Len(extraction.CodePoints)))
		d.Places = append(d.Places, Place{Span: span, Before: before, After: after})
	}
	for s, st := range c.stances {
		says := SystemSays{System: systems[s]}
		if c.others != nil {
			says.Has = c.others[s].String()
		}
		if st == agrees || st == against {
			says.For = new(st == agrees)
		}
		d.Says = append(d.Says, says)
	}
	n := countOf(c.stances)
	d.Reason = c.why(n[agrees], len(c.stances)-n[absent])
	changed := corrected(r.gold, c)
	for s, output := range r.outputs {
		if output == nil {
			continue
		}
		before, after := r.results[s].Scores, r.rules.Measure(changed, *output).Scores
		for _, name := range []string{scoring.EntityF1, scoring.RelationshipF1} {
			was, _ := outcome.Lookup(before, name)
			is, _ := outcome.Lookup(after, name)
			effect := Effect{System: systems[s], Score: name, Before: was.Value, After: is.Value}
			both := was.Value != nil && is.Value != nil
			if both {
				effect.Run = new((*is.Value - *was.Value) / float64(items))
			}
			if both && *was.Value != *is.Value || (was.Value == nil) != (is.Value == nil) {
				d.Effects = append(d.Effects, effect)
			}
		}
	}
}

// why says in a sentence what speaks for the claim.
func (c claim) why(agree, of int) string {
	count := fmt.Sprintf("%d of %d systems", agree, of)
	nothing := count + " find nothing of the kind"
	if c.kind == NotInGold && c.suspect {
		return count + " have it, and a relationship of gold names it"
	}
	return map[DoubtKind]string{
		NotFound:      nothing + ", and the text has the name",
		NotInText:     "the text does not have the name; " + nothing,
		NotInGold:     count + " have it, and gold does not",
		Contradiction: c.reason + "; " + nothing,
		Reversed:      count + " have the other direction",
		OtherType:     count + " have this other type",
		OtherName:     count + " have this other name",
	}[c.kind]
}

// corrected changes gold as the claims want it.
func corrected(gold extraction.Extraction, claims ...claim) extraction.Extraction {
	entities, relationships := slices.Clone(gold.Entities), slices.Clone(gold.Relationships)
	noEntity, noRelationship := map[int]bool{}, map[int]bool{}
	for _, c := range claims {
		entity := c.about().what == scoring.AnEntity
		switch {
		case c.expected == nil && entity:
			entities = append(entities, c.proposed.entity())
		case c.expected == nil:
			relationships = append(relationships, c.proposed.relationship())
		case c.proposed == nil && entity:
			noEntity[c.index] = true
		case c.proposed == nil:
			noRelationship[c.index] = true
		case entity:
			e := &entities[c.index]
			if textutil.FoldName(e.Name) != textutil.FoldName(c.proposed.name) {
				e.Mentions = nil
			}
			e.Name, e.Type = c.proposed.name, c.proposed.kind
			for i := range relationships { // what was said of the name is said of the new one
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
	return extraction.Extraction{Entities: without(entities, noEntity), Relationships: without(relationships, noRelationship)}
}

// without takes elements out of a list by their indexes.
func without[T any](list []T, gone map[int]bool) []T {
	i := -1
	return slices.DeleteFunc(list, func(T) bool {
		i++
		return gone[i]
	})
}

// Corrected returns the expected output with findings of one audit of the item carried
// out. The error names two that change the same element of gold.
func Corrected(expected json.RawMessage, findings []Doubt) (json.RawMessage, error) {
	gold, _, err := extraction.DecodeExtraction(expected)
	if err != nil {
		return nil, err
	}
	touched := map[string]string{} // by claim.place
	var claims []claim
	for _, d := range findings {
		claims = append(claims, d.claim)
		if d.claim.expected == nil {
			continue
		}
		at := d.claim.place()
		if other := touched[at]; other != "" {
			return nil, fmt.Errorf("item %q: the findings %s and %s change the same %s of gold: accept one of them", d.Item, other, d.Key, d.What)
		}
		touched[at] = d.Key
	}
	return corrected(gold, claims...).MarshalJSON()
}

// systemRates is how far a system is believed, for one of the two lists.
type systemRates struct {
	// Found is the share of gold that it finds.
	Found float64 `json:"found"`
	// Shared is the chance that it says what another one wrongly says.
	Shared float64 `json:"shared"`
	// Right is the share of gold that it has as gold does, where it has it at all.
	Right float64 `json:"right"`
}

// rates are those of all systems, for one of the two lists.
type rates struct {
	systems []systemRates
	// weight is what the words of the systems together count for, see tally.
	weight float64
}

// The assumptions of the model; see Audit.
const (
	priorWrong = 0.05 // of what gold says or lacks
	priorEven  = 0.5  // where gold itself gives a reason
	shrinkage  = 10.0 // how many observations the first guesses are worth
	firstFound = 0.7
	firstShare = 0.05
	firstRight = 0.9
)

// tally counts what the rates are made of.
type tally struct {
	elements, missed int // missed: by all systems
	systems          []counts
	pairs            map[pairOf]float64
}

// pairOf is what two systems, by their numbers, make of an element of gold.
type pairOf struct {
	a, b         int
	missA, missB bool
}

// counts are those of a system.
type counts struct {
	found  int
	asked  int // elements of items that did not fail
	right  int // as gold has it
	shared int // statements beyond gold that another has
	joined int // of those, how many it has
}

func newTally(systems int) *tally {
	return &tally{systems: make([]counts, systems), pairs: map[pairOf]float64{}}
}

// element counts an element of gold.
func (t *tally) element(stances []stance) {
	t.elements++
	if countOf(stances)[agrees] == len(stances) {
		t.missed++
	}
	for s, st := range stances {
		n := &t.systems[s]
		if st == absent {
			continue
		}
		n.asked++
		if st != agrees {
			n.found++
		}
		if st == against {
			n.right++
		}
		for b, other := range stances[:s] {
			if other != absent {
				t.pairs[pairOf{s, b, st == agrees, other == agrees}]++
			}
		}
	}
}

// beyond counts a statement that gold does not have.
func (t *tally) beyond(stances []stance) {
	agreeing := countOf(stances)[agrees]
	for s, st := range stances {
		n := &t.systems[s]
		switch {
		case st == agrees && agreeing > 1:
			n.shared++
			n.joined++
		case st != agrees && st != absent && agreeing > 0:
			n.shared++
		}
	}
}

// rates turns counts into rates, shrunk towards first guesses.
func (t *tally) rates() rates {
	shrunk := func(k, n, first float64) float64 {
		return min(0.98, max(0.02, (max(0, k)+shrinkage*first)/(max(0, n)+shrinkage)))
	}
	r := rates{weight: t.weight()}
	for _, n := range t.systems {
		found := shrunk(float64(n.found), float64(n.asked), firstFound)
		lacking := priorWrong * float64(n.asked) // statements beyond gold that are true
		shared, joined := float64(n.shared)-lacking, float64(n.joined)-found*lacking
		r.systems = append(r.systems, systemRates{
			Found:  found,
			Shared: min(found, shrunk(min(joined, shared), shared, firstShare)),
			Right:  max(0.5, shrunk(float64(n.right), float64(n.found), firstRight)),
		})
	}
	return r
}

// weight is 1/(1 + (S−1)ρ): ρ, at least 0, is the mean correlation (phi) of the
// misses of two systems over the elements of gold. Of those that all miss as many
// are left out as gold is assumed to have wrong: they say nothing of the systems.
func (t *tally) weight() float64 {
	systems := len(t.systems)
	excused := float64(min(t.missed, int(priorWrong*float64(t.elements))))
	sum := 0.0
	for a := range systems {
		for b := range a {
			both := t.pairs[pairOf{a, b, true, true}] - excused
			missA, missB := both+t.pairs[pairOf{a, b, true, false}], both+t.pairs[pairOf{a, b, false, true}]
			n := missA + missB - both + t.pairs[pairOf{a, b, false, false}]
			if spread := math.Sqrt(missA * (n - missA) * missB * (n - missB)); spread > 0 {
				sum += max(0, (n*both-missA*missB)/spread)
			}
		}
	}
	return 1 / (1 + float64(systems-1)*sum/float64(systems*(systems-1)/2))
}

// doubt is how much speaks for a claim, see Audit.
func (r rates) doubt(c claim) float64 {
	prior := priorWrong
	if c.suspect {
		prior = priorEven
	}
	said := 0.0
	for s, st := range c.stances {
		said += r.systems[s].evidence(c.kind, st)
	}
	return 1 / (1 + math.Exp(-(math.Log(prior/(1-prior)) + r.weight*said)))
}

// evidence is the logarithm of the likelihood ratio of what a system says.
func (s systemRates) evidence(kind DoubtKind, st stance) float64 {
	yes, no := math.Log(s.Found/s.Shared), math.Log((1-s.Found)/(1-s.Shared))
	switch kind {
	case OtherType, OtherName, Reversed:
		yes = math.Log(s.Right / (1 - s.Right))
		no = -yes
	case NotFound, NotInText, Contradiction: // of a removal it is the other way round
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
