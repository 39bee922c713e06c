package embedded

import (
	"net/http"
	"regexp"
	"strconv"
)

// latestLabel points to the newest version; requests cannot set it.
const latestLabel = "latest"

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

func moveLabels(tx *transaction, name string, version int64, labels []string) error {
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
	err = s.store.update(func(tx *transaction) error {
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
	err = s.store.update(func(tx *transaction) error {
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

func removeVersion(tx *transaction, p prompt) error {
	if _, err := tx.Exec("DELETE FROM prompt_labels WHERE name = ? AND version = ?", p.name, p.version); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM prompts WHERE id = ?", p.id)
	return err
}

func relabelLatest(tx *transaction, name string) error {
	_, err := tx.Exec(`INSERT INTO prompt_labels(name, label, version)
		SELECT name, 'latest', max(version) FROM prompts WHERE name = ? GROUP BY name
		ON CONFLICT(name, label) DO UPDATE SET version = excluded.version`, name)
	return err
}
