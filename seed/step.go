package seed

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// step is one part of a path: a key, an index, a test or all elements.
type step struct {
	kind  stepKind
	key   string
	value string // of a test
	index int
}

type stepKind int

const (
	stepKey stepKind = iota
	stepIndex
	stepTest
	stepAll
)

// parseBracket reads what stands in brackets, the first one gone.
func parseBracket(text string) (step, string, error) {
	if quote := text[:min(1, len(text))]; quote == `"` || quote == "'" {
		key, rest, closed := strings.Cut(text[1:], quote+"]")
		if !closed {
			return step{}, "", fmt.Errorf("a %s] is missing", quote)
		}
		return step{kind: stepKey, key: key}, rest, nil
	}
	inside, rest, closed := strings.Cut(text, "]")
	if !closed {
		return step{}, "", errors.New("a ] is missing")
	}
	if inside == "*" {
		return step{kind: stepAll}, rest, nil
	}
	if test, ok := strings.CutPrefix(inside, "?"); ok {
		key, value, found := strings.Cut(test, "=")
		if key = strings.TrimSpace(key); !found || key == "" {
			return step{}, "", fmt.Errorf("[?%s]: expected a test such as [?role=user]", test)
		}
		return step{kind: stepTest, key: key, value: strings.Trim(strings.TrimPrefix(value, "="), ` "'`)}, rest, nil
	}
	n, err := strconv.Atoi(inside)
	if err != nil {
		return step{}, "", fmt.Errorf("[%s]: expected a number, *, a quoted key or a test such as [?role=user]", inside)
	}
	return step{kind: stepIndex, index: n}, rest, nil
}

// take makes one step; opened values only.
func (s step) take(from any) (any, bool) {
	if s.kind == stepKey {
		object, _ := from.(map[string]any)
		value, ok := object[s.key]
		return value, ok
	}
	list, _ := from.([]any)
	if s.kind == stepTest {
		i := slices.IndexFunc(list, s.holds)
		if i < 0 {
			return nil, false
		}
		return list[i], true
	}
	i := s.index
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil, false
	}
	return list[i], true
}

func (s step) holds(element any) bool {
	object, _ := opened(element).(map[string]any)
	value, ok := object[s.key]
	return ok && spelled(value) == s.value
}
