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

// prompt is one version of a prompt. Content holds its JSON: a string, or a list
// of messages.
type prompt struct {
	id, name         string
	version          int64
	kind, content    string
	config, tags     string
	commitMessage    sql.NullString
	created, updated int64
	labels           string // a JSON list of texts, in order
}

const promptColumns = "id, name, version, type, prompt, config, tags, commit_message, created, updated"

// selectPrompts begins a query for prompts.
const selectPrompts = "SELECT " + promptColumns + `, (SELECT json_group_array(label) FROM (SELECT l.label FROM prompt_labels l
	WHERE l.name = p.name AND l.version = p.version ORDER BY l.label)) FROM prompts p WHERE `

// columns are those of the table, and then the labels.
func (p *prompt) columns() []any {
	return []any{&p.id, &p.name, &p.version, &p.kind, &p.content, &p.config, &p.tags, &p.commitMessage, &p.created, &p.updated, &p.labels}
}

// labelled is the version that a label points to.
const labelled = "version = (SELECT l.version FROM prompt_labels l WHERE l.name = p.name AND l.label = ?)"

// findPrompt returns the version that a label points to, or a version by its
// number where the label is empty.
func findPrompt(q querier, name, label string, version int64) (prompt, bool, error) {
	if label != "" {
		return one(q, scanned[prompt], selectPrompts+"name = ? AND "+labelled, name, label)
	}
	return one(q, scanned[prompt], selectPrompts+"name = ? AND version = ?", name, version)
}

// mustPrompt is findPrompt for a version that has to be there.
func mustPrompt(q querier, name, label string, version int64) (prompt, error) {
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
		"tags": json.RawMessage(p.tags), "commitMessage": orNull(p.commitMessage), "createdBy": "API",
		"createdAt": iso(p.created), "updatedAt": iso(p.updated), "isActive": nil, "resolutionGraph": nil,
	}
}

// getPrompt answers GET /v2/prompts/{name}, with the references to other
// prompts filled in unless ?resolve=false.
func (s *Server) getPrompt(c *call) (any, error) { return s.answerPrompt(c, c.path("name")) }

// getPromptByQuery answers GET /prompts?name=, which needs no name in a path. The
// name is decoded a second time, and a label is not heard: it is the version, or
// else the one that production points to.
func (s *Server) getPromptByQuery(c *call) (any, error) {
	if c.query.Get("name") == "" {
		c.blame(badQuery("name", "Invalid input: expected string, received undefined"))
	}
	c.query.Del("label")
	return s.answerPrompt(c, c.decodedAgain(c.query.Get("name")))
}

// answerPrompt answers with the version that ?version or ?label says.
func (s *Server) answerPrompt(c *call, name string) (any, error) {
	label, version := c.query.Get("label"), c.number("version", 0, math.MaxInt32)
	if label != "" && version != 0 {
		c.blame(invalid("Cannot specify both version and label"))
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	if label == "" && version == 0 {
		label = "production"
	}
	p, err := mustPrompt(s.store.r, name, label, int64(version))
	if err != nil {
		return nil, err
	}
	out := p.json()
	if c.query.Get("resolve") != "false" {
		out["prompt"], err = compose(s.store.r, p)
	}
	return out, err
}

// listPrompts answers GET /v2/prompts: one entry per name. A filter by label
// narrows the versions; the labels are those of these versions.
func (s *Server) listPrompts(c *call) (any, error) {
	var w where
	w.equal("p.name", c.query.Get("name"))
	w.given("p."+labelled, c.query.Get("label"))
	w.given("EXISTS (SELECT 1 FROM json_each(p.tags) WHERE value = ?)", c.query.Get("tag"))
	names := `(SELECT p.name AS name, max(p.version) AS newest, max(p.updated) AS updated,
			json_group_array(p.version ORDER BY p.version) AS versions FROM prompts p WHERE ` + w.String() + ` GROUP BY p.name) g
		JOIN prompts x ON x.name = g.name AND x.version = g.newest`
	const entry = `json_object('labels', json((SELECT json_group_array(label) FROM prompt_labels l
			WHERE l.name = g.name AND l.version IN (SELECT value FROM json_each(g.versions)))), 'lastConfig', json(x.config),
		'lastUpdatedAt', strftime('%Y-%m-%dT%H:%M:%fZ', g.updated / 1000.0, 'unixepoch'), 'name', g.name,
		'tags', json(x.tags), 'type', x.type, 'versions', json(g.versions))`
	return listed(s, c, 10, scanJSON, entry, names, &where{args: w.args}, "g.updated DESC, g.name")
}

// createPrompt answers POST /v2/prompts with 201: the next version of a name.
// Its labels move here from other versions, and so does latest. The type of a
// name never changes, and every prompt it refers to has to exist.
func (s *Server) createPrompt(c *call) (any, error) {
	f := c.form(smallBody)
	labels := f.labels("labels")
	p := readPrompt(f)
	hasTags := f.has("tags")
	p.id, p.created, p.updated = uuid.NewString(), s.now(), s.now()
	err := s.update(f, func(tx *transaction) error {
		if err := p.number(tx, hasTags); err != nil {
			return err
		}
		values := p.columns()
		if _, err := tx.insert("prompts", promptColumns, values[:len(values)-1]...); err != nil {
			return err
		}
		if err := moveLabels(tx, p.name, p.version, append([]string{latestLabel}, labels...)); err != nil {
			return err
		}
		if _, err := compose(tx, p); err != nil {
			return err
		}
		var err error
		p, err = mustPrompt(tx, p.name, "", p.version)
		return err
	})
	return jsonAnswer(http.StatusCreated, p.json()), err
}

func readPrompt(f *form) prompt {
	p := prompt{name: f.must("name"), kind: cmp.Or(f.oneOf("type", "text", "chat"), "text"), config: cmp.Or(f.nullJSON("config").String, "{}"),
		commitMessage: f.nullText("commitMessage"), tags: joined(f.texts("tags"))}
	if strings.TrimSpace(p.name) == "" || strings.Contains(p.name, "|") {
		f.add("custom", "name", "Prompt name must not be empty and cannot contain '|' characters")
	}
	f.sized("commitMessage", p.commitMessage.String, 0, 500)
	if p.kind == "chat" {
		p.content = readMessages(f)
	} else {
		text, _ := textutil.MarshalJSON(f.must("prompt")) // a text can be written
		p.content = string(text)
	}
	return p
}

// readMessages checks a chat prompt: messages with role and content, and
// placeholders with a name.
func readMessages(f *form) string {
	var messages []map[string]any
	if !f.into("prompt", &messages, "array of messages") {
		f.add("invalid_type", "prompt", "Invalid input: expected array of messages")
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
	return asText(append([]map[string]any{}, messages...))
}

// number gives a new prompt the next version of its name, and the tags of the
// name, which all versions share, unless new ones are given.
func (p *prompt) number(tx *transaction, hasTags bool) error {
	newest, exists, err := one(tx, scanned[prompt], selectPrompts+"name = ? ORDER BY version DESC LIMIT 1", p.name)
	if err != nil {
		return err
	}
	p.version = newest.version + 1
	if exists && newest.kind != p.kind {
		return invalid("Previous versions have different prompt type. Create a new prompt with a different name.")
	}
	if exists && !hasTags {
		p.tags = newest.tags
	}
	_, err = tx.Exec("UPDATE prompts SET tags = ? WHERE name = ?", p.tags, p.name)
	return err
}

// latestLabel points to the newest version; requests cannot set it.
const latestLabel = "latest"

// labels reads a list of labels.
func (f *form) labels(key string) []string {
	valid, labels := regexp.MustCompile(`^[a-z0-9_\-.]{1,36}$`), f.texts(key)
	for _, label := range labels {
		if label == latestLabel {
			f.add("custom", key, "Label 'latest' is always assigned to the latest prompt version")
		} else if !valid.MatchString(label) {
			f.add("invalid_format", key,
				"Label must be lowercase alphanumeric with optional underscores, hyphens, or periods and at most 36 characters")
		}
	}
	return labels
}

func moveLabels(tx *transaction, name string, version int64, labels []string) error {
	_, err := tx.Exec(`INSERT INTO prompt_labels(name, label, version) SELECT ?, value, ? FROM json_each(?) WHERE true
		ON CONFLICT(name, label) DO UPDATE SET version = excluded.version`, name, version, joined(labels))
	return err
}

// labelPrompt answers PATCH /v2/prompts/{name}/versions/{version}: the labels
// are added to this version and leave the others.
func (s *Server) labelPrompt(c *call) (any, error) {
	f := c.form(smallBody)
	name, labels := c.path("name"), f.labels("newLabels")
	if !f.has("newLabels") {
		f.add("invalid_type", "newLabels", "Invalid input: expected array, received undefined")
	}
	version, err := strconv.ParseInt(c.path("version"), 10, 64)
	if err != nil {
		f.add("invalid_type", "promptVersion", "Invalid input: expected number")
	}
	var p prompt
	err = s.update(f, func(tx *transaction) error {
		if _, err := tx.Exec("UPDATE prompts SET updated = ? WHERE name = ? AND version = ?", s.now(), name, version); err != nil {
			return err
		}
		if err := moveLabels(tx, name, version, labels); err != nil {
			return err
		}
		p, err = mustPrompt(tx, name, "", version)
		return err
	})
	return p.json(), err
}

// deletePrompt answers DELETE /v2/prompts/{name} with 204: all versions go. Prompts
// that refer to them cannot be resolved any more.
func (s *Server) deletePrompt(c *call) (any, error) {
	if c.strictly(); c.err() != nil { // one version alone cannot be deleted here
		return nil, c.err()
	}
	return response{status: http.StatusNoContent}, s.store.update(func(tx *transaction) error {
		_, err := mustPrompt(tx, c.path("name"), latestLabel, 0)
		for _, table := range []string{"prompts", "prompt_labels"} {
			if err == nil {
				_, err = tx.Exec("DELETE FROM "+table+" WHERE name = ?", c.path("name"))
			}
		}
		return err
	})
}

// The bounds of composition: how deep references nest, and how many are followed
// and how long the texts get, since references multiply.
const (
	maxPromptDepth      = 5
	maxPromptReferences = 10_000
	maxPromptLength     = 4 << 20
)

// A reference to another prompt, and what it may say.
var (
	reference     = textutil.Pattern(`@@@langfusePrompt:.*?@@@`)
	referenceForm = textutil.Pattern(`^@@@langfusePrompt:name=([^|]*)\|(?:label=([^|]+)|version=([1-9][0-9]*))@@@$`)
)

// composer resolves the references of one prompt.
type composer struct {
	q                  querier
	references, length int
}

// compose replaces every tag @@@langfusePrompt:name=N|version=V@@@ and
// @@@langfusePrompt:name=N|label=L@@@ by the text of that prompt, and the tags
// in there likewise. A reference to nothing, to a chat prompt, in a circle, or
// too deep is the caller's fault.
func compose(q querier, p prompt) (content any, err error) {
	c := composer{q: q}
	if err := json.Unmarshal([]byte(p.content), &content); err != nil {
		return nil, err
	}
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

// resolve fills in the references of a text; its prompt is at that depth.
func (c *composer) resolve(text string, depth int) (_ string, err error) {
	if depth > maxPromptDepth {
		return "", invalid("Circular dependency, or maximum nesting depth exceeded (%d)", maxPromptDepth)
	}
	text = reference().ReplaceAllStringFunc(text, func(tag string) (resolved string) {
		if err == nil {
			resolved, err = c.referred(tag, depth)
		}
		return resolved
	})
	return text, err
}

// referred resolves the prompt that a tag in a prompt at that depth names: by name, and
// version or label.
func (c *composer) referred(tag string, depth int) (text string, err error) {
	parts := referenceForm().FindStringSubmatch(tag)
	if parts == nil {
		return "", invalid("Invalid prompt dependency tag: %s", textutil.Cut(tag, 200))
	}
	version, _ := strconv.ParseInt(parts[3], 10, 64) // 0, which no version has, where there is none
	p, exists, err := findPrompt(c.q, parts[1], parts[2], version)
	if err == nil && (!exists || p.kind != "text") {
		err = invalid("Prompt dependency not found, or not a text prompt: %s", textutil.Cut(tag, 300))
	}
	if err == nil {
		err = json.Unmarshal([]byte(p.content), &text)
	}
	if err == nil {
		text, err = c.resolve(text, depth+1)
	}
	c.references, c.length = c.references+1, c.length+len(text)
	if err == nil && (c.references > maxPromptReferences || c.length > maxPromptLength) {
		err = invalid("Resolved prompt is too long: at most %d references and %d bytes",
			maxPromptReferences, maxPromptLength)
	}
	return text, err
}
