package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// endpoint is a peer that is asked over HTTP.
type endpoint struct {
	*proc.Address
	cfg Config
}

// isAddress reports whether a target is an address rather than a command.
func isAddress(target string) bool {
	head, _, _ := strings.Cut(strings.TrimSpace(target), " ")
	return strings.Contains(head, "://")
}

func (e *endpoint) Target() string { return e.Shown }

func (e *endpoint) Reached() bool { return e.Met() }

func (e *endpoint) ask(ctx context.Context, request []byte) ([]byte, error) {
	reply, err := e.Ask(ctx, http.MethodPost, request)
	switch {
	case err != nil:
		class := outcome.Provider
		var network net.Error // which a context's deadline is as well
		if errors.As(err, &network) && network.Timeout() {
			class = outcome.Timeout
		}
		return nil, fail(class, true, err.Error(), err)
	case !reply.OK():
		return nil, e.refused(reply)
	case reply.Flooded:
		return nil, fail(outcome.InvalidOutput, false, fmt.Sprintf("%s answered with more than %d bytes", e.Shown, e.cfg.MaxAnswer), nil)
	}
	answer := bytes.TrimSpace(reply.Body)
	if err := checkAnswer(request, answer); err != nil {
		return nil, fail(outcome.InvalidOutput, false, fmt.Sprintf("%s answered %q: %v", e.Shown, textutil.Cut(string(answer), 500), err), err)
	}
	return answer, nil
}

// refused makes the error for a status that is no success. A JSON body with an
// "error" says its class and message; otherwise the status and the beginning of
// the body do.
func (e *endpoint) refused(reply proc.Reply) error {
	f := outcome.Failure{Class: classOf(reply.Status)}
	var object map[string]json.RawMessage
	if json.Unmarshal(reply.Body, &object) == nil {
		if said := readError(object["error"], f.Class); said != nil {
			f = *said
		}
	}
	f.Message = e.Refusal(reply, f.Message)
	return &pipeline.ModelError{
		Failure: f, Status: reply.Status, Retry: limit.Passing(reply.Status),
		RetryAfter: limit.RetryAfter(reply.Header, e.cfg.Now()),
	}
}

// classOf is the class of a status whose body says no other.
func classOf(status int) outcome.Class {
	switch status {
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return outcome.Timeout
	case http.StatusTooManyRequests:
		return outcome.RateLimited
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return outcome.Item
	default:
		return outcome.Provider
	}
}
