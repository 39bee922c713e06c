package baseline

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/extraction"
)

// result gives every entry its type and writes the extraction.
func (b *reading) result() extraction.Extraction {
	b.register.merge(b.lex)
	b.register.finish()
	e := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
	for i := range b.register.entries {
		entry := &b.register.entries[i]
		if entry.into >= 0 || !entry.strong {
			continue
		}
		typed, ok := b.typing.assign(scaled(entry.evidence, min(entry.count, maxMentions)), strings.Fields(entry.key))
		if !ok {
			continue
		}
		entry.typed = typed
		e.Entities = append(e.Entities, b.entity(len(e.Entities)+1, entry))
	}
	e.Relationships = b.relationships()
	b.counts.Entities, b.counts.Relationships = len(e.Entities), len(e.Relationships)
	return e
}

// scaled damps evidence that many mentions repeat: its sum over the square
// root of their number.
func scaled(ev evidence, count int) evidence {
	for k := range ev {
		ev[k] /= float32(math.Sqrt(float64(max(1, count))))
	}
	return ev
}

func (b *reading) entity(n int, e *entry) extraction.Entity {
	out := extraction.Entity{
		ID:      "e" + strconv.Itoa(n),
		Name:    e.name,
		Type:    b.typing.types[e.typed].name,
		Aliases: e.aliases,
	}
	for _, m := range e.mentions {
		out.Mentions = append(out.Mentions, extraction.Span{Quote: m.text, Start: m.at, End: m.at + utf8.RuneCountInString(m.text), LookedUp: true})
	}
	return out
}

// relationships writes the facts whose ends were kept and fit the schema with
// their final types, each once; a symmetric one in one direction only.
func (b *reading) relationships() []extraction.Relationship {
	out := []extraction.Relationship{}
	seen := map[fact]bool{}
	for _, f := range b.facts {
		f.source, f.target = b.register.root(f.source), b.register.root(f.target)
		rel := b.grammar.relations[f.relation]
		source, target := &b.register.entries[f.source], &b.register.entries[f.target]
		back := fact{f.target, f.source, f.relation}
		if f.source == f.target || source.typed < 0 || target.typed < 0 || seen[f] || rel.symmetric && seen[back] || len(out) >= maxRelations {
			continue
		}
		if rel.source != nil && !rel.source[source.typed] || rel.target != nil && !rel.target[target.typed] {
			continue
		}
		if k := strongest(target.evidence); rel.country && geographic(k) && k != country {
			continue
		}
		seen[f] = true
		out = append(out, extraction.Relationship{Source: source.name, Target: target.name, Type: rel.name})
	}
	return out
}

// initialsOf reports that the letters of an acronym are those that the words
// of a name begin with, in order; small words may be left out.
func initialsOf(short, name string) bool {
	var want []rune
	for _, r := range short {
		if unicode.IsLetter(r) {
			want = append(want, unicode.ToLower(r))
		}
	}
	if len(want) < 2 {
		return false
	}
	i := 0
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return unicode.IsSpace(r) || r == '-' }) {
		r, _ := utf8.DecodeRuneInString(part)
		if i < len(want) && unicode.ToLower(r) == want[i] {
			i++
		}
	}
	return i == len(want)
}
