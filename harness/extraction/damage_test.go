package extraction

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
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

// damage is one thing that was spoilt in gold.
type damage struct {
	item, what, kind string // removed, invented, wrong_type, reversed
	is, was          string // forms of the elements, folded
}

// spoil damages a tenth of all elements of gold, each in one of four ways at random:
// it is removed, another one is invented beside it, its type is exchanged, or, of a
// relationship that says something else the other way round, its ends.
func spoil(id string, gold extraction.Extraction, text string, types, kinds []string, r *rand.Rand) (extraction.Extraction, []damage) {
	var out extraction.Extraction
	var done []damage
	words := candidates(text, gold, r)
	form := element.folded
	out.Entities, out.Relationships = []extraction.Entity{}, []extraction.Relationship{}
	for _, e := range gold.Entities {
		switch was := form(ofEntity(e)); {
		case r.Float64() >= 0.1:
		case r.IntN(3) == 0:
			done = append(done, damage{id, scoring.AnEntity, "removed", "", was})
			continue
		case r.IntN(2) == 0 && len(words) > 0:
			other := extraction.Entity{Name: words[0], Type: e.Type}
			words = words[1:]
			done = append(done, damage{id, scoring.AnEntity, "invented", form(ofEntity(other)), ""})
			out.Entities = append(out.Entities, other)
		case len(types) > 1:
			e.Type = another(types, e.Type, r)
			done = append(done, damage{id, scoring.AnEntity, "wrong_type", form(ofEntity(e)), was})
		}
		out.Entities = append(out.Entities, e)
	}
	for _, e := range gold.Relationships {
		was := form(ofRelationship(e))
		switch {
		case r.Float64() >= 0.1:
		case r.IntN(4) == 0:
			done = append(done, damage{id, scoring.ARelationship, "removed", "", was})
			continue
		case r.IntN(3) == 0 && len(gold.Entities) > 2:
			other := extraction.Relationship{Source: gold.Entities[r.IntN(len(gold.Entities))].Name, Target: gold.Entities[r.IntN(len(gold.Entities))].Name, Type: e.Type}
			if other.Source == other.Target || states(gold, other) {
				break
			}
			done = append(done, damage{id, scoring.ARelationship, "invented", form(ofRelationship(other)), ""})
			out.Relationships = append(out.Relationships, other)
		case r.IntN(2) == 0 && len(kinds) > 1:
			e.Type = another(kinds, e.Type, r)
			done = append(done, damage{id, scoring.ARelationship, "wrong_type", form(ofRelationship(e)), was})
		case !slices.Contains(scoring.DefaultOptions().Symmetric, e.Type):
			turned := e
			turned.Source, turned.Target = e.Target, e.Source
			if states(gold, turned) {
				break
			}
			e = turned
			done = append(done, damage{id, scoring.ARelationship, "reversed", form(ofRelationship(e)), was})
		}
		out.Relationships = append(out.Relationships, e)
	}
	return out, done
}

func ofEntity(e extraction.Entity) element {
	return elementAt(&extraction.Extraction{Entities: []extraction.Entity{e}}, scoring.AnEntity, 0)
}

func ofRelationship(r extraction.Relationship) element {
	return elementAt(&extraction.Extraction{Relationships: []extraction.Relationship{r}}, scoring.ARelationship, 0)
}

func states(gold extraction.Extraction, r extraction.Relationship) bool {
	return slices.ContainsFunc(gold.Relationships, func(g extraction.Relationship) bool {
		return g.Source == r.Source && g.Target == r.Target
	})
}

func another(list []string, than string, r *rand.Rand) string {
	for {
		if other := list[r.IntN(len(list))]; other != than {
			return other
		}
	}
}

// candidates are stretches of one to three words of the text that have no word in
// common with gold, in an order at random.
func candidates(text string, gold extraction.Extraction, r *rand.Rand) []string {
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

// system makes what a system with recall and precision 0.8 would extract of gold:
// each element with a chance of 0.8, and a wrong one for every four of them: a name of
// the text or a relation of two entities at random, of a type at random. One in
// twenty has another type, one relation in twenty is the wrong way round.
func system(gold extraction.Extraction, text string, types, kinds []string, r *rand.Rand) extraction.Extraction {
	out := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	words := candidates(text, gold, r)
	for _, e := range gold.Entities {
		if r.Float64() < 0.2 && len(words) > 0 {
			out.Entities = append(out.Entities, extraction.Entity{Name: words[r.IntN(len(words))], Type: types[r.IntN(len(types))]})
		}
		if r.Float64() < 0.05 && len(types) > 1 {
			e.Type = another(types, e.Type, r)
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

// damaged is a dataset with known damage, and what systems extracted.
type damaged struct {
	items  []AuditItem
	damage []damage
}

// damagedSet makes one of items. Of the systems each draws half of what is random
// from what all of them draw, if shared.
func damagedSet(t testing.TB, items []dataset.Item, systems int, shared bool, seed uint64) damaged {
	t.Helper()
	var d damaged
	for i, item := range items {
		document, _, err := extraction.DecodeDocument(item.Input)
		gold, _, errGold := extraction.DecodeExtraction(item.Expected)
		if err != nil || errGold != nil {
			continue
		}
		var types, kinds []string
		for name := range document.Objects {
			types = append(types, name)
		}
		for name := range document.Relationships {
			kinds = append(kinds, name)
		}
		slices.Sort(types)
		slices.Sort(kinds)
		if len(types) == 0 || len(kinds) == 0 {
			continue
		}
		spoilt, done := spoil(item.ID, gold, document.Text, types, kinds, rand.New(rand.NewPCG(seed, uint64(i))))
		a := AuditItem{ID: item.ID, Input: item.Input, Expected: marshal(t, spoilt)}
		for s := range systems {
			own := rand.New(rand.NewPCG(seed+1+uint64(s), uint64(i)))
			out := system(gold, document.Text, types, kinds, own)
			if shared {
				all := system(gold, document.Text, types, kinds, rand.New(rand.NewPCG(seed+100, uint64(i))))
				out = mix(out, all, own)
			}
			a.Outputs = append(a.Outputs, marshal(t, out))
		}
		d.items, d.damage = append(d.items, a), append(d.damage, done...)
	}
	return d
}

// mix takes what both have, and of what one of them has each with a chance of a half.
func mix(a, b extraction.Extraction, r *rand.Rand) extraction.Extraction {
	out := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	out.Entities = mixed(a.Entities, b.Entities, func(e extraction.Entity) string { return ofEntity(e).folded() }, r)
	out.Relationships = mixed(a.Relationships, b.Relationships, func(e extraction.Relationship) string { return ofRelationship(e).folded() }, r)
	return out
}

func mixed[T any](a, b []T, form func(T) string, r *rand.Rand) []T {
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

// hits reports whether the finding is about this damage.
func (x damage) hits(d Doubt) bool {
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
	case "removed": // another type may be the commonest
		name, _, _ := strings.Cut(x.was, " (")
		return d.Kind == NotInGold && (was == x.was || x.what == scoring.AnEntity && strings.HasPrefix(was, name+" ("))
	case "invented":
		return d.claim.expected != nil && d.claim.proposed == nil && is == x.is
	}
	return is == x.is && (d.Kind == OtherType || d.Kind == Reversed || d.Kind == Contradiction || d.claim.proposed == nil)
}

func sampleItems(t testing.TB) []dataset.Item {
	t.Helper()
	var items []dataset.Item
	for located, err := range dataset.Read(configs.OpenSample(), dataset.JSONL, "sample") {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, located.Item)
	}
	return items
}

func fileItems(t testing.TB, path string) []dataset.Item {
	t.Helper()
	var items []dataset.Item
	for located, err := range dataset.ReadFile(context.Background(), path) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, located.Item)
	}
	return items
}

func (d damaged) audit(t testing.TB, top int) AuditResult {
	t.Helper()
	rules, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for s := range d.items[0].Outputs {
		names = append(names, fmt.Sprintf("system-%d", s+1))
	}
	result, err := Audit(t.Context(), AuditConfig{Systems: names, Rules: rules, Top: top, Items: func() iter.Seq2[AuditItem, error] {
		return func(yield func(AuditItem, error) bool) {
			for _, item := range d.items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// found counts which of the first findings are about damage, and by tenth of doubt.
func (d damaged) found(list []Doubt) (hits int, kinds map[string][2]int, tenths [10][2]int) {
	kinds = map[string][2]int{}
	seen := map[damage]bool{}
	for _, f := range list {
		i := slices.IndexFunc(d.damage, func(x damage) bool { return x.hits(f) })
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

// TestAudit_damagedGold: of as many findings as there is damage, three of four are
// about damage, when four systems err each for itself. Run with -v for the table of
// docs/gold.md.
func TestAudit_damagedGold(t *testing.T) {
	sets := map[string][]dataset.Item{"sample": sampleItems(t)}
	seeds := uint64(1)
	if suite.Full() {
		seeds = 3
		if path := "../../../shared/data/documents60.jsonl"; exists(path) {
			sets["documents60"] = fileItems(t, path)
		}
	}
	for name, items := range sets {
		for _, c := range []struct {
			say     string
			systems int
			shared  bool
			least   float64
		}{
			{"four systems", 4, false, 0.75},
			{"two systems", 2, false, 0},
			{"four that share half of their errors", 4, true, 0},
		} {
			t.Run(name+"/"+c.say, func(t *testing.T) {
				if c.least == 0 {
					suite.Slow(t, "of this the share is only printed")
				}
				hits, damages, all := 0, 0, [10][2]int{}
				kinds := map[string][2]int{}
				for seed := range seeds {
					d := damagedSet(t, items, c.systems, c.shared, 1000*seed+7)
					result := d.audit(t, len(d.damage))
					n, k, tenths := d.found(result.Findings)
					hits, damages = hits+n, damages+len(d.damage)
					for i := range all {
						all[i][0], all[i][1] = all[i][0]+tenths[i][0], all[i][1]+tenths[i][1]
					}
					for key, v := range k {
						kinds[key] = [2]int{kinds[key][0] + v[0], kinds[key][1] + v[1]}
					}
				}
				share := float64(hits) / float64(damages)
				t.Logf("%d of the first %d findings are about damage: %.2f", hits, damages, share)
				for i, tenth := range all {
					if tenth[1] > 0 {
						t.Logf("doubt %.1f to %.1f: %d of %d", float64(i)/10, float64(i+1)/10, tenth[0], tenth[1])
					}
				}
				var names []string
				for k := range kinds {
					names = append(names, k)
				}
				slices.SortFunc(names, cmp.Compare[string])
				for _, k := range names {
					t.Logf("%s: %d of %d", k, kinds[k][0], kinds[k][1])
				}
				if share < c.least {
					t.Errorf("%.2f of the first findings are about damage, wanted %.2f", share, c.least)
				}
			})
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
