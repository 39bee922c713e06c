package runs

import (
	"testing"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "36h": 36 * time.Hour, "14d": 14 * 24 * time.Hour} {
		if got, err := ParseAge("base-max-age", text); err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"d", "-1d", "0d", "99999d", "1.5d", "9999999h", "0s", "soon"} {
		if got, err := ParseAge("base-max-age", text); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
}

func TestBase_age(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for want, started := range map[string]time.Time{
		"no time known, dataset version v": {},
		"0 hours old, dataset version v":   now.Add(time.Minute),
		"47 hours old, dataset version v":  now.Add(-47 * time.Hour),
		"2 days old, dataset version v":    now.Add(-49 * time.Hour),
	} {
		base := Base{Header: outcome.Header{Started: started, Dataset: outcome.Dataset{Version: "v"}}}
		if got := base.Age(now); got != want {
			t.Errorf("started %s: %q, want %q", started, got, want)
		}
	}
}

// TestParseLatest: the key branch stands for a column in Langfuse; other keys stay as they are.
func TestParseLatest(t *testing.T) {
	want, err := parseLatest("latest branch=main model=gpt-4o")
	if err != nil || len(want) != 2 || want[metaBranch] != "main" || want["model"] != "gpt-4o" {
		t.Errorf("%v, %v", want, err)
	}
	for _, rule := range []string{"latest main", "latest =main", "latest branch="} {
		if _, err := parseLatest(rule); cli.ExitCode(err) != cli.ExitUsage || !IsRule(rule) {
			t.Errorf("%q: %v", rule, err)
		}
	}
}
