package extraction

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// match describes how a quote was found.
type match string

const (
	noMatch       match = "none"
	tolerantMatch match = "tolerant"
	exactMatch    match = "exact"
)

func locate(x *Index, quote string, near int) (Span, match) {
	span, found := x.Locate(quote, near)
	switch {
	case !found:
		return span, noMatch
	case span.Quote == quote:
		return span, exactMatch
	}
	return span, tolerantMatch
}

func TestLocate(t *testing.T) {
	tests := map[string]struct {
		text, quote string
		near        int
		want        string
		start       int
		match       match
	}{
		"exact":                          {"She joined Acme.", "Acme", 0, "Acme", 11, exactMatch},
		"counts code points":             {"😀 é Acme", "Acme", 0, "Acme", 4, exactMatch},
		"closest to near, before":        {"a.....a.....a", "a", 8, "a", 6, exactMatch},
		"closest to near, after":         {"a.....a.....a", "a", 10, "a", 12, exactMatch},
		"of two as close the earlier":    {"a.....a.....a", "a", 9, "a", 6, exactMatch},
		"near beyond the end":            {"a.a", "a", 99, "a", 2, exactMatch},
		"near before the beginning":      {"a.a", "a", -5, "a", 0, exactMatch},
		"exact beats closer":             {"acme ... Acme", "acme", 9, "acme", 0, exactMatch},
		"case":                           {"She joined ACME.", "Acme", 0, "ACME", 11, tolerantMatch},
		"sharp s":                        {"Die STRASSE hier", "Straße", 0, "STRASSE", 4, tolerantMatch},
		"white space":                    {"She  joined\n\tAcme", "  she joined acme ", 0, "She  joined\n\tAcme", 0, tolerantMatch},
		"no-break space":                 {"10\u00A0km", "10 km", 0, "10\u00A0km", 0, tolerantMatch},
		"composed in the text":           {"Le café noir", "cafe\u0301", 0, "café", 3, tolerantMatch},
		"decomposed in the text":         {"Le cafe\u0301 noir", "café", 0, "cafe\u0301", 3, tolerantMatch},
		"order of marks":                 {"x e\u0302\u0323 y", "\u1ec7", 0, "e\u0302\u0323", 2, tolerantMatch},
		"not half a character":           {"CAFE\u0301", "cafe", 0, "", 0, noMatch},
		"not half a precomposed one":     {"CAFÉ", "cafe", 0, "", 0, noMatch},
		"not half a syllable":            {"A 한국", "a 하", 0, "", 0, noMatch},
		"not half a ligature":            {"oﬀer", "of", 0, "", 0, noMatch},
		"ligature":                       {"the oﬃce is", "office", 0, "oﬃce", 4, tolerantMatch},
		"full width":                     {"ＡＣＭＥ社", "ACME社", 0, "ＡＣＭＥ社", 0, tolerantMatch},
		"quotation marks":                {"he said “it’s «so»”", `"it's "so""`, 0, "“it’s «so»”", 8, tolerantMatch},
		"dashes":                         {"1914–1918 – war", "1914-1918 - war", 0, "1914–1918 – war", 0, tolerantMatch},
		"soft hyphen":                    {"inter\u00ADnational", "international", 0, "inter\u00ADnational", 0, tolerantMatch},
		"hyphenated at a line end":       {"the inter-\n  national law", "international law", 0, "inter-\n  national law", 4, tolerantMatch},
		"hyphen at a line end stays":     {"a well-\r\nknown man", "well-known", 0, "well-\r\nknown", 2, tolerantMatch},
		"no hyphenation over a blank":    {"a well-\n\nknown man", "wellknown", 0, "", 0, noMatch},
		"no hyphenation of numbers":      {"10-\n12", "1012", 0, "", 0, noMatch},
		"zero width and direction marks": {"\u200EAc\u200Dme\u200F", "acme", 0, "Ac\u200Dme", 1, tolerantMatch},
		"minus sign":                     {"at −5 °C", "-5 °c", 0, "−5 °C", 3, tolerantMatch},
		"grave accents":                  {"he said `so`", "'SO'", 0, "`so`", 8, tolerantMatch},
		"variation selector":             {"call ☎\uFE0F now", "☎ now", 0, "☎\uFE0F now", 5, tolerantMatch},
		"line end of an old Mac":         {"inter-\rnational", "international", 0, "inter-\rnational", 0, tolerantMatch},
		"no hyphenation before a number": {"covid-\n19", "covid19", 0, "", 0, noMatch},
		"no hyphenation after a number":  {"19-\nto", "19to", 0, "", 0, noMatch},
		"a dash alone is no hyphen":      {"well -\nknown", "well known", 0, "", 0, noMatch},
		"marks before white space":       {"cafe\u0301 noir", "CAFÉ NOIR", 0, "cafe\u0301 noir", 0, tolerantMatch},
		"marks before a sign":            {"cafe\u0301-bar", "CAFÉ-BAR", 0, "cafe\u0301-bar", 0, tolerantMatch},
		"absent":                         {"She joined Acme.", "Apex", 0, "", 0, noMatch},
		"empty":                          {"text", "", 0, "", 0, noMatch},
		"white space only":               {"text", " \n", 0, "", 0, noMatch},
		"empty document":                 {"", "a", 3, "", 0, noMatch},
		"longer than the document":       {"a", "aa", 0, "", 0, noMatch},
		"part of a code point":           {"é", "\xa9", 0, "", 0, noMatch},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			span, match := locate(NewIndex(tt.text), tt.quote, tt.near)
			want := Span{Quote: tt.want, Start: tt.start, End: tt.start + utf8.RuneCountInString(tt.want)}
			if span != want || match != tt.match {
				t.Errorf("got %+v %s, want %+v %s", span, match, want, tt.match)
			}
		})
	}
}

// TestIndex_manySearches looks for so many strings that the haystacks are indexed, and for some
// that occur more often than maxPlaces. The results must equal those of a new index, which
// scans.
func TestIndex_manySearches(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < 6000 {
		b.WriteString([]string{"a", "b", "A", " ", "ä"}[random.IntN(5)])
	}
	text := b.String()
	runes := []rune(text)
	x := NewIndex(text)
	for i := range 400 {
		from := random.IntN(len(runes) - 9)
		quote := string(runes[from : from+1+i%8])
		if i%3 == 0 {
			quote = strings.ToUpper(quote) + "b"
		}
		near := random.IntN(len(runes))
		span, match := locate(x, quote, near)
		wantSpan, wantMatch := locate(NewIndex(text), quote, near)
		if span != wantSpan || match != wantMatch {
			t.Fatalf("%q near %d: %+v %s, at first %+v %s", quote, near, span, match, wantSpan, wantMatch)
		}
	}
	if x.exact.index == nil || x.foldedText.index == nil {
		t.Error("the haystacks were not indexed: the test shows nothing")
	}
}

func TestGround(t *testing.T) {
	text := "Ann Smith (Ann) joined ACME\nCorp. Also Al, ann; 北京大学 and Roman. JoAnn IBM北京 at End"
	given := Extraction{Entities: []Entity{
		{Name: "Ann", Aliases: []string{"Ann Smith"}},
		{Name: "Acme Corp"},
		{Name: "Al"},
		{Name: "Rome"},
		{Name: "北京"},
		{Name: "Roma", Mentions: []Span{{Quote: "roman"}}},
		{Name: "Ann", Mentions: []Span{{Quote: "Ann", Start: 10, End: 14}, {Quote: "nowhere"}, {Start: 11, End: 14}}},
		{Name: "Bob", Mentions: []Span{{Quote: "Bob was here", Start: 0, End: 12}}},
		{Name: ""},
		{Name: "IBM"},
		{Name: "End"},
		{Name: "x", Mentions: []Span{{Quote: "acme", LookedUp: true}, {Quote: "Ann", Start: 12, End: 15}, {Quote: "Ann", Start: 0, End: 9}, {Quote: "Ann", Start: 11, End: 14}}},
		{Name: "Al", Mentions: []Span{{Start: 3, End: 3}, {Start: 500, End: 600}}},
	}, Relationships: []Relationship{{Source: "Ann", Target: "Zed"}}}
	want := Extraction{Entities: []Entity{
		{Name: "Ann", Aliases: []string{"Ann Smith"}, Mentions: []Span{{Quote: "Ann Smith", Start: 0, End: 9, LookedUp: true}, {Quote: "Ann", Start: 11, End: 14, LookedUp: true}, {Quote: "ann", Start: 43, End: 46, LookedUp: true}}},
		{Name: "Acme Corp", Mentions: []Span{{Quote: "ACME\nCorp", Start: 23, End: 32, LookedUp: true}}},
		{Name: "Al", Mentions: []Span{{Quote: "Al", Start: 39, End: 41, LookedUp: true}}},
		{Name: "Rome"},
		{Name: "北京", Mentions: []Span{{Quote: "北京", Start: 48, End: 50, LookedUp: true}, {Quote: "北京", Start: 73, End: 75, LookedUp: true}}},
		{Name: "Roma", Mentions: []Span{{Quote: "Roman", Start: 57, End: 62}}},
		{Name: "Ann", Mentions: []Span{{Quote: "Ann", Start: 11, End: 14}}},
		{Name: "Bob"},
		{Name: ""},
		{Name: "IBM", Mentions: []Span{{Quote: "IBM", Start: 70, End: 73, LookedUp: true}}},
		{Name: "End", Mentions: []Span{{Quote: "End", Start: 79, End: 82, LookedUp: true}}},
		{Name: "x", Mentions: []Span{{Quote: "Ann", Start: 0, End: 3}, {Quote: "Ann", Start: 11, End: 14}, {Quote: "ACME", Start: 23, End: 27, LookedUp: true}}},
		{Name: "Al", Mentions: []Span{{Quote: "Al", Start: 39, End: 41, LookedUp: true}}},
	}, Relationships: given.Relationships}
	before := fmt.Sprint(given)
	got, names, quotes := NewIndex(text).Ground(given)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	wantUnfound := [][]string{{"Rome", "Bob", ""}, {"nowhere", "Bob was here", "", ""}}
	if diff := cmp.Diff(wantUnfound, [][]string{names, quotes}); diff != "" {
		t.Error(diff)
	}
	if fmt.Sprint(given) != before {
		t.Error("the extraction that was given has changed")
	}
	if again, _, _ := NewIndex(text).Ground(got); !cmp.Equal(again, got) {
		t.Error("grounding what is grounded changes it")
	}
}

// TestIndex_looks checks that Named looks for the name or an alias as whole words, that Mentioned
// looks for a mention that occurs, and that a document has the index of its text.
func TestIndex_looks(t *testing.T) {
	x := NewIndex("JoAnn met Bob and Bob at ACME.")
	for _, tt := range []struct {
		e                Entity
		named, mentioned bool
	}{
		{Entity{}, false, false},
		{Entity{Name: "Ann"}, false, false},
		{Entity{Name: "bob"}, true, false},
		{Entity{Name: "Zed", Aliases: []string{"", "Zoe", "Acme", "Bob"}}, true, false},
		{Entity{Name: "Zed", Mentions: []Span{{Quote: "nowhere"}, {Quote: "acme"}}}, false, true},
		{Entity{Name: "Zed", Mentions: []Span{{Quote: "nowhere"}}}, false, false},
	} {
		if named, mentioned := x.Named(tt.e), x.Mentioned(tt.e); named != tt.named || mentioned != tt.mentioned {
			t.Errorf("%+v: named %v, mentioned %v", tt.e, named, mentioned)
		}
	}
	doc := Document{Text: "Bob"}
	if doc.Index().Named(Entity{Name: "Ann"}) || !doc.Index().Named(Entity{Name: "Bob"}) {
		t.Error("of a document of no Decoder")
	}
	doc, _, _ = DecodeDocument([]byte(`{"text":"Bob"}`))
	if doc.Index() != doc.Index() {
		t.Error("the same document is indexed twice")
	}
	if doc.Text = "Ann"; !doc.Index().Named(Entity{Name: "Ann"}) {
		t.Error("the index is that of another text")
	}
}

// TestNamed_insideWords looks for a name that occurs in 3·400 = 1200 words before it is one, by scanning
// and with an index.
func TestNamed_insideWords(t *testing.T) {
	x := NewIndex(strings.Repeat("must use because ", 400) + "in the US.")
	for i := range 20 {
		if !x.Named(Entity{Name: "US"}) || x.Named(Entity{Name: "be"}) {
			t.Fatalf("search %d is wrong", i)
		}
	}
	if x.foldedText.index == nil {
		t.Error("the haystack was not indexed: the test shows nothing")
	}
}

func TestGround_keepsNil(t *testing.T) {
	if got, _, _ := NewIndex("text").Ground(Extraction{}); got.Entities != nil {
		t.Error("nil became empty")
	}
	if got, _, _ := NewIndex("text").Ground(Extraction{Entities: []Entity{}}); got.Entities == nil {
		t.Error("empty became nil")
	}
}

func TestGround_mentionsAreBounded(t *testing.T) {
	got, _, _ := NewIndex(strings.Repeat("a ", 5000)).Ground(Extraction{Entities: []Entity{{Name: "a"}}})
	if n := len(got.Entities[0].Mentions); n != maxMentions {
		t.Errorf("%d mentions", n)
	}
}

// TestLocate_frequent checks that of two equally close places, 2000 and 2002, the earlier is
// found among many.
func TestLocate_frequent(t *testing.T) {
	span, match := locate(NewIndex(strings.Repeat("ab", 3000)), "ab", 2001)
	if span.Start != 2000 || match != exactMatch {
		t.Errorf("got %+v %s", span, match)
	}
}

func TestHaystack_limits(t *testing.T) {
	all := func(int) bool { return true }
	h := haystack{data: []byte(strings.Repeat("ab", 500)), scanned: 1 << 30, placesFound: manyPlaces + 1}
	if n := len(h.places([]byte("a"), 0, all)); n != fewPlaces+1 {
		t.Errorf("%d places after too many", n)
	}
	h.placesFound = 0
	if n := len(h.places([]byte("a"), 0, all)); n != 500 {
		t.Errorf("%d places before", n)
	}
}

func FuzzLocate(f *testing.F) {
	f.Add("She joined Acme\nCorp.", "acme corp", 3)
	f.Add("e\u0302\u0323 inter-\nna\u00ADtional ﬁ 한", "fi 한", 0)
	f.Add("\xff\xc3\xa9 a", "\xa9", 1)
	f.Fuzz(func(t *testing.T, text, quote string, near int) {
		span, match := locate(NewIndex(text), quote, near)
		if match == noMatch {
			if span != (Span{}) || quote != "" && utf8.ValidString(quote) && strings.Contains(text, quote) {
				t.Fatalf("%q in %q: nothing found, span %+v", quote, text, span)
			}
			return
		}
		starts := make([]int, 0, len(text)+1)
		for i := range text {
			starts = append(starts, i)
		}
		starts = append(starts, len(text))
		if quoted := text[starts[span.Start]:starts[span.End]]; quoted != span.Quote || quoted == "" {
			t.Fatalf("%+v does not quote %q", span, quoted)
		}
		if match != exactMatch && utf8.ValidString(quote) && strings.Contains(text, quote) {
			t.Fatalf("%+v is not an exact match of %q", span, quote)
		}
		if match == tolerantMatch && string(fold(span.Quote).text) != string(fold(quote).text) {
			t.Fatalf("%q and %q do not fold to the same", span.Quote, quote)
		}
	})
}

// FuzzFold checks what Locate relies on: source returns parts of the original in order, and find is
// its inverse.
func FuzzFold(f *testing.F) {
	f.Add("Inter-\nna\u00ADtional  ﬁ e\u0302\u0323")
	f.Add(" a b--c\n\nd “x” ½ \u0301")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		folded := fold(text)
		var last byteRange
		first := make([]int, len(text)+1) // by byte of the text, the first folded byte for it or a later one
		for pos := range first {
			first[pos] = len(folded.text)
		}
		for i := len(folded.text) - 1; i >= 0; i-- {
			for pos := range min(folded.source(i).from, len(text)) + 1 {
				first[pos] = i
			}
		}
		for i := range folded.text {
			s := folded.source(i)
			if s.from >= s.to || s.to > len(text) || i > 0 && (s.from < last.from || s.to < last.to) {
				t.Fatalf("byte %d stands for %v, after %v", i, s, last)
			}
			last = s
		}
		for pos, want := range first {
			if got := folded.find(pos); got != want {
				t.Fatalf("the first byte for %d is %d, not %d", pos, got, want)
			}
		}
	})
}

func BenchmarkNewIndex(b *testing.B) {
	text := prose(10 << 20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		NewIndex(text)
	}
}

func BenchmarkLocate(b *testing.B) {
	for _, size := range []int{100 << 10, 10 << 20} {
		text := prose(size)
		for name, quote := range map[string]string{"exact": text[size/2 : size/2+60], "tolerant": strings.ToUpper(text[size/2 : size/2+60]), "absent": "Zebra crossing"} {
			b.Run(fmt.Sprintf("once/%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					NewIndex(text).Locate(quote, 0)
				}
			})
			b.Run(fmt.Sprintf("indexed/%s/%d", name, size), func(b *testing.B) {
				x := NewIndex(text)
				for range 600 {
					x.Locate("Zebra crossing", 0)
				}
				for b.Loop() {
					x.Locate(quote, 0)
				}
			})
		}
	}
}

// BenchmarkGround_hostile grounds 200,000 different names, each of which occurs often and
// inside of others, in a repetitive document.
func BenchmarkGround_hostile(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, 2000)
	for i := range block {
		block[i] = byte('a' + random.IntN(3))
	}
	text := strings.Repeat(string(block), 500)
	var e Extraction
	for i := range 200_000 {
		from := i % 1500
		e.Entities = append(e.Entities, Entity{Name: string(block[from : from+1+i/1500])})
	}
	for b.Loop() {
		NewIndex(text).Ground(e)
	}
}

// prose returns prose-like text.
func prose(size int) string {
	random := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "Person%d met Firm%d in Köln, and \n", random.IntN(1e6), random.IntN(1e6))
	}
	return strings.ToValidUTF8(b.String()[:size], "")
}
