package configs

import (
	"errors"
	"fmt"
	"strings"
)

// maxName is the longest name of a model or pattern, in bytes.
const maxName = 200

// ranked returns the patterns of rows that match a name, best first: the exact
// name, then the patterns that end in *, longer ones before shorter ones.
func ranked[T any](rows map[string]T, name string) []T {
	var found []T
	if row, ok := rows[name]; ok && !strings.HasSuffix(name, "*") {
		found = append(found, row)
	}
	for end := min(len(name), maxName); end >= 0; end-- {
		if row, ok := rows[name[:end]+"*"]; ok {
			found = append(found, row)
		}
	}
	return found
}

// checkPattern says what is wrong with a model's name or pattern.
func checkPattern(pattern string) error {
	switch {
	case strings.TrimSpace(pattern) != pattern || pattern == "":
		return fmt.Errorf("the name %q is empty or has space around it", pattern)
	case len(pattern) > maxName:
		return fmt.Errorf("the name %.40q… is longer than %d bytes", pattern, maxName)
	case strings.Contains(strings.TrimSuffix(pattern, "*"), "*"):
		return fmt.Errorf("the name %q has a * that is not its last character", pattern)
	}
	return nil
}

// join names the file in front of all its problems; nil if there are none.
func join(where string, problems []error) error {
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("reading %s: %w", where, err)
	}
	return nil
}
