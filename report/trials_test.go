package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"extraction-experiment/outcome"
)

// repeated is a run of three trials over twelve items, some of them flaky.
func repeated() outcome.Summary {
	h := outcome.Header{Name: "nightly", Trials: 3, Dataset: outcome.Dataset{Name: "docs"}, System: outcome.System{Model: "gpt-4o", Provider: "openai"},
		Scorer: outcome.Scorer{Primary: "entity_f1"}}
	sum := outcome.NewSummariser(h, outcome.SummaryConfig{})
	for i := range 14 {
		for trial := 1; trial <= 3; trial++ {
			v := .5 + float64(i%7)/20 + float64(trial*i%3)/10
			o := outcome.Outcome{Item: fmt.Sprintf("item-%02d", i), Trial: trial, CostUSD: ptr(.01), Usage: outcome.Usage{Input: 100},
				Scores: []outcome.Score{{Name: "entity_f1", Value: &v}, {Name: "entity_recall", Value: ptr(.5)}}}
			if i == 5 && trial == 2 {
				o.Class, o.Scores = outcome.Timeout, []outcome.Score{{Name: "entity_f1"}, {Name: "entity_recall"}}
			}
			sum.Add(o)
		}
	}
	s := sum.Summary()
	s.Finish(outcome.Footer{Status: outcome.Complete, Planned: 42})
	s.Published = &outcome.PublishedCount{Outcomes: 40, Waiting: 2}
	for i := range s.Trials.Runs {
		s.Trials.Runs[i].Name = []string{"nightly", "nightly#2", "nightly#3"}[i]
	}
	return s
}

func TestText_trials(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		got := printed(t, func(b *bytes.Buffer) error { return Text(b, repeated(), Options{Width: width}) })
		fits(t, string(got), Options{Width: width})
		golden(t, fmt.Sprintf("summary-trials-%d.txt", width), got)
	}
}

// TestTrials_areNoItems: no format counts trials as items.
func TestTrials_areNoItems(t *testing.T) {
	runs := []Run{{Summary: repeated(), Items: func(func(ItemView, error) bool) {}}}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text":     func(b *bytes.Buffer) error { return Text(b, repeated(), Options{}) },
		"markdown": func(b *bytes.Buffer) error { return Markdown(b, runs) },
		"github":   func(b *bytes.Buffer) error { return GitHub(b, runs) },
	} {
		if page := string(printed(t, write)); !strings.Contains(page, "14 items × 3 trials") || strings.Contains(page, "42 items") {
			t.Errorf("%s:\n%s", name, page)
		}
	}
}

// TestMarkdown_trials: how much the trials vary stands in Markdown, too.
func TestMarkdown_trials(t *testing.T) {
	golden(t, "run-trials.md", printed(t, func(b *bytes.Buffer) error {
		return Markdown(b, []Run{{Summary: repeated(), Items: func(func(ItemView, error) bool) {}}})
	}))
}

func TestText_trialsOfAnyName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := repeated()
		s.Run.Primary = rapid.String().Draw(t, "primary")
		s.Trials.Runs[0].Name = rapid.String().Draw(t, "name")
		s.Trials.FlakyItems[0].ID = strings.Repeat(hostile, 3)
		s.Trials.Scores[1].Name = hostile
		opt := Options{Width: rapid.IntRange(50, 200).Draw(t, "width"), Color: rapid.Bool().Draw(t, "colour")}
		var b bytes.Buffer
		if err := Text(&b, s, opt); err != nil {
			t.Fatal(err)
		}
		fits(t, b.String(), opt)
	})
}
