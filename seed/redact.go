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

// Redaction removes sensitive texts from items. It replaces each by a name with a number, for
// example [EMAIL-1], and uses the same replacement everywhere in the item regardless of case, so
// that text and gold still agree. Numbers start again with each item and say nothing about the
// removed text.
type Redaction struct{ rules []redactRule }

// redactRule removes the matches of an expression or the value of a field. Its label is its number,
// from 1; label 0 means no rule.
type redactRule struct {
	name string
	expr *regexp.Regexp // nil for a field
	// group is the number of the group named take, which is then the only part removed, or 0 for the
	// whole match. Groups without a name have no effect: most only repeat a part, and removing only
	// such a group would leave the rest of the secret.
	group int
	field string // end of a path; "" for an expression
}

// maxRules fits the labels into a byte.
const maxRules = 249

// ruleName matches valid names, so that [NAME-1] is easily told from other text.
var (
	ruleName     = textutil.Pattern(`^[A-Za-z][A-Za-z0-9_]*$`)
	nonNameChars = textutil.Pattern(`[^a-z0-9]`)
)

type redactionFile struct {
	Patterns []patternRule
	Fields   []string
}

type patternRule struct{ Name, Regex string }

// ParseRedaction parses a pattern file in YAML:
//
//	patterns:
//	  - {name: email, regex: '[\p{L}\p{M}\p{N}_.+-]+@[\p{L}\p{M}\p{N}-]+(\.[\p{L}\p{M}\p{N}-]+)+'}
//	  - {name: patient, regex: 'Patient:[\s\p{Z}]+(?P<take>[\p{L}\p{M}-]+ [\p{L}\p{M}-]+)'} # the name alone
//	fields: [ssn, metadata.user.name]
//
// Expressions have the syntax of Go (RE2: linear time, no look-around; \w, \d, \s and \b know only
// ASCII). The whole match is removed, or only its group named take if that group took part in the
// match. A field is found by its key or
// by the end of its path, in any case, and its whole value, a text or number, is removed. The error
// joins all problems and has the exit code of malformed input.
func ParseRedaction(text []byte) (*Redaction, error) {
	var file redactionFile
	if err := textutil.DecodeYAML(text, "the patterns", &file, patternRule{}); err != nil {
		return nil, cli.WithCode(cli.ExitUsage, err)
	}
	r := &Redaction{}
	var problems textutil.Problems
	for i, p := range file.Patterns {
		p.Name = cmp.Or(p.Name, fmt.Sprintf("PATTERN%d", i+1))
		expr, err := regexp.Compile(p.Regex)
		switch {
		case err != nil:
			problems.Add(true, "pattern %s: %w", p.Name, err)
		case p.Regex == "":
			problems.Add(true, "pattern %s: the regex is missing", p.Name)
		default:
			r.rules = append(r.rules, redactRule{name: strings.ToUpper(p.Name), expr: expr, group: max(0, expr.SubexpIndex("take"))})
		}
	}
	for _, field := range file.Fields {
		field = strings.ToLower(strings.TrimSpace(field))
		if strings.Contains("."+field+".", "..") {
			problems.Add(true, "field %q: a key is empty", field)
			continue
		}
		name := nonNameChars().ReplaceAllString(field, "_") // "user.e-mail" becomes user_e_mail
		if name[0] < 'a' || name[0] > 'z' {
			name = "field_" + name
		}
		r.rules = append(r.rules, redactRule{name: strings.ToUpper(name), field: field})
	}
	for i, rule := range r.rules {
		problems.Add(!ruleName().MatchString(rule.name), "name %q: expected letters, digits and _, a letter first", rule.name)
		twice := slices.ContainsFunc(r.rules[:i], func(earlier redactRule) bool { return earlier.name == rule.name })
		problems.Add(twice, "name %q: is given twice, by patterns or fields; name a pattern otherwise", rule.name)
	}
	switch {
	case len(r.rules) == 0 && len(problems) == 0:
		problems.Add(true, "there is neither a pattern nor a field: expected {patterns: [{name: email, regex: …}], fields: […]}")
	case len(r.rules) > maxRules:
		problems.Add(true, "%d patterns and fields, at most %d are possible", len(r.rules), maxRules)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, cli.Usage("reading the patterns: %w", err)
	}
	return r, nil
}

// matches calls fn with start, end and label of every match in a text. Matches of different
// patterns may overlap; those of one pattern do not.
func (r *Redaction) matches(text string, fn func(from, to int, label byte)) {
	for i, rule := range r.rules {
		if rule.expr == nil {
			continue
		}
		for _, m := range rule.expr.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[2*rule.group], m[2*rule.group+1]
			if from < 0 { // the group took no part in the match
				from, to = m[0], m[1]
			}
			if from < to {
				fn(from, to, byte(i+1))
			}
		}
	}
}

// fieldLabel returns the label of the first rule whose field the path ends in or passes through, or
// 0. The keys of path are in lower case.
func (r *Redaction) fieldLabel(path []string) byte {
	place := "." + strings.Join(path, ".") + "."
	return byte(1 + slices.IndexFunc(r.rules, func(rule redactRule) bool {
		return rule.field != "" && strings.Contains(place, "."+rule.field+".")
	}))
}

// redactText replaces the matches in a text that is not part of an item but a message to a person.
// These replacements have no number.
func (r *Redaction) redactText(text string) string {
	m := newMask(text)
	r.matches(text, m.markText)
	if !m.masked() {
		return text
	}
	return m.renderAll(func(label byte, _ string) string { return "[" + r.rules[label-1].name + "]" })
}

// wireKeys are the keys that any item may have, and the first keys of paths.
var wireKeys = strings.Fields(`document_text text document_type object_schemas relationship_schemas allowed_types
	available_tags name description properties source_types target_types entities relationships type aliases mentions
	quote start end source_name target_name relationship_type source_ref target_ref evidence kind author time id
	observation source_trace_id input output expectedOutput expectedoutput metadata trace sourceTraceId sourceObservationId items`)

// redactPath replaces keys that not every item may have by "…", because such a key may be a
// person's name.
func redactPath(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		key, index, _ := strings.Cut(part, "[")
		if part != "" && (!slices.Contains(wireKeys, key) || strings.Trim(index, "[]0123456789") != "") {
			parts[i] = "…"
		}
	}
	return strings.Join(parts, ".")
}

// zeroCounts returns 0 for the name of each pattern and field. A count that stays 0 hints at a
// mistake in the rule.
func (r *Redaction) zeroCounts() map[string]int {
	counts := map[string]int{}
	for _, rule := range r.rules {
		counts[rule.name] = 0
	}
	return counts
}

// redactItems returns the redacted items of a file, for File. An item that cannot be redacted
// becomes a *dataset.SyntaxError of its line that does not show the secret. So does an item whose
// own id holds a secret, and an item without id that has the same input as another one after
// redaction. Derived ids are derived again.
//
// The sequence can be read as often as items. Reading it sets replaced to the number of
// replacements by name.
func (r *Redaction) redactItems(items iter.Seq2[dataset.Located, error], replaced map[string]int) iter.Seq2[dataset.Located, error] {
	return func(yield func(dataset.Located, error) bool) {
		maps.Copy(replaced, r.zeroCounts())
		derived := map[string]int{} // line by id
		for located, err := range items {
			if syntax, ok := errors.AsType[*dataset.SyntaxError](err); ok {
				err = &dataset.SyntaxError{File: syntax.File, Line: syntax.Line, Path: redactPath(syntax.Path),
					Msg: r.redactText(syntax.Msg)}
			}
			if err == nil {
				located, err = r.redactLocated(located, derived, replaced)
			}
			if !yield(located, err) {
				return
			}
		}
	}
}

// redactFindings redacts findings in place.
func (r *Redaction) redactFindings(list []Finding) {
	for i, f := range list {
		list[i].Path, list[i].Message = redactPath(f.Path), r.redactText(f.Message)
	}
}

// redactLocated redacts one item of a file.
func (r *Redaction) redactLocated(located dataset.Located, derived, replaced map[string]int) (dataset.Located, error) {
	item, w, err := r.redactItem(located.Item)
	if err == nil && !located.DerivedID {
		err = w.checkTexts([]string{item.ID}, "its id holds what %s takes out: give it another")
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
		located.Warnings[i] = r.redactText(warning)
	}
	located.Warnings = append(located.Warnings, w.warnings()...)
	for name, n := range w.placeholders.count {
		replaced[name] += n
	}
	located.Item = item
	return located, nil
}

// redactItem returns the redacted item, and the state of its redaction with the number of
// replacements by name. It removes a text that a pattern matches anywhere in the item, or that a
// field holds, everywhere in the item, regardless of case and white space; a text of fewer than
// three characters only where it is a whole word. Where a gold text occurs in the document, both
// are covered alike, and mentions move with the text. Ids that link to Langfuse are kept.
//
// The error is about a key of an object that holds a secret, as keys are never changed, or about
// patterns that match more than can be removed in some seconds. Time is linear in the item and in
// the occurrences of secrets and gold texts.
func (r *Redaction) redactItem(item dataset.Item) (dataset.Item, *itemRedaction, error) {
	w := &itemRedaction{r: r, masks: map[string]*mask{}, keys: map[string]bool{}, secrets: map[string]byte{},
		partial: map[string]bool{}, placeholders: placeholders{rules: r.rules, number: map[string]int{},
			next: map[byte]int{}, count: map[string]int{}, taken: map[string]bool{}}}
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
	w.markSecrets()
	w.align()
	for _, key := range wireKeys {
		delete(w.keys, key)
	}
	if err := w.checkTexts(slices.Collect(maps.Keys(w.keys)), "a key of an object holds what %s takes out, "+
		"and keys are not changed: rename it, or leave that object out"); err != nil {
		return item, w, err
	}
	w.replace(whole)
	for name, value := range whole {
		*fields[name] = dataset.CanonicalValue(value)
	}
	return item, w, nil
}

// collectInside searches a text that holds JSON, the form of metadata on some servers, for fields
// and for matches of the patterns after decoding. It remembers what it finds as secrets, decoded
// and as written, and keeps the escaped texts for markSecrets. It returns the label of one of the
// secrets, or 0. Time is linear in the text.
func (w *itemRedaction) collectInside(path []string, text string) (found byte) {
	if _, isText := decodeText(text).(string); isText {
		return 0
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var read func(path []string)
	read = func(path []string) {
		from := decoder.InputOffset()
		token, _ := decoder.Token() // the text is valid JSON
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
			_, _ = decoder.Token() // the closing delimiter
		case string, json.Number:
			encoded := strings.TrimLeft(text[from:decoder.InputOffset()], " \t\r\n,:") // the value as it is written
			if encoded[0] == '"' {
				encoded = encoded[1 : len(encoded)-1]
			}
			value, label := plainText(v), w.r.fieldLabel(path)
			if label != 0 {
				w.addSecret(value, label)
			}
			w.r.matches(value, func(from, to int, matched byte) {
				w.addSecret(value[from:to], matched)
				if value != encoded { // encoded has escapes
					label = minLabel(label, matched)
				}
			})
			if label = minLabel(label, w.collectInside(path, value)); label != 0 {
				w.addSecret(encoded, label)
			}
			if value != encoded {
				w.escaped = append(w.escaped, [2]string{value, encoded})
			}
			found = minLabel(found, label)
		}
	}
	read(path)
	return found
}

// placeholders numbers the removed texts of one item.
type placeholders struct {
	rules  []redactRule
	number map[string]int // by label and folded text
	next   map[byte]int
	count  map[string]int  // replacements by name
	taken  map[string]bool // placeholders that the item already contains, in upper case
}

func (p *placeholders) get(label byte, folded string) string {
	name := p.rules[label-1].name
	key := string([]byte{label}) + strings.TrimSpace(folded)
	numbered := func() string { return fmt.Sprintf("[%s-%d]", name, p.number[key]) }
	for p.number[key] == 0 || p.taken[numbered()] {
		p.next[label]++
		p.number[key] = p.next[label]
	}
	p.count[name]++
	return numbered()
}

// placeholder matches a placeholder, in any case.
var placeholder = textutil.Pattern(`(?i)\[[A-Z][A-Z0-9_]*-[0-9]+\]`)
