package scoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// ParseOptions reads options from a JSON object. A key that is absent or null
// keeps the value of base; a table that is given replaces the table of base.
//
// Accepted forms: threshold as a number or as text (its decimal text is what
// counts); inverse as the name of a table ("specification", "extended"), a
// list of pairs, or an object from a type to its inverse or inverses;
// symmetric as the name of a table or a list; type_aliases as an object from
// an alias to its type.
//
// The error is an error of exit code 64 that joins every problem: an unknown key is
// one, and names the nearest known key.
func ParseOptions(raw []byte, base Options) (Options, error) {
	var values map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&values); err != nil || values == nil {
		return Options{}, optionsError(errors.New(`expected a JSON object such as {"threshold": 0.85}`))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Options{}, optionsError(errors.New("there is text after the JSON object"))
	}
	o := base.clone()
	readers := o.readers()
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		read, known := readers[key]
		if !known {
			names := slices.Sorted(maps.Keys(readers))
			hint := textutil.Hint(key, names)
			if hint == "" {
				hint = "; there are: " + strings.Join(names, ", ")
			}
			problems = append(problems, fmt.Errorf("unknown option %q%s", shorten(key), hint))
			continue
		}
		if string(values[key]) == "null" {
			continue
		}
		if err := read(values[key]); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
	}
	if len(problems) > 0 {
		return Options{}, optionsError(errors.Join(problems...))
	}
	if err := o.Validate(); err != nil {
		return Options{}, err
	}
	return o, nil
}

func (o Options) clone() Options {
	o.Inverse = slices.Clone(o.Inverse)
	o.Symmetric = slices.Clone(o.Symmetric)
	o.TypeAliases = maps.Clone(o.TypeAliases)
	return o
}

// readers says how the value of each option is read into o.
func (o *Options) readers() map[string]func(json.RawMessage) error {
	return map[string]func(json.RawMessage) error{
		"normalise":           read(&o.Normalise, "a string"),
		"threshold":           readDecimal(&o.Threshold),
		"threshold_inclusive": read(&o.ThresholdInclusive, "true or false"),
		"fold_diacritics":     read(&o.FoldDiacritics, "true or false"),
		"fuzzy_entities":      read(&o.FuzzyEntities, "true or false"),
		"fuzzy_relationships": read(&o.FuzzyRelationships, "true or false"),
		"initials":            read(&o.Initials, "true or false"),
		"digits_equal":        read(&o.DigitsEqual, "true or false"),
		"inverse":             readInverse(&o.Inverse),
		"symmetric":           readSymmetric(&o.Symmetric),
		"type_aliases":        read(&o.TypeAliases, `an object such as {"PER": "Person"}`),
		"dedupe":              read(&o.Dedupe, "a string"),
	}
}

// read reads what Unmarshal makes of a value.
func read[T any](to *T, expected string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var value T
		if json.Unmarshal(raw, &value) != nil {
			return errors.New("expected " + expected)
		}
		*to = value
		return nil
	}
}

func readDecimal(to *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		text := string(raw)
		if raw[0] == '"' && json.Unmarshal(raw, &text) != nil || raw[0] == '{' || raw[0] == '[' {
			return errors.New("expected a number")
		}
		*to = text
		return nil
	}
}

func readInverse(to *[][2]string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if v, ok, err := readVocabularyName(raw); ok || err != nil {
			*to = v.Inverse
			return err
		}
		var lists [][]string
		if json.Unmarshal(raw, &lists) != nil {
			table, err := readTable(raw)
			if err != nil {
				return errors.New(`expected a list of pairs such as [["parent_of","child_of"]], or an object`)
			}
			lists = table
		}
		*to = [][2]string{}
		for i, pair := range lists {
			if len(pair) != 2 {
				return fmt.Errorf("entry %d names %d types, a pair names 2", i, len(pair))
			}
			*to = append(*to, [2]string(pair))
		}
		return nil
	}
}

func readSymmetric(to *[]string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if v, ok, err := readVocabularyName(raw); ok || err != nil {
			*to = v.Symmetric
			return err
		}
		list := []string{}
		if json.Unmarshal(raw, &list) != nil {
			return errors.New(`expected a list of types such as ["married_to"]`)
		}
		*to = list
		return nil
	}
}

// readVocabularyName reads a string as the name of a table; ok is false where
// the value is not a string.
func readVocabularyName(raw json.RawMessage) (Vocabulary, bool, error) {
	var name string
	if json.Unmarshal(raw, &name) != nil {
		return Vocabulary{}, false, nil
	}
	v, ok := vocabularyByName(name)
	if !ok {
		return v, false, fmt.Errorf("there is no table %q; choose %s or %s, or write a list", shorten(name), Specification, Extended)
	}
	return v, true, nil
}

// readTable reads an object from a string to one string or a list of them, as
// pairs sorted by key.
func readTable(raw json.RawMessage) ([][]string, error) {
	var table map[string]json.RawMessage
	if err := json.Unmarshal(raw, &table); err != nil {
		return nil, err
	}
	var pairs [][]string
	for _, key := range slices.Sorted(maps.Keys(table)) {
		var one string
		many := []string{}
		if json.Unmarshal(table[key], &one) == nil {
			many = append(many, one)
		} else if err := json.Unmarshal(table[key], &many); err != nil {
			return nil, err
		}
		for _, value := range many {
			pairs = append(pairs, []string{key, value})
		}
	}
	return pairs, nil
}
