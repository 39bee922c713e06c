package answers_test

import (
	"testing"

	"extraction-experiment/harness/answers"
)

func TestNormalise(t *testing.T) {
	tests := map[string]string{
		"Ёлка":                  "елка",
		"İzmir":                 "izmir",
		"  a \t\n b ":           "a b",
		"1\u00a0234\u202f567":   "1234567",
		"1 234":                 "1234",
		"12 345 678,90 руб.":    "12345678.90 руб.",
		"2023 2024":             "2023 2024",
		"12 34":                 "12 34",
		"1 2345":                "1 2345",
		"1.5 200 000":           "1.5 200000",
		"3,5 %":                 "3.5 %",
		"1,2,3":                 "1.2.3",
		"a, b":                  "a, b",
		"Более 100":             ">100",
		"свыше\u00a01 000":      ">1000",
		"менее 5,5%":            "<5.5%",
		"не более чем 5":        "не более чем 5",
		"неболее 5":             "неболее 5",
		"(более 7)":             "(>7)",
		"тем более, 5":          "тем более, 5",
		"":                      "",
		"bad \xff byte":         "bad \uFFFD byte",
		"5 120 и 7 000 000":     "5120 и 7000000",
		"СВЫШЕ 3 и МЕНЕЕ 4 лет": ">3 и <4 лет",
	}
	for text, want := range tests {
		if got := answers.Normalise(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzNormalise(f *testing.F) {
	for _, text := range []string{"1 234 5", "более 5более 6", "1,2,3 456", "12 345 67 890", "ёЁ\u00a0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := answers.Normalise(text)
		if twice := answers.Normalise(once); twice != once {
			t.Errorf("%q becomes %q and then %q", text, once, twice)
		}
	})
}
