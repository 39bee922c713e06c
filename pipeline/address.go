package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Post sends a request to a program behind an address, once, and returns its answer. The error
// is a *ModelError: nothing answered or the answer broke off, the status is not a success (the answer
// is returned, too), or the answer is longer than address.Max (class invalid_output). A connection
// that fails counts as unreached only if the address was never reached: after that it is away for a
// while, and later requests may reach it.
func Post(ctx context.Context, address *proc.Address, request []byte) ([]byte, error) {
	reply, err := address.Ask(ctx, http.MethodPost, request)
	switch {
	case err != nil:
		class := outcome.Provider
		if errors.Is(err, context.DeadlineExceeded) {
			class = outcome.Timeout
		}
		unreached := proc.Unreached(err) && !address.Reached()
		failure := outcome.Failure{Class: class, Message: err.Error()}
		return nil, &ModelError{Failure: failure, Retry: true, Unreached: unreached, Err: err}
	case !reply.OK():
		return reply.Body, statusError(address, reply)
	case reply.Flooded:
		message := fmt.Sprintf("%s answered with more than %d bytes", address.Shown, address.Max)
		return nil, &ModelError{Failure: outcome.Failure{Class: outcome.InvalidOutput, Message: message}, Status: reply.Status}
	}
	return reply.Body, nil
}

// statusError returns the error for a status that is not a success. If the body is a JSON
// object with an "error", that gives class and message; otherwise the status and the beginning
// of the body do.
func statusError(address *proc.Address, reply proc.Reply) error {
	f := outcome.Failure{Class: outcome.Provider}
	switch reply.Status {
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		f.Class = outcome.Timeout
	case http.StatusTooManyRequests:
		f.Class = outcome.RateLimited
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		f.Class = outcome.Item
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(reply.Body, &object) == nil {
		if reported := ReadError(object["error"], f.Class); reported != nil {
			f = *reported
		}
	}
	f.Message = address.Refusal(reply, f.Message)
	return &ModelError{
		Failure: f, Status: reply.Status, Retry: limit.Passing(reply.Status),
		RetryAfter: limit.RetryAfter(reply.Header, time.Now()),
	}
}

// ReadError reads the "error" with which a program or an address answers: an object with class
// and message, or a text. It returns nil if there is no error: absent, null, false or empty.
// The class is fallback if the error states none, an unknown one, or internal, which a pipeline
// cannot report.
func ReadError(raw json.RawMessage, fallback outcome.Class) *outcome.Failure {
	var object struct {
		Class   string `json:"class"`
		Message string `json:"message"`
	}
	switch text := strings.TrimSpace(string(raw)); {
	case text == "" || text == "null" || text == "false":
		return nil
	case json.Unmarshal(raw, &object.Message) == nil, json.Unmarshal(raw, &object) == nil:
	default:
		object.Message = "the pipeline reports an error in a form that is not known: " + textutil.Cut(text, 200)
	}
	class := outcome.Class(strings.ToLower(strings.TrimSpace(object.Class)))
	if class == "" && object.Message == "" {
		return nil
	}
	if class == outcome.Internal || !slices.Contains(outcome.Classes(), class) {
		class = fallback
	}
	message := cmp.Or(object.Message, "the pipeline reports a failure without a message")
	return &outcome.Failure{Class: class, Message: textutil.Cut(message, outcome.MaxMessage)}
}
