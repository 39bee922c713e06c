package extraction

import (
	"math"
	"slices"
	"strings"
)

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
	elements int
	found    []int    // by system
	asked    []int    // elements of items that did not fail
	right    []int    // as gold has it
	shared   [][2]int // statements beyond gold that another has, and how many of them it has
	missed   map[string]int
}

func newTally(systems int) *tally {
	return &tally{found: make([]int, systems), asked: make([]int, systems), right: make([]int, systems), shared: make([][2]int, systems), missed: map[string]int{}}
}

// element counts an element of gold.
func (t *tally) element(stances []stance) {
	t.elements++
	pattern := make([]byte, len(stances))
	for s, st := range stances {
		pattern[s] = byte('0' + st)
		if st == absent {
			continue
		}
		t.asked[s]++
		if st != agrees {
			t.found[s]++
		}
		if st == against {
			t.right[s]++
		}
	}
	t.missed[string(pattern)]++
}

// beyond counts a statement that gold does not have.
func (t *tally) beyond(stances []stance) {
	for s, st := range stances {
		others := slices.ContainsFunc(slices.Concat(stances[:s], stances[s+1:]), func(other stance) bool { return other == agrees })
		if st == absent || !others {
			continue
		}
		t.shared[s][0]++
		if st == agrees {
			t.shared[s][1]++
		}
	}
}

// rates turns counts into rates, shrunk towards first guesses.
func (t *tally) rates() rates {
	shrunk := func(k, n, first float64) float64 {
		return min(0.98, max(0.02, (max(0, k)+shrinkage*first)/(max(0, n)+shrinkage)))
	}
	r := rates{weight: t.weight()}
	for s := range t.found {
		found := shrunk(float64(t.found[s]), float64(t.asked[s]), firstFound)
		lacking := priorWrong * float64(t.asked[s]) // statements beyond gold that are true
		n, k := float64(t.shared[s][0])-lacking, float64(t.shared[s][1])-found*lacking
		r.systems = append(r.systems, systemRates{
			Found:  found,
			Shared: min(found, shrunk(min(k, n), n, firstShare)),
			Right:  max(0.5, shrunk(float64(t.right[s]), float64(t.found[s]), firstRight)),
		})
	}
	return r
}

// weight is 1/(1 + (S−1)ρ): ρ, at least 0, is the mean correlation (phi) of the
// misses of two systems over the elements of gold. Of those that all miss as many
// are left out as gold is assumed to have wrong: they say nothing of the systems.
func (t *tally) weight() float64 {
	systems := len(t.found)
	all := strings.Repeat(string(rune('0'+agrees)), systems)
	excused := min(t.missed[all], int(priorWrong*float64(t.elements)))
	sum, pairs := 0.0, 0
	for a := range systems {
		for b := range a {
			var n, onlyA, onlyB, both float64
			for pattern, times := range t.missed {
				if pattern == all {
					times -= excused
				}
				x, y := stance(pattern[a]-'0'), stance(pattern[b]-'0')
				if x == absent || y == absent {
					continue
				}
				k := float64(times)
				n += k
				switch {
				case x == agrees && y == agrees:
					both += k
				case x == agrees:
					onlyA += k
				case y == agrees:
					onlyB += k
				}
			}
			missA, missB := both+onlyA, both+onlyB
			if spread := math.Sqrt(missA * (n - missA) * missB * (n - missB)); spread > 0 {
				sum += max(0, (n*both-missA*missB)/spread)
			}
			pairs++
		}
	}
	if pairs == 0 {
		return 1
	}
	return 1 / (1 + float64(systems-1)*sum/float64(pairs))
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
