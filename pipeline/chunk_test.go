package pipeline

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	tests := map[string]struct {
		text          string
		size, overlap int
		want          []string
	}{
		"empty":                    {"", 5, 0, nil},
		"short enough":             {"One. Two.", 9, 0, []string{"One. Two."}},
		"after a sentence":         {"One one. Two two.", 12, 0, []string{"One one. ", "Two two."}},
		"paragraph beats sentence": {"Aaa aaa.\n\nBb. Cc dd.", 15, 0, []string{"Aaa aaa.\n\n", "Bb. Cc dd."}},
		"line beats white space":   {"aaa aaa\nbb cc dd", 12, 0, []string{"aaa aaa\n", "bb cc dd"}},
		"CRLF is one line end":     {"aaa\r\nbb. Cc dd", 10, 0, []string{"aaa\r\nbb. ", "Cc dd"}},
		"no abbreviation":          {"He saw Dr. Who there. It was", 14, 0, []string{"He saw Dr. ", "Who there. ", "It was"}},
		"no decimal":               {"aaaa 3.14 bb cc", 9, 0, []string{"aaaa ", "3.14 bb ", "cc"}},
		"lower case goes on":       {"aaaa bbbbb. cc dd ee", 16, 0, []string{"aaaa bbbbb. cc ", "dd ee"}},
		"closing quote":            {"„Ja, ja.“ Dann ging er fort.", 16, 0, []string{"„Ja, ja.“ ", "Dann ging er ", "fort."}},
		"Chinese":                  {"他在北京工作。她在上海！是吗？", 9, 0, []string{"他在北京工作。", "她在上海！是吗？"}},
		"Chinese quotes":           {"他说：「好。」「不好。」她走。", 9, 0, []string{"他说：「好。」", "「不好。」她走。"}},
		"Arabic":                   {"من هو؟ هو علي۔ نعم هنا", 10, 0, []string{"من هو؟ ", "هو علي۔ ", "نعم هنا"}},
		"Devanagari":               {"राम घर गया। सीता आई।", 14, 0, []string{"राम घर गया। ", "सीता आई।"}},
		"Thai at white space":      {"สวัสดีครับ ผมชื่อสมชาย", 15, 0, []string{"สวัสดีครับ ", "ผมชื่อสมชาย"}},
		"nothing to cut at":        {"aaaabbbbcc", 4, 1, []string{"aaaa", "abbb", "bbcc"}},
		"one by one":               {"a b", 1, 9, []string{"a", " ", "b"}},
		"overlap of a sentence":    {"Aaaa aaaa. Bb. Cccc cccc. Dd.", 20, 6, []string{"Aaaa aaaa. Bb. ", "Bb. Cccc cccc. Dd."}},
		"no half sentence":         {"Aaaa aaaa bbb. Cccc cccc.", 20, 5, []string{"Aaaa aaaa bbb. ", "Cccc cccc."}},
		"words inside a sentence":  {"aaa bbb ccc ddd eee fff", 12, 4, []string{"aaa bbb ccc ", "ccc ddd eee ", "eee fff"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			chunks := splitText(tt.text, tt.size, tt.overlap)
			if diff := cmp.Diff(tt.want, Pieces(tt.text, tt.size, tt.overlap)); diff != "" {
				t.Error(diff)
			}
			checkChunks(t, tt.text, tt.size, tt.overlap, chunks)
		})
	}
}

// checkChunks verifies what splitText guarantees for any text.
func checkChunks(t *testing.T, text string, size, overlap int, chunks []chunk) {
	t.Helper()
	bytes := []int{} // offset of each code point
	for i := range text {
		bytes = append(bytes, i)
	}
	bytes = append(bytes, len(text))
	covered, start := 0, -1
	for i, c := range chunks {
		end := c.Start + utf8.RuneCountInString(c.Text)
		if c.Start > covered || end <= covered || c.Start <= start {
			t.Fatalf("chunk %d is [%d,%d), after [%d,%d)", i, c.Start, end, start, covered)
		}
		if text[bytes[c.Start]:bytes[end]] != c.Text {
			t.Fatalf("chunk %d does not stand at its offsets", i)
		}
		if n := utf8.RuneCountInString(c.Text); n > size {
			t.Fatalf("chunk %d has %d code points, more than %d", i, n, size)
		}
		if covered-c.Start > overlap {
			t.Fatalf("chunk %d repeats %d code points, more than %d", i, covered-c.Start, overlap)
		}
		covered, start = end, c.Start
	}
	if covered != len(bytes)-1 {
		t.Fatalf("the chunks cover %d of %d code points", covered, len(bytes)-1)
	}
	if expected := 4*len(bytes)/size + 2; size > 3 && len(chunks) > 2*expected {
		t.Fatalf("%d chunks", len(chunks))
	}
}

func TestSplit_sentencesStayWhole(t *testing.T) {
	sentences := []string{"Ann met Bob in Rome, e.g. on 3. May. ", "Was it 3.5 km? ", "Yes! ", "她走了。", "من هو؟ "}
	text := strings.Repeat(strings.Join(sentences, ""), 50)
	for _, c := range splitText(text, 200, 60) {
		if !slices.ContainsFunc(sentences, func(s string) bool { return strings.HasPrefix(c.Text, s) }) ||
			!slices.ContainsFunc(sentences, func(s string) bool { return strings.HasSuffix(c.Text, s) }) {
			t.Errorf("a sentence is cut: %q", c.Text)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("One. Two! 他。\n\nsee e.g. 3.14\r\n🇩🇪e\u0301", uint(6), uint(3))
	f.Add("\xff\xfe. \xf0\x9f", uint(0), uint(1))
	f.Fuzz(func(t *testing.T, text string, size, overlap uint) {
		limit, repeated := 1+int(size%500), int(overlap%500)
		checkChunks(t, text, limit, repeated, splitText(text, limit, repeated))
	})
}

func BenchmarkSplit(b *testing.B) {
	for name, unit := range map[string]string{
		"latin":   "Ann Smith met Dr. Bob Jones of Acme Inc. in Rome, and paid 3.14 euros. ",
		"chinese": "他在北京的一家公司工作了三年。",
		"marks":   "\u0301",
		"spaces":  " ",
	} {
		for _, size := range []int{1 << 20, 10 << 20} {
			text := strings.Repeat(unit, size/len(unit))
			b.Run(name+"/"+map[int]string{1 << 20: "1MiB", 10 << 20: "10MiB"}[size], func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					splitText(text, 4000, 400)
				}
			})
		}
	}
}

func TestPieces_smallest(t *testing.T) {
	for _, size := range []int{1, 0, -1} {
		if got := Pieces("abc", size, size-1); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("%d: %q", size, got)
		}
	}
}
