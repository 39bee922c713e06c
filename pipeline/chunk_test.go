package pipeline

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// texts returns the chunks' texts.
func texts(chunks []chunk) []string {
	var out []string
	for _, c := range chunks {
		out = append(out, c.Text)
	}
	return out
}

func TestSplit(t *testing.T) {
	tests := map[string]struct {
		text string
		cfg  chunking
		want []string
	}{
		"empty":                    {"", chunking{MaxRunes: 5}, nil},
		"zero keeps whole":         {"One. Two.", chunking{}, []string{"One. Two."}},
		"short enough":             {"One. Two.", chunking{MaxRunes: 9}, []string{"One. Two."}},
		"after a sentence":         {"One one. Two two.", chunking{MaxRunes: 12}, []string{"One one. ", "Two two."}},
		"paragraph beats sentence": {"Aaa aaa.\n\nBb. Cc dd.", chunking{MaxRunes: 15}, []string{"Aaa aaa.\n\n", "Bb. Cc dd."}},
		"line beats white space":   {"aaa aaa\nbb cc dd", chunking{MaxRunes: 12}, []string{"aaa aaa\n", "bb cc dd"}},
		"CRLF is one line end":     {"aaa\r\nbb. Cc dd", chunking{MaxRunes: 10}, []string{"aaa\r\nbb. ", "Cc dd"}},
		"no abbreviation":          {"He saw Dr. Who there. It was", chunking{MaxRunes: 14}, []string{"He saw Dr. ", "Who there. ", "It was"}},
		"no decimal":               {"aaaa 3.14 bb cc", chunking{MaxRunes: 9}, []string{"aaaa ", "3.14 bb ", "cc"}},
		"lower case goes on":       {"aaaa bbbbb. cc dd ee", chunking{MaxRunes: 16}, []string{"aaaa bbbbb. cc ", "dd ee"}},
		"closing quote":            {"„Ja, ja.“ Dann ging er fort.", chunking{MaxRunes: 16}, []string{"„Ja, ja.“ ", "Dann ging er ", "fort."}},
		"Chinese":                  {"他在北京工作。她在上海！是吗？", chunking{MaxRunes: 9}, []string{"他在北京工作。", "她在上海！是吗？"}},
		"Chinese quotes":           {"他说：「好。」「不好。」她走。", chunking{MaxRunes: 9}, []string{"他说：「好。」", "「不好。」她走。"}},
		"Arabic":                   {"من هو؟ هو علي۔ نعم هنا", chunking{MaxRunes: 10}, []string{"من هو؟ ", "هو علي۔ ", "نعم هنا"}},
		"Devanagari":               {"राम घर गया। सीता आई।", chunking{MaxRunes: 14}, []string{"राम घर गया। ", "सीता आई।"}},
		"Thai at white space":      {"สวัสดีครับ ผมชื่อสมชาย", chunking{MaxRunes: 15}, []string{"สวัสดีครับ ", "ผมชื่อสมชาย"}},
		"nothing to cut at":        {"aaaabbbbcc", chunking{MaxRunes: 4, Overlap: 1}, []string{"aaaa", "abbb", "bbcc"}},
		"one by one":               {"a b", chunking{MaxRunes: 1, Overlap: 9}, []string{"a", " ", "b"}},
		"overlap of a sentence":    {"Aaaa aaaa. Bb. Cccc cccc. Dd.", chunking{MaxRunes: 20, Overlap: 6}, []string{"Aaaa aaaa. Bb. ", "Bb. Cccc cccc. Dd."}},
		"no half sentence":         {"Aaaa aaaa bbb. Cccc cccc.", chunking{MaxRunes: 20, Overlap: 5}, []string{"Aaaa aaaa bbb. ", "Cccc cccc."}},
		"words inside a sentence":  {"aaa bbb ccc ddd eee fff", chunking{MaxRunes: 12, Overlap: 4}, []string{"aaa bbb ccc ", "ccc ddd eee ", "eee fff"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			chunks := splitText(tt.text, tt.cfg)
			if diff := cmp.Diff(tt.want, texts(chunks)); diff != "" {
				t.Error(diff)
			}
			checkChunks(t, tt.text, tt.cfg, chunks)
		})
	}
}

// checkChunks verifies what splitText promises of any text.
func checkChunks(t *testing.T, text string, cfg chunking, chunks []chunk) {
	t.Helper()
	bytes := []int{} // of each code point
	for i := range text {
		bytes = append(bytes, i)
	}
	bytes = append(bytes, len(text))
	covered, start := 0, -1
	for i, c := range chunks {
		if c.Start > covered || c.End <= covered || c.Start <= start {
			t.Fatalf("chunk %d is [%d,%d), after [%d,%d)", i, c.Start, c.End, start, covered)
		}
		if text[bytes[c.Start]:bytes[c.End]] != c.Text {
			t.Fatalf("chunk %d does not stand at its offsets", i)
		}
		if n := utf8.RuneCountInString(c.Text); cfg.MaxRunes > 0 && n > cfg.MaxRunes {
			t.Fatalf("chunk %d has %d code points, more than %d", i, n, cfg.MaxRunes)
		}
		if covered-c.Start > max(cfg.Overlap, 0) {
			t.Fatalf("chunk %d repeats %d code points, more than %d", i, covered-c.Start, cfg.Overlap)
		}
		covered, start = c.End, c.Start
	}
	if covered != len(bytes)-1 {
		t.Fatalf("the chunks cover %d of %d code points", covered, len(bytes)-1)
	}
	if most := 4*len(bytes)/max(cfg.MaxRunes, 1) + 2; cfg.MaxRunes > 3 && len(chunks) > 2*most {
		t.Fatalf("%d chunks", len(chunks))
	}
}

func TestSplit_sentencesStayWhole(t *testing.T) {
	sentences := []string{"Ann met Bob in Rome, e.g. on 3. May. ", "Was it 3.5 km? ", "Yes! ", "她走了。", "من هو؟ "}
	text := strings.Repeat(strings.Join(sentences, ""), 50)
	for _, c := range splitText(text, chunking{MaxRunes: 200, Overlap: 60}) {
		if !slices.ContainsFunc(sentences, func(s string) bool { return strings.HasPrefix(c.Text, s) }) ||
			!slices.ContainsFunc(sentences, func(s string) bool { return strings.HasSuffix(c.Text, s) }) {
			t.Errorf("a sentence is cut: %q", c.Text)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("One. Two! 他。\n\nsee e.g. 3.14\r\n🇩🇪e\u0301", 7, 3)
	f.Add("\xff\xfe. \xf0\x9f", 1, 1)
	f.Fuzz(func(t *testing.T, text string, limit, overlap int) {
		cfg := chunking{MaxRunes: limit % 500, Overlap: overlap % 500}
		checkChunks(t, text, cfg, splitText(text, cfg))
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
					splitText(text, chunking{MaxRunes: 4000, Overlap: 400})
				}
			})
		}
	}
}
