package outcome_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"extraction-experiment/outcome"
)

// TestParameters_List: the list has every field of Parameters in order, by its name in JSON.
func TestParameters_List(t *testing.T) {
	var p outcome.Parameters
	list, fields := p.List(), reflect.TypeFor[outcome.Parameters]()
	if len(list) != fields.NumField() {
		t.Fatalf("%d parameters are listed of %d", len(list), fields.NumField())
	}
	for i, v := range list {
		if tag := fields.Field(i).Tag.Get("json"); tag != v.Name+",omitempty" {
			t.Errorf("%q is listed as %q", tag, v.Name)
		}
		if v.Text() != "" || !v.Set("1") || v.Text() != "1" || reflect.ValueOf(p).Field(i).IsNil() {
			t.Errorf("%s is %q", v.Name, v.Text())
		}
	}
	var reported map[string]any // the names must be the same, and the conversion needs the same fields
	text, err := json.Marshal(outcome.ReportedParameters{})
	if err != nil || json.Unmarshal(text, &reported) != nil || len(reported) != len(list) {
		t.Errorf("reported are %s, %v", text, err)
	}
	for _, v := range list {
		if value, exists := reported[v.Name]; !exists || value != nil {
			t.Errorf("%s is not reported as null: %s", v.Name, text)
		}
	}
}

// TestParameter_Set sets values at and beyond the bounds. A value that is refused changes nothing.
func TestParameter_Set(t *testing.T) {
	for text, want := range map[string]string{ // of temperature, top_p, max_tokens, seed; "-" is refused
		"0": "0 0 - 0", "-0": "0 0 - 0", "1": "1 1 1 1", "10": "10 - 10 10", "11": "- - 11 11", "-1": "- - - -1", ".5": "0.5 0.5 - -",
		"1e-7": "1e-07 1e-07 - -", "1e400": "- - - -", "-1e400": "- - - -", "NaN": "- - - -", "Inf": "- - - -", "0,5": "- - - -", "": "- - - -",
		" 1": "- - - -", "2147483647": "- - 2147483647 2147483647", "2147483648": "- - - 2147483648",
		"9223372036854775807": "- - - 9223372036854775807", "-9223372036854775808": "- - - -9223372036854775808", "9223372036854775808": "- - - -",
	} {
		var p outcome.Parameters
		var got []string
		for _, v := range p.List()[:4] {
			if !v.Set(text) {
				v.Set("1")
				if v.Set(text) || v.Text() != "1" {
					t.Errorf("%s: %q was refused, and set %q", v.Name, text, v.Text())
				}
				got = append(got, "-")
				continue
			}
			got = append(got, v.Text())
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q gives %s, want %s", text, got, want)
		}
	}
}
