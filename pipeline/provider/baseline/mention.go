package baseline

import "unicode/utf8"

// rule names what found a candidate; the call's output counts by it.
type rule uint8

const (
	ruleName rule = iota
	ruleQuote
	ruleDate
	ruleNumber
	ruleCode
	ruleHan
	ruleArabic
	ruleRole
	rules
)

func (r rule) String() string {
	return [...]string{"names", "quoted", "dates", "numbers", "codes", "unspaced", "arabic", "roles"}[r]
}

// maxName is the longest name in bytes; what is longer is no name.
const maxName = 160

// mention is one place of the document that may name an entity.
type mention struct {
	text        string
	at          int // code points
	first, last int // tokens of its sentence
	sentence    int
	offset, end int // bytes
	evidence    evidence
	rule        rule
	weak        bool // counts only if the same name stands elsewhere, too
	group       int  // set by the register: index of its entity, or -1
}

// page is the sentence that the rules work on, with what they found in it.
type page struct {
	toks     []token
	text     string // the whole document
	number   int    // of the sentence
	used     []bool // tokens that a rule has taken
	mentions []mention
}

// take records tokens first..last as a mention, unless a rule before took one
// of them or the text is no usable name.
func (p *page) take(first, last int, r rule, ev evidence) bool {
	return p.part(first, last, p.toks[first].start, p.toks[last].end(), r, ev)
}

// part records bytes offset..end, which lie within tokens first..last.
func (p *page) part(first, last, offset, end int, r rule, ev evidence) bool {
	if end <= offset || end-offset > maxName || !utf8.ValidString(p.text[offset:end]) {
		return false
	}
	at := p.toks[first].at + utf8.RuneCountInString(p.text[p.toks[first].start:offset])
	p.mentions = append(p.mentions, mention{
		text: p.text[offset:end], at: at, first: first, last: last, sentence: p.number,
		offset: offset, end: end, evidence: ev, rule: r, group: -1,
	})
	for i := first; i <= last; i++ {
		p.used[i] = true
	}
	return true
}

// lowerAt returns the lower-case text of a token, "" outside the sentence.
func (p *page) lowerAt(i int) string {
	if i < 0 || i >= len(p.toks) {
		return ""
	}
	return p.toks[i].lower
}

// free reports that token i exists and no rule has taken it.
func (p *page) free(i int) bool { return i >= 0 && i < len(p.toks) && !p.used[i] }
