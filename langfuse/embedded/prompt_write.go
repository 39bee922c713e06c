package embedded

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// latestLabel points to the newest version; requests cannot set it.
const latestLabel = "latest"

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
	err = s.store.update(func(tx *sql.Tx) error {
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

func checkLabels(f *form, key string, labels []string) {
	valid := regexp.MustCompile(`^[a-z0-9_\-.]{1,36}$`)
	for _, label := range labels {
		if label == latestLabel {
			f.add("custom", key, "Label 'latest' is always assigned to the latest prompt version")
		} else if !valid.MatchString(label) {
			f.add("invalid_format", key, "Label must be lowercase alphanumeric with optional underscores, hyphens, or periods and at most 36 characters")
		}
	}
}

// nextVersion numbers a new prompt, and takes over the tags of the name, which
// all versions share, unless new ones are given.
func nextVersion(tx *sql.Tx, p *prompt, hasTags bool) error {
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

func moveLabels(tx *sql.Tx, name string, version int64, labels []string) error {
	for _, label := range labels {
		if _, err := tx.Exec(`INSERT INTO prompt_labels(name, label, version) VALUES(?,?,?)
			ON CONFLICT(name, label) DO UPDATE SET version = excluded.version`, name, label, version); err != nil {
			return err
		}
	}
	return nil
}

// labelPrompt answers PATCH /v2/prompts/{name}/versions/{version}: the labels
// are added to this version and leave the others.
func (s *Server) labelPrompt(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	labels := f.texts("newLabels")
	if !f.has("newLabels") {
		f.add("invalid_type", "newLabels", "Invalid input: expected array, received undefined")
	}
	checkLabels(f, "newLabels", labels)
	version, err := strconv.ParseInt(c.path["version"], 10, 64)
	if err != nil {
		f.add("invalid_type", "promptVersion", "Invalid input: expected number")
	}
	if err := f.err(); err != nil {
		return reply{}, err
	}
	var p prompt
	err = s.store.update(func(tx *sql.Tx) error {
		res, err := tx.Exec("UPDATE prompts SET updated = ? WHERE name = ? AND version = ?", s.now(), c.path["name"], version)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return promptMissing(c.path["name"], "", version)
		}
		if err := moveLabels(tx, c.path["name"], version, labels); err != nil {
			return err
		}
		p, _, err = findPrompt(tx, c.path["name"], "", version)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return ok(s.promptJSON(p))
}

// deletePrompt answers DELETE /v2/prompts/{name} with 204: all versions, or
// those that ?label or ?version selects. Prompts that refer to what is gone
// cannot be resolved any more.
func (s *Server) deletePrompt(c *call) (reply, error) {
	name := c.path["name"]
	label, version, err := promptChoice(c)
	if err != nil {
		return reply{}, err
	}
	err = s.store.update(func(tx *sql.Tx) error {
		var w where
		w.add("name = ?", name)
		if version > 0 {
			w.add("version = ?", version)
		}
		if label != "" {
			w.add("version IN (SELECT version FROM prompt_labels WHERE name = ? AND label = ?)", name, label)
		}
		gone, err := collect(tx, scanPrompt, "SELECT "+promptColumns+" FROM prompts WHERE "+w.String(), w.args...)
		if err != nil {
			return err
		}
		if len(gone) == 0 {
			return notFound("Prompt not found")
		}
		for _, p := range gone {
			if err := removeVersion(tx, p); err != nil {
				return err
			}
		}
		return relabelLatest(tx, name)
	})
	return reply{status: http.StatusNoContent}, err
}

func removeVersion(tx *sql.Tx, p prompt) error {
	if _, err := tx.Exec("DELETE FROM prompt_labels WHERE name = ? AND version = ?", p.name, p.version); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM prompts WHERE id = ?", p.id)
	return err
}

func relabelLatest(tx *sql.Tx, name string) error {
	_, err := tx.Exec(`INSERT INTO prompt_labels(name, label, version)
		SELECT name, 'latest', max(version) FROM prompts WHERE name = ? GROUP BY name
		ON CONFLICT(name, label) DO UPDATE SET version = excluded.version`, name)
	return err
}
