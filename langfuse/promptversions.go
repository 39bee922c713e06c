package langfuse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// PromptCreate is a new version of a prompt.
type PromptCreate struct {
	Name          string          `json:"name"`
	Type          string          `json:"type"`   // PromptText or PromptChat; fixed by the first version
	Prompt        json.RawMessage `json:"prompt"` // a string, or a list of PromptMessage
	Config        json.RawMessage `json:"config,omitempty"`
	Labels        []string        `json:"labels,omitempty"` // taken away from other versions
	Tags          []string        `json:"tags,omitempty"`
	CommitMessage string          `json:"commitMessage,omitempty"`
}

// CreatePrompt stores the next version of a prompt and returns it. Not safe to
// repeat: each call makes a version, so it is sent again only when the server
// refused it unread (429). Errors: *APIError, *ConnectionError; after the
// latter look with ListPrompts whether the version exists.
//
// API: POST /api/public/v2/prompts
func (c *Client) CreatePrompt(ctx context.Context, prompt PromptCreate) (Prompt, error) {
	body, err := encode(prompt)
	if err != nil {
		return Prompt{}, err
	}
	var stored Prompt
	r := request{method: http.MethodPost, path: "v2/prompts", body: body, once: true}
	if err := c.doJSON(ctx, r, &stored); err != nil {
		return Prompt{}, fmt.Errorf("prompt %q: %w", prompt.Name, err)
	}
	return stored, nil
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
	body := struct {
		NewLabels []string `json:"newLabels"`
	}{labels}
	path := fmt.Sprintf("v2/prompts/%s/versions/%d", url.PathEscape(name), version)
	var stored Prompt
	if err := c.sendJSON(ctx, http.MethodPatch, path, body, &stored); err != nil {
		return Prompt{}, fmt.Errorf("labels of prompt %s@%d: %w", name, version, err)
	}
	return stored, nil
}
