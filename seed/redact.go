package seed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// Redaction takes what must not leave out of items. Everything it takes out of
// an item is replaced by a name with a number, such as [EMAIL-1], the same
// wherever it stands in the item, in whatever case: the text and its gold still
// agree afterwards. Numbers begin anew with each item, and say nothing about
// what they stand for.
type Redaction struct {
	patterns []pattern
	fields   []string // ends of paths
	labels   []string // by label; 0 is none
}

// pattern is a regular expression; of one with a group named take that group
// alone counts.
type pattern struct {
	expr *regexp.Regexp
	take int // number of that group; 0, the whole match, without it
}

// takeName names the group that narrows what is taken out. Groups without a name
// change nothing: most are there to repeat a part, and a rule that took them for
// the secret would leave the rest of it.
const takeName = "take"

// maxLabels is bounded by the byte in which a label is kept.
const maxLabels = 250

// labelName is the form of a name, so that [NAME-1] is easily told from a text.
var (
	labelName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	notOfName = regexp.MustCompile(`[^a-z0-9]`)
)

type redactionFile struct {
	Patterns []patternRule
	Fields   []string
}

type patternRule struct{ Name, Regex string }

// ParseRedaction reads a pattern file, YAML:
//
//	patterns:
//	  - {name: email, regex: '[\w.+-]+@[\w-]+(\.[\w-]+)+'}
//	  - {name: patient, regex: 'Patient:\s+(?P<take>\w+ \w+)'} # the name alone
//	fields: [ssn, metadata.user.name]
//
// Expressions are those of Go (RE2: linear time, no look-around). The whole match
// is taken out, or what the group named take matched of it; where that group took
// no part in a match, the whole match. The value of
// a field, found by its key or by the end of its path, in any case, is taken out
// as a whole; values are texts and numbers. All problems are returned together, with
// the exit code of malformed input.
func ParseRedaction(text []byte) (*Redaction, error) {
	var file redactionFile
	if err := textutil.DecodeYAML(text, "the patterns", &file, patternRule{}); err != nil {
		return nil, cli.WithCode(cli.ExitUsage, err)
	}
	r := &Redaction{labels: []string{""}}
	var problems []error
	for i, p := range file.Patterns {
		p.Name = cmp.Or(p.Name, fmt.Sprintf("PATTERN%d", i+1))
		expr, err := regexp.Compile(p.Regex)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("pattern %s: %w", p.Name, err))
			continue
		case p.Regex == "":
			problems = append(problems, fmt.Errorf("pattern %s: the regex is missing", p.Name))
		}
		problems = append(problems, r.label(p.Name))
		r.patterns = append(r.patterns, pattern{expr, max(0, expr.SubexpIndex(takeName))})
	}
	for _, field := range file.Fields {
		field = strings.ToLower(strings.TrimSpace(field))
		if strings.Contains("."+field+".", "..") {
			problems = append(problems, fmt.Errorf("field %q: a key is empty", field))
			continue
		}
		problems = append(problems, r.label(fieldLabel(field)))
		r.fields = append(r.fields, field)
	}
	if len(r.labels) == 1 && len(problems) == 0 {
		problems = append(problems, errors.New("there is neither a pattern nor a field: expected {patterns: [{name: email, regex: …}], fields: […]}"))
	}
	if len(r.labels) > maxLabels {
		problems = append(problems, fmt.Errorf("%d patterns and fields, at most %d are possible", len(r.labels)-1, maxLabels-1))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, cli.Usage("reading the patterns: %w", err)
	}
	return r, nil
}

// label gives the next label a name.
func (r *Redaction) label(name string) error {
	name = strings.ToUpper(name)
	taken := slices.Contains(r.labels, name)
	r.labels = append(r.labels, name)
	switch {
	case !labelName.MatchString(name):
		return fmt.Errorf("name %q: expected letters, digits and _, a letter first", name)
	case taken:
		return fmt.Errorf("name %q: is given twice", name)
	}
	return nil
}

// fieldLabel makes a name of a field's path: "user.e-mail" is USER_E_MAIL.
func fieldLabel(field string) string {
	name := notOfName.ReplaceAllString(field, "_")
	if name[0] < 'a' || name[0] > 'z' {
		name = "field_" + name
	}
	return name
}

// matches yields what the patterns take out of a text: from, to and label.
// Matches of different patterns may overlap; of one pattern they do not.
func (r *Redaction) matches(text string, give func(from, to int, label byte)) {
	for i, p := range r.patterns {
		for _, m := range p.expr.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[2*p.take], m[2*p.take+1]
			if from < 0 { // the group took no part in it
				from, to = m[0], m[1]
			}
			if from < to {
				give(from, to, byte(i+1))
			}
		}
	}
}

// fieldAround returns the label of the field at the end of a path of lower-case
// keys, or of one that it stands in, or 0.
func (r *Redaction) fieldAround(path []string) (label byte) {
	for i := range path {
		place := "." + strings.Join(path[:i+1], ".")
		for k, field := range r.fields {
			if strings.HasSuffix(place, "."+field) {
				label = firstOf(label, byte(len(r.patterns)+k+1))
			}
		}
	}
	return label
}

// shown replaces what the patterns match in a text that is no part of an item, a
// message to a person. Replacements have no number.
func (r *Redaction) shown(text string) string {
	m := newMask(text)
	r.matches(text, m.take)
	if !m.masked() {
		return text
	}
	return m.whole(&placeholders{labels: r.labels, unnumbered: true})
}

// wireKeys are the keys that every item may have, and the first keys of paths.
var wireKeys = strings.Fields(`document_text text document_type object_schemas relationship_schemas allowed_types
	available_tags name description properties source_types target_types entities relationships type aliases mentions
	quote start end source_name target_name relationship_type source_ref target_ref evidence kind author time id
	observation source_trace_id input output expectedOutput expectedoutput metadata trace sourceTraceId sourceObservationId items`)

// shownPath leaves keys out of a path that not every item may have: somebody's
// name may be one.
func shownPath(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		key, index, _ := strings.Cut(part, "[")
		if part != "" && (!slices.Contains(wireKeys, key) || strings.Trim(index, "[]0123456789") != "") {
			parts[i] = "…"
		}
	}
	return strings.Join(parts, ".")
}

// counts returns how often each pattern and field took something out, so far
// never: what stays at 0 is perhaps written wrong.
func (r *Redaction) counts() map[string]int {
	counts := map[string]int{}
	for _, name := range r.labels[1:] {
		counts[name] = 0
	}
	return counts
}

// items returns the items of a file without what the redaction takes out, for File. One
// that cannot be redacted becomes a *dataset.SyntaxError of its line, without
// what was to be taken out; so does one whose own id holds some of it, and one
// that is the same as another once both are redacted and has no id. An id that
// was derived is derived again.
//
// The sequence can be read as often as that of the items. replaced holds the
// replacements by name of the last time it was read.
func (r *Redaction) items(items iter.Seq2[dataset.Located, error], replaced map[string]int) iter.Seq2[dataset.Located, error] {
	return func(yield func(dataset.Located, error) bool) {
		maps.Copy(replaced, r.counts())
		derived := map[string]int{} // line by id
		for located, err := range items {
			var syntax *dataset.SyntaxError
			if errors.As(err, &syntax) {
				err = &dataset.SyntaxError{File: syntax.File, Line: syntax.Line, Path: shownPath(syntax.Path), Msg: r.shown(syntax.Msg)}
			}
			if err == nil {
				located, err = r.located(located, derived, replaced)
			}
			if !yield(located, err) {
				return
			}
		}
	}
}

// finding takes out of a finding what may not be shown.
func (r *Redaction) finding(f *Finding) { f.Path, f.Message = shownPath(f.Path), r.shown(f.Message) }

// located redacts one item of a file.
func (r *Redaction) located(located dataset.Located, derived, replaced map[string]int) (dataset.Located, error) {
	item, w, err := r.item(located.Item)
	if err == nil && located.DerivedID {
		if item.ID, err = dataset.DeriveID(item); err != nil {
			err = fmt.Errorf("redacting: %w", err)
		} else if first, taken := derived[item.ID]; taken {
			err = fmt.Errorf("redacting: has the same input as line %d once both are redacted, and no id: give both an id", first)
		} else {
			derived[item.ID] = located.Line
		}
	} else if err == nil {
		var name string
		if name, err = w.holds([]string{item.ID}); err == nil && name != "" {
			err = fmt.Errorf("redacting: its id holds what %s takes out: give it another", name)
		}
	}
	if err != nil {
		return dataset.Located{}, &dataset.SyntaxError{File: located.File, Line: located.Line, Msg: err.Error()}
	}
	for i, warning := range located.Warnings {
		located.Warnings[i] = r.shown(warning)
	}
	for name, n := range w.placeholders.count {
		replaced[name] += n
	}
	located.Item = item
	return located, nil
}

// item returns the item without what the redaction takes out, and what it knows of
// it then, the replacements by name among it. A text that a pattern matched anywhere in the
// item, or that a field held, is taken out wherever it stands in the item, case
// and white space aside (one of under three characters only where it is a word
// of its own). Where a gold text stands in the document, both are covered alike,
// and mentions move with the text. Ids that link to Langfuse stay as they are.
//
// The error names a key of an object that would have to be taken out: keys are
// never changed; it also says where the patterns take out more than can be done
// in a few seconds. Time is linear in the item and in the places of what is
// taken out and of the gold texts.
func (r *Redaction) item(item dataset.Item) (dataset.Item, *itemRedaction, error) {
	w := &itemRedaction{r: r, masks: map[string]*mask{}, aligned: map[string][]int{}, keys: map[string]bool{},
		placeholders: newPlaceholders(r.labels)}
	fields := map[string]*json.RawMessage{"input": &item.Input, "expectedoutput": &item.Expected, "metadata": &item.Metadata}
	whole := map[string]any{}
	for name, raw := range fields {
		if *raw == nil {
			continue
		}
		value, err := dataset.Decode(*raw)
		if err != nil {
			return item, w, fmt.Errorf("redacting: %s %w", name, err)
		}
		whole[name] = value
	}
	w.collect(whole)
	input, _ := whole["input"].(map[string]any)
	for _, key := range []string{"text", "document_text"} {
		if text, ok := input[key].(string); ok {
			w.document = w.masks[text]
		}
	}
	for _, step := range []func() error{w.spread, w.checkKeys, w.align} {
		if err := step(); err != nil {
			return item, w, fmt.Errorf("redacting: %w", err)
		}
	}
	w.replace(whole)
	for name, raw := range fields {
		if *raw != nil {
			*raw = dataset.CanonicalValue(whole[name])
		}
	}
	return item, w, nil
}

// secret is a text that must not stand anywhere in the item.
type secret struct {
	text  string
	label byte
}

// itemRedaction is the redaction of one item.
type itemRedaction struct {
	r            *Redaction
	masks        map[string]*mask // by text
	secrets      []secret
	keys         map[string]bool // of all objects
	gold         []string        // texts of the expected output
	document     *mask           // nil where the input has no text
	aligned      map[string][]int
	placeholders placeholders
	work         int
}

// exempt are the paths of metadata that link to Langfuse, and the places of
// mentions in the gold, which move with the text instead where they are numbers.
var exempt = strings.Fields(`metadata.source_trace_id metadata.evidence.id metadata.evidence.time metadata.evidence.kind
	metadata.evidence.observation`)

var offsets = strings.Fields("expectedoutput.entities.mentions.start expectedoutput.entities.mentions.end")

// walk goes through a value; give gets every text and number with its path.
func (w *itemRedaction) walk(path []string, value any, give func(path []string, value any) any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = w.walk(path, v[i], give)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			w.keys[key] = true
			v[key] = w.walk(append(slices.Clip(path), keyPath(key)...), v[key], give)
		}
	case string, json.Number:
		place := strings.Join(path, ".")
		_, isNumber := v.(json.Number)
		if !slices.Contains(exempt, place) && !(isNumber && slices.Contains(offsets, place)) {
			return give(path, value)
		}
	}
	return value
}

// keyPath is a key as a part of a path: telemetry writes the keys of nested
// objects with dots between them.
func keyPath(key string) []string { return strings.Split(strings.ToLower(key), ".") }

// collect takes in all texts and keys, marks what is to be taken out of the
// texts, and remembers it as a secret.
func (w *itemRedaction) collect(item map[string]any) {
	w.walk(nil, item, func(path []string, value any) any {
		text := spelled(value)
		w.collectInside(path, text, w.mask(text))
		if _, isText := value.(string); isText && path[0] == "expectedoutput" {
			w.gold = append(w.gold, text)
		}
		if label := w.r.fieldAround(path); label != 0 {
			w.secrets = append(w.secrets, secret{text, label})
		}
		return value
	})
}

func (w *itemRedaction) mask(text string) *mask {
	m := w.masks[text]
	if m == nil {
		m = newMask(text)
		w.masks[text] = m
		w.placeholders.reserve(text)
		w.r.matches(text, func(from, to int, label byte) {
			m.take(from, to, label)
			w.secrets = append(w.secrets, secret{text[from:to], label})
		})
	}
	return m
}

// collectInside looks for fields inside a text that holds JSON, as metadata
// does on some servers, and for what the patterns match once its escapes are
// read. What it finds is marked in place and becomes a secret. It returns the
// label of one of them, or 0.
func (w *itemRedaction) collectInside(path []string, text string, m *mask) (any byte) {
	for _, one := range scanJSON(text) {
		full := slices.Concat(path, one.path)
		raw := text[one.from:one.to]
		label := w.r.fieldAround(full)
		if label != 0 {
			w.secrets = append(w.secrets, secret{one.text, label}, secret{raw, label})
		}
		if one.text != raw { // it has escapes
			w.r.matches(one.text, func(from, to int, matched byte) {
				w.secrets = append(w.secrets, secret{one.text[from:to], matched})
				label = firstOf(label, matched)
			})
		}
		if label = firstOf(label, w.collectInside(full, one.text, newMask(one.text))); label != 0 {
			m.take(one.from, one.to, label)
			any = firstOf(any, label)
		}
	}
	return any
}

// literal is a text or number inside a text that holds JSON.
type literal struct {
	path     []string // of lower-case keys, below that of the text
	text     string   // what it says
	from, to int      // where it stands, without the quotes of a text
}

// scanJSON finds the texts and numbers of a text that holds a JSON object or
// list; in any other text there is nothing. Time is linear in the text.
func scanJSON(text string) (list []literal) {
	if _, isText := opened(text).(string); isText {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var read func(path []string)
	read = func(path []string) {
		from := int(decoder.InputOffset())
		token, _ := decoder.Token() // it is valid
		to := int(decoder.InputOffset())
		switch v := token.(type) {
		case json.Delim:
			for decoder.More() {
				inner := path
				if v == '{' {
					token, _ := decoder.Token()
					inner = slices.Concat(path, keyPath(token.(string)))
				}
				read(inner)
			}
			_, _ = decoder.Token() // its end
		case string, json.Number:
			from += len(text[from:to]) - len(strings.TrimLeft(text[from:to], " \t\r\n,:"))
			if text[from] == '"' {
				from, to = from+1, to-1
			}
			list = append(list, literal{path, spelled(v), from, to})
		}
	}
	read(nil)
	return list
}

// spread marks every secret wherever it stands.
func (w *itemRedaction) spread() error {
	distinct := map[string]byte{}
	for _, s := range w.secrets {
		folded := newMask(s.text).folded
		distinct[folded] = firstOf(distinct[folded], s.label)
	}
	w.secrets = w.secrets[:0]
	for _, folded := range slices.Sorted(maps.Keys(distinct)) {
		w.secrets = append(w.secrets, secret{folded, distinct[folded]})
	}
	for _, s := range w.secrets {
		for _, in := range w.masks {
			end := 0 // of what is marked
			err := w.search(in, s.text, func(at int) {
				in.mark(max(at, end), at+len(s.text), s.label)
				end = at + len(s.text)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// maxWork bounds the work on one item, in bytes that are looked at: beyond it a
// document and patterns are such that everything is found everywhere.
const maxWork = 20_000_000_000

var errTooMuch = errors.New("the patterns take out so much of it that it cannot be done in reasonable time: narrow them, or leave the trace out")

// search gives every place where a folded text stands, in order; a short one must
// be a word of its own. The error says that there are too many.
func (w *itemRedaction) search(in *mask, text string, give func(at int)) error {
	const place = 1000 // what one costs
	w.work += 100 + len(in.folded)
	for at := 0; text != "" && w.work < maxWork; at++ {
		next := strings.Index(in.folded[at:], text)
		if next < 0 {
			return nil
		}
		w.work += place
		if at += next; utf8.RuneCountInString(text) > 2 || in.isWord(at, at+len(text)) {
			give(at)
		}
	}
	if w.work >= maxWork {
		return errTooMuch
	}
	return nil
}

// checkKeys refuses an item whose keys hold a secret.
func (w *itemRedaction) checkKeys() error {
	for _, key := range wireKeys {
		delete(w.keys, key)
	}
	name, err := w.holds(slices.Collect(maps.Keys(w.keys)))
	if err == nil && name != "" {
		err = fmt.Errorf("a key of an object holds what %s takes out, and keys are not changed: leave that object out of the mapping", name)
	}
	return err
}

// holds names what takes something out of texts that cannot be changed, or
// nothing.
func (w *itemRedaction) holds(texts []string) (name string, err error) {
	for _, text := range texts {
		in := newMask(text)
		w.r.matches(text, func(_, _ int, label byte) { name = w.r.labels[label] })
		for _, s := range w.secrets {
			err = errors.Join(err, w.search(in, s.text, func(at int) {
				if in.isWord(at, at+len(s.text)) {
					name = w.r.labels[s.label]
				}
			}))
		}
	}
	return name, err
}

// maxAligned bounds the gold texts that are looked for in the document, in
// bytes: names and quotes, not pages.
const maxAligned = 2000

// align marks gold texts and their places in the document alike, until nothing
// changes: a name that is taken out in one place for what stands beside it is then
// taken out in every place. The error says that it would take too long.
func (w *itemRedaction) align() error {
	if w.document == nil {
		return nil
	}
	for _, text := range w.gold {
		gold := w.masks[text]
		if w.aligned[text] != nil || gold == w.document || len(gold.folded) > maxAligned {
			continue
		}
		var places []int
		if err := w.search(w.document, gold.folded, func(at int) { places = append(places, at) }); err != nil {
			return err
		}
		if len(places) > 0 {
			w.aligned[text] = places
		}
	}
	for changed := true; changed; {
		changed = false
		for _, text := range slices.Sorted(maps.Keys(w.aligned)) {
			gold := w.masks[text]
			if w.work += 100 * len(w.aligned[text]) * len(gold.label); w.work > maxWork {
				return errTooMuch
			}
			for _, at := range w.aligned[text] {
				changed = alignAt(gold, w.document, at) || changed
			}
		}
	}
	for text, places := range w.aligned {
		for _, at := range places {
			if gold := w.masks[text]; gold.masked() {
				w.document.cuts[at], w.document.cuts[at+len(gold.label)] = true, true
			}
		}
	}
	w.document.whole(&w.placeholders) // the document has the first numbers
	clear(w.placeholders.count)       // it is written again, and counted then
	return nil
}

// alignAt marks a gold text and one of its places alike, and reports whether
// that was new.
func alignAt(gold, document *mask, at int) bool {
	changed := false
	for i := range gold.label {
		if label := firstOf(gold.label[i], document.label[at+i]); label != 0 {
			inGold, inDocument := gold.mark(i, i+1, label), document.mark(at+i, at+i+1, label)
			changed = changed || inGold || inDocument
		}
	}
	return changed
}

// replace takes everything out.
func (w *itemRedaction) replace(item map[string]any) {
	mentions := w.moveMentions(item)
	w.walk(nil, item, func(_ []string, value any) any {
		text := spelled(value)
		m, places := w.masks[text], w.aligned[text]
		switch {
		case !m.masked():
			return value
		case places != nil: // written as its first place in the document
			return w.document.render(&w.placeholders, places[0], places[0]+len(m.folded))
		}
		return m.whole(&w.placeholders)
	})
	for _, m := range mentions {
		maps.Copy(m.mention, m.now)
	}
}

// movedMention is a mention and what it is in the new document.
type movedMention struct{ mention, now map[string]any }

// moveMentions finds where the quotes of mentions are in the new document: behind
// what the text before them becomes.
func (w *itemRedaction) moveMentions(item map[string]any) (moved []movedMention) {
	found, _ := Path{steps: []step{{key: "expectedoutput"}, {key: "entities"}, {kind: stepAll}, {key: "mentions"}}}.Find(item)
	mentions, _ := found.([]any)
	if len(mentions) == 0 || w.document == nil {
		return nil
	}
	m, uncounted := w.document, w.placeholders
	uncounted.count = map[string]int{}
	var starts []int // of the characters
	for at := range m.text + "." {
		starts = append(starts, at)
	}
	place := func(characters any) int {
		n, err := strconv.Atoi(spelled(characters))
		if err != nil || n < 0 || n >= len(starts) {
			return -1
		}
		return starts[n]
	}
	for _, one := range mentions {
		mention, _ := one.(map[string]any)
		start, end := place(mention["start"]), place(mention["end"])
		if start < 0 || end < start || m.text[start:end] != mention["quote"] {
			continue
		}
		from, to := m.at(start), m.at(end)
		for m.continues(from) {
			from--
		}
		for m.continues(to) {
			to++
		}
		quote := m.render(&uncounted, from, to)
		before := utf8.RuneCountInString(m.text[:m.from[0]] + m.render(&uncounted, 0, from))
		number := func(n int) json.Number { return json.Number(strconv.Itoa(n)) }
		moved = append(moved, movedMention{mention, map[string]any{
			"quote": quote, "start": number(before), "end": number(before + utf8.RuneCountInString(quote))}})
	}
	return moved
}
