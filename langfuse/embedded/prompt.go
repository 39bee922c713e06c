package embedded

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// prompt is one version of a prompt. Text holds the JSON of its content: a
// string, or a list of messages.
type prompt struct {
	id, name      string
	version       int64
	kind          string
	content       string
	config, tags  string
	commitMessage sql.NullString
	created       int64
	updated       int64
	labels        []string
}

const promptColumns = "id, name, version, type, prompt, config, tags, commit_message, created, updated"

func scanPrompt(rows *sql.Rows) (prompt, error) {
	var p prompt
	err := rows.Scan(&p.id, &p.name, &p.version, &p.kind, &p.content, &p.config, &p.tags, &p.commitMessage, &p.created, &p.updated)
	return p, err
}

// findPrompt returns the version that a label points to, or a version by its
// number where the label is empty.
func findPrompt(q querier, name, label string, version int64) (prompt, bool, error) {
	condition, args := "name = ? AND version = ?", []any{name, version}
	if label != "" {
		condition = "name = ? AND version = (SELECT l.version FROM prompt_labels l WHERE l.name = prompts.name AND l.label = ?)"
		args = []any{name, label}
	}
	found, err := collect(q, scanPrompt, "SELECT "+promptColumns+" FROM prompts WHERE "+condition, args...)
	if err != nil || len(found) == 0 {
		return prompt{}, false, err
	}
	p := found[0]
	p.labels, err = collect(q, scanText, "SELECT label FROM prompt_labels WHERE name = ? AND version = ? ORDER BY label", name, p.version)
	return p, err == nil, err
}

func (s *Server) promptJSON(p prompt) object {
	return object{
		"id": p.id, "projectId": s.cfg.ProjectID, "name": p.name, "version": p.version, "type": p.kind,
		"prompt": json.RawMessage(p.content), "config": json.RawMessage(p.config), "labels": p.labels,
		"tags": json.RawMessage(p.tags), "commitMessage": orNull(p.commitMessage), "createdBy": "API",
		"createdAt": iso(p.created), "updatedAt": iso(p.updated), "isActive": nil, "resolutionGraph": nil,
	}
}

// getPrompt answers GET /v2/prompts/{name}, with the references to other
// prompts filled in unless ?resolve=false.
func (s *Server) getPrompt(c *call) (reply, error) {
	label, version, err := promptChoice(c)
	if err != nil {
		return reply{}, err
	}
	return s.answerPrompt(c, c.path["name"], label, version)
}

// getPromptByQuery answers GET /prompts?name=, which needs no name in a path. The
// name is decoded a second time, and a label is not heard: it is the version, or
// else the one that production points to.
func (s *Server) getPromptByQuery(c *call) (reply, error) {
	if c.query.Get("name") == "" {
		return reply{}, badQuery("name", "Invalid input: expected string, received undefined")
	}
	name, err := decodedAgain(c.query.Get("name"))
	if err != nil {
		return reply{}, err
	}
	c.query.Del("label")
	_, version, err := promptChoice(c)
	if err != nil {
		return reply{}, err
	}
	return s.answerPrompt(c, name, "", version)
}

func (s *Server) answerPrompt(c *call, name, label string, version int64) (reply, error) {
	if label == "" && version == 0 {
		label = "production"
	}
	p, exists, err := findPrompt(s.store.r, name, label, version)
	if err != nil {
		return reply{}, err
	}
	if !exists {
		return reply{}, promptMissing(name, label, version)
	}
	out := s.promptJSON(p)
	if c.query.Get("resolve") == "false" {
		return ok(out)
	}
	composed, err := compose(s.store.r, p)
	if err != nil {
		return reply{}, err
	}
	out["prompt"], out["resolutionGraph"] = json.RawMessage(composed.content), composed.graph
	return ok(out)
}

// promptChoice reads ?label or ?version; both are refused.
func promptChoice(c *call) (label string, version int64, err error) {
	label = c.query.Get("label")
	text := c.query.Get("version")
	if label != "" && text != "" {
		return "", 0, invalid("Cannot specify both version and label")
	}
	if text == "" {
		return label, 0, nil
	}
	version, err = strconv.ParseInt(text, 10, 64)
	if err != nil || version < 1 {
		return "", 0, badQuery("version", "Invalid input: expected a positive whole number")
	}
	return "", version, nil
}

func promptMissing(name, label string, version int64) error {
	which := fmt.Sprintf("version %d", version)
	if label != "" {
		which = fmt.Sprintf("label '%s'", clip(label, 100))
	}
	return notFound("Prompt not found: '%s' with %s", clip(name, 300), which)
}

// listPrompts answers GET /v2/prompts: one entry per name. A filter by label
// narrows the versions; the labels are always those of all versions.
func (s *Server) listPrompts(c *call) (reply, error) {
	p, err := c.page(10)
	if err != nil {
		return reply{}, err
	}
	w, err := promptWhere(c)
	if err != nil {
		return reply{}, err
	}
	total, err := count(s.store.r, "SELECT count(DISTINCT p.name) FROM prompts p WHERE "+w.String(), w.args...)
	if err != nil {
		return reply{}, err
	}
	data, err := collect(s.store.r, scanPromptEntry, `SELECT g.name, x.type, x.config, x.tags, g.updated, g.versions,
			(SELECT json_group_array(label) FROM prompt_labels l WHERE l.name = g.name AND l.version IN (SELECT value FROM json_each(g.versions)))
		FROM (SELECT p.name AS name, max(p.version) AS newest, max(p.updated) AS updated, json_group_array(p.version) AS versions
			FROM prompts p WHERE `+w.String()+` GROUP BY p.name ORDER BY max(p.updated) DESC, p.name LIMIT ? OFFSET ?) g
		JOIN prompts x ON x.name = g.name AND x.version = g.newest ORDER BY g.updated DESC, g.name`,
		append(w.args, p.limit, p.offset())...)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}

func scanPromptEntry(rows *sql.Rows) (object, error) {
	var name, kind, config, tags, numbers, labels string
	var updated int64
	if err := rows.Scan(&name, &kind, &config, &tags, &updated, &numbers, &labels); err != nil {
		return nil, err
	}
	var versions []int64
	if err := json.Unmarshal([]byte(numbers), &versions); err != nil {
		return nil, err
	}
	slices.Sort(versions)
	return object{"name": name, "type": kind, "versions": versions, "labels": json.RawMessage(labels),
		"tags": json.RawMessage(tags), "lastUpdatedAt": iso(updated), "lastConfig": json.RawMessage(config)}, nil
}

func promptWhere(c *call) (where, error) {
	var w where
	if name := c.query.Get("name"); name != "" {
		w.add("p.name = ?", name)
	}
	if label := c.query.Get("label"); label != "" {
		w.add("EXISTS (SELECT 1 FROM prompt_labels l WHERE l.name = p.name AND l.version = p.version AND l.label = ?)", label)
	}
	if tag := c.query.Get("tag"); tag != "" {
		w.add("EXISTS (SELECT 1 FROM json_each(p.tags) WHERE value = ?)", tag)
	}
	for key, comparison := range map[string]string{"fromUpdatedAt": "p.updated >= ?", "toUpdatedAt": "p.updated < ?"} {
		at, given, err := c.instant(key)
		if err != nil {
			return w, err
		}
		if given {
			w.add(comparison, at)
		}
	}
	return w, nil
}
