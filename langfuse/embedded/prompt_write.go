package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// createPrompt answers POST /v2/prompts with 201: the next version of a name.
// Its labels move here from other versions, and so does latest. The type of a
// name never changes, and every prompt it refers to has to exist.
func (s *Server) createPrompt(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	p := readPrompt(f)
	hasTags := f.has("tags")
	if err := f.err(); err != nil {
		return reply{}, err
	}
	p.id, p.created, p.updated = uuid.NewString(), s.now(), s.now()
	err = s.store.update(func(tx *transaction) error {
		if err := nextVersion(tx, &p, hasTags); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO prompts("+promptColumns+") VALUES(?,?,?,?,?,?,?,?,?,?)", p.id, p.name, p.version,
			p.kind, p.content, p.config, p.tags, p.commitMessage, p.created, p.updated); err != nil {
			return err
		}
		if err := moveLabels(tx, p.name, p.version, append([]string{latestLabel}, p.labels...)); err != nil {
			return err
		}
		if _, err := compose(tx, p); err != nil {
			return err
		}
		p, _, err = findPrompt(tx, p.name, "", p.version)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return reply{http.StatusCreated, s.promptJSON(p)}, nil
}

func readPrompt(f *form) prompt {
	p := prompt{name: f.must("name"), kind: orElse(f.text("type"), "text"), config: "{}",
		commitMessage: nullText(f, "commitMessage"), labels: f.texts("labels"), tags: joined(append([]string{}, f.texts("tags")...))}
	if strings.TrimSpace(p.name) == "" || strings.Contains(p.name, "|") {
		f.add("custom", "name", "Prompt name must not be empty and cannot contain '|' characters")
	}
	if len([]rune(p.commitMessage.String)) > 500 {
		f.add("too_big", "commitMessage", "Too big: expected string to have <=500 characters")
	}
	checkLabels(f, "labels", p.labels)
	if f.has("config") {
		p.config = string(f.raw("config"))
	}
	switch p.kind {
	case "text":
		text, err := encodeJSON(f.must("prompt"))
		if err != nil {
			f.add("invalid_type", "prompt", "Invalid input: expected string")
		}
		p.content = text
	case "chat":
		p.content = readMessages(f)
	default:
		f.add("invalid_value", "type", `Invalid option: expected one of "text"|"chat"`)
	}
	return p
}

// readMessages checks a chat prompt: messages with role and content, and
// placeholders with a name.
func readMessages(f *form) string {
	var messages []map[string]any
	if !f.has("prompt") || json.Unmarshal(f.raw("prompt"), &messages) != nil {
		f.add("invalid_type", "prompt", "Invalid input: expected array of messages")
		return "[]"
	}
	for i, message := range messages {
		_, hasRole := message["role"].(string)
		_, hasContent := message["content"].(string)
		name, _ := message["name"].(string)
		placeholder := message["type"] == "placeholder" && name != ""
		if !placeholder && (!hasRole || !hasContent) {
			f.add("invalid_union", "prompt", fmt.Sprintf("Invalid input: message %d needs role and content, or type placeholder and name", i))
		}
		if !placeholder && message["type"] == "chatmessage" {
			delete(message, "type") // comes back without
		}
	}
	text, err := encodeJSON(messages)
	if err != nil {
		f.add("invalid_type", "prompt", "Invalid input: expected array of messages")
	}
	return text
}

// nextVersion numbers a new prompt, and takes over the tags of the name, which
// all versions share, unless new ones are given.
func nextVersion(tx *transaction, p *prompt, hasTags bool) error {
	newest, err := collect(tx, scanPrompt, "SELECT "+promptColumns+" FROM prompts WHERE name = ? ORDER BY version DESC LIMIT 1", p.name)
	if err != nil {
		return err
	}
	p.version = 1
	if len(newest) == 0 {
		return nil
	}
	if newest[0].kind != p.kind {
		return invalid("Previous versions have different prompt type. Create a new prompt with a different name.")
	}
	p.version = newest[0].version + 1
	if !hasTags {
		p.tags = newest[0].tags
		return nil
	}
	_, err = tx.Exec("UPDATE prompts SET tags = ? WHERE name = ?", p.tags, p.name)
	return err
}
