package scoring

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
)

func TestParseOptions(t *testing.T) {
	tests := map[string]struct {
		in     string
		change func(*Options)
	}{
		"nothing":       {`{}`, func(*Options) {}},
		"null keeps":    {`{"threshold":null,"inverse":null}`, func(*Options) {}},
		"number":        {`{"threshold":0.70}`, func(o *Options) { o.Threshold = "0.70" }},
		"text":          {`{"threshold":"0.7"}`, func(o *Options) { o.Threshold = "0.7" }},
		"exponent":      {`{"threshold":7e-1}`, func(o *Options) { o.Threshold = "7e-1" }},
		"switches":      {`{"threshold_inclusive":true,"fuzzy_entities":false}`, func(o *Options) { o.ThresholdInclusive, o.FuzzyEntities = true, false }},
		"list of pairs": {`{"inverse":[["a","b"]]}`, func(o *Options) { o.Inverse = [][2]string{{"a", "b"}} }},
		"object":        {`{"inverse":{"a":"b","c":["d","e"]}}`, func(o *Options) { o.Inverse = [][2]string{{"a", "b"}, {"c", "d"}, {"c", "e"}} }},
		"no tables":     {`{"inverse":[],"symmetric":[]}`, func(o *Options) { o.Inverse, o.Symmetric = [][2]string{}, []string{} }},
		"tables by name": {`{"inverse":"extended","symmetric":"extended"}`, func(o *Options) {
			o.Inverse, o.Symmetric = ExtendedVocabulary().Inverse, ExtendedVocabulary().Symmetric
		}},
		"aliases":             {`{"type_aliases":{"PER":"person"}}`, func(o *Options) { o.TypeAliases = map[string]string{"PER": "person"} }},
		"dedupe and spelling": {`{"dedupe":"exact","normalise":"none"}`, func(o *Options) { o.Dedupe, o.Normalise = CollapseExact, NoNormalisation }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseOptions([]byte(tt.in), DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(with(tt.change), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseOptions_problems(t *testing.T) {
	tests := map[string]string{
		`[]`:                                  "expected a JSON object",
		`{} {}`:                               "and nothing after it",
		`{"treshold":0.8}`:                    `(did you mean "threshold"?)`,
		`{"normalize":"none"}`:                `unknown option "normalize"; there are: normalise, threshold, `,
		`{"threshold":1.01}`:                  "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":-0.1}`:                  "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":"high"}`:                "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":true}`:                  "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":[0.8]}`:                 "expected a number",
		`{"threshold":1e-999999999999}`:       "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":0.1234567890123456789}`: "expected a number from 0 to 1 with at most 18 decimals",
		`{"normalise":"NFC"}`:                 "choose nfkc_casefold, lower or none",
		`{"dedupe":true}`:                     "dedupe: expected a string",
		`{"dedupe":"all"}`:                    "choose none or exact",
		`{"type_aliases":{"a":"-"}}`:          "there is an empty type",
		`{"type_aliases":{"":"a"}}`:           "there is an empty type",
		`{"threshold":1e-19}`:                 "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":"0.8x5"}`:               "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":"0.8e"}`:                "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":"0.8ex"}`:               "expected a number from 0 to 1 with at most 18 decimals",
		`{"threshold":"0.` + strings.Repeat("0", 200) + `"}`: "expected a number from 0 to 1 with at most 18 decimals",
		`{"initials":"yes"}`:           "initials: expected true or false",
		`{"inverse":[["a"]]}`:          "inverse: entry 0 names 1 types",
		`{"inverse":[["a","-"]]}`:      "there is an empty type",
		`{"inverse":"mine"}`:           `there is no table "mine"`,
		`{"symmetric":{"a":"b"}}`:      "expected a list of types",
		`{"symmetric":[""]}`:           "there is an empty type",
		`{"type_aliases":{"a":["b"]}}`: "expected an object",
	}
	for in, want := range tests {
		_, err := ParseOptions([]byte(in), DefaultOptions())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", in, err, want)
			continue
		}
		if cli.ExitCode(err) != 64 {
			t.Errorf("%s: no exit code 64", in)
		}
	}
	// All problems are reported at once.
	_, err := ParseOptions([]byte(`{"initials":1,"treshold":1}`), DefaultOptions())
	if err == nil || !strings.Contains(err.Error(), "initials") || !strings.Contains(err.Error(), "treshold") {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "threshold") {
		t.Errorf("options without a threshold: %v", err)
	}
}

func TestOptions_MarshalJSON(t *testing.T) {
	raw, err := json.Marshal(DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"normalise":"nfkc_casefold","threshold":"0.85","threshold_inclusive":false,"fold_diacritics":false,` +
		`"fuzzy_entities":true,"fuzzy_relationships":true,"initials":false,"digits_equal":false,` +
		`"inverse":"specification","symmetric":"specification","type_aliases":{},"dedupe":"none"}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	// Options of the same meaning in different spellings.
	same := []Options{
		with(func(o *Options) { o.Threshold, o.Inverse = " 0.8500", append(o.Inverse[5:], o.Inverse[:5]...) }),
		with(func(o *Options) { o.Normalise, o.Dedupe, o.Threshold = "", "", "85e-2" }),
		with(func(o *Options) { o.Symmetric[0] = "Married-To" }),
		with(func(o *Options) { o.Inverse[0] = [2]string{"Child of", "PARENT_OF"} }),
	}
	for i, o := range same {
		if got, err := json.Marshal(o); err != nil || string(got) != want {
			t.Errorf("%d: %s (%v)", i, got, err)
		}
	}
	for want, o := range map[string]Options{
		`"type_aliases":{"per":"person"}`: with(func(o *Options) {
			o.TypeAliases = map[string]string{"PER": "person", "per": "Person", "person": "person"}
		}),
		`"type_aliases":{"human_being":"person","per":"person"}`: with(func(o *Options) {
			o.TypeAliases = map[string]string{"Per": "human being", "HUMAN-BEING": "person"}
		}),
		`"normalise":"lower"`: with(func(o *Options) { o.Normalise = Lower }),
		`"dedupe":"exact"`:    with(func(o *Options) { o.Dedupe = CollapseExact }),
	} {
		if raw, err := json.Marshal(o); err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s (%v), want %s", raw, err, want)
		}
	}
	if raw, err := json.Marshal(with(func(o *Options) { o.Threshold = "2" })); err == nil {
		t.Errorf("options that are not valid are written: %s", raw)
	}
	other := with(func(o *Options) { o.Inverse, o.Symmetric = [][2]string{{"b", "a"}}, nil })
	raw, err = json.Marshal(other)
	if err != nil || !strings.Contains(string(raw), `"inverse":[["a","b"]],"symmetric":[]`) {
		t.Errorf("%s (%v)", raw, err)
	}
	back, err := ParseOptions(raw, DefaultOptions())
	if err != nil || len(back.Symmetric) != 0 || len(back.Inverse) != 1 {
		t.Errorf("read back as %+v (%v)", back, err)
	}
}

func TestThreshold_maxDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`0\.[0-9]{1,18}|0|1|1\.0`).Draw(t, "threshold")
		m := rapid.IntRange(1, 100_000).Draw(t, "length")
		limit, err := parseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		limit.inclusive = rapid.Bool().Draw(t, "inclusive")
		exact, _ := new(big.Rat).SetString(text)
		matches := func(d int) bool {
			c := big.NewRat(int64(m-d), int64(m)).Cmp(exact)
			return c > 0 || c == 0 && limit.inclusive
		}
		d := limit.maxDistance(m)
		if d < -1 || d > m || d >= 0 && !matches(d) || d < m && matches(d+1) {
			t.Fatalf("the largest distance at %s and length %d is not %d", text, m, d)
		}
		if again, err := parseThreshold(limit.text); err != nil || again.num != limit.num || again.den != limit.den {
			t.Fatalf("%s reads back as %v (%v)", limit.text, again, err)
		}
	})
}

// TestVocabulary checks that each inverse pair is known in both directions, and that no table
// repeats itself.
func TestVocabulary(t *testing.T) {
	for name, v := range vocabularies() {
		o := with(func(o *Options) { o.Inverse, o.Symmetric = v.Inverse, v.Symmetric })
		s := mustNew(t, o)
		for _, p := range v.Inverse {
			forth, back := extraction.Converse{Type: p[1], Inverse: true}, extraction.Converse{Type: p[0], Inverse: true}
			if !slices.Equal(s.converses[p[0]], []extraction.Converse{forth}) ||
				!slices.Equal(s.converses[p[1]], []extraction.Converse{back}) {
				t.Errorf("%s: the pair %v", name, p)
			}
		}
		if len(canonicalPairs(v.Inverse)) != len(v.Inverse) || len(canonicalTypes(v.Symmetric)) != len(v.Symmetric) {
			t.Errorf("%s repeats itself", name)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	f.Add([]byte(`{"threshold":0.85,"inverse":{"a":["b"]},"symmetric":["x"],"type_aliases":{"a":"b","b":"a"}}`))
	f.Add([]byte(`{"threshold":"1e-18","normalise":"none","dedupe":"exact"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := ParseOptions(raw, DefaultOptions())
		if err != nil {
			return
		}
		first, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseOptions(first, DefaultOptions())
		if err != nil {
			t.Fatalf("%s does not read back: %v", first, err)
		}
		if second, err := json.Marshal(back); err != nil || string(first) != string(second) {
			t.Fatalf("%s came back as %s (%v)", first, second, err)
		}
		if _, err := New(o); err != nil {
			t.Fatal(err)
		}
	})
}
