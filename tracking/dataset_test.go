package tracking_test

import (
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline"
	"extraction-experiment/tracking"
)

// TestPushPrompt: a text that one of the newest 20 versions has is not pushed again, and the newest
// equal version counts. A chat prompt accepts a text as its only message, and a text prompt does
// not accept messages.
func TestPushPrompt(t *testing.T) {
	client := newWorld(t).client
	chat, err := pipeline.ParseChat([]byte(`[{"role": "system", "content": "Be exact."}, {"role": "user", "content": "{{document_text}}"}]`))
	if err != nil {
		t.Fatal(err)
	}
	one, two := pipeline.ParseText("One: {{document_text}}"), pipeline.ParseText("Two: {{document_text}}")
	type step struct {
		name    string
		push    pipeline.Template
		version int // 0: an error
		kind    string
	}
	steps := []step{
		{"text", one, 1, langfuse.PromptText},
		{"text", one, 1, langfuse.PromptText},
		{"text", two, 2, langfuse.PromptText},
		{"text", chat, 0, langfuse.PromptText},
		{"chat", chat, 1, langfuse.PromptChat},
		{"chat", one, 2, langfuse.PromptChat},
		{"chat", one, 2, langfuse.PromptChat},
		{"chat", chat, 1, langfuse.PromptChat},
		{"text", one, 1, langfuse.PromptText},
	}
	for i := 3; i <= 22; i++ { // then version 2 is one of 21
		steps = append(steps, step{"text", pipeline.ParseText(strings.Repeat("x", i) + "{{document_text}}"), i, langfuse.PromptText})
	}
	steps = append(steps, step{"text", two, 23, langfuse.PromptText}, step{"text", two, 23, langfuse.PromptText})
	for i, step := range steps {
		template, pin, err := tracking.MatchPrompt(t.Context(), client, step.name, step.push)
		if err == nil && pin.Version == 0 {
			pin, err = tracking.PushPrompt(t.Context(), client, step.name, step.push)
		}
		if step.version == 0 {
			if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), "--prompt") {
				t.Errorf("step %d: %v", i, err)
			}
		} else if err != nil || pin.Version != step.version || pin.SHA256 != step.push.SHA256() || template.SHA256() != step.push.SHA256() {
			t.Errorf("step %d: %+v, %v; want version %d", i, pin, err, step.version)
		}
		stored, err := client.GetPrompt(t.Context(), langfuse.PromptRef{Name: step.name, Label: "latest"})
		if err != nil || stored.Type != step.kind {
			t.Errorf("step %d: stored %+v, %v", i, stored, err)
		}
	}
}
