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
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// Redaction takes what must not leave out of items. Everything it takes out of
// an item is replaced by a name with a number, such as [EMAIL-1], the same
// wherever it is in the item, in whatever case: the text and its gold still
// agree afterwards. Numbers start again with each item, and say nothing about
// what they stand for.
type Redaction struct{ rules []redactRule }

// redactRule takes out what an expression matches, or the value of a field. A label is the
// number of a rule, from 1; 0 is none.
type redactRule struct {
	name string
	expr *regexp.Regexp // nil: that of a field
	// take is the number of the group named take, which alone is taken out then; 0, the
	// whole match, without it. Groups without a name change nothing: most are there to
	// repeat a part, and a rule that took them for the secret would leave the rest of it.
	take  int
	field string // end of a path
}

// maxRules is bounded by the byte in which a label is kept.
const maxRules = 249

// ruleName is the form of a name, so that [NAME-1] is easily told from a text.
var (
	ruleName  = textutil.Pattern(`^[A-Za-z][A-Za-z0-9_]*$`)
	notOfName = textutil.Pattern(`[^a-z0-9]`)
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
	r := &Redaction{}
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for i, p := range file.Patterns {
		p.Name = cmp.Or(p.Name, fmt.Sprintf("PATTERN%d", i+1))
		expr, err := regexp.Compile(p.Regex)
		switch {
		case err != nil:
			problem("pattern %s: %w", p.Name, err)
		case p.Regex == "":
			problem("pattern %s: the regex is missing", p.Name)
		default:
			r.rules = append(r.rules, redactRule{name: strings.ToUpper(p.Name), expr: expr, take: max(0, expr.SubexpIndex("take"))})
		}
	}
	for _, field := range file.Fields {
		field = strings.ToLower(strings.TrimSpace(field))
		if strings.Contains("."+field+".", "..") {
			problem("field %q: a key is empty", field)
			continue
		}
		r.rules = append(r.rules, redactRule{name: strings.ToUpper(fieldName(field)), field: field})
	}
	for i, one := range r.rules {
		if !ruleName().MatchString(one.name) {
			problem("name %q: expected letters, digits and _, a letter first", one.name)
		}
		if slices.ContainsFunc(r.rules[:i], func(earlier redactRule) bool { return earlier.name == one.name }) {
			problem("name %q: is given twice", one.name)
		}
	}
	switch {
	case len(r.rules) == 0 && len(problems) == 0:
		problem("there is neither a pattern nor a field: expected {patterns: [{name: email, regex: …}], fields: […]}")
	case len(r.rules) > maxRules:
		problem("%d patterns and fields, at most %d are possible", len(r.rules), maxRules)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, cli.Usage("reading the patterns: %w", err)
	}
	return r, nil
}

// fieldName makes a name of a field's path: "user.e-mail" is user_e_mail.
func fieldName(field string) string {
	name := notOfName().ReplaceAllString(field, "_")
	if name[0] < 'a' || name[0] > 'z' {
		name = "field_" + name
	}
	return name
}

// matches yields what the patterns take out of a text: from, to and label.
// Matches of different patterns may overlap; of one pattern they do not.
func (r *Redaction) matches(text string, give func(from, to int, label byte)) {
	for i, one := range r.rules {
		if one.expr == nil {
			continue
		}
		for _, m := range one.expr.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[2*one.take], m[2*one.take+1]
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
// keys, or of one that it is in, or 0.
func (r *Redaction) fieldAround(path []string) byte {
	place := "." + strings.Join(path, ".") + "."
	return byte(1 + slices.IndexFunc(r.rules, func(one redactRule) bool {
		return one.field != "" && strings.Contains(place, "."+one.field+".")
	}))
}

// shown replaces what the patterns match in a text that is not part of an item, a
// message to a person. Replacements have no number.
func (r *Redaction) shown(text string) string {
	m := newMask(text)
	r.matches(text, m.take)
	if !m.masked() {
		return text
	}
	return m.whole(&placeholders{rules: r.rules, unnumbered: true})
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
	for _, one := range r.rules {
		counts[one.name] = 0
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
			if syntax, ok := errors.AsType[*dataset.SyntaxError](err); ok {
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
	if err == nil && !located.DerivedID {
		err = w.check([]string{item.ID}, "its id holds what %s takes out: give it another")
	} else if err == nil {
		item.ID, err = dataset.DeriveID(item)
		if first, taken := derived[item.ID]; taken {
			err = fmt.Errorf("redacting: has the same input as line %d once both are redacted, and no id: give both an id", first)
		}
		derived[item.ID] = located.Line
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
// item, or that a field held, is taken out wherever it is in the item, case
// and white space aside (one of under three characters only where it is a word
// of its own). Where a gold text is in the document, both are covered alike,
// and mentions move with the text. Ids that link to Langfuse stay as they are.
//
// The error names a key of an object that would have to be taken out: keys are
// never changed; it also says where the patterns take out more than can be done
// in a few seconds. Time is linear in the item and in the places of what is
// taken out and of the gold texts.
func (r *Redaction) item(item dataset.Item) (dataset.Item, *itemRedaction, error) {
	w := &itemRedaction{r: r, masks: map[string]*mask{}, keys: map[string]bool{}, secrets: map[string]byte{},
		placeholders: placeholders{rules: r.rules, number: map[string]int{}, next: map[byte]int{}, count: map[string]int{},
			taken: map[string]bool{}}}
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
	w.spread()
	w.align()
	if err := w.checkKeys(); err != nil {
		return item, w, err
	}
	w.replace(whole)
	for name, value := range whole {
		*fields[name] = dataset.CanonicalValue(value)
	}
	return item, w, nil
}

// collectInside looks for fields inside a text that holds JSON, as metadata
// does on some servers, and for what the patterns match once its escapes are
// read. What it finds becomes a secret, also as it is written there. It returns
// the label of one of them, or 0. Time is linear in the text.
func (w *itemRedaction) collectInside(path []string, text string) (found byte) {
	if _, isText := opened(text).(string); isText {
		return 0
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var read func(path []string)
	read = func(path []string) {
		from := decoder.InputOffset()
		token, _ := decoder.Token() // it is valid
		switch v := token.(type) {
		case json.Delim:
			for decoder.More() {
				inner := path
				if v == '{' {
					key, _ := decoder.Token()
					inner = slices.Concat(path, keyPath(key.(string)))
				}
				read(inner)
			}
			_, _ = decoder.Token() // its end
		case string, json.Number:
			written := strings.TrimLeft(text[from:decoder.InputOffset()], " \t\r\n,:")
			if written[0] == '"' {
				written = written[1 : len(written)-1]
			}
			found = firstOf(found, w.collectWritten(path, spelled(v), written))
		}
	}
	read(path)
	return found
}

// collectWritten looks at a text or number inside JSON, and at how it is written there.
func (w *itemRedaction) collectWritten(path []string, text, written string) byte {
	label := w.r.fieldAround(path)
	if label != 0 {
		w.keep(text, label)
	}
	if text != written { // it has escapes
		w.r.matches(text, func(from, to int, matched byte) {
			w.keep(text[from:to], matched)
			label = firstOf(label, matched)
		})
	}
	if label = firstOf(label, w.collectInside(path, text)); label != 0 {
		w.keep(written, label)
	}
	return label
}

// placeholders numbers what was taken out of one item.
type placeholders struct {
	rules  []redactRule
	number map[string]int // by label and folded text
	next   map[byte]int
	count  map[string]int  // replacements by name
	taken  map[string]bool // what an item has that looks like one, in capitals
	// unnumbered writes [NAME], and counts nothing.
	unnumbered bool
}

func (p *placeholders) of(label byte, folded string) string {
	name := p.rules[label-1].name
	if p.unnumbered {
		return "[" + name + "]"
	}
	key := string([]byte{label}) + strings.TrimSpace(folded)
	numbered := func() string { return fmt.Sprintf("[%s-%d]", name, p.number[key]) }
	for p.number[key] == 0 || p.taken[numbered()] {
		p.next[label]++
		p.number[key] = p.next[label]
	}
	p.count[name]++
	return numbered()
}

// placeholder is the form of what stands for a secret, in any case.
var placeholder = textutil.Pattern(`(?i)\[[A-Z][A-Z0-9_]*-[0-9]+\]`)

// reserve keeps the numbers free that are in a text already: they are another's.
func (p *placeholders) reserve(text string) {
	for _, found := range placeholder().FindAllString(text, -1) {
		p.taken[strings.ToUpper(found)] = true
	}
}
