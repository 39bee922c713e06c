package baseline

import "strings"

// Bounds of the search for relations in one sentence, so that a sentence of
// hundreds of names costs no more than its length.
const (
	maxHits      = 200    // cues of one sentence
	maxReach     = 30     // tokens between a cue and an end
	maxSkip      = 4      // mentions of a wrong type that are passed over
	maxList      = 8      // ends that "A, B and C" adds
	maxGap       = 5      // tokens between two words of a cue
	maxFacts     = 50_000 // of one document
	maxRelations = 20_000 // of one result
)

// fact is a statement between two entries of the register.
type fact struct {
	source, target, relation int
}

// spot is a mention as the relations see it.
type spot struct {
	first, last int // tokens
	offset, end int // bytes: in scripts without spaces several share a token
	entry       int
	typed       int
	kind        kind
}

// hit is a cue found in a sentence.
type hit struct {
	cue
	first, last int // tokens
	offset, end int // bytes
}

// clause is one sentence with its places.
type clause struct {
	page   *page
	places []spot
	owner  []int // place of each token, -1 for none
}

// relate finds what a sentence states.
func (b *reading) relate(p *page) {
	c := b.clause(p)
	if len(b.grammar.relations) > 0 && len(b.facts) < maxFacts {
		hits := b.hits(c)
		b.counts.Cues += len(hits)
		for _, h := range hits {
			b.state(c, h)
		}
		b.lives(c)
		b.commas(c)
	}
	b.topics.follow(c.places)
}

// clause keeps the mentions that have a type so far.
func (b *reading) clause(p *page) *clause {
	c := &clause{page: p, owner: make([]int, len(p.toks))}
	for i := range c.owner {
		c.owner[i] = -1
	}
	for _, m := range p.mentions {
		if m.group < 0 {
			continue
		}
		e := &b.register.entries[m.group]
		typed := b.guess(e)
		if typed < 0 {
			continue
		}
		for i := m.first; i <= m.last; i++ {
			c.owner[i] = len(c.places)
		}
		c.places = append(c.places, spot{first: m.first, last: m.last, offset: m.offset, end: m.end, entry: m.group, typed: typed, kind: strongest(e.evidence)})
	}
	return c
}

// guess returns the type of an entry by its mentions so far, -1 for none; of a
// frequent one it is not judged anew at every mention.
func (b *reading) guess(e *entry) int {
	if e.judged == 0 || e.count < 16 || e.count >= 2*e.judged && e.count <= 2*maxMentions {
		e.judged = e.count
		e.guess, _ = b.typing.assign(scaled(e.evidence, min(e.count, maxMentions)), strings.Fields(e.key))
	}
	return e.guess
}

func strongest(ev evidence) kind {
	best := thing
	for k, v := range ev {
		if v > ev[best] {
			best = kind(k)
		}
	}
	return best
}

// hits scans a sentence for cues.
func (b *reading) hits(c *clause) []hit {
	var found []hit
	for i, t := range c.page.toks {
		if c.owner[i] >= 0 && t.kind != han {
			continue
		}
		switch t.kind {
		case word, mark:
			found = b.hitsAt(c, i, 0, indexKey(t.lower), found)
		case han:
			for at := range t.text {
				found = b.hitsAt(c, i, at, t.text[at:at+runePrefix(t.text[at:], 2)], found)
				if len(found) >= maxHits {
					break
				}
			}
		}
		if len(found) >= maxHits {
			break
		}
	}
	return found
}

// hitsAt matches the cues filed under a key at token i. Of one relation the
// longest phrase that matches counts.
func (b *reading) hitsAt(c *clause, i, at int, key string, found []hit) []hit {
	from := len(found)
	for _, q := range b.grammar.index[key] {
		last, end := c.match(q.words, i, at)
		if last < 0 || c.covered(c.page.toks[i].start+at) {
			continue
		}
		double := false
		for _, h := range found[from:] {
			double = double || h.relation == q.relation && len(h.words) > len(q.words)
		}
		if !double {
			found = append(found, hit{q, i, last, c.page.toks[i].start + at, end})
		}
	}
	return found
}

// match matches the words of a cue from byte at of token i on; it returns the
// last token and where the cue ends.
func (c *clause) match(words []string, i, at int) (int, int) {
	toks := c.page.toks
	last, end := i, toks[i].end()
	if toks[i].kind == han {
		if !strings.HasPrefix(toks[i].text[at:], words[0]) {
			return -1, 0
		}
		end = toks[i].start + at + len(words[0])
	} else if !inflects(toks[i].lower, words[0]) {
		return -1, 0
	}
	for _, w := range words[1:] {
		next := -1
		for j := last + 1; j < len(toks) && j <= last+maxGap+1; j++ {
			if toks[j].is(".") || toks[j].is(";") {
				break
			}
			if c.owner[j] < 0 && inflects(toks[j].lower, w) {
				next = j
				break
			}
		}
		if next < 0 {
			return -1, 0
		}
		last, end = next, toks[next].end()
	}
	return last, end
}

// state turns a hit into facts.
func (b *reading) state(c *clause, h hit) {
	if h.form == noun {
		b.stateNoun(c, h)
		return
	}
	forward := h.forward
	if h.form == verb && b.passive(c, h) {
		forward = !forward
	}
	if h.form == tight {
		b.stateTight(c, h)
		return
	}
	b.pair(c, h, forward)
}

// passive reports "by" right behind a verb: "was acquired by".
func (b *reading) passive(c *clause, h hit) bool {
	toks := c.page.toks
	for j := h.last + 1; j < len(toks) && j <= h.last+2; j++ {
		if b.grammar.by[toks[j].lower] {
			return true
		}
		if c.owner[j] >= 0 {
			return false
		}
	}
	// German puts the verb last: "wurde von A übernommen".
	for j := h.first - 1; j >= 0 && j >= h.first-6; j-- {
		if toks[j].lower == "von" || toks[j].lower == "被" {
			return true
		}
	}
	return false
}

// pair joins the nearest fitting mentions left and right of a cue.
func (b *reading) pair(c *clause, h hit, forward bool) {
	rel := &b.grammar.relations[h.relation]
	leftFits, rightFits := rel.source, rel.target
	if !forward {
		leftFits, rightFits = rel.target, rel.source
	}
	left, right := c.left(h.first, h.offset, leftFits), c.right(h.last, h.end, rightFits, maxReach)
	if (left < 0 || right < 0) && rel.disjoint {
		// Only the other direction fits the types.
		if l, r := c.left(h.first, h.offset, rightFits), c.right(h.last, h.end, leftFits, maxReach); l >= 0 && r >= 0 {
			left, right, forward = l, r, !forward
			leftFits, rightFits = rightFits, leftFits
		}
	}
	if right < 0 && (b.words.language == "de" || b.words.language == "nl") {
		left, right = c.verbLast(h, leftFits, rightFits)
	}
	if right < 0 {
		return
	}
	lefts := c.listLeft(left, leftFits)
	if left < 0 {
		lefts = b.subject(c, h, right, leftFits)
	}
	b.stateAll(c, h.relation, lefts, c.listRight(right, rightFits), forward)
}

// verbLast finds both ends before the cue, where German and Dutch put them:
// "Ann wurde 1954 in Hamburg geboren".
func (c *clause) verbLast(h hit, leftFits, rightFits []bool) (int, int) {
	right := c.left(h.first, h.offset, rightFits)
	for j := right - 1; j >= 0; j-- {
		if c.fits(j, leftFits) {
			return j, right
		}
	}
	return -1, -1
}

// stateTight joins mentions that stand right beside the cue.
func (b *reading) stateTight(c *clause, h hit) {
	rel := &b.grammar.relations[h.relation]
	left, right := c.at(h.first-1), c.at(h.last+1)
	if left < 0 || right < 0 || left == right {
		return
	}
	if c.fits(left, rel.source) && c.fits(right, rel.target) {
		b.stateAll(c, h.relation, []int{c.places[left].entry}, c.listRight(right, rel.target), true)
	}
}

// stateAll records every pair of a list of left and of right ends.
func (b *reading) stateAll(c *clause, relation int, lefts, rights []int, forward bool) {
	for _, l := range lefts {
		for _, r := range rights {
			if l == r || len(b.facts) >= maxFacts {
				continue
			}
			if forward {
				b.facts = append(b.facts, fact{l, r, relation})
			} else {
				b.facts = append(b.facts, fact{r, l, relation})
			}
		}
	}
}
