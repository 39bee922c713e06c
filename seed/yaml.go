package seed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decodeYAML reads one document with known keys only.
func decodeYAML(text []byte, into any) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return plainWords(err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("one document is expected, there is a second behind a --- line")
	}
	return nil
}

// The forms in which the decoder says that something does not fit.
var (
	unknownKey = regexp.MustCompile("^(line \\d+): field (.*) not found in type .*$")
	wrongKind  = regexp.MustCompile("(?s)^(line \\d+): cannot unmarshal !!(\\w+)(?: `(.*)`)? into (.*)$")
)

// plainWords says what is wrong with a file to somebody who does not know the
// types of this program.
func plainWords(err error) error {
	var mismatch *yaml.TypeError
	if !errors.As(err, &mismatch) {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	var problems []error
	for _, text := range mismatch.Errors {
		if m := unknownKey.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s: the key %q is none of this file's", m[1], m[2])
		} else if m := wrongKind.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("%s: found %s, expected %s", m[1], kindOf(m[2], m[3]), wantedOf(m[4]))
		}
		problems = append(problems, errors.New(text))
	}
	return errors.Join(problems...)
}

func kindOf(tag, value string) string {
	switch tag {
	case "seq":
		return "a list"
	case "map":
		return "keys with values"
	}
	return fmt.Sprintf("%q", value)
}

func wantedOf(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "map"), strings.HasPrefix(goType, "struct"):
		return "keys with values"
	}
	return "a text"
}
