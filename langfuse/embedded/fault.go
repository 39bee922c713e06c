package embedded

import (
	"fmt"
	"net/http"
)

// fault is an answer that blames the request. It is a JSON body, or else a
// text, which is an HTML page where html is set.
type fault struct {
	status int
	body   object
	text   string
	html   bool
}

// Error describes the answer.
func (f *fault) Error() string {
	if f.body == nil {
		return fmt.Sprintf("%d %s", f.status, f.text)
	}
	return fmt.Sprintf("%d %v", f.status, f.body)
}

func (f *fault) write(w http.ResponseWriter) {
	if f.body != nil {
		writeJSON(w, f.status, f.body)
		return
	}
	kind := "text/plain; charset=utf-8"
	if f.html {
		kind = "text/html; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(f.status)
	_, _ = w.Write([]byte(f.text))
}

// issue is one finding about one field, in the shape of Langfuse's validator.
type issue struct {
	Code    string   `json:"code"`
	Path    []any    `json:"path"`
	Message string   `json:"message"`
	Keys    []string `json:"keys,omitempty"`
}

func badData(issues ...issue) *fault {
	return &fault{status: http.StatusBadRequest, body: object{"message": "Invalid request data", "error": issues}}
}

func badQuery(key, message string) *fault {
	return badData(issue{Code: "custom", Path: []any{key}, Message: message})
}

func invalid(format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest,
		body: object{"message": fmt.Sprintf(format, args...), "error": "InvalidRequestError"}}
}

func notFound(format string, args ...any) *fault {
	return &fault{status: http.StatusNotFound,
		body: object{"message": fmt.Sprintf(format, args...), "error": "LangfuseNotFoundError"}}
}

func conflict(format string, args ...any) *fault {
	return &fault{status: http.StatusConflict,
		body: object{"message": fmt.Sprintf(format, args...), "error": "LangfuseConflictError"}}
}

func plain(status int, text string) *fault {
	return &fault{status: status, text: text}
}
