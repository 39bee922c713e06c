package answers

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestStems(t *testing.T) {
	tests := map[string][]string{
		"Какая выручка была у компании в 2023 году?": {"выручк", "компан", "2023", "год"},
		"выручки компаний":                           {"выручк", "компан"},
		"Ёлочные ёлки":                               {"елочн", "елк"},
		"How are the pumps maintained?":              {"pump", "maintain"},
		"MAINTAINING pump-3":                         {"maintain", "pump", "3"},
		"":                                           nil,
		"— … !":                                      nil,
	}
	for text, want := range tests {
		if diff := cmp.Diff(want, stems(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestIndex_Find compares one score with a result calculated by hand: three passages of 2, 2 and 4
// stems, average 8/3. "кран" is in two of them: idf = ln(1 + 1.5/2.5) = 0.4700. In the first f = 1,
// so the score is 0.4700·2.2/(1 + 1.2·(0.25 + 0.75·0.75)) = 0.4700·2.2/1.975 = 0.5236.
func TestIndex_Find(t *testing.T) {
	index := newIndex([]Passage{{Page: 1, Text: "новый кран"}, {Page: 2, Text: "старый причал"}, {Page: 3, Text: "кран поднимает тяжёлые плиты"}})
	found := index.Find("Сколько кранов?", 5)
	if len(found) != 2 || found[0].Page != 1 || found[1].Page != 3 || math.Abs(found[0].Score-0.5236) > 0.0001 {
		t.Errorf("%+v", found)
	}
	if got := index.Find("Сколько кранов?", 1); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if got := index.Find("unknown", 5); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := newIndex(nil).Find("кран", 5); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestSentences(t *testing.T) {
	text := "Выручка за 2023 г. составила 5 млн руб. и выросла. Прибыль тоже! А долг? «Снизился». See fig. 3 of the manual. 42 pumps work."
	want := []string{"Выручка за 2023 г. составила 5 млн руб. и выросла.", "Прибыль тоже!", "А долг?", "«Снизился».", "See fig. 3 of the manual.", "42 pumps work."}
	if diff := cmp.Diff(want, Sentences(text)); diff != "" {
		t.Error(diff)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("Одна строка.\nДругая строка. И ещё одна.", 20)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = 5 + (size%500+500)%500
		for _, p := range splitPassages([]Passage{{Page: 7, Text: text}}, size) {
			if p.Page != 7 || strings.TrimSpace(p.Text) == "" || utf8.ValidString(text) && utf8.RuneCountInString(p.Text) > 2*size+2 {
				t.Errorf("%q of %d", p.Text, size)
			}
		}
	})
}
