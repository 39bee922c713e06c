package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"extraction-experiment/outcome"
)

func TestFailureOf(t *testing.T) {
	limited := &outcome.Failure{Class: outcome.RateLimited, Message: "429 from the server"}
	tests := map[string]struct {
		err     error
		class   outcome.Class
		message string
	}{
		"no error is not a failure":         {nil, outcome.OK, ""},
		"a failure keeps its class":         {limited, outcome.RateLimited, "429 from the server"},
		"wrapped once":                      {fmt.Errorf("asking the model: %w", limited), outcome.RateLimited, "asking the model: 429 from the server"},
		"joined with others":                {errors.Join(errors.New("first"), limited), outcome.RateLimited, "first\n429 from the server"},
		"a failure beats the deadline":      {fmt.Errorf("%w: %w", context.DeadlineExceeded, limited), outcome.RateLimited, "context deadline exceeded: 429 from the server"},
		"deadline":                          {fmt.Errorf("chunk 3: %w", context.DeadlineExceeded), outcome.Timeout, "chunk 3: context deadline exceeded"},
		"cancelled is the provider's":       {context.Canceled, outcome.Provider, "context canceled"},
		"anything else":                     {errors.New("connection reset"), outcome.Provider, "connection reset"},
		"a failure without class":           {&outcome.Failure{Message: "odd"}, outcome.Provider, ": odd"},
		"a nil failure in an error":         {nilFailure{}, outcome.Provider, "nil inside"},
		"invalid bytes become replacements": {errors.New("a\xff\xfeb"), outcome.Provider, "a\uFFFDb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := outcome.FailureOf(tt.err, outcome.Provider)
			if got.Class != tt.class || got.Message != tt.message {
				t.Errorf("got %q %q, want %q %q", got.Class, got.Message, tt.class, tt.message)
			}
		})
	}
}

// nilFailure is an error that errors.As turns into a nil *Failure.
type nilFailure struct{}

func (nilFailure) Error() string { return "nil inside" }

func (nilFailure) As(target any) bool {
	failure, ok := target.(**outcome.Failure)
	if ok {
		*failure = nil
	}
	return ok
}

func TestFailureOf_cuts(t *testing.T) {
	// "é" has two bytes and "…" three: 4096-3 = 4093 bytes are left, and
	// byte 4093 is the second half of an é, so 4092 bytes of text remain.
	got := outcome.FailureOf(errors.New(strings.Repeat("é", 3000)), outcome.Provider).Message
	if len(got) != 4092+3 || !utf8.ValidString(got) || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-8:])
	}
	exact := strings.Repeat("x", outcome.MaxMessage)
	if got := outcome.FailureOf(errors.New(exact), outcome.Provider).Message; got != exact {
		t.Error("a message of exactly the limit was changed")
	}
}

func FuzzFailureOf(f *testing.F) {
	f.Add("plain", "provider")
	f.Add(strings.Repeat("日", 2000), "")
	f.Add("\xf0\x9f", "timeout")
	f.Fuzz(func(t *testing.T, message, class string) {
		got := outcome.FailureOf(fmt.Errorf("step: %w", &outcome.Failure{Class: outcome.Class(class), Message: message}), outcome.Provider)
		if got.Class == outcome.OK || len(got.Message) > outcome.MaxMessage || !utf8.ValidString(got.Message) {
			t.Fatalf("class %q, %d bytes, valid %v", got.Class, len(got.Message), utf8.ValidString(got.Message))
		}
	})
}
