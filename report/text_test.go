package report

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"

	"pgregory.net/rapid"
)

var (
	names = []string{"entity_precision", "entity_recall", "entity_f1", "relationship_accuracy", "type_accuracy",
		"relationship_recall", "relationship_f1", "entity_exact_f1", "entity_typed_f1", "entity_strict_f1", "item_perfect", "error"}
	began = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
)

// summary returns a run of 24 items: 3 failed in 3 ways, and 2 have nothing to find.
func summary() outcome.Summary {
	h := outcome.Header{Name: "gpt-prompt-3", RunUID: "0123", Trials: 1, Started: began,
		Dataset: outcome.Dataset{Name: "extraction-eval"},
		System: outcome.System{Model: "gpt-4o-mini", Provider: "openai", Pipeline: "single", Parameters: outcome.Parameters{Temperature: new(0.0)},
			Prompt: outcome.Prompt{Name: "extract", Version: 3, Label: "production"}},
		Scorer: outcome.Scorer{Primary: "entity_f1"}}
	s := outcome.NewSummariser(h, outcome.SummaryConfig{Order: names})
	failures := []outcome.Failure{
		{Class: outcome.Timeout, Message: "no answer within 30s"},
		{Class: outcome.Provider, Message: "POST https://api.example.com/v1/chat/completions: 503 Service Unavailable: the server is overloaded, please try again later; request id req_0123456789abcdef"},
		{Class: outcome.InvalidOutput, Message: "answer is not JSON: unexpected end of input at character 4096"},
	}
	for i := range 24 {
		o := outcome.Outcome{Item: fmt.Sprintf("doc-%02d", i+1), Seq: int64(i + 1), Latency: time.Duration(400+37*i) * time.Millisecond,
			Usage: outcome.Usage{Input: int64(1200 + i), Output: 300, Cached: 100}, CostUSD: new(0.00042)}
		if i%8 == 3 {
			f := failures[i/8]
			o.Class, o.Failure, o.CostUSD = f.Class, &f, nil
		}
		for _, name := range names {
			o.Scores = append(o.Scores, madeScore(name, o, i))
		}
		if !o.Failed() {
			n := int64(i % 5)
			o.Causes = []outcome.Cause{{What: "entity", Name: "missed", Count: n}, {What: "relationship", Name: "wrong_relationship_type", Count: 1}}
			o.Groups = []outcome.Group{
				{Kind: "entity_type", Name: "Person", Expected: 3, Extracted: 2 + n/2, Matched: 2},
				{Kind: "entity_type", Name: "Organisation", Expected: n, Extracted: n, Matched: n - n/3},
				{Kind: "entity_type", Name: "Place", Expected: 0, Extracted: n / 4, Matched: 0},
				{Kind: "relationship_type", Name: "works_for", Expected: 2, Extracted: 1, Matched: 1},
			}
		}
		s.Add(o)
	}
	sum := s.Summary()
	sum.Finish(outcome.Footer{Status: outcome.Complete, Planned: 24, Ended: began.Add(time.Minute)})
	sum.Published = &outcome.PublishedCount{Outcomes: 22, Waiting: 2}
	return sum
}

// madeScore returns a score that depends only on its arguments.
func madeScore(name string, o outcome.Outcome, i int) outcome.Score {
	switch {
	case name == outcome.ErrorScore && o.Failed():
		return outcome.Score{Name: name, Value: new(1.0), Boolean: true, Comment: o.Failure.Error()}
	case name == outcome.ErrorScore:
		return outcome.Score{Name: name, Value: new(0.0), Boolean: true}
	case o.Failed():
		return outcome.Score{Name: name}
	case i%12 == 5 && name != "item_perfect":
		return outcome.Score{Name: name, Value: new(1.0), Ratio: &outcome.Ratio{}, Vacuous: true}
	case name == "item_perfect":
		return outcome.Score{Name: name, Value: new(float64(i % 2)), Boolean: true}
	}
	num, den := int64(2+i%6+len(name)%3), int64(10)
	return outcome.Score{Name: name, Value: new(float64(num) / float64(den)), Ratio: &outcome.Ratio{Num: num, Den: den},
		Comment: fmt.Sprintf("%d/%d extracted entities matched", num, den)}
}

var where = []string{"https://langfuse.example.com/project/p/datasets/d/runs/r?with=a-very-long-query-that-nobody-should-wrap-or-cut",
	"experiment show gpt-prompt-3 doc-05"}

func TestText_golden(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			opt := Options{Width: width, Where: where}
			goldenPage(t, fmt.Sprintf("summary-%d.txt", width), opt, func(w io.Writer) error { return Text(w, summary(), opt) })
		})
	}
}

func TestText_colour(t *testing.T) {
	opt := Options{Width: 80, Color: true, Where: where}
	goldenPage(t, "summary-colour.txt", opt, func(w io.Writer) error { return Text(w, summary(), opt) })
}

// TestText_failedItems checks that with 16 failed items of 40 every format shows first the mean
// that counts them as 0, and then the mean of the others. A score of the extracted side alone
// leaves them out.
func TestText_failedItems(t *testing.T) {
	sum := outcome.NewSummariser(outcome.Header{Name: "r", Scorer: outcome.Scorer{Primary: "entity_f1", OutputOnly: []string{"grounded_rate"}}}, outcome.SummaryConfig{})
	for i := range 40 {
		o := outcome.Outcome{Item: fmt.Sprint(i), Scores: []outcome.Score{{Name: "entity_f1", Value: new(0.842)}, {Name: "grounded_rate", Value: new(0.889)}}}
		if i%5 < 2 {
			o.Class, o.Scores = outcome.Timeout, []outcome.Score{{Name: "entity_f1"}}
		}
		sum.Add(o)
	}
	run := Run{Summary: sum.Summary()}
	text := printed(t, func(w io.Writer) error { return Text(w, run.Summary, Options{Width: 120}) })
	markdown := printed(t, func(w io.Writer) error { return Markdown(w, []Run{run}) })
	for _, tt := range []struct{ in, want string }{
		{text, `entity_f1 +█{12}▏ +0\.505 +0\.3\d+–0\.6\d+ +0\.842 +0\.84–0\.84 +24\n`}, // 0.842·24/40 = 0.5052; 24·0.505/24 eighths
		{text, `grounded_rate +– +– +0\.889 +0\.89–0\.89 +24\n`},
		{markdown, `\*\*0\.505\*\* \| 0\.3\d+–0\.6\d+ \| 0\.842 \| 24 `},
		{markdown, "`grounded_rate` \\| – \\| – \\| 0\\.889 \\| 24 "},
		{SummaryView{Summary: run.Summary}.inOneLine(), `entity_f1 0\.505 \(0\.3\d+–0\.6\d+\) with failed items as 0 · 0\.842 of those scored`},
	} {
		if !regexp.MustCompile(tt.want).MatchString(tt.in) {
			t.Errorf("no %s in\n%s", tt.want, tt.in)
		}
	}
}

func TestText_nothing(t *testing.T) {
	s := outcome.NewSummariser(outcome.Header{}, outcome.SummaryConfig{}).Summary()
	goldenPage(t, "summary-nothing.txt", Options{}, func(w io.Writer) error { return Text(w, s, Options{}) })
}

func TestText_interrupted(t *testing.T) {
	s := outcome.NewSummariser(outcome.Header{Name: "r", Dataset: outcome.Dataset{Name: "d", Selection: "--limit 50"}, Trials: 3,
		System: outcome.System{Model: "m", Parameters: outcome.Parameters{Seed: new(int64(7)), TopP: new(0.9), MaxTokens: new(1024)}}}, outcome.SummaryConfig{})
	s.Add(outcome.Outcome{Item: "a", Trial: 1, Class: outcome.Item, Scores: []outcome.Score{{Name: "entity_f1"}},
		Usage: outcome.Usage{Input: 5, Reasoning: 2}})
	sum := s.Summary()
	sum.Finish(outcome.Footer{Status: outcome.Interrupted, Planned: 51})
	goldenPage(t, "summary-interrupted.txt", Options{}, func(w io.Writer) error { return Text(w, sum, Options{}) })
}

const hostile = "\x1b[31mred\x1b[0m\x1b]0;title\x07\x00\u009b2J\u202eevil\u2066\n\tnext\xff\U000e0041"

// foreignSummary returns a run in which every string is in another script or hostile.
func foreignSummary() outcome.Summary {
	h := outcome.Header{Name: "実験一号", Trials: 1, Dataset: outcome.Dataset{Name: "مجموعة البيانات " + hostile},
		System: outcome.System{Model: "模型-" + hostile, Provider: hostile}, Scorer: outcome.Scorer{Primary: "得分"}}
	s := outcome.NewSummariser(h, outcome.SummaryConfig{})
	for i, id := range []string{"项目一", "شركة الاتصالات", "é-" + hostile, strings.Repeat("長", 80)} {
		o := outcome.Outcome{Item: id, Seq: int64(i), Scores: []outcome.Score{
			{Name: "得分", Value: new(float64(i) / 10), Comment: "تعليق " + hostile}, {Name: "دقة", Value: new(0.5)}, {Name: hostile, Value: new(0.25)}},
			Detail: outcome.Detail{Groups: []outcome.Group{{Kind: "entity_type", Name: []string{"人物", "شخص", hostile, ""}[i], Expected: 2, Extracted: 2, Matched: 1}}}}
		s.Add(o)
		o.Class, o.Failure = outcome.Class("odd"+hostile), &outcome.Failure{Message: "错误：" + hostile + strings.Repeat("很长的消息", 60)}
		s.Add(o)
	}
	return s.Summary()
}

func TestText_foreign(t *testing.T) {
	for _, width := range []int{60, 80} {
		opt := Options{Width: width, Where: []string{"experiment show " + hostile}}
		goldenPage(t, fmt.Sprintf("summary-foreign-%d.txt", width), opt, func(w io.Writer) error { return Text(w, foreignSummary(), opt) })
	}
}

func TestText_anyWidth(t *testing.T) {
	for width := -1; width <= 220; width += suite.SampleOr(3, 1) {
		for name, s := range map[string]outcome.Summary{"plain": summary(), "foreign": foreignSummary()} {
			opt := Options{Width: max(0, width), Where: where}
			checkLayout(t, printed(t, func(w io.Writer) error { return Text(w, s, opt) }), opt)
			if t.Failed() {
				t.Fatalf("%s at width %d", name, width)
			}
		}
	}
}

func TestText_anyStrings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		s := outcome.NewSummariser(outcome.Header{Name: text, Scorer: outcome.Scorer{Primary: text}}, outcome.SummaryConfig{})
		value := rapid.Float64().Draw(t, "value")
		for range 2 {
			s.Add(outcome.Outcome{Item: text, Scores: []outcome.Score{{Name: text, Value: &value, Comment: text}},
				Detail: outcome.Detail{Groups: []outcome.Group{{Kind: text, Name: text, Expected: 1}}}})
			s.Add(outcome.Outcome{Item: text, Class: outcome.Class("x" + text), Detail: outcome.Detail{Failure: &outcome.Failure{Message: text}}})
		}
		opt := Options{Width: rapid.IntRange(40, 130).Draw(t, "width"), Color: rapid.Bool().Draw(t, "colour"), Where: []string{text}}
		checkLayout(t, printed(t, func(w io.Writer) error { return Text(w, s.Summary(), opt) }), opt)
	})
}

func TestText_manyTypes(t *testing.T) {
	s := outcome.Summary{}
	for i := range 40 {
		s.Groups = append(s.Groups, outcome.GroupStat{Group: outcome.Group{Kind: "entity_type", Name: fmt.Sprintf("type-%d", i)}})
	}
	all := s.Groups
	for shown, want := range map[int]string{40: "and 25 more types", 16: "and 1 more type\n", 15: "type-14"} {
		s.Groups = all[:shown]
		got := printed(t, func(w io.Writer) error { return Text(w, s, Options{}) })
		if !strings.Contains(got, want) {
			t.Errorf("%d types: %q is missing in\n%s", shown, want, got)
		}
	}
}

func TestEveryWriterReturnsItsError(t *testing.T) {
	for name, err := range map[string]error{
		"Text": Text(brokenWriter{}, summary(), Options{}), "Item": Item(brokenWriter{}, itemView(), Options{}),
		"Runs": Runs(brokenWriter{}, runRows(), Options{}), "JSON": JSON(brokenWriter{}, summary(), true),
	} {
		if !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestText_hashes checks that a string in place of a hash is cut between its characters.
func TestText_hashes(t *testing.T) {
	s := summary()
	s.Answers = &outcome.Answers{PDFSHA256: strings.Repeat("文", 20), QuestionsSHA256: "0123456789abcdef"}
	got := printed(t, func(w io.Writer) error { return Text(w, s, Options{Width: 120}) })
	if want := "document " + strings.Repeat("文", 12) + " · questions 0123456789ab\n"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}
