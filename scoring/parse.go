package scoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// ParseOptions reads options from a JSON object. A key that is absent or null keeps the value of
// base; the result shares such tables with base. A table that is given replaces that of base as a
// whole.
//
// Accepted forms: threshold as a number or as text (its decimal text counts); inverse as the name
// of a table ("specification", "extended"), a list of pairs, or an object from a type to its
// inverse or inverses; symmetric as the name of a table or a list; type_aliases as an object from
// an alias to its type.
//
// The error has exit code 64 and joins all problems. Unknown keys are problems; the message
// suggests the nearest known key.
func ParseOptions(raw []byte, base Options) (Options, error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil || values == nil {
		return Options{}, optionsError(errors.New(`expected a JSON object such as {"threshold": 0.85}, and nothing after it`))
	}
	o := base
	options := o.list()
	var problems textutil.Problems
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := slices.IndexFunc(options, func(option option) bool { return option.name == key })
		switch {
		case at < 0:
			known := textutil.Listed(key, cli.Each(options, func(o option) string { return o.name }))
			problems.Add(true, "unknown option %q; there are: %s", shorten(key), known)
		case string(values[key]) != "null":
			err := options[at].read(values[key])
			problems.Add(err != nil, "%s: %w", key, err)
		}
	}
	if len(problems) > 0 {
		return Options{}, optionsError(errors.Join(problems...))
	}
	_, err := o.check()
	return o, err
}

// option is the JSON form of one field of Options.
type option struct {
	name     string
	value    any    // pointer to the field
	expected string // the accepted form, for messages
}

// list returns all options in the order in which MarshalJSON writes them.
func (o *Options) list() []option {
	return []option{
		{"normalise", &o.Normalise, "a string"},
		{"threshold", (*decimal)(&o.Threshold), "a number"},
		{"threshold_inclusive", &o.ThresholdInclusive, "true or false"},
		{"fold_diacritics", &o.FoldDiacritics, "true or false"},
		{"fuzzy_entities", &o.FuzzyEntities, "true or false"},
		{"fuzzy_relationships", &o.FuzzyRelationships, "true or false"},
		{"initials", &o.Initials, "true or false"},
		{"digits_equal", &o.DigitsEqual, "true or false"},
		{"inverse", (*inverseTable)(&o.Inverse), `a list of pairs such as [["parent_of","child_of"]], or an object`},
		{"symmetric", (*symmetricTable)(&o.Symmetric), `a list of types such as ["married_to"]`},
		{"type_aliases", &o.TypeAliases, `an object such as {"PER": "Person"}`},
		{"dedupe", &o.Dedupe, "a string"},
	}
}

// read replaces the value of the option. It clears a table first, since decoding would add to it.
func (o option) read(raw json.RawMessage) error {
	reflect.ValueOf(o.value).Elem().SetZero()
	err := json.Unmarshal(raw, o.value)
	if _, mistyped := errors.AsType[*json.UnmarshalTypeError](err); mistyped {
		return errors.New("expected " + o.expected)
	}
	return err
}

// decimal is the text of a number.
type decimal string

// UnmarshalJSON keeps the text of any value; Options.check validates it.
func (d *decimal) UnmarshalJSON(raw []byte) error {
	*d = decimal(raw)
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(d))
	}
	return nil
}

// inverseTable is the JSON form of Vocabulary.Inverse.
type inverseTable [][2]string

// UnmarshalJSON reads the name of a table, a list of pairs, or an object from a
// type to its inverse or inverses.
func (t *inverseTable) UnmarshalJSON(raw []byte) (err error) {
	var pairs [][]string
	var object map[string]oneOrMore
	switch raw[0] {
	case '"':
		v, err := vocabularyOf(raw)
		*t = v.Inverse
		return err
	case '{':
		err = json.Unmarshal(raw, &object)
	default:
		err = json.Unmarshal(raw, &pairs)
	}
	if err != nil {
		return err
	}
	for _, typ := range slices.Sorted(maps.Keys(object)) {
		for _, inverse := range object[typ] {
			pairs = append(pairs, []string{typ, inverse})
		}
	}
	*t = inverseTable{}
	for i, pair := range pairs {
		if len(pair) != 2 {
			return fmt.Errorf("entry %d names %d types, a pair names 2", i, len(pair))
		}
		*t = append(*t, [2]string(pair))
	}
	return nil
}

// symmetricTable is the JSON form of Vocabulary.Symmetric.
type symmetricTable []string

// UnmarshalJSON reads the name of a table or a list of types.
func (t *symmetricTable) UnmarshalJSON(raw []byte) error {
	if raw[0] != '"' {
		return json.Unmarshal(raw, (*[]string)(t))
	}
	v, err := vocabularyOf(raw)
	*t = v.Symmetric
	return err
}

// vocabularyOf returns the vocabulary whose name is the JSON string raw.
func vocabularyOf(raw []byte) (extraction.Vocabulary, error) {
	var name string
	err := json.Unmarshal(raw, &name)
	v, known := vocabularies()[name]
	if err == nil && !known {
		err = fmt.Errorf("there is no table %q; choose %s or %s, or write a list", shorten(name), Specification, Extended)
	}
	return v, err
}

// tableName returns the name of the vocabulary that has this table, or the value itself if it is
// no known table.
func tableName(value any) any {
	for name, v := range vocabularies() {
		inverse, symmetric := inverseTable(canonicalPairs(v.Inverse)), symmetricTable(canonicalTypes(v.Symmetric))
		if reflect.DeepEqual(value, &inverse) || reflect.DeepEqual(value, &symmetric) {
			return name
		}
	}
	return value
}

// oneOrMore is a type, or a list of types, in JSON.
type oneOrMore []string

// UnmarshalJSON reads a single type as a list of one.
func (l *oneOrMore) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(l))
	}
	*l = oneOrMore{""}
	return json.Unmarshal(raw, &(*l)[0])
}
