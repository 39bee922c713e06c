package tracking

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/prompt"
)

// FindPrompt fetches one version of a prompt, by label or version, and pins it:
// whatever the label points to later, the run names this version. An unknown
// one is an error that langfuse.ErrNotFound matches.
func FindPrompt(ctx context.Context, client *langfuse.Client, ref langfuse.PromptRef) (prompt.Template, outcome.Prompt, error) {
	found, err := client.GetPrompt(ctx, ref)
	if err != nil {
		return prompt.Template{}, outcome.Prompt{}, err
	}
	return pinned(found, ref.Label)
}

// PushPrompt makes the template the newest version of the named prompt, unless
// the newest says the same already, and pins that version. No label is moved.
func PushPrompt(ctx context.Context, client *langfuse.Client, name string, t prompt.Template) (prompt.Template, outcome.Prompt, error) {
	newest, err := client.GetPrompt(ctx, langfuse.PromptRef{Name: name, Label: "latest"})
	switch {
	case errors.Is(err, langfuse.ErrNotFound):
	case err != nil:
		return prompt.Template{}, outcome.Prompt{}, err
	default:
		same, pin, err := pinned(newest, "")
		if err == nil && pin.SHA256 == t.SHA256() {
			return same, pin, nil
		}
	}
	create, err := newPrompt(name, t)
	if err != nil {
		return prompt.Template{}, outcome.Prompt{}, err
	}
	stored, err := client.CreatePrompt(ctx, create)
	if err != nil {
		return prompt.Template{}, outcome.Prompt{}, err
	}
	return pinned(stored, "")
}

// newPrompt writes a template as Langfuse keeps it.
func newPrompt(name string, t prompt.Template) (langfuse.PromptCreate, error) {
	if len(t.Messages) == 1 && t.Messages[0].Role == prompt.User && t.Messages[0].Placeholder == "" {
		raw, err := json.Marshal(t.Messages[0].Content)
		return langfuse.PromptCreate{Name: name, Type: langfuse.PromptText, Prompt: raw}, err
	}
	var messages []langfuse.PromptMessage
	for _, m := range t.Messages {
		message := langfuse.PromptMessage{Role: m.Role, Content: m.Content}
		if m.Placeholder != "" {
			message = langfuse.PromptMessage{Type: "placeholder", Name: m.Placeholder}
		}
		messages = append(messages, message)
	}
	raw, err := json.Marshal(messages)
	return langfuse.PromptCreate{Name: name, Type: langfuse.PromptChat, Prompt: raw}, err
}

// CreateDefaultPrompt puts the built-in prompt, labelled production, into a
// project that has no prompt of its name.
func CreateDefaultPrompt(ctx context.Context, client *langfuse.Client) error {
	_, err := client.GetPrompt(ctx, langfuse.PromptRef{Name: prompt.DefaultName, Label: "latest"})
	if !errors.Is(err, langfuse.ErrNotFound) {
		return err
	}
	create, err := newPrompt(prompt.DefaultName, prompt.Default())
	if err != nil {
		return err
	}
	create.Labels = []string{"production"}
	_, err = client.CreatePrompt(ctx, create)
	return err
}

// pinned turns what Langfuse keeps into a template and its pin.
func pinned(p langfuse.Prompt, label string) (prompt.Template, outcome.Prompt, error) {
	var t prompt.Template
	if p.Type == langfuse.PromptChat {
		var err error
		if t, err = prompt.ParseChat(p.Prompt); err != nil {
			return t, outcome.Prompt{}, fmt.Errorf("prompt %s@%d: %w", p.Name, p.Version, err)
		}
	} else {
		text, err := p.Text()
		if err != nil {
			return t, outcome.Prompt{}, err
		}
		t = prompt.ParseText(text)
	}
	t.Name, t.Version, t.Label, t.Config = p.Name, p.Version, label, p.Config
	return t, outcome.Prompt{Name: p.Name, Version: p.Version, Label: label, SHA256: t.SHA256()}, nil
}
