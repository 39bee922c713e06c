package exchange

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/retryafter"
)

// Reason is what the body of a failed answer says.
type Reason struct {
	// Text is the server's message: the text of an error object, else the body
	// itself. Valid UTF-8, of any length; empty for an empty body or a page.
	Text string
	// Codes are the short words that stand beside the message, such as
	// "insufficient_quota" or "API_KEY_INVALID".
	Codes []string
	// Stated says that the body is JSON with an error in it.
	Stated bool
	// HTML says that the body is a web page.
	HTML bool
	// RetryDelay is the pause that a google.rpc.RetryInfo asks for, in
	// [0, 24 h].
	RetryDelay time.Duration
}

// Has reports whether the server said the code, in any case of letters.
func (r Reason) Has(code string) bool {
	for _, c := range r.Codes {
		if strings.EqualFold(c, code) {
			return true
		}
	}
	return false
}

// reasonFields are the members that servers put their errors into: OpenAI and
// Azure {"error":{"message","code","type"}}, Google {"error":{"message",
// "status","details"}} also as the only element of a list, FastAPI {"detail"},
// others {"error":"text"} or {"message"}.
type reasonFields struct {
	Error, Message, Detail, Code, Type, Status, Reason, Details json.RawMessage
	Kind                                                        json.RawMessage `json:"@type"`
	RetryDelay                                                  json.RawMessage
	InnerError                                                  json.RawMessage
}

// ReadReason reads the body of a failed answer. Anything is accepted; time and
// memory are O(len(body)).
func ReadReason(contentType string, body []byte) Reason {
	body = bytes.TrimSpace(body)
	if looksLikeHTML(contentType, body) {
		return Reason{HTML: true}
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var reason Reason
	var top reasonFields
	if json.Unmarshal(body, &top) == nil {
		reason.read(top)
	}
	if reason.Text == "" {
		reason.Text = string(body)
	}
	reason.Text = strings.ToValidUTF8(reason.Text, string(utf8.RuneError))
	return reason
}

// read takes what an error object says, or the object around it.
func (r *Reason) read(top reasonFields) {
	fields := top
	if len(top.Error) > 0 && string(top.Error) != "null" {
		r.Stated = true
		fields = reasonFields{}
		// A text is no object: it is taken below.
		if json.Unmarshal(top.Error, &fields) != nil {
			fields = reasonFields{Message: top.Error, Code: top.Code, Type: top.Type}
		}
	}
	for _, raw := range []json.RawMessage{fields.Message, fields.Detail, top.Message, fields.Error} {
		if text := textOf(raw); text != "" && r.Text == "" {
			r.Text = text
		}
	}
	r.codes(fields.Code, fields.Type, fields.Status)
	var inner reasonFields
	if json.Unmarshal(fields.InnerError, &inner) == nil {
		r.codes(inner.Code)
	}
	var details []json.RawMessage
	if json.Unmarshal(fields.Details, &details) != nil {
		return
	}
	for _, raw := range details {
		var detail reasonFields
		if json.Unmarshal(raw, &detail) != nil {
			continue
		}
		r.codes(detail.Reason)
		if strings.HasSuffix(textOf(detail.Kind), "google.rpc.RetryInfo") {
			r.RetryDelay = max(r.RetryDelay, protoDuration(textOf(detail.RetryDelay)))
		}
	}
}

func (r *Reason) codes(values ...json.RawMessage) {
	for _, raw := range values {
		if text := textOf(raw); text != "" && len(text) <= 100 {
			r.Codes = append(r.Codes, text)
		}
	}
}

// textOf returns a JSON string's text, a list of strings joined, and the JSON
// itself for anything else that is not null.
func textOf(raw json.RawMessage) string {
	var text string
	var texts []string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &text) == nil:
		return strings.TrimSpace(text)
	case json.Unmarshal(raw, &texts) == nil:
		return strings.Join(texts, ", ")
	}
	return string(raw)
}

// protoDuration reads "3.5s".
func protoDuration(text string) time.Duration {
	number, ok := strings.CutSuffix(text, "s")
	seconds, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		return 0
	}
	return retryafter.Seconds(seconds)
}

// looksLikeHTML reports whether an answer is a web page.
func looksLikeHTML(contentType string, body []byte) bool {
	if strings.Contains(strings.ToLower(contentType), "text/html") {
		return true
	}
	start := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 256)]))
	return bytes.HasPrefix(start, []byte("<!doctype")) || bytes.HasPrefix(start, []byte("<html"))
}
