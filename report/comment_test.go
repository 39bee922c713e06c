package report_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// TestCheck_Comment_base: the base's system stands in the comment only if it is another one.
func TestCheck_Comment_base(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{
		"gpt-4o": " · base `b, 2 days old` · commit `0123456789ab`\n",
		"mini":   " · base `b, 2 days old, of another system: mini · openai` · commit `0123456789ab`\n",
	} {
		check := hostileCheck(1)
		check.Base, check.Commit = "b, 2 days old", "0123456789abcdef"
		check.Candidate.Run = outcome.RunInfo{Name: "c", Model: "gpt-4o", Provider: "openai"}
		check.Comparison.Base.Summary.Run = outcome.RunInfo{Name: "b", Model: model, Provider: "openai"}
		if text := check.Comment("", 65_536); !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// hostileCheck returns a check whose names look like a tag, a mention, a fence, a row or a marker.
func hostileCheck(items int) report.Check {
	const bad = "</details><img src=x onerror=alert(1)> @team #12 ``` | [x](javascript:1) <!-- -->\n# title"
	score := compare.Score{Name: "entity_f1", Primary: true, Base: new(0.5), Candidate: new(0.4), Difference: new(-0.1), CI95: &[2]float64{-0.2, -0.05}, P: new(0.01), PHolm: new(0.01), Verdict: compare.Worse}
	result := compare.Result{Verdict: compare.Worse, Items: items, Scores: []compare.Score{score}, Regressions: items, Warnings: []string{bad}}
	result.Candidate.Summary.Run.Name = bad
	for i := range items {
		change := compare.Change{ItemChange: compare.ItemChange{Item: fmt.Sprintf("%d %s", i, bad), Base: 1, Delta: -1}, Lost: []string{"secret " + bad}, CandidateFailure: "timeout: " + bad}
		result.Changed, result.Regressed = append(result.Changed, change), append(result.Regressed, change.ItemChange)
	}
	c := compare.Comparison{Metric: "entity_f1", Candidates: []compare.Result{result}}
	rules := []compare.RuleResult{{Rule: "coverage >= 1", Answer: compare.Pass}, {Rule: bad, Answer: compare.Fail, Reason: bad}}
	return report.Check{Name: bad, Candidate: outcome.Summary{Run: outcome.RunInfo{Name: bad, Model: bad, Dataset: bad}}, Base: bad, Comparison: &c,
		Gate: &compare.GateResult{Answer: compare.Fail, Rules: rules}, Links: []report.Link{{Title: "job", URL: "javascript:alert(1)"}, {Title: "page", URL: "https://example.org/a"}}}
}

// TestCheck_Comment_more: what is left out of a long list is counted.
func TestCheck_Comment_more(t *testing.T) {
	t.Parallel()
	check := hostileCheck(1)
	result := &check.Comparison.Candidates[0]
	for range 20 {
		result.Scores = append(result.Scores, result.Scores[0])
		result.Warnings = append(result.Warnings, "careful")
		check.LeftOut = append(check.LeftOut, "delta(entity_f1) >= 0")
	}
	text := check.Comment("", 65_536)
	for _, want := range []string{"and 6 more scores", "- and 5 more\n", "⚠️ `and 6 more`"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestCheck_Comment(t *testing.T) {
	t.Parallel()
	check := hostileCheck(9)
	text := check.Comment("<!-- marker -->", 65_536)
	if !strings.HasPrefix(text, "### worse: `entity_f1` 0.500 → 0.400, -0.100 (95 % -0.200 to -0.050, p 0.010)\n") || !strings.HasSuffix(text, "<!-- marker -->\n") {
		t.Errorf("the verdict is not first, or the marker not last:\n%s", text)
	}
	visible, _, _ := strings.Cut(text, "<details>")
	if n := strings.Count(visible, "\n"); n > 60 {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(text) {
		outside := ""
		for i, part := range strings.Split(strings.ReplaceAll(line, "````", "\x00"), "\x00") { // bad has three backticks: its span has four
			if i%2 == 0 {
				outside += part
			}
		}
		if strings.Contains(outside, "<img") || strings.Contains(outside, "@team") || strings.Contains(outside, "javascript:") || strings.HasPrefix(line, "# title") {
			t.Errorf("a stranger's text has got out of its span: %s", line)
		}
	}
	if strings.Contains(text, "secret") || !strings.Contains(text, "failed: `timeout`") || !strings.Contains(text, "[page](<https://example.org/a>)") {
		t.Errorf("texts are shown, or classes and links are not:\n%s", text)
	}
	if strings.Index(text, "❌ fail") > strings.Index(text, "✅ pass") {
		t.Error("rules that failed do not come first")
	}
	check.RunFailed = "exit code 4"
	var junit strings.Builder
	if err := check.JUnit(&junit); err != nil || !strings.Contains(junit.String(), `type="run" message="exit code 4"`) {
		t.Errorf("%v, or the run is not a failure in\n%s", err, junit.String())
	}
	if text := check.Comment("", 65_536); strings.Index(text, "❌ `exit code 4`") > strings.Index(text, "### Gate") || !strings.Contains(text, "❌ `exit") {
		t.Errorf("the run that failed does not come before the gate:\n%s", text)
	}
	check.Details = true
	if text := check.Comment("", 65_536); !strings.Contains(text, "secret") {
		t.Error("details are not shown")
	}
	check = hostileCheck(300)
	check.Details = true
	for _, limit := range []int{65_536, 3_000, 500} {
		text := check.Comment("<!-- marker -->", limit)
		if n := utf8.RuneCountInString(text); n > limit || !strings.HasSuffix(text, "<!-- marker -->\n") || strings.Count(text, "<details>") != strings.Count(text, "</details>\n") {
			t.Errorf("%d characters of %d, or without its marker", n, limit)
		}
	}
}
