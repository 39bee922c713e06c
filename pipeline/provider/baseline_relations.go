package provider

import (
	"maps"
	"slices"
	"strings"

	"extraction-experiment/extraction"
)

// relationType is a relationship of the schema.
type relationType struct {
	name           string
	source, target []bool // which types may stand there; nil allows all
	reversed       bool   // its name is in the passive, as acquired_by
}

// fact is a relationship that a sentence states. Where forward and backward fit
// the schema alike, it goes forward.
type fact struct {
	source, target *entity
	relation       int
}

// cueRef is a relationship that a cue speaks for; back says that it states it
// the other way round.
type cueRef struct {
	relation int
	back     bool
}

// readRelations makes the relationship types of a schema, in order of their names.
func (d *document) readRelations(doc extraction.Document) {
	for n, key := range slices.Sorted(maps.Keys(doc.Relationships)) {
		schema := doc.Relationships[key]
		words := splitWords(key)
		d.relations = append(d.relations, relationType{
			name: key, source: among(d.types, schema.SourceTypes), target: among(d.types, schema.TargetTypes),
			reversed: len(words) > 1 && words[len(words)-1] == "by",
		})
		add := func(back bool, cues ...string) {
			for _, cue := range cues {
				if ref := (cueRef{n, back}); !slices.Contains(d.cueOf[cue], ref) {
					d.cueOf[cue] = append(d.cueOf[cue], ref)
				}
			}
		}
		known := false
		for _, w := range words {
			for _, group := range d.cues {
				if slices.ContainsFunc(group.same, func(cue string) bool { return strings.HasPrefix(w, cue) }) {
					known = true
					add(false, group.same...)
					add(true, group.opposite...)
				}
			}
			if !d.stops[w] {
				add(false, stem(w))
			}
		}
		if known || len(words) > 1 {
			continue
		}
		for _, w := range splitWords(schema.Description) { // a name that says nothing
			if !d.stops[w] && d.schemaKinds[w] == 0 {
				add(false, stem(w))
			}
		}
	}
}

// among says which types are listed; nil where none is.
func among(types []entityType, names []string) []bool {
	if len(names) == 0 {
		return nil
	}
	in := make([]bool, len(types))
	for i, t := range types {
		in[i] = slices.Contains(names, t.name)
	}
	return in
}

// A relationship is looked for between a name and the few that follow it, not
// across too many words.
const (
	reach   = 3  // names ahead
	between = 15 // tokens
	maxCue  = 40 // bytes
)

// relate notes what a sentence says about its names.
func (d *document) relate(s *sentence, found []mention) {
	if len(s.tokens) > 0 && d.subject != nil && d.pronouns[strings.ToLower(s.tokens[0].text)] {
		found = append([]mention{{0, 1, d.subject}}, found...)
	}
	for i, a := range found {
		if i == 0 && a.entity.evidence[person] > a.entity.evidence[org] {
			d.subject = a.entity
		}
		for _, b := range found[i+1 : min(len(found), i+1+reach)] {
			if b.from < a.to || b.from-a.to > between || a.entity == b.entity {
				break
			}
			d.pair(s, a, b)
		}
	}
}

// pair looks for cues between two names, and where that is little, in the few
// words around them, where some languages have their verb.
func (d *document) pair(s *sentence, a, b mention) {
	words := d.cueText(s, a.to, b.from)
	if len(words) <= 4 {
		words = append(words, d.cueText(s, max(0, a.from-2), a.from)...)
		words = append(words, d.cueText(s, b.to, min(len(s.tokens), b.to+3))...)
	}
	passive := slices.ContainsFunc(words, func(w string) bool { return d.agents[w] })
	found := d.cuesIn(words)
	for _, n := range slices.Sorted(maps.Keys(found)) {
		d.counts.Cues++
		f := fact{a.entity, b.entity, n}
		if passive != d.relations[n].reversed != found[n] {
			f.source, f.target = f.target, f.source
		}
		if len(d.facts) < maxRelationships {
			d.facts = append(d.facts, f)
		}
	}
}

// cuesIn returns the relationships that words speak for, and whether the other
// way round. A cue is the beginning of a word; where words are written without
// spaces it may stand inside.
func (d *document) cuesIn(words []string) map[int]bool {
	found := map[int]bool{}
	for _, w := range words {
		for from := range w {
			for to := from + 1; to <= min(len(w), from+maxCue); to++ {
				for _, ref := range d.cueOf[w[from:to]] {
					if _, ok := found[ref.relation]; !ok {
						found[ref.relation] = ref.back
					}
				}
			}
			if w[0] < 0xE3 || from > maxCue { // not of Han characters
				break
			}
		}
	}
	return found
}

// cueText returns the words between two tokens, in lower case; characters that
// are written without spaces are one word.
func (d *document) cueText(s *sentence, from, to int) []string {
	var words []string
	for i := min(from, to); i < to; i++ {
		t := s.tokens[i]
		switch {
		case t.taken || t.kind == mark:
		case t.kind == otherWord && len(words) > 0 && i > from && s.tokens[i-1].to == t.from:
			words[len(words)-1] += t.text
		default:
			words = append(words, strings.ToLower(t.text))
		}
	}
	return words
}

// stated returns the facts that fit the schema with the types that their ends
// got, each once; where only the other direction fits, in that.
func (d *document) stated() []extraction.Relationship {
	var out []extraction.Relationship
	seen := map[fact]bool{}
	for _, f := range d.facts {
		r := d.relations[f.relation]
		fits := func(a, b *entity) bool {
			return a.typed >= 0 && b.typed >= 0 && (r.source == nil || r.source[a.typed]) && (r.target == nil || r.target[b.typed])
		}
		if !fits(f.source, f.target) {
			f.source, f.target = f.target, f.source
		}
		if !fits(f.source, f.target) || seen[f] || seen[fact{f.target, f.source, f.relation}] {
			continue
		}
		seen[f] = true
		out = append(out, extraction.Relationship{Source: f.source.name, Target: f.target.name, Type: r.name})
	}
	return out
}
