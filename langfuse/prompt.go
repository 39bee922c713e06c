package langfuse

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The types of a prompt.
const (
	PromptText = "text"
	PromptChat = "chat"
)

// defaultPromptLabel is the label that Langfuse uses if neither a label nor a version is given.
const defaultPromptLabel = "production"

// Prompt is one version of a prompt. The server resolves references to other prompts. The
// caller replaces variables ({{name}}) and placeholders, for example with pipeline.Compile.
type Prompt struct {
	Name          string          `json:"name"`
	Version       int             `json:"version,omitempty"`
	Type          string          `json:"type"`   // PromptText or PromptChat; the same for all versions
	Prompt        json.RawMessage `json:"prompt"` // a string, or a list of PromptMessage: see pipeline.ParseChat
	Config        json.RawMessage `json:"config,omitempty"`
	Labels        []string        `json:"labels,omitempty"` // a new version takes its labels from other versions
	Tags          []string        `json:"tags,omitempty"`
	CommitMessage string          `json:"commitMessage,omitempty"`
}

// PromptMessage is one message of a chat prompt, or a placeholder for messages. A placeholder
// has the Type "placeholder" and a Name.
type PromptMessage struct {
	Type    string `json:"type,omitempty"`
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Text returns the text of a text prompt. A chat prompt is an error.
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

// PromptRef identifies a version of a prompt by Label or by Version. Without both, it is the
// version with the label production.
type PromptRef struct {
	Name    string
	Label   string
	Version int
}

// GetPrompt returns one version of a prompt. If the name is not safe in a path ("." or "..", or
// with a slash or backslash), GetPrompt sends it in the query, which takes one more request
// unless a version is given. Retried; errors: ErrNotFound (its message includes the label or
// version), *APIError, *ConnectionError.
//
// API: GET /api/public/v2/prompts/{name}; GET /api/public/v2/prompts and GET
// /api/public/prompts for the other names
func (c *Client) GetPrompt(ctx context.Context, ref PromptRef) (Prompt, error) {
	if ref.Name == "" || ref.Label != "" && ref.Version != 0 || ref.Version < 0 {
		return Prompt{}, usageError("prompt %q, label %q, version %d: a name is needed, with a label or a version, "+
			"not both", ref.Name, ref.Label, ref.Version)
	}
	query := url.Values{}
	// The server decodes percent signs in this path once, not twice as in the path of datasets.
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
	// The server decodes the name once more after it has decoded the query.
	query.Set("name", strings.ReplaceAll(ref.Name, "%", "%25"))
	query.Set("version", strconv.Itoa(ref.Version))
	return call[Prompt](ctx, c, get("prompts", query), nil, "prompt %q", ref.Name)
}

// labelledVersion returns the version with a label. It does not send the name in a path.
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

// PromptSummary is a prompt with the versions that ListPrompts selected.
type PromptSummary struct {
	Name          string    `json:"name"`
	Type          string    `json:"type"`
	Versions      []int     `json:"versions"`
	Labels        []string  `json:"labels"` // of all Versions
	Tags          []string  `json:"tags"`
	LastUpdatedAt time.Time `json:"lastUpdatedAt"`
}

// ListPrompts yields the prompts with a name and a label; "" selects all. Retried; the first
// error ends the iteration.
//
// API: GET /api/public/v2/prompts
func (c *Client) ListPrompts(ctx context.Context, name, label string) iter.Seq2[PromptSummary, error] {
	query := url.Values{}
	setText(query, "name", name)
	setText(query, "label", label)
	return listPages[PromptSummary](ctx, c, "v2/prompts", query, 0)
}

// CreatePrompt stores the next version of a prompt, whose number the server sets, and returns
// it. Not safe to repeat, because every call creates a version; retried only after 429. Errors:
// *APIError, *ConnectionError (use ListPrompts to check whether the version exists).
//
// API: POST /api/public/v2/prompts
func (c *Client) CreatePrompt(ctx context.Context, prompt Prompt) (Prompt, error) {
	prompt.Version = 0
	return call[Prompt](ctx, c, postOnce("v2/prompts"), prompt, "prompt %q", prompt.Name)
}

// SetPromptLabels sets the labels of one version. A label of another version moves to this
// version. Safe to repeat; retried. Errors: ErrNotFound, *APIError, *ConnectionError.
//
// API: PATCH /api/public/v2/prompts/{name}/versions/{version}
func (c *Client) SetPromptLabels(ctx context.Context, name string, version int, labels []string) (Prompt, error) {
	if version < 1 {
		return Prompt{}, usageError("setting labels of prompt %q needs a version from 1, not %d", name, version)
	}
	if labels == nil {
		labels = []string{}
	}
	body := map[string][]string{"newLabels": labels}
	r := request{method: http.MethodPatch, path: fmt.Sprintf("v2/prompts/%s/versions/%d", url.PathEscape(name), version)}
	return call[Prompt](ctx, c, r, body, "labels of prompt %s@%d", name, version)
}
