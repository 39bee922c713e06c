package langfuse

import (
	"fmt"
	"strings"
)

// Mode is where a server keeps runs.
type Mode string

// The modes of a server, as far as they can be told from outside.
const (
	// ModeEventsOnly is v4's default: runs exist through the attributes of
	// spans only; traces, runs and run items have no endpoints.
	ModeEventsOnly Mode = "events_only"
	// ModeDual keeps both worlds.
	ModeDual Mode = "dual"
	// ModeLegacy is v3: runs exist through run items only.
	ModeLegacy Mode = "legacy"
)

// ModeError says that a text names no mode.
type ModeError struct{ Text string }

// Error lists the modes.
func (e *ModeError) Error() string {
	return fmt.Sprintf("%q is no mode of Langfuse: use v4 (%s), v4-dual (%s, which keeps v3's tables too), v3 (%s) or auto",
		cutText(e.Text, 40), ModeEventsOnly, ModeDual, ModeLegacy)
}

// ExitCode returns 64.
func (*ModeError) ExitCode() int { return 64 }

// ParseMode reads a mode as a person writes it: events_only or v4, dual or
// v4-dual, legacy or v3, in any case. Nothing and "auto" are no mode (""): the
// server is asked. Anything else is a *ModeError.
func ParseMode(text string) (Mode, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "", "auto":
		return "", nil
	case "events_only", "events-only", "v4":
		return ModeEventsOnly, nil
	case "dual", "v4-dual":
		return ModeDual, nil
	case "legacy", "v3":
		return ModeLegacy, nil
	}
	return "", &ModeError{text}
}

// Mode returns the mode that the readable endpoints point to.
func (c Capabilities) Mode() Mode {
	switch {
	case c.NewReads && c.LegacyReads:
		return ModeDual
	case c.NewReads:
		return ModeEventsOnly
	}
	return ModeLegacy
}

// WithMode returns the capabilities with the reads of a mode, whatever the
// server was found to offer; the mode "" changes nothing. A read that the server
// does not have then fails with ErrEndpointGone.
func (c Capabilities) WithMode(mode Mode) Capabilities {
	if mode != "" {
		c.NewReads = mode == ModeEventsOnly || mode == ModeDual
		c.LegacyReads = mode == ModeDual || mode == ModeLegacy
	}
	return c
}

// View is one of the two places in which Langfuse shows a run.
type View string

// The views of a run.
const (
	// ViewRuns is the dataset's list of runs, made of run items (links).
	ViewRuns View = "runs"
	// ViewExperiments is v4's list of experiments, made of root spans.
	ViewExperiments View = "experiments"
)

// Views returns the views that a server has: a run must be complete in each.
func (c Capabilities) Views() []View {
	var views []View
	if c.LegacyReads {
		views = append(views, ViewRuns)
	}
	if c.NewReads {
		views = append(views, ViewExperiments)
	}
	return views
}
