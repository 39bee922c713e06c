package scoring

import (
	"cmp"
	"slices"
)

// statementSearch looks for the nearest statement of the other side among
// those that share an end.
type statementSearch struct {
	c           *call
	here, there *side
	partner     []int         // of there
	byEnd       map[int][]int // members of there, by the names of their ends
	similar     map[int][]int // names that are similar enough, both ways
}

func newStatementSearch(c *call, m *relationMatching, here, there *side, partner []int) *statementSearch {
	s := &statementSearch{c: c, here: here, there: there, partner: partner, byEnd: map[int][]int{}, similar: map[int][]int{}}
	for i, r := range there.relationships {
		for _, name := range sortedSet([]int{r.forms[0].source, r.forms[0].target}) {
			if name != 0 {
				s.byEnd[name] = append(s.byEnd[name], i)
			}
		}
	}
	for name, list := range m.similar {
		for _, other := range list {
			s.similar[name] = append(s.similar[name], other.name)
			s.similar[other.name] = append(s.similar[other.name], name)
		}
	}
	return s
}

// candidate is how near a statement of the other side comes.
type candidate struct {
	member         int
	reason         Reason
	rank           int // of the reason, the nearest first
	free           bool
	source, target similarity
	form           form
	given          Statement
}

func (a candidate) nearerThan(b candidate) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	x, y := a.source.ppm()+a.target.ppm(), b.source.ppm()+b.target.ppm()
	if x != y {
		return x > y
	}
	if a.free != b.free {
		return a.free
	}
	return cmp.Or(a.form.compare(b.form), cmp.Compare(a.given.Source, b.given.Source),
		cmp.Compare(a.given.Type, b.given.Type), cmp.Compare(a.given.Target, b.given.Target)) < 0
}

// explain writes the reason and the nearest statement into a miss.
func (s *statementSearch) explain(miss *RelationshipMiss, f form, left *budget) {
	best := candidate{member: -1, reason: ReasonNothingSimilar}
	seen := map[int]bool{}
	related := s.related(f)
	left.spend(len(related))
	for _, name := range related {
		for _, i := range s.byEnd[name] {
			if !left.spend(50) {
				miss.Reason = ReasonNotSearched
				return
			}
			if seen[i] {
				continue
			}
			seen[i] = true
			if c, ok := s.judge(f, i, left); ok && (best.member < 0 || c.nearerThan(best)) {
				best = c
			}
		}
	}
	miss.Reason = best.reason
	if best.member < 0 {
		return
	}
	other := s.there.relationships[best.member]
	miss.Nearest = &NearestRelationship{
		Index: other.index, Statement: statementOf(s.there.given.Relationships[other.index]),
		SourceSimilarity: best.source.value(), TargetSimilarity: best.target.value(),
	}
	taker := s.partner[best.member]
	if taker < 0 {
		return
	}
	miss.Nearest.TakenBy = &s.here.relationships[taker].index
	if best.reason == ReasonTaken && s.here.relationships[taker].forms[0] == f {
		miss.Reason = ReasonDuplicate
	}
}

// related returns the names of either end and those similar to them, sorted.
func (s *statementSearch) related(f form) []int {
	var all []int
	for _, end := range []int{f.source, f.target} {
		for _, name := range s.c.aliasing.names(end) {
			all = append(append(all, name), s.similar[name]...)
		}
	}
	return sortedSet(all)
}

// judge says how near statement i of the other side comes to a form.
func (s *statementSearch) judge(f form, i int, left *budget) (candidate, bool) {
	g := s.there.relationships[i].forms[0]
	sameType := f.typ == g.typ
	symmetric := sameType && s.c.symmetric[s.c.types.texts[f.typ]]
	inverse := slices.Contains(s.c.inverses(f.typ), g.typ)
	straight := candidate{source: s.ends(f.source, g.source, left), target: s.ends(f.target, g.target, left)}
	crossed := candidate{source: s.ends(f.source, g.target, left), target: s.ends(f.target, g.source, left)}
	consider := func(c *candidate, right bool) {
		c.member, c.form, c.free = i, g, s.partner[i] < 0
		c.given = statementOf(s.there.given.Relationships[s.there.relationships[i].index])
		switch agree, both := s.holds(c.source)+s.holds(c.target), 2; {
		case agree == both && right:
			c.reason, c.rank = s.whyNot(*c), 1
		case agree == both && (sameType || inverse):
			c.reason, c.rank = ReasonWrongDirection, 2
		case agree == both:
			c.reason, c.rank = ReasonWrongType, 3
		case agree == 1 && right:
			c.reason, c.rank = ReasonWrongEnd, 4
		default:
			c.member = -1
		}
	}
	consider(&straight, sameType)
	consider(&crossed, symmetric || inverse)
	switch {
	case straight.member < 0:
		return crossed, crossed.member >= 0
	case crossed.member < 0 || straight.rank < crossed.rank ||
		straight.rank == crossed.rank && straight.source.ppm()+straight.target.ppm() >= crossed.source.ppm()+crossed.target.ppm():
		return straight, true
	}
	return crossed, true
}

// whyNot says why a statement that could match did not.
func (s *statementSearch) whyNot(c candidate) Reason {
	if !s.c.options.FuzzyRelationships && (c.source != equalNames || c.target != equalNames) {
		return ReasonFuzzyOff
	}
	return ReasonTaken
}

// holds is 1 where two ends are similar enough to be one.
func (s *statementSearch) holds(e similarity) int {
	if e == equalNames || e.initials || e.den > 0 && e.den-e.num <= s.c.threshold.maxDistance(e.den) {
		return 1
	}
	return 0
}

// ends returns the similarity of an end to an end of the other side, 0 where
// it is less than a third. Aliases make ends equal and are not compared
// otherwise.
func (s *statementSearch) ends(a, b int, left *budget) similarity {
	if _, alias := slices.BinarySearch(s.c.aliasing.names(a), b); alias {
		return equalNames
	}
	m := s.c.matcher
	if b == 0 || m.digitsDiffer(a, b) {
		return similarity{den: 1}
	}
	if s.c.options.Initials && sameByInitials(m.names.tokensOf(a), m.names.tokensOf(b)) {
		return byInitials
	}
	p, q := m.names.profile(a), m.names.profile(b)
	longer := max(len(p.runes), len(q.runes))
	d, work := m.editor.distance(p.runes, q.runes, min(longer-(longer+leastNear-1)/leastNear, nearestEdits))
	left.spend(editCost * work)
	if d < 0 {
		return similarity{den: 1}
	}
	return similarity{num: longer - d, den: longer}
}
