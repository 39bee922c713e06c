package textutil

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// MarshalJSON returns compact JSON without escaping for HTML, so that documents stay readable.
func MarshalJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeYAML decodes one YAML document into a pointer to a struct or map. Keys that a struct
// does not have, values of the wrong kind, repeated keys and a second document are errors that
// contain where and the line. An empty document changes nothing. Hints for unknown keys also
// consider the keys of the structs in rows.
func DecodeYAML(text []byte, where string, into any, rows ...any) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %s", where, keyHints(err, append(rows, into)))
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: one document is expected, there is a second after a --- line", where)
	}
	return nil
}

// goType matches Go types in errors: structs, and lists and maps of them.
var goType = Pattern(`into (\*?(\[\]|map\[string\])?[a-z]+\.[A-Za-z]+|map\[string\](interface \{\}|\S+))`)

// unknownKey matches the error of the YAML library for a key that a struct does not have.
var unknownKey = Pattern(`field (\S+) not found in type \S+`)

// keyHints returns the message of a YAML error without terms of Go, and with hints to similar
// keys of the structs.
func keyHints(err error, structs []any) string {
	var keys []string
	for _, s := range structs {
		t := reflect.Indirect(reflect.ValueOf(s)).Type()
		if t.Kind() != reflect.Struct {
			continue // a map may have any key
		}
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			keys = append(keys, cmp.Or(key, strings.ToLower(t.Field(i).Name)))
		}
	}
	text := unknownKey().ReplaceAllStringFunc(err.Error(), func(found string) string {
		key := unknownKey().FindStringSubmatch(found)[1]
		return fmt.Sprintf("unknown key %q%s", key, Hint(key, keys))
	})
	text = strings.NewReplacer("!!map", "a mapping", "!!seq", "a list", "!!str", "a text", "!!bool", "true or false",
		"into float64", "where a number is expected", "into int64", "where a whole number is expected",
		"into int", "where a whole number is expected", "into bool", "where true or false is expected",
		"into string", "where a text is expected", "into []string", "where a list is expected",
		"into []float64", "where a list of numbers is expected", "yaml: ", "").Replace(text)
	return goType().ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "into []") {
			return "where a list is expected"
		}
		return "where keys with values are expected"
	})
}

// Pattern returns a function that compiles a regular expression at its first call, so that a
// program does not compile expressions that it does not use. The function panics if the
// expression is invalid. It is safe for concurrent use.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// CanonicalNumber returns a number in its shortest form, for example 0.7 for 0.70 and 0 for -0. It
// returns other text unchanged.
func CanonicalNumber(text string) string {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(n, 10) // may have more digits than a float64
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, "xXpP_nN") {
		return strconv.FormatFloat(v+0, 'f', -1, 64)
	}
	return text
}
