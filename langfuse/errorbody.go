package langfuse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/limit"
)

// maxMessage is the longest message of a server that goes into an error.
const maxMessage = 4 << 10

// errorBody is what the body of a failed answer said.
type errorBody struct {
	message    string
	json, html bool
	tooMuch    bool // the server gave up on the size or the duration
	retryAfter time.Duration
}

// readErrorBody reads the body of a failed answer. Langfuse answers with JSON
// of several shapes, with plain text and with HTML pages; anything is accepted
// and nothing panics.
func readErrorBody(contentType string, body []byte) errorBody {
	body = bytes.TrimSpace(body)
	if looksLikeHTML(contentType, body) {
		return errorBody{html: true}
	}
	var fields struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(body, &fields) != nil {
		return errorBody{message: strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	answer := errorBody{json: true, message: jsonText(fields.Message)}
	for _, raw := range []json.RawMessage{fields.Error, fields.Errors} {
		detail := jsonText(raw)
		if detail == "PayloadTooLargeError" || detail == "Request timed out" {
			answer.tooMuch = true
		}
		// A lone word beside a message is the name of an error class: no news.
		if detail == "" || answer.message != "" && !strings.ContainsAny(detail, " :") {
			continue
		}
		answer.message = strings.TrimPrefix(answer.message+": "+detail, ": ")
	}
	if answer.message == "" {
		answer.message = string(body)
	}
	// A value that is no string is repeated as the bytes that came.
	answer.message = strings.ToValidUTF8(answer.message, "\uFFFD")
	var details struct {
		RetryAfterSeconds Number `json:"retryAfterSeconds"`
	}
	if json.Unmarshal(fields.Details, &details) == nil {
		answer.retryAfter = limit.Pause(float64(details.RetryAfterSeconds))
	}
	return answer
}

// jsonText makes a value of a failed answer readable: strings as they are,
// lists of validation issues as "path: message; …", the rest as JSON.
func jsonText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var issues []struct {
		Path    []any  `json:"path"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &issues) != nil {
		return string(raw)
	}
	var out []string
	for _, issue := range issues {
		var path []string
		for _, step := range issue.Path {
			path = append(path, fmt.Sprint(step))
		}
		out = append(out, strings.TrimPrefix(strings.Join(path, ".")+": "+issue.Message, ": "))
	}
	return strings.Join(out, "; ")
}

// looksLikeHTML reports whether an answer is a web page.
func looksLikeHTML(contentType string, body []byte) bool {
	if strings.Contains(strings.ToLower(contentType), "text/html") {
		return true
	}
	start := bytes.ToLower(bytes.TrimSpace(body[:min(len(body), 256)]))
	return bytes.HasPrefix(start, []byte("<!doctype")) || bytes.HasPrefix(start, []byte("<html"))
}

// cutText makes text valid UTF-8 of at most limit bytes, cut at the edge of a
// character.
func cutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
