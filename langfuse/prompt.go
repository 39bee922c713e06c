package langfuse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The two forms of a prompt.
const (
	PromptText = "text"
	PromptChat = "chat"
)

// defaultPromptLabel is what Langfuse serves when neither label nor version is
// asked for.
const defaultPromptLabel = "production"

// Prompt is one version of a prompt. References to other prompts are resolved
// by the server; variables ({{name}}) are left for the caller.
type Prompt struct {
	Name          string          `json:"name"`
	Version       int             `json:"version,omitempty"`
	Type          string          `json:"type"`   // PromptText or PromptChat; fixed by the first version
	Prompt        json.RawMessage `json:"prompt"` // a string, or a list of PromptMessage
	Config        json.RawMessage `json:"config,omitempty"`
	Labels        []string        `json:"labels,omitempty"` // of a new version: taken away from others
	Tags          []string        `json:"tags,omitempty"`
	CommitMessage string          `json:"commitMessage,omitempty"`
}

// PromptMessage is one message of a chat prompt, or a placeholder for some: then
// Type is "placeholder" and Name its name.
type PromptMessage struct {
	Type    string `json:"type,omitempty"`
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Text returns the text of a text prompt.
func (p Prompt) Text() (string, error) {
	var text string
	if p.Type == PromptChat {
		return "", fmt.Errorf("prompt %s@%d is a chat prompt, not a text", p.Name, p.Version)
	}
	if err := json.Unmarshal(p.Prompt, &text); err != nil {
		return "", fmt.Errorf("prompt %s@%d: reading its text: %w", p.Name, p.Version, err)
	}
	return text, nil
}

// PromptRef says which version of a prompt is meant: by Label, or by Version, or
// with neither the one labelled production.
type PromptRef struct {
	Name    string
	Label   string
	Version int
}

// GetPrompt returns one version of a prompt. A name that cannot be used safely in
// a path (with a slash or a backslash) is asked for by query instead, which takes
// one request more for a label. Retried; errors: ErrNotFound (its message
// says whether the label or the version is missing), *APIError,
// *ConnectionError.
//
// API: GET /api/public/v2/prompts/{name}; GET /api/public/v2/prompts and
// GET /api/public/prompts for the other names
func (c *Client) GetPrompt(ctx context.Context, ref PromptRef) (Prompt, error) {
	if ref.Name == "" || ref.Label != "" && ref.Version != 0 || ref.Version < 0 {
		return Prompt{}, fmt.Errorf("langfuse: prompt %q, label %q, version %d: a name is needed, with a label or a version, not both",
			ref.Name, ref.Label, ref.Version)
	}
	query := url.Values{}
	// Unlike that of datasets, this path decodes percent signs once.
	if pathSafe(strings.ReplaceAll(ref.Name, "%", "")) {
		setText(query, "label", ref.Label)
		if ref.Version > 0 {
			query.Set("version", strconv.Itoa(ref.Version))
		}
		return call[Prompt](ctx, c, get("v2/prompts/"+url.PathEscape(ref.Name), query), nil, "prompt %q", ref.Name)
	}
	if ref.Version == 0 {
		var err error
		if ref.Version, err = c.labelledVersion(ctx, ref.Name, cmp.Or(ref.Label, defaultPromptLabel)); err != nil {
			return Prompt{}, fmt.Errorf("prompt %q: %w", ref.Name, err)
		}
	}
	// This route decodes the name once more after the query.
	query.Set("name", strings.ReplaceAll(ref.Name, "%", "%25"))
	query.Set("version", strconv.Itoa(ref.Version))
	return call[Prompt](ctx, c, get("prompts", query), nil, "prompt %q", ref.Name)
}

// labelledVersion finds the version that carries a label, without the name in a
// path.
func (c *Client) labelledVersion(ctx context.Context, name, label string) (int, error) {
	for summary, err := range c.ListPrompts(ctx, name, label) {
		if err != nil {
			return 0, err
		}
		if summary.Name == name && len(summary.Versions) > 0 {
			return slices.Max(summary.Versions), nil
		}
	}
	return 0, fmt.Errorf("%w with label %q", ErrNotFound, label)
}

// PromptSummary is one prompt with the versions that were asked for.
type PromptSummary struct {
	Name          string    `json:"name"`
	Type          string    `json:"type"`
	Versions      []int     `json:"versions"`
	Labels        []string  `json:"labels"` // of all listed versions
	Tags          []string  `json:"tags"`
	LastUpdatedAt time.Time `json:"lastUpdatedAt"`
}

// ListPrompts yields the prompts of that name and with that label; "" is any. Retried; the first error ends the
// iteration.
//
// API: GET /api/public/v2/prompts
func (c *Client) ListPrompts(ctx context.Context, name, label string) iter.Seq2[PromptSummary, error] {
	query := url.Values{}
	setText(query, "name", name)
	setText(query, "label", label)
	return listPages[PromptSummary](ctx, c, "v2/prompts", query, 0)
}

// CreatePrompt stores the next version of a prompt, which the server numbers, and
// returns it. Not safe to
// repeat: each call makes a version, so it is sent again only when the server
// refused it unread (429). Errors: *APIError, *ConnectionError; after the
// latter look with ListPrompts whether the version exists.
//
// API: POST /api/public/v2/prompts
func (c *Client) CreatePrompt(ctx context.Context, prompt Prompt) (Prompt, error) {
	prompt.Version = 0
	r := request{method: http.MethodPost, path: "v2/prompts", once: true}
	return call[Prompt](ctx, c, r, prompt, "prompt %q", prompt.Name)
}

// SetPromptLabels sets the labels of one version; a label that another version
// had moves here. Safe to repeat; retried. Errors: ErrNotFound, *APIError,
// *ConnectionError.
//
// API: PATCH /api/public/v2/prompts/{name}/versions/{version}
func (c *Client) SetPromptLabels(ctx context.Context, name string, version int, labels []string) (Prompt, error) {
	if name == "" || name == "." || name == ".." || version < 1 {
		return Prompt{}, errors.New("langfuse: setting labels needs the name of a prompt and a version from 1")
	}
	if labels == nil {
		labels = []string{}
	}
	body := map[string][]string{"newLabels": labels}
	r := request{method: http.MethodPatch, path: fmt.Sprintf("v2/prompts/%s/versions/%d", url.PathEscape(name), version)}
	return call[Prompt](ctx, c, r, body, "labels of prompt %s@%d", name, version)
}
