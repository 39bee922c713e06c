package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/internal/nearest"
)

// strict reads one YAML document into a pointer to a struct or map. Keys that a
// struct does not have, values of the wrong kind, keys given twice and a second
// document are errors that name where and the line. An empty document changes
// nothing. Rows are structs whose keys a hint may name as well.
func strict(text []byte, where string, into any, rows ...any) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %s", where, keyHints(err, append(rows, into)))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: one document is expected, there is a second behind a --- line", where)
	}
	return nil
}

// unknownKey is how the YAML library speaks of a key that a struct does not have.
var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// keyHints says what is wrong without the words of Go; structs hold the keys
// that a mistyped one may have meant.
func keyHints(err error, structs []any) string {
	var keys []string
	for _, s := range structs {
		t := reflect.Indirect(reflect.ValueOf(s)).Type()
		if t.Kind() != reflect.Struct {
			continue // a map knows every key
		}
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			keys = append(keys, key)
		}
	}
	text := unknownKey.ReplaceAllStringFunc(err.Error(), func(found string) string {
		key := unknownKey.FindStringSubmatch(found)[1]
		return fmt.Sprintf("unknown key %q%s", key, nearest.Hint(key, keys))
	})
	return strings.NewReplacer("!!map", "a mapping", "!!seq", "a list", "!!str", "a text", "!!bool", "true or false",
		"into float64", "where a number is expected", "into int64", "where a whole number is expected",
		"into bool", "where true or false is expected", "into string", "where a text is expected",
		"into configs.priceRow", "where a price such as {input: 1, cached_input: 1, output: 2} is expected",
		"into configs.Model", "where a row such as {provider: openai} is expected",
		"into configs.Scorer", "where a scorer such as {name: judge, script: [./judge]} is expected",
		"into []configs.Scorer", "where a list of scorers is expected", "into int", "where a whole number is expected",
		"into map[string]string", "where keys with texts are expected", "into map[string]interface {}", "where keys with values are expected", "into []string", "where a list is expected",
		"into map[string]configs.priceRow", "where names with prices are expected",
		"into map[string]configs.Model", "where names with rows are expected", "yaml: ", "").Replace(text)
}
