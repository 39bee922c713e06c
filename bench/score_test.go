package bench_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/bench"
)

// TestDecodeItem decodes an item with two gold spans, and checks that one is covered by the first
// record that quotes it with its class, and that a record with another quote is faulty.
func TestDecodeItem(t *testing.T) {
	input := json.RawMessage(`{"documentText":"𝒜 b b"}`)
	gold := json.RawMessage(`{"documentText":"𝒜 b b","goldSpans":[{"extractionClass":"letter","quote":"b","charStart":3,"charEnd":4},{"quote":"𝒜","charStart":0,"charEnd":2}]}`)
	a, err := bench.Stored("𝒜 b b", json.RawMessage(`{}`), `{"extractions":[
		{"extractionClass":"digit","quote":"b","charStart":3,"charEnd":4},
		{"extractionClass":"letter","quote":"b","offsetMode":"byte","charStart":5,"charEnd":6},
		{"extractionClass":"letter","quote":"b","charStart":3,"charEnd":4},
		{"extractionClass":"letter","quote":"x","charStart":0,"charEnd":2}]}`)
	must(t, err)
	output, err := json.Marshal(a)
	must(t, err)
	s, err := bench.DecodeItem(input, gold, output)
	must(t, err)
	var got []string
	for i, r := range s.Records {
		got = append(got, fmt.Sprint(i, " ", r, " ", slices.Index(s.Covered, i), " ", r.Fault()))
	}
	want := []string{
		`0 "b" (digit), at 3 to 4 (utf16_code_unit) -1 `, `1 "b" (letter), at 5 to 6 (byte) 0 `, `2 "b" (letter), at 3 to 4 (utf16_code_unit) -1 `,
		`3 "x" (letter), at 0 to 2 (utf16_code_unit) -1 QUOTE_MISMATCH`,
	}
	if !slices.Equal(got, want) || s.DocumentText != "𝒜 b b" || len(s.Gold) != 2 || s.Covered[1] != -1 ||
		s.Gold[1].String() != `"𝒜", at 0 to 2 (utf16_code_unit)` || s.Records[1].Spans.Rune != [2]int{2, 3} {
		t.Errorf("got  %q\nwant %q\n%+v", got, want, s)
	}
	if s, err = bench.DecodeItem(input, gold, nil); err != nil || fmt.Sprint(s.Covered) != "[-1 -1]" || s.Records != nil {
		t.Errorf("%v %+v", err, s)
	}
	for want, raw := range map[string]json.RawMessage{"the input or the expected output is not that of a case": []byte("7"), "the output is not an answer": []byte("7")} {
		in, out := input, raw
		if strings.Contains(want, "input") {
			in, out = raw, nil
		}
		if _, err := bench.DecodeItem(in, gold, out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
