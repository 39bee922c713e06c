package dataset

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"absent":                     {"", "null"},
		"blank":                      {" \n", "null"},
		"null":                       {" null ", "null"},
		"sorted without white space": {`{ "b" : [1, 2] , "a" : { } }`, `{"a":{},"b":[1,2]}`},
		"last of a repeated key":     {`{"a":1,"a":2}`, `{"a":2}`},
		"least escaping":             {`"\u0041\/\u00e9\u2028<\u0001\b\f\n\r\t\"\\\u007f"`, "\"A/é\u2028<\\u0001\\b\\f\\n\\r\\t\\\"\\\\\u007f\""},
		"pair of surrogates":         {`"\ud83d\ude00"`, `"😀"`},
		// U+1F600 is D83D DE00 in UTF-16, which sorts before U+FB33.
		"keys by UTF-16 units": {`{"\ufb33":1,"😀":2,"\r":3,"1":4,"é":5}`, "{\"\\r\":3,\"1\":4,\"é\":5,\"😀\":2,\"\ufb33\":1}"},

		"1.0":                      {"1.0", "1"},
		"10e-1":                    {"10e-1", "1"},
		"minus zero":               {"-0.0e5", "0"},
		"trailing zeros":           {"0.1500", "0.15"},
		"2^53+1 keeps its digits":  {"9007199254740993", "9007199254740993"},
		"20 digits":                {"12345678901234567890", "12345678901234567890"},
		"2^53+1 with a fraction 0": {"9007199254740993.0", "9007199254740993"},
		"21 digits are plain":      {"1e20", "100000000000000000000"},
		"22 digits are not":        {"1e21", "1e+21"},
		"25 exact digits":          {"1234567890123456789012345", "1.234567890123456789012345e+24"},
		"17 digits of 0.1":         {"0.10000000000000001", "0.1"},
		"small":                    {"0.000001", "0.000001"},
		"smaller":                  {"0.0000001", "1e-7"},
		"negative":                 {"-1.50E+2", "-150"},
		"beyond float64":           {"1.5e400", "1.5e+400"},
		"below float64":            {"15e-401", "1.5e-400"},
		"absurd":                   {"12e99999999999999999999", "1.2e+1000000000000"},
		"absurdly small":           {"-12e-99999999999999999999", "-1.2e-1000000000000"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Canonical(json.RawMessage(tt.in))
			if err != nil || string(got) != tt.want {
				t.Errorf("%s: got %s (%v), want %s", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestCanonical_problems(t *testing.T) {
	for in, want := range map[string]string{
		"{":                            "is not JSON",
		"1 2":                          "is more than one JSON value",
		"\"\xff\"":                     "is not valid UTF-8",
		strings.Repeat("[", 1_000_000): "is not JSON",
	} {
		if _, err := Canonical(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: got %v, want %q", in, err, want)
		}
	}
}

// TestCanonical_numbersAsJavaScript checks that float64 values other than large integers are
// written as JavaScript writes them, which encoding/json does too.
func TestCanonical_numbersAsJavaScript(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := rapid.Float64().Filter(func(f float64) bool {
			return !math.IsNaN(f) && !math.IsInf(f, 0) && (math.Abs(f) < 1<<53 || math.Abs(f) >= 1e21)
		}).Draw(r, "f")
		want, err := json.Marshal(f)
		noError(r, err)
		if f == 0 {
			want = []byte("0") // -0
		}
		for _, literal := range []string{string(want), strings.Replace(string(want), "e", "E", 1)} {
			if got := canonicalNumber(literal); got != string(want) {
				r.Fatalf("%s became %s", literal, got)
			}
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, text := range []string{`{"b":1.0,"a":[null,true,"x"],"é":{"😀":1e21,"\ufb33":2}}`, `12e99999999999`, `-0`, `1e-400`, "[[[]]]", ` [ 1 , { "b" : "\u0062" , "a":{} ,"b":[ ]}]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := Canonical(raw)
		if err != nil {
			return
		}
		if v, err := Decode(raw); len(bytes.TrimSpace(raw)) > 0 && (err != nil || !bytes.Equal(once, CanonicalValue(v))) {
			t.Fatalf("%s as a text, %s as a value (%v)", once, CanonicalValue(v), err)
		}
		twice, err := Canonical(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s became %s (%v)", once, twice, err)
		}
		// The order of keys does not matter: reverse it in every object.
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var v any
		if len(bytes.TrimSpace(raw)) == 0 || dec.Decode(&v) != nil {
			return
		}
		reordered, err := Canonical(reversed(t, v))
		if err != nil || !bytes.Equal(once, reordered) {
			t.Fatalf("%s became %s with its keys reversed (%v)", once, reordered, err)
		}
	})
}

// reversed returns a value with the keys of every object in descending order.
func reversed(t *testing.T, v any) []byte {
	var b bytes.Buffer
	switch v := v.(type) {
	case []any:
		b.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				b.WriteString(" , ")
			}
			b.Write(reversed(t, element))
		}
		b.WriteByte(']')
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		slices.Reverse(keys)
		b.WriteByte('{')
		for i, key := range keys {
			if i > 0 {
				b.WriteString("\n,")
			}
			b.Write(reversed(t, key))
			b.WriteByte(':')
			b.Write(reversed(t, v[key]))
		}
		b.WriteByte('}')
	default:
		raw, err := json.Marshal(v)
		noError(t, err)
		b.Write(raw)
	}
	return b.Bytes()
}

func TestRepeatedKey(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":1,"b":{"c":2},"d":[{"c":3}]}`: "", `[1,"a","a"]`: "", `7`: "",
		`{"a":1,"a":2}`: "a", `{"a":{"b":1,"\u0062":2}}`: "a.b", `{"a":[{},{"b":[],"b":[]}],"c":1}`: "a[1].b",
	} {
		if got := findRepeated(json.NewDecoder(strings.NewReader(raw)), ""); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// TestCompareUTF16 compares with the order of the UTF-16 code units.
func TestCompareUTF16(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("aé\u07ff\ud7ff\ue000\ufb33\uffff😀\U0010ffff")))
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		if got := compareUTF16(a, b); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	raw := []byte(`{"entities":[` + strings.Repeat(`{"name":"Ruth","type":"Person","mentions":[{"quote":"Ruth","start":17,"end":21}]},`, 100) + `{}]}`)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonical(raw); err != nil {
			b.Fatal(err)
		}
	}
}
