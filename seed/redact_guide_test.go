package seed

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/textutil"
)

// TestRedaction_documented checks that the patterns in the documentation remove names and addresses
// of any script as a whole, and that a warning names a pattern that leaves the rest of a word.
func TestRedaction_documented(t *testing.T) {
	guide, err := os.ReadFile("../docs/seeding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```yaml\npatterns:")
	patterns, _, _ := strings.Cut(rest, "```")
	documented := mustRedaction(t, "patterns:"+patterns)
	const text = "Patient:\u00a0Jörg Müller, jörg.müller@example.com; Patient: Zoë O'Brien-Łoś; " +
		"Patient: Юлия Ким, юлия@почта.рф."
	const partial = "EMAIL took out a part of a word"
	redact := func(r *Redaction) (string, []string) {
		t.Helper()
		item, w, err := r.redactItem(dataset.Item{Input: must(textutil.MarshalJSON(map[string]string{"text": text}))})
		if err != nil {
			t.Fatal(err)
		}
		return string(item.Input), w.warnings()
	}
	got, warnings := redact(documented)
	const want = "{\"text\":\"Patient:\u00a0[PATIENT-1], [EMAIL-1]; Patient: [PATIENT-2]; Patient: [PATIENT-3], [EMAIL-2].\"}"
	if got != want || len(warnings) > 0 {
		t.Errorf("%s %q", got, warnings)
	}
	got, warnings = redact(mustRedaction(t, `patterns: [{name: email, regex: '[\w.+-]+@[\w-]+(\.[\w-]+)+'}]`))
	if !strings.Contains(got, "jörg.mü[EMAIL-1]") || len(warnings) != 1 || !strings.Contains(warnings[0], partial) {
		t.Errorf("%s %q", got, warnings)
	}

	s := newServer(t)
	s.correct(s.sendExtraction(0, text, nil), gold("Ada", "London"))
	lost := TraceConfig{Config: Config{Redaction: mustRedaction(t, `patterns: [{name: email, regex: '\w+@\w+'}]`)}}
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, lost)
	if !strings.Contains(fmt.Sprint(result.Report.Warnings), partial) {
		t.Errorf("%+v", result.Report)
	}
	item := map[string]any{"id": "a", "input": map[string]string{"text": text}}
	file := s.mustSeed(string(must(textutil.MarshalJSON(item)))+"\n", Config{Dataset: "file", Redaction: lost.Redaction})
	if !strings.Contains(fmt.Sprint(file.Report.Warnings), partial) {
		t.Errorf("%+v", file.Report)
	}
}
