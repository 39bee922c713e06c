package seed

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Redaction takes what must not leave out of items. Everything it takes out of
// an item is replaced by a name with a number, such as [EMAIL-1], the same
// wherever it stands in the item, in whatever case: the text and its gold still
// agree afterwards. Numbers begin anew with each item, and say nothing about
// what they stand for.
type Redaction struct {
	patterns []pattern
	fields   [][]string // keys from the end of a path
	labels   []string   // by label; 0 is none
}

// pattern is a regular expression; of one with a group named take that group
// alone counts.
type pattern struct {
	name string
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
var labelName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

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
	var file struct {
		Patterns []struct {
			Name  string `yaml:"name"`
			Regex string `yaml:"regex"`
		} `yaml:"patterns"`
		Fields []string `yaml:"fields"`
	}
	if err := decodeYAML(text, &file); err != nil {
		return nil, malformed("reading the patterns: %w", err)
	}
	r := &Redaction{labels: []string{""}}
	var problems []error
	for i, p := range file.Patterns {
		if p.Name == "" {
			p.Name = fmt.Sprintf("PATTERN%d", i+1)
		}
		expr, err := regexp.Compile(p.Regex)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("pattern %s: %w", p.Name, err))
			continue
		case p.Regex == "":
			problems = append(problems, fmt.Errorf("pattern %s: the regex is missing", p.Name))
		}
		problems = append(problems, r.label(p.Name), onlyTake(p.Name, expr))
		r.patterns = append(r.patterns, pattern{p.Name, expr, max(0, expr.SubexpIndex(takeName))})
	}
	for _, field := range file.Fields {
		keys := strings.Split(strings.ToLower(strings.TrimSpace(field)), ".")
		if slices.Contains(keys, "") {
			problems = append(problems, fmt.Errorf("field %q: a key is empty", field))
			continue
		}
		problems = append(problems, r.label(fieldLabel(keys)))
		slices.Reverse(keys)
		r.fields = append(r.fields, keys)
	}
	if len(r.labels) == 1 && len(problems) == 0 {
		problems = append(problems, errors.New("there is neither a pattern nor a field: expected {patterns: [{name: email, regex: …}], fields: […]}"))
	}
	if len(r.labels) > maxLabels {
		problems = append(problems, fmt.Errorf("%d patterns and fields, at most %d are possible", len(r.labels)-1, maxLabels-1))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, malformed("reading the patterns: %w", err)
	}
	return r, nil
}

// onlyTake refuses a group of another name: it was perhaps meant to say what is
// taken out.
func onlyTake(name string, expr *regexp.Regexp) error {
	for _, group := range expr.SubexpNames() {
		if group != "" && group != takeName {
			return fmt.Errorf("pattern %s: has a group named %q: (?P<%s>…) says what is taken out, other groups have no name", name, group, takeName)
		}
	}
	return nil
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
func fieldLabel(keys []string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.Join(keys, "_"))
	if name[0] < 'a' || name[0] > 'z' {
		name = "field_" + name
	}
	return name
}

// secret is a text that must not stand anywhere in the item.
type secret struct {
	text  string
	label byte
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
func (r *Redaction) fieldAround(path []string) byte {
	var label byte
	for end := len(path); end > 0; end-- {
		label = meet(label, r.fieldAt(path[:end]))
	}
	return label
}

// fieldAt returns the label of the field at the end of a path, or 0.
func (r *Redaction) fieldAt(path []string) byte {
	for i, keys := range r.fields {
		if len(keys) > len(path) {
			continue
		}
		matched := true
		for k, key := range keys {
			matched = matched && path[len(path)-1-k] == key
		}
		if matched {
			return byte(len(r.patterns) + i + 1)
		}
	}
	return 0
}
