package seed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/dataset"
)

// Selection says which traces are seeded: those of IDs, or all that satisfy
// every other field. Empty fields select all.
type Selection struct {
	IDs []string

	Tags         []string // every one
	Name         string   // of the trace, on v4 also of its root
	Environment  string
	Since, Until time.Time // of the trace's start: [Since, Until)
	// Queue is the name or id of an annotation queue: the objects of its
	// completed items.
	Queue string
	// Scores must all be held by some score of the trace or its observations.
	Scores []ScoreRule

	// Limit takes the first so many (of ids as given, else the newest first); 0 all.
	Limit int
	// Sample draws so many of those at random; 0 takes all. The same Seed draws
	// the same of the same traces.
	Sample int
	Seed   uint64
	// Stratify is a path in the metadata of traces, such as "category": the
	// traces drawn are spread over its values as the selected ones are.
	Stratify string
}

// byIDs reports whether the traces are named one by one.
func (s Selection) byIDs() bool { return len(s.IDs) > 0 }

// filters reports whether anything has to be asked of the traces themselves.
func (s Selection) filters() bool {
	return len(s.Tags) > 0 || s.Name != "" || s.Environment != "" || !s.Since.IsZero() || !s.Until.IsZero()
}

func (s Selection) validate() error {
	var problems []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	narrowed := s.filters() || s.Queue != "" || len(s.Scores) > 0
	wrong(s.byIDs() && narrowed, "traces are named by id or selected by what they are like, not both")
	wrong(!s.byIDs() && !narrowed, "no trace is named, and nothing says which ones are meant")
	wrong(s.Limit < 0 || s.Sample < 0, "limit and sample must not be negative")
	wrong(!s.Since.IsZero() && !s.Until.IsZero() && !s.Since.Before(s.Until), "since is not before until")
	wrong(s.Stratify != "" && s.Sample == 0, "stratify says how a sample is spread: give the size of the sample as well")
	if s.Stratify != "" {
		_, err := s.stratum()
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return &exitError{err, 64}
	}
	return nil
}

// stratum is the path of Stratify, below metadata.
func (s Selection) stratum() (Path, error) {
	return ParsePath(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(s.Stratify, "$."), "trace."), "metadata."))
}

// candidate is a trace that was selected.
type candidate struct {
	id      string
	stratum string
	bad     error // why it cannot be read at all
}

// candidates returns the traces selected, each once, and what there is to say about
// those that were named twice.
func (r *reader) candidates(ctx context.Context, s Selection) ([]candidate, []Finding, error) {
	if !s.byIDs() {
		list, findings, err := r.search(ctx, s)
		if err != nil {
			return nil, nil, fmt.Errorf("selecting traces: %w", err)
		}
		return list, findings, nil
	}
	seen := map[string]bool{}
	var list []candidate
	var repeated []Finding
	for _, id := range s.IDs {
		if seen[id] {
			repeated = append(repeated, Finding{Kind: Repeated, File: traceLabel(id), Message: "is named more than once; it is seeded once"})
			continue
		}
		seen[id] = true
		list = append(list, candidate{id: id, bad: validTraceID(id)})
		if s.Limit > 0 && len(list) == s.Limit {
			break
		}
	}
	return list, repeated, nil
}

// traceLabel names a trace where a finding of a file names the file.
func traceLabel(id string) string {
	if utf8.RuneCountInString(id) > 80 {
		return "trace " + string([]rune(id)[:80]) + "…"
	}
	return "trace " + id
}

// validTraceID refuses what cannot be the id of a trace. Langfuse takes any text
// for one; what is refused here are slips of a person.
func validTraceID(id string) error {
	err := dataset.ValidID(id)
	switch {
	case err != nil:
		return refuse(BadTraceID, "", "is no trace id: it %v", err)
	case strings.ContainsAny(id, " \t\n/\\?#%&,\"<>"):
		return refuse(BadTraceID, "", "is no trace id: it has characters that no id has; ids of OpenTelemetry are 32 of 0-9a-f")
	}
	return nil
}
