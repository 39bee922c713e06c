package langfuse

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// ingestionAnswer is the body of a 207.
type ingestionAnswer struct {
	Successes []struct {
		ID string `json:"id"`
	} `json:"successes"`
	Errors []struct {
		ID      string          `json:"id"`
		Status  Number          `json:"status"`
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
	} `json:"errors"`
}

// states returns what became of each event by its envelope's id. An event that
// is in both lists counts as failed; statuses that may pass with time (408,
// 429, 5xx) are unknown, the others refused.
func (a ingestionAnswer) states() map[string]ScoreResult {
	states := make(map[string]ScoreResult, len(a.Successes)+len(a.Errors))
	for _, success := range a.Successes {
		states[success.ID] = ScoreResult{State: ScoreAccepted}
	}
	for _, failure := range a.Errors {
		status := int(max(0, min(failure.Status, 999)))
		state := ScoreRefused
		if status < 400 || status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests {
			state = ScoreUnknown
		}
		text := jsonText(failure.Message)
		if detail := jsonText(failure.Error); detail != "" && detail != text && detail != "null" {
			text += ": " + detail
		}
		states[failure.ID] = ScoreResult{State: state, Err: fmt.Errorf("%d: %s", status, cutText(text, maxMessage))}
	}
	return states
}
