package outcome

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Parameters control the sampling of a model. A nil value is not sent, so that the default of the
// provider holds. A temperature of 0 is sent.
type Parameters struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
}

// ReportedParameters are Parameters whose JSON has null for a value that is not set.
type ReportedParameters struct {
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
	MaxTokens   *int     `json:"max_tokens"`
	Seed        *int64   `json:"seed"`
}

// List returns every parameter with the range of its values, in the order of reports.
func (p *Parameters) List() []Parameter {
	return []Parameter{
		{"temperature", reflect.ValueOf(&p.Temperature).Elem(), 0, 10},
		{"top_p", reflect.ValueOf(&p.TopP).Elem(), 0, 1},
		{"max_tokens", reflect.ValueOf(&p.MaxTokens).Elem(), 1, math.MaxInt32},
		{"seed", reflect.ValueOf(&p.Seed).Elem(), math.MinInt64, math.MaxInt64},
	}
}

// ParameterFlags returns the flags of all parameters.
func ParameterFlags() (flags []string) {
	for _, p := range new(Parameters).List() {
		flags = append(flags, p.Flag())
	}
	return flags
}

// Parameter is one parameter of the Parameters that listed it.
type Parameter struct {
	// Name is the key in JSON, in configuration files and in the metadata of a run.
	Name      string
	value     reflect.Value // the pointer to the number
	low, high float64
}

// Flag returns the flag of the command line, without dashes before it.
func (p Parameter) Flag() string { return strings.ReplaceAll(p.Name, "_", "-") }

// Range describes the values, such as "a number from 0 to 1".
func (p Parameter) Range() string {
	kind := "a number"
	if p.value.Type() != reflect.TypeFor[*float64]() {
		kind = "a whole number"
	}
	if p.low == math.MinInt64 {
		return kind
	}
	return fmt.Sprintf("%s from %.10g to %.10g", kind, p.low, p.high)
}

// Text returns the value as Set reads it, or "" if none is set.
func (p Parameter) Text() string {
	if p.value.IsNil() {
		return ""
	}
	return fmt.Sprint(p.value.Elem())
}

// Set sets the value to the number in a text; -0 becomes 0. It returns false, and changes nothing, if
// the text is not a number of the Range.
func (p Parameter) Set(text string) bool {
	number := reflect.New(p.value.Type().Elem())
	n, err := strconv.ParseFloat(text, 64)
	if number.Elem().CanInt() {
		var whole int64
		whole, err = strconv.ParseInt(text, 10, 64)
		number.Elem().SetInt(whole)
	} else {
		number.Elem().SetFloat(n + 0)
	}
	if err != nil || !(n >= p.low && n <= p.high) { // NaN is in no range
		return false
	}
	p.value.Set(number)
	return true
}
