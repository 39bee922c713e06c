package outcome

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"
)

// MaxMessage bounds the message of a failure, in bytes: a server's error page
// is no reason to store a megabyte with each item.
const MaxMessage = 4 << 10

// Failure is the reason of a failed item, as a person reads it.
type Failure struct {
	Class   Class  `json:"class"`
	Message string `json:"message"`
}

// Error makes a Failure usable as an error, so that whoever knows the class can
// say it: "timeout: no answer within 30s".
func (f *Failure) Error() string { return string(f.Class) + ": " + f.Message }

// FailureOf says how an error counts that failed an item.
//
// The first rule that holds decides: a *Failure anywhere in the chain gives its
// own class; context.DeadlineExceeded is a timeout; everything else has the
// class of the stage that it comes from. A Failure without a class falls
// through: a failed item must never look like a success.
//
// The message is the text of the whole chain, so that what wrappers added is
// not lost, with the class in front of the Failure's own message removed. It is
// valid UTF-8 (invalid bytes become U+FFFD) and at most MaxMessage bytes, cut
// at a character's border. For nil it is the zero Failure.
func FailureOf(err error, stage Class) Failure {
	if err == nil {
		return Failure{}
	}
	class, message := stage, err.Error()
	var failure *Failure
	switch {
	case errors.As(err, &failure) && failure != nil && failure.Class != OK:
		class = failure.Class
		message = strings.Replace(message, failure.Error(), failure.Message, 1)
	case errors.Is(err, context.DeadlineExceeded):
		class = Timeout
	}
	return Failure{Class: class, Message: capped(message)}
}

// capped makes a message valid UTF-8 of at most MaxMessage bytes.
func capped(message string) string {
	const ellipsis = "…"
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
