package tracking

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// FindPrompt fetches one version of a prompt, by label or version, and pins it: the run
// names this version even if the label moves later. The error for an unknown prompt or
// version matches langfuse.ErrNotFound.
func FindPrompt(ctx context.Context, client *langfuse.Client, ref langfuse.PromptRef) (pipeline.Template, outcome.Prompt, error) {
	found, err := client.GetPrompt(ctx, ref)
	if err != nil {
		return pipeline.Template{}, outcome.Prompt{}, err
	}
	return parsePrompt(found, ref.Label)
}

// MatchPrompt returns the newest version of the named prompt that has the messages of t, and its
// pin, if one of its newest 20 versions has. Otherwise it returns t, and a pin without a version.
func MatchPrompt(ctx context.Context, client *langfuse.Client, name string, t pipeline.Template) (
	pipeline.Template, outcome.Prompt, error) {
	summary, err := NamedPrompt(ctx, client, name, "")
	newest := slices.Sorted(slices.Values(summary.Versions))
	slices.Reverse(newest)
	newest = newest[:min(len(newest), 20)]
	get := func(version int) (langfuse.Prompt, error) {
		return client.GetPrompt(ctx, langfuse.PromptRef{Name: name, Version: version})
	}
	for found, getErr := range stats.Parallel(4, stats.Values(newest), get) {
		if getErr != nil {
			return t, outcome.Prompt{}, getErr
		}
		if stored, pin, parseErr := parsePrompt(found, ""); parseErr == nil && pin.SHA256 == t.SHA256() {
			return stored, pin, nil
		}
	}
	return t, outcome.Prompt{Name: name, SHA256: t.SHA256()}, err
}

// NamedPrompt returns the prompt with this name and, unless it is "", label. The result has no name
// if there is none.
func NamedPrompt(ctx context.Context, client *langfuse.Client, name, label string) (langfuse.PromptSummary, error) {
	for summary, err := range client.ListPrompts(ctx, name, label) {
		if err != nil || summary.Name == name {
			return summary, err
		}
	}
	return langfuse.PromptSummary{}, nil
}

// PushPrompt makes the template the newest version of the named prompt and pins that version. It
// moves no label. A chat prompt stays a chat prompt, even with a single message. A text prompt
// cannot become several messages; the error has exit code 64.
func PushPrompt(ctx context.Context, client *langfuse.Client, name string, t pipeline.Template) (
	pin outcome.Prompt, err error) {
	summary, err := NamedPrompt(ctx, client, name, "")
	if err != nil {
		return pin, err
	}
	prompt := newPrompt(name, t, summary.Type == langfuse.PromptChat)
	if summary.Type == langfuse.PromptText && prompt.Type == langfuse.PromptChat {
		return pin, cli.Usage("the prompt %q is a text in Langfuse and cannot become messages: "+
			"choose another name with --prompt", name)
	}
	created, err := client.CreatePrompt(ctx, prompt)
	if err == nil {
		_, pin, err = parsePrompt(created, "")
	}
	return pin, err
}

// newPrompt returns a template in the form of Langfuse. A single user message becomes a text
// prompt unless asChat is set.
func newPrompt(name string, t pipeline.Template, asChat bool) langfuse.Prompt {
	if !asChat && len(t.Messages) == 1 && t.Messages[0].Role == pipeline.RoleUser && t.Messages[0].Placeholder == "" {
		return langfuse.Prompt{Name: name, Type: langfuse.PromptText, Prompt: mustMarshal(t.Messages[0].Content)}
	}
	var messages []langfuse.PromptMessage
	for _, m := range t.Messages {
		message := langfuse.PromptMessage{Role: m.Role, Content: m.Content}
		if m.Placeholder != "" {
			message = langfuse.PromptMessage{Type: "placeholder", Name: m.Placeholder}
		}
		messages = append(messages, message)
	}
	return langfuse.Prompt{Name: name, Type: langfuse.PromptChat, Prompt: mustMarshal(messages)}
}

// CreateDefaultPrompt creates the built-in prompt with the label production, unless the
// project has a prompt of that name.
func CreateDefaultPrompt(ctx context.Context, client *langfuse.Client) error {
	_, err := client.GetPrompt(ctx, langfuse.PromptRef{Name: pipeline.DefaultPromptName, Label: "latest"})
	if !errors.Is(err, langfuse.ErrNotFound) {
		return err
	}
	prompt := newPrompt(pipeline.DefaultPromptName, pipeline.DefaultPrompt(), true)
	prompt.Labels = []string{"production"}
	_, err = client.CreatePrompt(ctx, prompt)
	return err
}

// parsePrompt returns the template and the pin of a prompt from Langfuse.
func parsePrompt(p langfuse.Prompt, label string) (pipeline.Template, outcome.Prompt, error) {
	var t pipeline.Template
	var err error
	if p.Type != langfuse.PromptChat {
		var text string
		text, err = p.Text()
		t = pipeline.ParseText(text)
	} else if t, err = pipeline.ParseChat(p.Prompt); err != nil {
		err = fmt.Errorf("prompt %s@%d: %w", p.Name, p.Version, err)
	}
	if err != nil {
		return t, outcome.Prompt{}, err
	}
	t.Name, t.Version, t.Label, t.Config = p.Name, p.Version, label, p.Config
	return t, outcome.Prompt{
		Name: p.Name, Version: p.Version, Label: label, SHA256: t.SHA256(), Template: mustMarshal(t),
	}, nil
}
