package dataset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	var got []string
	for n, line := range Lines([]byte("\ufeff a \r\n\n \t\nb\n\nc")) {
		got = append(got, fmt.Sprint(n, " ", string(line)))
		if len(got) == 2 {
			break
		}
	}
	if want := []string{"1 a", "4 b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadObject(t *testing.T) {
	values, err := ReadObject([]byte(" {\"a\": 1, \"b\": [2]}\n"))
	if err != nil || len(values) != 2 || string(values["b"]) != "[2]" {
		t.Errorf("%s, %v", values, err)
	}
	for text, want := range map[string]string{
		"":                            "unexpected end",
		`{"a":1} {}`:                  "after top-level value",
		`[1]`:                         "found [1]",
		"{\"a\":\"\xff\"}":            "is not valid UTF-8",
		`{"a":{"b":1,"b":2}}`:         `the key "a.b" is given twice`,
		`"` + strings.Repeat("x", 99): "unexpected end",
	} {
		if _, err := ReadObject([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestGoldHash checks that equal values have the same hash, and absent ones none.
func TestGoldHash(t *testing.T) {
	hash := GoldHash([]byte(`{"b":1.0,"a":[]}`))
	if len(hash) != 16 || GoldHash([]byte("\t{ \"a\" : [],\r\n\"b\" : 1 }")) != hash {
		t.Errorf("%q is that of another spelling", hash)
	}
	for _, absent := range []string{"", " ", "null", " null "} {
		if got := GoldHash([]byte(absent)); got != "" {
			t.Errorf("%q: %q", absent, got)
		}
	}
	if broken := GoldHash([]byte("{")); broken == "" || broken == hash || broken != GoldHash([]byte("{")) {
		t.Errorf("what is not JSON: %q", broken)
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]string{
		"":                            "is empty",
		"a\xff":                       "is not valid UTF-8",
		strings.Repeat("é", MaxID+1):  "has 256 characters, at most 255 are allowed",
		"a\x1fb":                      "holds control characters",
		"a\u007fb":                    "holds control characters",
		"a\u009fb":                    "holds control characters",
		strings.Repeat("é", MaxID):    "",
		"a b/c#\u00a0" + "<x>&'\"日本語": "",
	} {
		if err := ValidID(id); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", id, err, want)
		}
	}
}
