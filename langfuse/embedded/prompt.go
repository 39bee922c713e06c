package embedded

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"extraction-experiment/internal/textutil"
)

// prompt is one version of a prompt. The content is JSON: a string, or a list of messages.
type prompt struct {
	id, name         string
	version          int64
	kind, content    string
	config, tags     string
	commitMessage    sql.NullString
	created, updated int64
	labels           string // a sorted JSON list of strings
}

const promptColumns = "id, name, version, type, prompt, config, tags, commit_message, created, updated"

// selectPrompts is the beginning of a query for prompts.
const selectPrompts = "SELECT " + promptColumns + `, (SELECT json_group_array(label) FROM (SELECT l.label FROM prompt_labels l
	WHERE l.name = p.name AND l.version = p.version ORDER BY l.label)) FROM prompts p WHERE `

// columns returns pointers to the columns of the table, followed by the labels.
func (p *prompt) columns() []any {
	return []any{&p.id, &p.name, &p.version, &p.kind, &p.content, &p.config, &p.tags, &p.commitMessage, &p.created, &p.updated, &p.labels}
}

// hasLabel is the condition that a label points to the version.
const hasLabel = "version = (SELECT l.version FROM prompt_labels l WHERE l.name = p.name AND l.label = ?)"

// findPrompt returns the version that the label points to, or the version with the number if the
// label is empty.
func findPrompt(q querier, name, label string, version int64) (prompt, bool, error) {
	if label != "" {
		return queryRow(q, scanRow[prompt], selectPrompts+"name = ? AND "+hasLabel, name, label)
	}
	return queryRow(q, scanRow[prompt], selectPrompts+"name = ? AND version = ?", name, version)
}

// requirePrompt is findPrompt with a 404 error if the version does not exist.
func requirePrompt(q querier, name, label string, version int64) (prompt, error) {
	p, exists, err := findPrompt(q, name, label, version)
	if err == nil && !exists {
		which := fmt.Sprintf("version %d", version)
		if label != "" {
			which = fmt.Sprintf("label '%s'", textutil.Cut(label, 100))
		}
		err = notFound("Prompt not found: '%s' with %s", textutil.Cut(name, 300), which)
	}
	return p, err
}

func (p prompt) json() object {
	return object{
		"id": p.id, "projectId": DefaultProjectID, "name": p.name, "version": p.version, "type": p.kind,
		"prompt": json.RawMessage(p.content), "config": json.RawMessage(p.config), "labels": json.RawMessage(p.labels),
		"tags": json.RawMessage(p.tags), "commitMessage": valueOrNull(p.commitMessage), "createdBy": "API",
		"createdAt": iso(p.created), "updatedAt": iso(p.updated), "isActive": nil, "resolutionGraph": nil,
	}
}

// getPrompt answers GET /v2/prompts/{name}. It resolves references to other prompts unless
// ?resolve=false.
func (s *Server) getPrompt(c *call) (any, error) { return s.answerPrompt(c, c.path("name")) }

// getPromptByQuery answers GET /prompts?name=, which needs no name in the path. The name is
// decoded a second time. A label is ignored: the version is that of ?version, or the one that
// production points to.
func (s *Server) getPromptByQuery(c *call) (any, error) {
	if c.query.Get("name") == "" {
		c.reject(invalidQuery("name", "Invalid input: expected string, received undefined"))
	}
	c.query.Del("label")
	return s.answerPrompt(c, c.decodeAgain(c.query.Get("name")))
}

// answerPrompt answers with the version that ?version or ?label selects.
func (s *Server) answerPrompt(c *call, name string) (any, error) {
	label, version := c.query.Get("label"), c.number("version", 0, math.MaxInt32)
	if label != "" && version != 0 {
		c.reject(invalidRequest("Cannot specify both version and label"))
	}
	if c.err != nil {
		return nil, c.err
	}
	if label == "" && version == 0 {
		label = "production"
	}
	p, err := requirePrompt(s.store.r, name, label, int64(version))
	if err != nil {
		return nil, err
	}
	out := p.json()
	if c.query.Get("resolve") != "false" {
		out["prompt"], err = compose(s.store.r, p)
	}
	return out, err
}

// listPrompts answers GET /v2/prompts with one entry per name. A filter by label restricts the
// versions, and the labels shown are those of the remaining versions.
func (s *Server) listPrompts(c *call) (any, error) {
	c.equal("p.name", c.query.Get("name"))
	c.addIfSet("p."+hasLabel, c.query.Get("label"))
	c.addIfSet("EXISTS (SELECT 1 FROM json_each(p.tags) WHERE value = ?)", c.query.Get("tag"))
	names := `(SELECT p.name AS name, max(p.version) AS newest, max(p.updated) AS updated,
			json_group_array(p.version ORDER BY p.version) AS versions FROM prompts p WHERE ` + c.sql() + ` GROUP BY p.name) g
		JOIN prompts x ON x.name = g.name AND x.version = g.newest`
	const entry = `json_object('labels', json((SELECT json_group_array(label) FROM prompt_labels l
			WHERE l.name = g.name AND l.version IN (SELECT value FROM json_each(g.versions)))), 'lastConfig', json(x.config),
		'lastUpdatedAt', strftime('%Y-%m-%dT%H:%M:%fZ', g.updated / 1000.0, 'unixepoch'), 'name', g.name,
		'tags', json(x.tags), 'type', x.type, 'versions', json(g.versions))`
	c.terms = nil // they are in the table
	return numberedPage(s, c, 10, scanJSON, entry, names, "g.updated DESC, g.name")
}

// createPrompt answers POST /v2/prompts with 201 and creates the next version of a name. Its
// labels and "latest" move to it from other versions. The type of a name never changes, and every
// prompt that it refers to must exist.
func (s *Server) createPrompt(c *call) (any, error) {
	f := c.form(smallBody)
	labels := f.labels("labels")
	p := readPrompt(f)
	hasTags := f.has("tags")
	p.id, p.created, p.updated = uuid.NewString(), s.now(), s.now()
	err := s.update(f, func(tx *transaction) error {
		if err := p.assignVersion(tx, hasTags); err != nil {
			return err
		}
		values := p.columns()
		tx.insert("prompts", promptColumns, values[:len(values)-1]...)
		moveLabels(tx, p.name, p.version, append([]string{latestLabel}, labels...))
		if _, err := compose(tx, p); err != nil {
			return err
		}
		var err error
		p, err = requirePrompt(tx, p.name, "", p.version)
		return err
	})
	return newAnswer(http.StatusCreated, p.json()), err
}

func readPrompt(f *form) prompt {
	p := prompt{name: f.required("name"), kind: cmp.Or(f.oneOf("type", "text", "chat"), "text"), config: cmp.Or(f.nullJSON("config").String, "{}"),
		commitMessage: f.nullText("commitMessage"), tags: jsonList(f.texts("tags"))}
	if strings.TrimSpace(p.name) == "" || strings.Contains(p.name, "|") {
		f.addIssue("custom", "name", "Prompt name must not be empty and cannot contain '|' characters")
	}
	f.checkLength("commitMessage", p.commitMessage.String, 0, 500)
	if p.kind == "chat" {
		p.content = readMessages(f)
	} else {
		text, _ := textutil.MarshalJSON(f.required("prompt")) // a string can always be encoded
		p.content = string(text)
	}
	return p
}

// readMessages validates a chat prompt: messages with role and content, and placeholders with a
// name.
func readMessages(f *form) string {
	messages := []map[string]any{} // encoded as [] and not as null
	if !f.decode("prompt", &messages, "array of messages") {
		f.addIssue("invalid_type", "prompt", "Invalid input: expected array of messages")
	}
	for i, message := range messages {
		_, hasRole := message["role"].(string)
		_, hasContent := message["content"].(string)
		name, _ := message["name"].(string)
		placeholder := message["type"] == "placeholder" && name != ""
		if !placeholder && (!hasRole || !hasContent) {
			f.addIssue("invalid_union", "prompt", fmt.Sprintf("Invalid input: message %d needs role and content, or type placeholder and name", i))
		}
		if !placeholder && message["type"] == "chatmessage" {
			delete(message, "type") // Langfuse does not return it
		}
	}
	return asText(messages)
}

// assignVersion gives a new prompt the next version of its name. All versions of a name share
// their tags: it takes the stored ones, or replaces them if the request has tags.
func (p *prompt) assignVersion(tx *transaction, hasTags bool) error {
	newest, exists, err := queryRow(tx, scanRow[prompt], selectPrompts+"name = ? ORDER BY version DESC LIMIT 1", p.name)
	if err != nil {
		return err
	}
	p.version = newest.version + 1
	if exists && newest.kind != p.kind {
		return invalidRequest("Previous versions have different prompt type. Create a new prompt with a different name.")
	}
	if exists && !hasTags {
		p.tags = newest.tags
	}
	tx.exec("UPDATE prompts SET tags = ? WHERE name = ?", p.tags, p.name)
	return nil
}

// latestLabel always points to the newest version. Requests cannot set it.
const latestLabel = "latest"

// labels reads and validates a list of labels.
func (f *form) labels(key string) []string {
	labelPattern, labels := regexp.MustCompile(`^[a-z0-9_\-.]{1,36}$`), f.texts(key)
	for _, label := range labels {
		if label == latestLabel {
			f.addIssue("custom", key, "Label 'latest' is always assigned to the latest prompt version")
		} else if !labelPattern.MatchString(label) {
			f.addIssue("invalid_format", key,
				"Label must be lowercase alphanumeric with optional underscores, hyphens, or periods and at most 36 characters")
		}
	}
	return labels
}

func moveLabels(tx *transaction, name string, version int64, labels []string) {
	tx.exec(`INSERT INTO prompt_labels(name, label, version) SELECT ?, value, ? FROM json_each(?) WHERE true
		ON CONFLICT(name, label) DO UPDATE SET version = excluded.version`, name, version, jsonList(labels))
}

// labelPrompt answers PATCH /v2/prompts/{name}/versions/{version}. The labels move to this
// version from all others.
func (s *Server) labelPrompt(c *call) (any, error) {
	f := c.form(smallBody)
	name, labels := c.path("name"), f.labels("newLabels")
	if !f.has("newLabels") {
		f.addIssue("invalid_type", "newLabels", "Invalid input: expected array, received undefined")
	}
	version, err := strconv.ParseInt(c.path("version"), 10, 64)
	if err != nil {
		f.addIssue("invalid_type", "promptVersion", "Invalid input: expected number")
	}
	var p prompt
	err = s.update(f, func(tx *transaction) error {
		tx.exec("UPDATE prompts SET updated = ? WHERE name = ? AND version = ?", s.now(), name, version)
		moveLabels(tx, name, version, labels)
		p, err = requirePrompt(tx, name, "", version)
		return err
	})
	return p.json(), err
}

// deletePrompt answers DELETE /v2/prompts/{name} with 204 and deletes all versions. Prompts that
// refer to them can then not be resolved.
func (s *Server) deletePrompt(c *call) (any, error) {
	if c.allowKeys(); c.err != nil { // a single version cannot be deleted
		return nil, c.err
	}
	return response{status: http.StatusNoContent}, s.store.update(func(tx *transaction) error {
		_, err := requirePrompt(tx, c.path("name"), latestLabel, 0)
		tx.exec("DELETE FROM prompts WHERE name = ?", c.path("name"))
		tx.exec("DELETE FROM prompt_labels WHERE name = ?", c.path("name"))
		return err
	})
}

// The limits of composition: the depth of nested references, and, because references multiply,
// their number and the total length of the texts in bytes.
const (
	maxPromptDepth      = 5
	maxPromptReferences = 10_000
	maxPromptLength     = 4 << 20
)

// The patterns of a reference to another prompt and of its parts.
var (
	tagPattern      = textutil.Pattern(`@@@langfusePrompt:.*?@@@`)
	tagPartsPattern = textutil.Pattern(`^@@@langfusePrompt:name=([^|]*)\|(?:label=([^|]+)|version=([1-9][0-9]*))@@@$`)
)

// composer resolves the references of one prompt.
type composer struct {
	q                  querier
	references, length int
}

// compose replaces every tag @@@langfusePrompt:name=N|version=V@@@ and
// @@@langfusePrompt:name=N|label=L@@@ by the text of that prompt, whose tags it replaces too. It
// returns a 400 error for a reference to a missing prompt or a chat prompt, for a circular
// reference, and for one that is nested too deep.
func compose(q querier, p prompt) (content any, err error) {
	c := composer{q: q}
	content, err = decodeJSON([]byte(p.content))
	switch node := content.(type) {
	case string:
		content, err = c.resolve(node, 1)
	case []any:
		for _, element := range node {
			message, _ := element.(map[string]any)
			if text, isText := message["content"].(string); isText && err == nil {
				message["content"], err = c.resolve(text, 1)
			}
		}
	}
	return content, err
}

// resolve replaces the references in a text of a prompt at the given depth.
func (c *composer) resolve(text string, depth int) (_ string, err error) {
	if depth > maxPromptDepth {
		return "", invalidRequest("Circular dependency, or maximum nesting depth exceeded (%d)", maxPromptDepth)
	}
	text = tagPattern().ReplaceAllStringFunc(text, func(tag string) (resolved string) {
		if err == nil {
			resolved, err = c.resolveTag(tag, depth)
		}
		return resolved
	})
	return text, err
}

// resolveTag returns the resolved text of the prompt that a tag names by name and version or
// label. depth is that of the prompt with the tag.
func (c *composer) resolveTag(tag string, depth int) (text string, err error) {
	parts := tagPartsPattern().FindStringSubmatch(tag)
	if parts == nil {
		return "", invalidRequest("Invalid prompt dependency tag: %s", textutil.Cut(tag, 200))
	}
	version, _ := strconv.ParseInt(parts[3], 10, 64) // without a version it is 0, which no prompt has
	p, exists, err := findPrompt(c.q, parts[1], parts[2], version)
	if err == nil && (!exists || p.kind != "text") {
		err = invalidRequest("Prompt dependency not found, or not a text prompt: %s", textutil.Cut(tag, 300))
	}
	if err == nil {
		text, err = c.resolve(textutil.JSONText([]byte(p.content)), depth+1)
	}
	c.references, c.length = c.references+1, c.length+len(text)
	if err == nil && (c.references > maxPromptReferences || c.length > maxPromptLength) {
		err = invalidRequest("Resolved prompt is too long: at most %d references and %d bytes",
			maxPromptReferences, maxPromptLength)
	}
	return text, err
}
