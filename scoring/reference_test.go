package scoring

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/agnivade/levenshtein"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/extraction"
)

// The reference implementation below tries every one-to-one assignment. It shares no code with
// the package: names are lower-case ASCII, a library computes distances, the threshold is a
// big.Rat, and gains are slices.

type refOptions struct {
	threshold string
	inclusive bool
	inverse   map[string][]string
	symmetric map[string]bool
}

func refSimilarity(a, b string) *big.Rat {
	longer := max(len([]rune(a)), len([]rune(b)))
	return big.NewRat(int64(longer-levenshtein.ComputeDistance(a, b)), int64(longer))
}

// refMatch returns whether two names match, whether they are equal, and the similarity in
// millionths.
func (o refOptions) refMatch(expected []string, extracted string) (ok, exact bool, ppm int64) {
	limit, _ := new(big.Rat).SetString(o.threshold)
	for _, name := range expected {
		if name == "" || extracted == "" {
			continue
		}
		if name == extracted {
			return true, true, 1_000_000
		}
		s := refSimilarity(name, extracted)
		if c := s.Cmp(limit); c > 0 || c == 0 && o.inclusive {
			million := new(big.Int).Mul(s.Num(), big.NewInt(1_000_000))
			ok, ppm = true, max(ppm, million.Div(million, s.Denom()).Int64())
		}
	}
	return ok, false, ppm
}

// refBest returns the largest sum of gains over all assignments. gain returns nil for pairs that
// must not match.
func refBest(n, m, width int, gain func(i, j int) []int64) []int64 {
	used := make([]bool, m)
	var best []int64
	sum := make([]int64, width)
	var try func(i int)
	try = func(i int) {
		if i == n {
			if best == nil || slices.Compare(sum, best) > 0 {
				best = slices.Clone(sum)
			}
			return
		}
		try(i + 1)
		for j := range m {
			g := gain(i, j)
			if used[j] || g == nil {
				continue
			}
			used[j] = true
			for k := range sum {
				sum[k] += g[k]
			}
			try(i + 1)
			for k := range sum {
				sum[k] -= g[k]
			}
			used[j] = false
		}
	}
	try(0)
	return best
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (o refOptions) refEntities(expected, extracted []extraction.Entity) EntityCounts {
	best := refBest(len(expected), len(extracted), 6, func(i, j int) []int64 {
		e, x := expected[i], extracted[j]
		if e.Name == "" {
			return nil
		}
		ok, exact, ppm := o.refMatch(append([]string{e.Name}, e.Aliases...), x.Name)
		if !ok {
			return nil
		}
		same := e.Type != "" && e.Type == x.Type
		return []int64{toInt(exact), 1, ppm, toInt(same), toInt(same && exact), -toInt(e.Type != "" && !same)}
	})
	return EntityCounts{
		Expected: int64(len(expected)), Extracted: int64(len(extracted)),
		Exact: best[0], Matched: best[1], TypeCorrect: best[3], Strict: best[4], TypeJudged: best[3] - best[5],
	}
}

func (o refOptions) refWay(expected, extracted extraction.Relationship) []int64 {
	if expected.Type == "" || extracted.Type == "" {
		return nil
	}
	var best []int64
	consider := func(source, target string, inverse bool) {
		ok1, exact1, ppm1 := o.refMatch([]string{expected.Source}, source)
		ok2, exact2, ppm2 := o.refMatch([]string{expected.Target}, target)
		if !ok1 || !ok2 {
			return
		}
		equal := exact1 && exact2
		// The gain: exact, exact or inverse, pairs, similarity, same type. The last four are
		// counts of the match types.
		g := []int64{toInt(equal && !inverse), toInt(equal), 1, ppm1 + ppm2, toInt(!inverse),
			toInt(equal && !inverse), toInt(equal && inverse), toInt(!equal && !inverse), toInt(!equal && inverse)}
		rank := func(g []int64) int { return slices.Index(g[5:9], 1) }
		if best == nil || rank(g) < rank(best) || rank(g) == rank(best) && g[3] > best[3] {
			best = g
		}
	}
	if expected.Type == extracted.Type {
		consider(extracted.Source, extracted.Target, false)
		if o.symmetric[expected.Type] {
			consider(extracted.Target, extracted.Source, false)
		}
	}
	if slices.Contains(o.inverse[expected.Type], extracted.Type) {
		consider(extracted.Target, extracted.Source, true)
	}
	return best
}

func (o refOptions) refRelationships(expected, extracted []extraction.Relationship) RelationshipCounts {
	best := refBest(len(expected), len(extracted), 9, func(i, j int) []int64 { return o.refWay(expected[i], extracted[j]) })
	return RelationshipCounts{
		Expected: int64(len(expected)), Extracted: int64(len(extracted)), Correct: best[2],
		Exact: best[5], Inverse: best[6], Fuzzy: best[7], InverseFuzzy: best[8],
	}
}

// someNames are similar to each other, so that many assignments are possible.
var someNames = []string{
	"", "anna berg", "anna bergh", "anne berg", "hanna berg", "anna bers", "item 001", "item 002", "item 012", "item 011", "rome",
}

var someThresholds = []string{"0.85", "0.7", "0.875", "0.5", "0.9", "1", "0"}

var someEnds, someRelations = []string{"", "anna berg", "anna bergh", "anne berg", "item 001", "item 002", "rome"},
	[]string{"", "owns", "owned_by", "holds", "married_to", "mirrors", "at"}

// drawFew draws 2 to 4 elements of a list. With few different ones, more of them match.
func drawFew(t *rapid.T, label string, list []string) []string {
	return rapid.SliceOfN(rapid.SampledFrom(list), 2, 4).Draw(t, label)
}

func drawEntities(t *rapid.T, label string, most int, names []string, aliases bool) []extraction.Entity {
	n := rapid.IntRange(0, most).Draw(t, label)
	list := make([]extraction.Entity, 0, n)
	for i := range n {
		e := extraction.Entity{
			Name: rapid.SampledFrom(names).Draw(t, fmt.Sprint(label, i, " name")),
			Type: rapid.SampledFrom([]string{"", "person", "place", "thing"}).Draw(t, fmt.Sprint(label, i, " type")),
		}
		if aliases && rapid.IntRange(0, 2).Draw(t, fmt.Sprint(label, i, " has alias")) == 0 {
			e.Aliases = rapid.SliceOfN(rapid.SampledFrom(names), 1, 2).Draw(t, fmt.Sprint(label, i, " aliases"))
		}
		list = append(list, e)
	}
	return list
}

func drawRelationships(t *rapid.T, label string, most int, ends, types []string) []extraction.Relationship {
	n := rapid.IntRange(0, most).Draw(t, label)
	list := make([]extraction.Relationship, 0, n)
	for i := range n {
		list = append(list, extraction.Relationship{
			Source: rapid.SampledFrom(ends).Draw(t, fmt.Sprint(label, i, " source")),
			Target: rapid.SampledFrom(ends).Draw(t, fmt.Sprint(label, i, " target")),
			Type:   rapid.SampledFrom(types).Draw(t, fmt.Sprint(label, i, " type")),
		})
	}
	return list
}

// TestScore_best checks which of several possible assignments is the best, in both orders of the
// expected list. "anna berg" and "anna bergh", "item 001" and "item 002" are similar.
func TestScore_best(t *testing.T) {
	entities := map[string]struct {
		expected, extracted []extraction.Entity
		want                EntityCounts
	}{
		"an equal name, though fewer pairs": {ents("anna berg", "", "anna bergx", ""), ents("anna berg", "", "ann berg", ""),
			EntityCounts{Expected: 2, Extracted: 2, Matched: 1, Exact: 1}},
		"an equal type on an equal name": {ents("anna berg", "", "anna berg", "person"), ents("anna bergh", "", "anna berg", "person"),
			EntityCounts{Expected: 2, Extracted: 2, Matched: 2, Exact: 1, TypeJudged: 1, TypeCorrect: 1, Strict: 1}},
		"that rather than on a similar one": {ents("anna bergh", "", "anna bergh", "place"), ents("anna bergh", "place", "anna berg", "place"),
			EntityCounts{Expected: 2, Extracted: 2, Matched: 2, Exact: 1, TypeJudged: 1, TypeCorrect: 1, Strict: 1}},
		"an equal type on a similar name": {ents("anna berg", "", "anna berg", "place"), ents("anna bergh", "place"),
			EntityCounts{Expected: 2, Extracted: 1, Matched: 1, TypeJudged: 1, TypeCorrect: 1}},
		"no type rather than a wrong one": {ents("anna berg", "", "anna berg", "place"), ents("anna berg", "person"),
			EntityCounts{Expected: 2, Extracted: 1, Matched: 1, Exact: 1}},
	}
	for name, tt := range entities {
		for range 2 {
			if diff := cmp.Diff(tt.want, *scoreEntities(t, DefaultOptions(), tt.expected, tt.extracted).Counts.Entities); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			slices.Reverse(tt.expected)
		}
	}
	relationships := map[string]struct {
		expected, extracted []extraction.Relationship
		want                RelationshipCounts
	}{
		"equal ends of an inverse rather than two that are as similar": {rels("item 001", "mirrors", "item 001", "item 002", "mirrors", "item 001"),
			rels("item 001", "mirrors", "item 002", "item 002", "mirrors", "item 002"),
			RelationshipCounts{Expected: 2, Extracted: 2, Correct: 2, Inverse: 1, Fuzzy: 1}},
		"the same type of two that are as similar": {rels("item 001", "owns", "item 001", "item 001", "owned_by", "item 001"), rels("item 001", "owns", "item 002"),
			RelationshipCounts{Expected: 2, Extracted: 1, Correct: 1, Fuzzy: 1}},
		"an exact one, though fewer pairs": {rels("A", "owned_by", "B", "B", "holds", "A"), rels("A", "owned_by", "B", "B", "owns", "A"),
			RelationshipCounts{Expected: 2, Extracted: 2, Correct: 1, Exact: 1}},
	}
	o := with(func(o *Options) {
		o.Inverse = [][2]string{{"owns", "owned_by"}, {"holds", "owned_by"}, {"mirrors", "mirrors"}}
	})
	for name, tt := range relationships {
		for range 2 {
			if diff := cmp.Diff(tt.want, *scoreRelationships(t, o, tt.expected, tt.extracted).Counts.Relationships); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			slices.Reverse(tt.expected)
		}
	}
}

func TestScore_entities_likeEveryAssignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := DefaultOptions()
		o.Threshold = rapid.SampledFrom(someThresholds).Draw(t, "threshold")
		o.ThresholdInclusive = rapid.Bool().Draw(t, "inclusive")
		s, reference := mustNew(t, o), refOptions{threshold: o.Threshold, inclusive: o.ThresholdInclusive}
		for range 10 {
			names := drawFew(t, "names", someNames)
			expected := drawEntities(t, "expected", 5, names, true)
			extracted := drawEntities(t, "extracted", 5, names, false)
			want := reference.refEntities(expected, extracted)
			r := s.Score(extraction.Extraction{Entities: expected}, extraction.Extraction{Entities: extracted})
			if *r.Counts.Entities != want {
				t.Fatalf("got  %+v\nwant %+v", *r.Counts.Entities, want)
			}
		}
	})
}

func TestScore_relationships_likeEveryAssignment(t *testing.T) {
	inverse := map[string][]string{"owns": {"owned_by"}, "owned_by": {"owns", "holds"}, "holds": {"owned_by"}, "mirrors": {"mirrors"}}
	rapid.Check(t, func(t *rapid.T) {
		o := DefaultOptions()
		o.Inverse = [][2]string{{"owns", "owned_by"}, {"holds", "owned_by"}, {"mirrors", "mirrors"}}
		o.Threshold = rapid.SampledFrom(someThresholds).Draw(t, "threshold")
		s := mustNew(t, o)
		reference := refOptions{threshold: o.Threshold, inverse: inverse, symmetric: map[string]bool{"married_to": true}}
		for range 10 {
			ends, types := drawFew(t, "ends", someEnds), drawFew(t, "types", someRelations)
			expected := drawRelationships(t, "expected", 5, ends, types)
			extracted := drawRelationships(t, "extracted", 5, ends, types)
			want := reference.refRelationships(expected, extracted)
			r := s.Score(extraction.Extraction{Relationships: expected}, extraction.Extraction{Relationships: extracted})
			if *r.Counts.Relationships != want {
				t.Fatalf("got  %+v\nwant %+v", *r.Counts.Relationships, want)
			}
		}
	})
}

// TestTransport_likeEveryAssignment compares the solver with the reference, for supplies and
// demands of up to 2. All runs reuse one transport.
func TestTransport_likeEveryAssignment(t *testing.T) {
	var p transport
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.IntRange(1, 2), 1, 3).Draw(t, "supply")
		columns := rapid.SliceOfN(rapid.IntRange(1, 2), 1, 3).Draw(t, "demand")
		gains := make([][][]int64, len(rows))
		p.supply, p.demand = append(p.supply[:0], rows...), append(p.demand[:0], columns...)
		p.arcs = growLists(p.arcs[:0], len(rows))
		for r := range rows {
			gains[r] = make([][]int64, len(columns))
			for c := range columns {
				if rapid.IntRange(0, 3).Draw(t, "gap") == 0 {
					continue
				}
				g := rapid.SliceOfN(rapid.Int64Range(-2, 2), 3, 3).Draw(t, "gain")
				gains[r][c] = g
				p.arcs[r] = append(p.arcs[r], arc{column: c, gain: gain{g[0], g[1], g[2]}})
			}
		}
		if !p.solve(&budget{1 << 40}) {
			t.Fatal("did not finish")
		}
		var got gain
		for r := range rows {
			for _, a := range p.arcs[r] {
				for range a.flow {
					got = got.plus(a.gain)
				}
			}
		}
		units := func(sizes []int) (of []int) {
			for i, n := range sizes {
				of = append(of, slices.Repeat([]int{i}, n)...)
			}
			return of
		}
		us, vs := units(rows), units(columns)
		want := refBest(len(us), len(vs), 3, func(i, j int) []int64 { return gains[us[i]][vs[j]] })
		if !slices.Equal(got[:], want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestTakeUniqueBest_likeTransport checks that takeUniqueBest, if it applies, finds the same
// pairs as the solver and spends as much of the budget.
func TestTakeUniqueBest_likeTransport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, columns := rapid.IntRange(1, 4).Draw(t, "rows"), rapid.IntRange(1, 4).Draw(t, "columns")
		most := int64(rapid.IntRange(1, 30).Draw(t, "most"))
		allowance := budget{int64(rapid.IntRange(0, 150).Draw(t, "allowance"))}
		var links []link
		newMatching := func() (m matching) {
			nodes := func(n int, seed int) (list []node) {
				for i := range n {
					list = append(list, node{pools: []pool{{(i*seed + seed) % 3, []int{i}}}, size: 1})
				}
				return list
			}
			m.expected, m.extracted, m.links = nodes(rows, 1), nodes(columns, 2), slices.Clone(links)
			m.seen, m.taken, m.transport = make([]bool, columns), make([]bool, columns), new(transport)
			return m
		}
		var component []int
		for e := range rows {
			for x := range columns {
				if x == e%columns || rapid.IntRange(0, 2).Draw(t, "there") > 0 {
					component = append(component, len(links))
					links = append(links, link{expected: e, extracted: x, gain: gain{1, rapid.Int64Range(0, most).Draw(t, "similarity")}})
				}
			}
		}
		short, long := newMatching(), newMatching()
		left, spent := allowance, allowance
		if !short.takeUniqueBest(component, &left) {
			if left != allowance || short.pairs != nil {
				t.Fatal("something was changed")
			}
			return
		}
		if !long.solveBest(component, &spent) || left != spent || !slices.Equal(short.pairs, long.pairs) {
			t.Fatalf("%v with %d left, the solver has %v with %d", short.pairs, left, long.pairs, spent)
		}
	})
}

func mustNew(t interface{ Fatal(...any) }, o Options) *Scorer {
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
