package pipeline

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"extraction-experiment/outcome"
)

// MaxMessage bounds the message of a failure, in bytes: a server's error page
// is no reason to store a megabyte with each item.
const MaxMessage = 4 << 10

// ellipsis marks a message that was cut.
const ellipsis = "…"

// Classify says how an extractor's error counts.
//
// The first rule that holds decides: an *outcome.Failure anywhere in the chain
// gives its own class; context.DeadlineExceeded is a timeout; everything else
// is the provider's. A Failure that carries no class falls through to the next
// rules: a failed item must never look like a success. For nil the zero
// Failure is returned.
//
// The message is the text of the whole chain, so that what wrappers added is
// not lost, with the class in front of the Failure's own message removed. It is
// valid UTF-8 (invalid bytes become U+FFFD) and at most MaxMessage bytes, cut
// at a character's border.
func Classify(err error) outcome.Failure {
	if err == nil {
		return outcome.Failure{}
	}
	class, message := outcome.Provider, err.Error()
	var failure *outcome.Failure
	switch {
	case errors.As(err, &failure) && failure != nil && failure.Class != outcome.OK:
		class = failure.Class
		message = strings.Replace(message, failure.Error(), failure.Message, 1)
	case errors.Is(err, context.DeadlineExceeded):
		class = outcome.Timeout
	}
	return outcome.Failure{Class: class, Message: capped(message)}
}

// capped makes a message valid UTF-8 of at most MaxMessage bytes.
func capped(message string) string {
	message = strings.ToValidUTF8(message, string(utf8.RuneError))
	if len(message) <= MaxMessage {
		return message
	}
	end := MaxMessage - len(ellipsis)
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + ellipsis
}
