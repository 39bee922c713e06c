package extraction

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/configs"
	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/scoring"
)

// damage is one error that spoil put into gold.
type damage struct {
	item, what, kind string // removed, invented, wrong_type, reversed
	now, before      string // folded forms of the elements
}

// spoil damages about a tenth of all elements of gold, each in a random way: it is removed, another
// one is added beside it, its type is changed, or the ends of a relationship are swapped if gold
// does not relate them in that direction too.
func spoil(id string, gold extraction.Extraction, text string, types, kinds []string, r *rand.Rand) (extraction.Extraction, []damage) {
	var out extraction.Extraction
	var damages []damage
	words := unknownPhrases(text, gold, r)
	form := element.folded
	out.Entities, out.Relationships = []extraction.Entity{}, []extraction.Relationship{}
	for _, e := range gold.Entities {
		switch was := form(entityElement(e)); {
		case r.Float64() >= 0.1:
		case r.IntN(3) == 0:
			damages = append(damages, damage{id, scoring.FaultEntity, "removed", "", was})
			continue
		case r.IntN(2) == 0 && len(words) > 0:
			other := extraction.Entity{Name: words[0], Type: e.Type}
			words = words[1:]
			damages = append(damages, damage{id, scoring.FaultEntity, "invented", form(entityElement(other)), ""})
			out.Entities = append(out.Entities, other)
		case len(types) > 1:
			e.Type = otherThan(types, e.Type, r)
			damages = append(damages, damage{id, scoring.FaultEntity, "wrong_type", form(entityElement(e)), was})
		}
		out.Entities = append(out.Entities, e)
	}
	for _, e := range gold.Relationships {
		was := form(relationshipElement(e))
		switch {
		case r.Float64() >= 0.1:
		case r.IntN(4) == 0:
			damages = append(damages, damage{id, scoring.FaultRelationship, "removed", "", was})
			continue
		case r.IntN(3) == 0 && len(gold.Entities) > 2:
			other := extraction.Relationship{Source: gold.Entities[r.IntN(len(gold.Entities))].Name, Target: gold.Entities[r.IntN(len(gold.Entities))].Name, Type: e.Type}
			if other.Source == other.Target || relates(gold, other) {
				break
			}
			damages = append(damages, damage{id, scoring.FaultRelationship, "invented", form(relationshipElement(other)), ""})
			out.Relationships = append(out.Relationships, other)
		case r.IntN(2) == 0 && len(kinds) > 1:
			e.Type = otherThan(kinds, e.Type, r)
			damages = append(damages, damage{id, scoring.FaultRelationship, "wrong_type", form(relationshipElement(e)), was})
		case !slices.Contains(scoring.DefaultOptions().Symmetric, e.Type):
			reversed := e
			reversed.Source, reversed.Target = e.Target, e.Source
			if relates(gold, reversed) {
				break
			}
			e = reversed
			damages = append(damages, damage{id, scoring.FaultRelationship, "reversed", form(relationshipElement(e)), was})
		}
		out.Relationships = append(out.Relationships, e)
	}
	return out, damages
}

func entityElement(e extraction.Entity) element {
	return elementAt(&extraction.Extraction{Entities: []extraction.Entity{e}}, scoring.FaultEntity, 0)
}

func relationshipElement(r extraction.Relationship) element {
	return elementAt(&extraction.Extraction{Relationships: []extraction.Relationship{r}}, scoring.FaultRelationship, 0)
}

// relates reports whether gold has a relationship of any type between the ends of r, in that
// direction.
func relates(gold extraction.Extraction, r extraction.Relationship) bool {
	return slices.ContainsFunc(gold.Relationships, func(g extraction.Relationship) bool {
		return g.Source == r.Source && g.Target == r.Target
	})
}

// otherThan returns a random element of list that is not excluded.
func otherThan(list []string, excluded string, r *rand.Rand) string {
	for {
		if other := list[r.IntN(len(list))]; other != excluded {
			return other
		}
	}
}

// unknownPhrases returns the phrases of one to three words of the text that have no word in common
// with the entities of gold, in random order.
func unknownPhrases(text string, gold extraction.Extraction, r *rand.Rand) []string {
	known := map[string]bool{}
	for _, e := range gold.Entities {
		for _, word := range strings.Fields(e.Name) {
			known[word] = true
		}
	}
	var list []string
	words := strings.Fields(text)
	for i := range words {
		for n := 1; n <= 3 && i+n <= len(words); n++ {
			name := strings.Trim(strings.Join(words[i:i+n], " "), ".,;:()\"'–— ")
			if len(name) > 3 && !slices.ContainsFunc(strings.Fields(name), func(w string) bool { return known[strings.Trim(w, ".,;:()\"'–—")] }) {
				list = append(list, name)
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	r.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list
}

// simulateSystem simulates the output of a system with recall and precision 0.8. It has each
// element of gold with a chance of 0.8, and a wrong one for every four of them: a phrase of the
// text or a relationship of two entities, at random. One in twenty entities has another type, and
// one in twenty relationships is reversed.
func simulateSystem(gold extraction.Extraction, text string, types, kinds []string, r *rand.Rand) extraction.Extraction {
	out := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	words := unknownPhrases(text, gold, r)
	for _, e := range gold.Entities {
		if r.Float64() < 0.2 && len(words) > 0 {
			out.Entities = append(out.Entities, extraction.Entity{Name: words[r.IntN(len(words))], Type: types[r.IntN(len(types))]})
		}
		if r.Float64() < 0.05 && len(types) > 1 {
			e.Type = otherThan(types, e.Type, r)
		}
		if r.Float64() < 0.8 {
			out.Entities = append(out.Entities, extraction.Entity{Name: e.Name, Type: e.Type})
		}
	}
	for _, e := range gold.Relationships {
		if r.Float64() < 0.2 && len(gold.Entities) > 1 {
			out.Relationships = append(out.Relationships, extraction.Relationship{Source: gold.Entities[r.IntN(len(gold.Entities))].Name,
				Target: gold.Entities[r.IntN(len(gold.Entities))].Name, Type: kinds[r.IntN(len(kinds))]})
		}
		if r.Float64() < 0.05 {
			e.Source, e.Target = e.Target, e.Source
		}
		if r.Float64() < 0.8 {
			out.Relationships = append(out.Relationships, e)
		}
	}
	return out
}

// damagedData is a dataset with known damage and the outputs of systems.
type damagedData struct {
	items  []AuditItem
	damage []damage
}

// damagedSet damages the gold of items and simulates that many systems. If shared is true, each
// system takes half of its random choices from a common source.
func damagedSet(t testing.TB, items []dataset.Item, systems int, shared bool, seed uint64) damagedData {
	t.Helper()
	var d damagedData
	for i, item := range items {
		document, _, err := extraction.DecodeDocument(item.Input)
		gold, _, errGold := extraction.DecodeExtraction(item.Expected)
		if err != nil || errGold != nil {
			continue
		}
		types, kinds := slices.Sorted(maps.Keys(document.Objects)), slices.Sorted(maps.Keys(document.Relationships))
		if len(types) == 0 || len(kinds) == 0 {
			continue
		}
		spoilt, damages := spoil(item.ID, gold, document.Text, types, kinds, rand.New(rand.NewPCG(seed, uint64(i))))
		a := AuditItem{ID: item.ID, Input: item.Input, Expected: marshal(t, spoilt)}
		for s := range systems {
			own := rand.New(rand.NewPCG(seed+1+uint64(s), uint64(i)))
			out := simulateSystem(gold, document.Text, types, kinds, own)
			if shared {
				all := simulateSystem(gold, document.Text, types, kinds, rand.New(rand.NewPCG(seed+100, uint64(i))))
				out = mixExtractions(out, all, own)
			}
			a.Outputs = append(a.Outputs, marshal(t, out))
		}
		d.items, d.damage = append(d.items, a), append(d.damage, damages...)
	}
	return d
}

// mixExtractions returns the elements that both have, and each element of only one of them with a
// chance of a half.
func mixExtractions(a, b extraction.Extraction, r *rand.Rand) extraction.Extraction {
	entity := func(e extraction.Entity) string { return entityElement(e).folded() }
	relationship := func(e extraction.Relationship) string { return relationshipElement(e).folded() }
	return extraction.Extraction{
		Entities:      mixLists(a.Entities, b.Entities, entity, r),
		Relationships: mixLists(a.Relationships, b.Relationships, relationship, r),
	}
}

func mixLists[T any](a, b []T, form func(T) string, r *rand.Rand) []T {
	in := func(list []T, v T) bool {
		return slices.ContainsFunc(list, func(o T) bool { return form(o) == form(v) })
	}
	out := []T{}
	for _, v := range a {
		if in(b, v) || r.IntN(2) == 0 {
			out = append(out, v)
		}
	}
	for _, v := range b {
		if !in(a, v) && r.IntN(2) == 0 {
			out = append(out, v)
		}
	}
	return out
}

func marshal(t testing.TB, e extraction.Extraction) json.RawMessage {
	t.Helper()
	raw, err := e.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// matches reports whether d is about this damage.
func (x damage) matches(d Doubt) bool {
	if d.Item != x.item || d.What != x.what {
		return false
	}
	fold := func(e *element) string {
		if e == nil {
			return ""
		}
		return e.folded()
	}
	is, was := fold(d.claim.expected), fold(d.claim.proposed)
	switch x.kind {
	case "removed": // the most common type may be another one
		name, _, _ := strings.Cut(x.before, " (")
		return d.Kind == NotInGold && (was == x.before || x.what == scoring.FaultEntity && strings.HasPrefix(was, name+" ("))
	case "invented":
		return d.claim.expected != nil && d.claim.proposed == nil && is == x.now
	}
	return is == x.now && (d.Kind == OtherType || d.Kind == Reversed || d.Kind == Contradiction || d.claim.proposed == nil)
}

func allItems(t testing.TB, file iter.Seq2[dataset.Located, error]) []dataset.Item {
	t.Helper()
	var items []dataset.Item
	for located, err := range file {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, located.Item)
	}
	return items
}

// itemSeq iterates over items, and over an error at the end if err is not nil.
func itemSeq(items []AuditItem, err error) iter.Seq2[AuditItem, error] {
	return func(yield func(AuditItem, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
		if err != nil {
			yield(AuditItem{}, err)
		}
	}
}

func (d damagedData) audit(t testing.TB, top int) AuditResult {
	t.Helper()
	rules, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for s := range d.items[0].Outputs {
		names = append(names, fmt.Sprintf("system-%d", s+1))
	}
	items := func() iter.Seq2[AuditItem, error] { return itemSeq(d.items, nil) }
	result, err := Audit(t.Context(), AuditConfig{Systems: names, Rules: rules, Top: top, Items: items})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// countHits counts the findings in list that are about damage, the damage of each kind that was
// found, and the findings by tenth of doubt. Of two numbers, the first counts hits and the second
// all.
func (d damagedData) countHits(list []Doubt) (hits int, kinds map[string][2]int, tenths [10][2]int) {
	kinds = map[string][2]int{}
	seen := map[damage]bool{}
	for _, f := range list {
		i := slices.IndexFunc(d.damage, func(x damage) bool { return x.matches(f) })
		tenth := &tenths[min(9, int(f.Doubt*10))]
		tenth[1]++
		if i < 0 {
			continue
		}
		hits++
		tenth[0]++
		seen[d.damage[i]] = true
	}
	for _, x := range d.damage {
		k := kinds[x.what+" "+x.kind]
		k[1]++
		if seen[x] {
			k[0]++
		}
		kinds[x.what+" "+x.kind] = k
	}
	return hits, kinds, tenths
}

// TestAudit_damagedGold checks that, of as many first findings as there is damage, three of four
// are about damage if four systems err independently. With -v it prints the table of docs/gold.md.
func TestAudit_damagedGold(t *testing.T) {
	sets := map[string][]dataset.Item{"sample": allItems(t, dataset.Read(configs.OpenSample(), dataset.JSONL, "sample"))}
	seeds := uint64(1)
	if suite.Full() {
		seeds = 3
		path := "../../../shared/data/documents60.jsonl"
		if _, err := os.Stat(path); err == nil {
			sets["documents60"] = allItems(t, dataset.ReadFile(t.Context(), path))
		}
	}
	for name, items := range sets {
		for _, c := range []struct {
			setting  string
			systems  int
			shared   bool
			minShare float64
		}{
			{"four systems", 4, false, 0.75},
			{"two systems", 2, false, 0},
			{"four that share half of their errors", 4, true, 0},
		} {
			t.Run(name+"/"+c.setting, func(t *testing.T) {
				if c.minShare == 0 {
					suite.Slow(t, "of this the share is only printed")
				}
				hits, damages, allTenths := 0, 0, [10][2]int{}
				kinds := map[string][2]int{}
				for seed := range seeds {
					d := damagedSet(t, items, c.systems, c.shared, 1000*seed+7)
					result := d.audit(t, len(d.damage))
					n, k, tenths := d.countHits(result.Findings)
					hits, damages = hits+n, damages+len(d.damage)
					for i := range allTenths {
						allTenths[i][0], allTenths[i][1] = allTenths[i][0]+tenths[i][0], allTenths[i][1]+tenths[i][1]
					}
					for key, v := range k {
						kinds[key] = [2]int{kinds[key][0] + v[0], kinds[key][1] + v[1]}
					}
				}
				share := float64(hits) / float64(damages)
				t.Logf("%d of the first %d findings are about damage: %.2f", hits, damages, share)
				for i, tenth := range allTenths {
					if tenth[1] > 0 {
						t.Logf("doubt %.1f to %.1f: %d of %d", float64(i)/10, float64(i+1)/10, tenth[0], tenth[1])
					}
				}
				for _, k := range slices.Sorted(maps.Keys(kinds)) {
					t.Logf("%s: %d of %d", k, kinds[k][0], kinds[k][1])
				}
				if share < c.minShare {
					t.Errorf("%.2f of the first findings are about damage, wanted %.2f", share, c.minShare)
				}
			})
		}
	}
}
