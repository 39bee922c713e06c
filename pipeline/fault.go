package pipeline

import (
	"extraction-experiment/internal/exchange"
	"extraction-experiment/outcome"
)

// FaultError puts the fault of an exchange over HTTP into the words of models.
func FaultError(f exchange.Fault) *ModelError {
	class := outcome.Provider
	switch f.Kind {
	case exchange.Limited:
		class = outcome.RateLimited
	case exchange.TimedOut:
		class = outcome.Timeout
	case exchange.Unsent:
		class = outcome.Internal
	}
	return &ModelError{
		Failure: outcome.Failure{Class: class, Message: f.Message},
		Status:  f.Status, RetryAfter: f.RetryAfter, Retry: f.Retry, Unreached: f.Unreached,
	}
}
