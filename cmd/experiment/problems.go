package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
)

// problems collects what is wrong with the settings.
type problems struct{ found []error }

func (p *problems) add(format string, args ...any) {
	p.found = append(p.found, fmt.Errorf(format, args...))
}

func (p *problems) err(err error) {
	if err != nil {
		p.found = append(p.found, err)
	}
}

// toggle reads a switch, which the environment may write as 1 or true.
func (p *problems) toggle(s settings, flag string) bool {
	text := s.text(flag)
	on, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		p.add("%s: %q is neither true nor false", s[flag].from, text)
	}
	return on
}

func (p *problems) count(flag, text string, low, high int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		p.add("--%s: %q is not a whole number from %d to %d", flag, text, low, high)
	}
	return n
}

func (p *problems) duration(flag, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		p.add("--%s: %q is not a time such as 90s, 2m or 1m30s", flag, text)
	}
	return d
}

func (p *problems) pairs(flag string, words []string) map[string]string {
	pairs := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || strings.TrimSpace(key) == "" {
			p.add("--%s: %q is not of the form key=value", flag, word)
			continue
		}
		if _, twice := pairs[key]; twice {
			p.add("--%s: the key %q is given twice", flag, key)
		}
		pairs[key] = value
	}
	return pairs
}

// distinct leaves out what an earlier error says already: a disk that fails is
// met by everybody who writes. An error that changes the exit code stays.
func distinct(problems []error) []error {
	var kept []error
	for _, err := range problems {
		if err == nil {
			continue
		}
		said := slices.ContainsFunc(kept, func(earlier error) bool { return strings.Contains(earlier.Error(), err.Error()) })
		with := append(slices.Clip(kept), err)
		if !said || cli.ExitCode(errors.Join(with...)) != cli.ExitCode(errors.Join(kept...)) {
			kept = with
		}
	}
	return kept
}

// separate returns what errors.Join joined.
func separate(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// withCode gives a refused configuration exit code 64 where it has none.
func withCode(err error) error { return cli.WithCode(cli.ExitUsage, err) }
