package baseline

import "strings"

// maxTopics is how many sentences back a pronoun may reach.
const maxTopics = 4

// topics remembers what the sentences before spoke of, for pronouns.
type topics struct {
	recent []spot // the first mention of each sentence, newest last
}

// follow remembers the first mention of a sentence. Dates and numbers are
// never what a sentence speaks of.
func (t *topics) follow(spots []spot) {
	for _, s := range spots {
		if s.kind == date || s.kind == duration || s.kind == quantity || s.kind == money || s.kind == percent {
			continue
		}
		if len(t.recent) == maxTopics {
			copy(t.recent, t.recent[1:])
			t.recent = t.recent[:maxTopics-1]
		}
		t.recent = append(t.recent, s)
		return
	}
}

// fitting returns the entry that a pronoun may stand for: the latest topic
// whose type fits; for "he" and "she" it must be a person.
func (t *topics) fitting(personal bool, allowed []bool) (int, bool) {
	for i := len(t.recent) - 1; i >= 0; i-- {
		s := t.recent[i]
		if personal == (s.kind == person) && (allowed == nil || allowed[s.typed]) {
			return s.entry, true
		}
	}
	return 0, false
}

// pronounKind says what a word stands for: 'p' for a person, 't' for a thing,
// 0 for no pronoun.
func pronounKind(w string) byte {
	switch w {
	case "he", "she", "his", "her", "him", "er", "ihr", "ihre", "sein", "seine", "elle", "il", "он", "она", "его", "её", "ее":
		return 'p'
	case "it", "its", "they", "their", "es", "оно", "company", "unternehmen", "firma", "компания", "entreprise", "organization", "film", "book", "album", "song":
		return 't'
	}
	return 0
}

// subject finds who a cue without a left end speaks of: the topic that a
// pronoun of the same sentence stands for; or, where the sentence begins with
// the cue ("Born in 1942 in Bonn, Beethoven …"), the next fitting mention.
func (b *reading) subject(c *clause, h hit, right int, allowed []bool) []int {
	for j := 0; j < right; j++ {
		// Arabic puts the verb first: the subject stands inside the phrase.
		if c.places[j].offset >= h.offset && c.fits(j, allowed) {
			return []int{c.places[j].entry}
		}
	}
	for i := h.first; i >= 0; i-- {
		t := c.page.toks[i]
		if t.kind == han && i == h.first {
			t.lower = t.text[:max(0, strings.Index(t.text, h.words[0]))]
			switch {
			case strings.HasPrefix(t.lower, "他") || strings.HasPrefix(t.lower, "她"):
				return b.topic(true, allowed)
			case strings.HasPrefix(t.lower, "它") || strings.HasPrefix(t.lower, "该公司"):
				return b.topic(false, allowed)
			}
		}
		switch pronounKind(t.lower) {
		case 'p':
			return b.topic(true, allowed)
		case 't':
			return b.topic(false, allowed)
		}
	}
	if h.first <= 1 {
		for j := right + 1; j < len(c.places) && j <= right+maxSkip; j++ {
			if c.fits(j, allowed) && c.places[j].typed != c.places[right].typed {
				return []int{c.places[j].entry}
			}
		}
	}
	return nil
}

func (b *reading) topic(personal bool, allowed []bool) []int {
	if entry, ok := b.topics.fitting(personal, allowed); ok {
		return []int{entry}
	}
	return nil
}
