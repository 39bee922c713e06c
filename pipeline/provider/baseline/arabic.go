package baseline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// arabicCues maps words that stand before a name to what they introduce; the
// cue is part of the name of an organisation, a law or an event.
func arabicCues() map[string]kind {
	cues := map[string]kind{}
	for k, list := range map[kind]string{
		org:   "شركة مؤسسة جامعة بنك مصرف وزارة منظمة مجموعة هيئة جمعية معهد كلية مستشفى حزب نادي محكمة صحيفة قناة مجلس مركز",
		place: "مدينة قرية محافظة منطقة ولاية نهر جبل بحيرة جزيرة شارع مطار ميناء",
		event: "معركة حرب مؤتمر مهرجان بطولة",
		law:   "قانون معاهدة اتفاقية",
	} {
		for w := range strings.FieldsSeq(list) {
			cues[w] = k
		}
	}
	return cues
}

// arabic takes names of the Arabic script, which has no capitals: a cue word
// with the words behind it, a title or given name with the names behind it,
// and known places.
func (b *reading) arabic(p *page) {
	for i := 0; i < len(p.toks); i++ {
		if !p.free(i) || !arabicWord(p.toks[i]) {
			continue
		}
		w, cut := b.prefixless(p.toks[i].text)
		last := i
		var ev evidence
		switch k, cue := b.cues[w]; {
		case b.lex.titles[w] || b.lex.roles[w]:
			last = b.arabicEnd(p, i+1, 2, false)
			if last > i {
				p.take(i+1, last, ruleArabic, evidence{person: 3})
				i = last
			}
			continue
		case cue:
			last = b.arabicEnd(p, i+1, 3, true)
			if last == i {
				continue
			}
			ev[k] = 3
		case b.lex.countries[w]:
			ev[country] = 4
		case b.lex.cities[w]:
			ev[place] = 3
		case i+1 < len(p.toks) && b.lex.cities[w+" "+p.toks[i+1].text]:
			last, ev[place] = i+1, 3
		case b.lex.given[w]:
			last = b.arabicEnd(p, i+1, 2, false)
			ev[person] = 2
		default:
			continue
		}
		p.part(i, last, p.toks[i].start+cut, p.toks[last].end(), ruleArabic, ev)
		i = last
	}
}

func arabicWord(t token) bool {
	r, _ := utf8.DecodeRuneInString(t.text)
	return t.kind == word && unicode.Is(unicode.Arabic, r)
}

// prefixless strips a written-on "and", "by" or "to" when a known word remains,
// and returns how many bytes that are.
func (b *reading) prefixless(w string) (string, int) {
	if b.arabicKnown(w) {
		return w, 0
	}
	for _, prefix := range []string{"و", "ب", "ل", "ف", "ك"} {
		if rest, ok := strings.CutPrefix(w, prefix); ok && b.arabicKnown(rest) {
			return rest, len(prefix)
		}
	}
	return w, 0
}

func (b *reading) arabicKnown(w string) bool {
	_, cue := b.cues[w]
	return cue || b.lex.countries[w] || b.lex.cities[w] || b.lex.given[w] || b.lex.titles[w]
}

// arabicEnd returns the last of at most n words from i on that may belong to a
// name; i-1 when there is none. Behind a cue word, an adjective with the
// article ends the name ("الجامعة الأمريكية").
func (b *reading) arabicEnd(p *page, i, n int, cue bool) int {
	last := i - 1
	for j := i; j < i+n && p.free(j) && arabicWord(p.toks[j]) && p.toks[j].lines == 0; j++ {
		w := p.toks[j].text
		rest, cut := b.prefixless(w)
		_, known := b.cues[rest]
		if b.lex.stops[w] || b.lex.months[w] > 0 || !cue && (b.lex.roles[w] || b.lex.titles[w]) || known || cut > 0 || verbal(w) {
			break
		}
		if j > i && cue && !strings.HasPrefix(w, "ال") && !b.lex.given[w] && !b.lex.cities[w] && !b.lex.countries[w] {
			break
		}
		last = j
	}
	return last
}

// verbal reports beginnings of verbs in the present and frequent verbs of the past.
func verbal(w string) bool {
	n := utf8.RuneCountInString(w)
	return n >= 4 && (strings.HasPrefix(w, "ي") || strings.HasPrefix(w, "ست") || strings.HasPrefix(w, "سي")) || n >= 4 && strings.HasSuffix(w, "ت") && !strings.HasPrefix(w, "ال")
}
