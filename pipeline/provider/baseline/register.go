package baseline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// Bounds of one extraction.
const (
	maxEntities = 20_000 // further names are left out
	maxMentions = 200    // kept per entity
)

// entry is one entity while it is being collected.
type entry struct {
	name     string // of its first mention
	key      string
	count    int
	strong   bool // some mention does not lean on others
	evidence evidence
	mentions []mention
	into     int // the entry that it was merged into, or -1
	aliases  []string
	typed    int // index into the typing, or -1
	judged   int // count at which guess was made
	guess    int // type by the mentions so far, or -1
}

// register collects mentions into entries by name.
type register struct {
	entries []entry
	byKey   map[string]int
	byText  map[string]int   // folding is costly: what was seen is not folded again
	byLast  map[string][]int // last word of a full name → entries
	fold    cases.Caser
	pairs   [][2]int // a name and the acronym in brackets behind it
}

func newRegister() *register {
	return &register{byKey: map[string]int{}, byText: map[string]int{}, byLast: map[string][]int{}, fold: cases.Fold()}
}

// add puts a mention to the entry of its name and returns its index, -1 when
// the register is full.
func (r *register) add(m mention) int {
	at, known := r.byText[m.text]
	if !known {
		if at = r.file(m.text); at < 0 {
			return -1
		}
	}
	e := &r.entries[at]
	e.count++
	e.strong = e.strong || !m.weak
	if e.count <= maxMentions {
		e.evidence.add(m.evidence)
		e.mentions = append(e.mentions, m)
	}
	return at
}

// file finds or makes the entry of a name; -1 when the register is full.
func (r *register) file(name string) int {
	key := r.key(name)
	at, known := r.byKey[key]
	if !known {
		if len(r.entries) >= maxEntities {
			return -1
		}
		at = len(r.entries)
		key = strings.Clone(key)
		r.byKey[key] = at
		r.entries = append(r.entries, entry{name: clean(name), key: key, into: -1, typed: -1})
	}
	if len(r.byText) < 2*maxEntities {
		r.byText[name] = at
	}
	return at
}

// key folds case, space, points and the possessive.
func (r *register) key(name string) string {
	name = strings.ReplaceAll(clean(name), ".", "")
	return r.fold.String(name)
}

// clean writes a name on one line.
func clean(name string) string { return strings.Join(strings.Fields(name), " ") }

// root follows merges.
func (r *register) root(i int) int {
	for i >= 0 && r.entries[i].into >= 0 {
		i = r.entries[i].into
	}
	return i
}

// merge joins the shorter names to the longer ones they stand for: a surname
// or given name to the one full name that ends or begins with it, a company
// without its legal form, an acronym to the name with its initials.
func (r *register) merge(lex *lexicon) {
	for _, pair := range r.pairs {
		if full, short := pair[0], pair[1]; r.entries[short].into < 0 && r.root(full) != short {
			r.absorb(full, short)
		}
	}
	initials := map[string][]int{}
	firsts := map[string][]int{}
	for i, e := range r.entries {
		parts := strings.Fields(e.key)
		if len(parts) < 2 || len(parts) > maxParts {
			continue
		}
		r.byLast[parts[len(parts)-1]] = append(r.byLast[parts[len(parts)-1]], i)
		firsts[parts[0]] = append(firsts[parts[0]], i)
		if short := acronym(e.name, lex); len(short) > 1 {
			initials[short] = append(initials[short], i)
		}
		if stem, ok := withoutSuffix(parts, lex); ok {
			r.join(r.byKey, stem, i)
		}
	}
	for i := range r.entries {
		e := &r.entries[i]
		if e.into >= 0 || strings.Contains(e.key, " ") {
			continue
		}
		if short := strings.ReplaceAll(e.name, ".", ""); allCaps(short) {
			if full := initials[short]; len(full) == 1 {
				r.absorb(full[0], i)
				continue
			}
		}
		if r.surname(i, r.byLast[e.key], lex) || r.surname(i, firsts[e.key], lex) {
			continue
		}
	}
}

// join merges the entry whose key is stem into entry i.
func (r *register) join(byKey map[string]int, stem string, i int) {
	if at, ok := byKey[stem]; ok && at != i && r.entries[at].into < 0 && r.root(i) != at {
		r.absorb(i, at)
	}
}

// surname merges a single word into the only person whose name has it; of
// several, into the one named first when the others were named after it.
func (r *register) surname(i int, full []int, lex *lexicon) bool {
	e := &r.entries[i]
	if len(full) == 0 || lex.countries[e.key] || lex.cities[e.key] {
		return false
	}
	for _, f := range full {
		target := r.root(f)
		if target == i || !personal(r.entries[f].evidence) || r.entries[f].mentions[0].offset > e.mentions[0].offset {
			continue
		}
		r.absorb(target, i)
		return true
	}
	return false
}

// personal reports evidence that speaks for a person more than for anything else.
func personal(ev evidence) bool {
	for k, v := range ev {
		if kind(k) != person && v >= ev[person] {
			return false
		}
	}
	return true
}

// absorb makes entry short an alias of entry full.
func (r *register) absorb(full, short int) {
	full = r.root(full)
	if full == short {
		return
	}
	e, s := &r.entries[full], &r.entries[short]
	s.into = full
	e.aliases = append(append(e.aliases, s.name), s.aliases...)
	e.strong = e.strong || s.strong
	e.mentions = append(e.mentions, s.mentions...)
	e.count += s.count
}

// finish sorts mentions and aliases.
func (r *register) finish() {
	for i := range r.entries {
		e := &r.entries[i]
		slices.SortStableFunc(e.mentions, func(a, b mention) int { return a.offset - b.offset })
		e.mentions = e.mentions[:min(len(e.mentions), maxMentions)]
		slices.Sort(e.aliases)
		e.aliases = slices.DeleteFunc(slices.Compact(e.aliases), func(a string) bool { return a == e.name })
	}
}

// acronym returns the initials of the capitalised words of a name; for names of
// persons, which are never abbreviated so, it is of no harm.
func acronym(name string, lex *lexicon) string {
	var b strings.Builder
	for part := range strings.FieldsSeq(name) {
		r, _ := utf8.DecodeRuneInString(part)
		if unicode.IsUpper(r) && !lex.suffixes[strings.ToLower(part)] {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// withoutSuffix returns a company's key without its legal form.
func withoutSuffix(parts []string, lex *lexicon) (string, bool) {
	n := len(parts)
	for n > 1 && (lex.suffixes[parts[n-1]] || parts[n-1] == "&") {
		n--
	}
	if n == len(parts) {
		return "", false
	}
	return strings.TrimSuffix(strings.Join(parts[:n], " "), ","), true
}
