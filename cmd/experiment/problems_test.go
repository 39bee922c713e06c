package main

import (
	"errors"
	"testing"

	"extraction-experiment/internal/cli"
)

// TestDistinct: what is said already is left out, unless it decides the exit
// code.
func TestDistinct(t *testing.T) {
	full := errors.New("no space left")
	for name, tt := range map[string]struct {
		problems []error
		kept     int
	}{
		"said already":      {[]error{cli.Errorf(cli.ExitIO, "writing: %w", full), nil, cli.Errorf(cli.ExitIO, "%w", full)}, 1},
		"said later":        {[]error{full, cli.Errorf(cli.ExitIO, "writing: %w", full)}, 2},
		"a worse exit code": {[]error{cli.Errorf(cli.ExitInterrupted, "stopped: %w", full), cli.Errorf(cli.ExitIO, "%w", full)}, 2},
	} {
		got := distinct(tt.problems)
		if len(got) != tt.kept || cli.ExitCode(errors.Join(got...)) != cli.ExitIO {
			t.Errorf("%s: %q", name, got)
		}
	}
}
