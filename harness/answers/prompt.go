package answers

import (
	_ "embed" // the text of the built-in prompt
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/search"
	"extraction-experiment/pipeline/prompt"
)

// PromptName is the name of the built-in prompt.
const PromptName = "answers"

// The identifiers that a prompt for answers may use; it must use both.
const (
	QuestionVar = "question"
	PassagesVar = "passages"
)

//go:embed prompt_system.txt
var systemPrompt string

// DefaultPrompt returns the built-in prompt.
func DefaultPrompt() prompt.Template {
	return prompt.Template{Name: PromptName, Messages: []prompt.Message{
		{Role: prompt.System, Content: systemPrompt},
		{Role: prompt.User, Content: "{{passages}}\n\nВопрос / Question: {{question}}\n"},
	}}
}

// CheckPrompt refuses a prompt that asks for what nothing fills, or never shows
// the question or the passages.
func CheckPrompt(t prompt.Template) error {
	used := t.Identifiers()
	var problems []error
	for _, name := range used {
		if name != QuestionVar && name != PassagesVar {
			problems = append(problems, fmt.Errorf("the prompt asks for {{%s}}; there are {{question}} and {{passages}}", name))
		}
	}
	for _, name := range []string{QuestionVar, PassagesVar} {
		if !slices.Contains(used, name) {
			problems = append(problems, fmt.Errorf("the prompt never shows {{%s}}", name))
		}
	}
	for _, name := range t.Placeholders() {
		problems = append(problems, fmt.Errorf("the prompt has a placeholder %q, which nothing fills", name))
	}
	return errors.Join(problems...)
}

// compile puts question and passages into a prompt, the passages in the order
// of their pages, each under its number as it is to be cited.
func compile(t prompt.Template, question string, found []search.Found) ([]prompt.Message, error) {
	ordered := slices.Clone(found)
	slices.SortStableFunc(ordered, func(a, b search.Found) int { return a.Page - b.Page })
	var b strings.Builder
	for i, p := range ordered {
		if i > 0 {
			b.WriteString("\n\n")
		}
		fmt.Fprintf(&b, "(стр. %d)\n%s", p.Page, p.Text)
	}
	return prompt.Compile(t, prompt.Vars{Texts: map[string]string{QuestionVar: question, PassagesVar: b.String()}})
}
