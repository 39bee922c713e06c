package embedded

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// scoreConfig is one row of score_configs: what scores of a name may look like.
type scoreConfig struct {
	id, name, dataType      string
	low, high               sql.NullFloat64
	categories, description sql.NullString
	archived                bool
	created, updated        int64
}

const configColumns = "id, name, data_type, min_value, max_value, categories, description, archived, created, updated"

func scanConfig(rows *sql.Rows) (scoreConfig, error) {
	var sc scoreConfig
	err := rows.Scan(&sc.id, &sc.name, &sc.dataType, &sc.low, &sc.high, &sc.categories, &sc.description,
		&sc.archived, &sc.created, &sc.updated)
	return sc, err
}

func findScoreConfig(q querier, id string) (scoreConfig, bool, error) {
	found, err := collect(q, scanConfig, "SELECT "+configColumns+" FROM score_configs WHERE id = ?", id)
	if err != nil || len(found) == 0 {
		return scoreConfig{}, false, err
	}
	return found[0], true, nil
}

// allows says whether a score fits: same type, inside the range, a known category.
func (sc scoreConfig) allows(s score) bool {
	if sc.archived || s.dataType != sc.dataType {
		return false
	}
	if s.value.Valid && ((sc.low.Valid && s.value.Float64 < sc.low.Float64) || (sc.high.Valid && s.value.Float64 > sc.high.Float64)) {
		return false
	}
	if sc.dataType != "CATEGORICAL" {
		return true
	}
	for _, known := range sc.labels() {
		if known == s.text.String {
			return true
		}
	}
	return false
}

func (sc scoreConfig) labels() []string {
	var categories []struct {
		Label string `json:"label"`
	}
	if json.Unmarshal([]byte(sc.categories.String), &categories) != nil {
		return nil
	}
	labels := make([]string, len(categories))
	for i, category := range categories {
		labels[i] = category.Label
	}
	return labels
}

func (s *Server) configJSON(sc scoreConfig) object {
	number := func(n sql.NullFloat64) any {
		if !n.Valid {
			return nil
		}
		return n.Float64
	}
	return object{"id": sc.id, "projectId": s.cfg.ProjectID, "name": sc.name, "dataType": sc.dataType,
		"minValue": number(sc.low), "maxValue": number(sc.high), "categories": rawOrNull(sc.categories),
		"description": orNull(sc.description), "isArchived": sc.archived,
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated)}
}

// createScoreConfig answers POST /score-configs. Names are not unique.
func (s *Server) createScoreConfig(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	now := s.now()
	sc := scoreConfig{id: uuid.NewString(), name: f.must("name"), dataType: f.must("dataType"), low: nullNumber(f, "minValue"),
		high: nullNumber(f, "maxValue"), categories: nullJSON(f, "categories"), description: nullText(f, "description"),
		created: now, updated: now}
	if !f.failed("name") {
		checkConfigName(f, sc.name)
	}
	switch sc.dataType {
	case "NUMERIC", "TEXT":
	case "BOOLEAN":
		sc.categories = sql.NullString{String: `[{"label":"True","value":1},{"label":"False","value":0}]`, Valid: true}
	case "CATEGORICAL":
		if len(sc.labels()) == 0 {
			f.add("custom", "categories", "Categories must be a list with at least one {label, value}")
		}
	default:
		f.add("invalid_value", "dataType", "Invalid option: expected one of NUMERIC|BOOLEAN|CATEGORICAL|TEXT")
	}
	if err := f.err(); err != nil {
		return reply{}, err
	}
	err = s.store.update(func(tx *transaction) error {
		_, err := tx.Exec("INSERT INTO score_configs("+configColumns+") VALUES(?,?,?,?,?,?,?,?,?,?)", sc.id, sc.name,
			sc.dataType, sc.low, sc.high, sc.categories, sc.description, sc.archived, sc.created, sc.updated)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	return ok(s.configJSON(sc))
}

// checkConfigName wants 1 to 35 letters, digits, blanks and some punctuation.
func checkConfigName(f *form, name string) {
	odd := strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_ .()-", r)
	})
	if length := utf8.RuneCountInString(name); length < 1 || length > 35 {
		f.add("custom", "name", "Invalid input: expected 1 to 35 characters")
	} else if odd >= 0 {
		f.add("invalid_format", "name", "Invalid input: only letters, numbers, spaces and _.()- are allowed")
	}
}

func nullNumber(f *form, key string) sql.NullFloat64 {
	if !f.has(key) {
		return sql.NullFloat64{}
	}
	n := sql.NullFloat64{Valid: true}
	if json.Unmarshal(f.raw(key), &n.Float64) != nil {
		f.add("invalid_type", key, "Invalid input: expected number")
	}
	return n
}

// listScoreConfigs answers GET /score-configs, newest first.
func (s *Server) listScoreConfigs(c *call) (reply, error) {
	return s.listed(c, func(rows *sql.Rows) (object, error) {
		sc, err := scanConfig(rows)
		return s.configJSON(sc), err
	}, configColumns, "score_configs", &where{}, "created DESC, id")
}

// updateScoreConfig answers PATCH /score-configs/{id}: name, description, bounds
// and isArchived may change, the data type may not.
func (s *Server) updateScoreConfig(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	name, description, archived := f.text("name"), nullText(f, "description"), false
	low, high := nullNumber(f, "minValue"), nullNumber(f, "maxValue")
	if f.has("isArchived") && json.Unmarshal(f.raw("isArchived"), &archived) != nil {
		f.add("invalid_type", "isArchived", "Invalid input: expected boolean")
	}
	if name != "" {
		checkConfigName(f, name)
	}
	if err := f.err(); err != nil {
		return reply{}, err
	}
	var sc scoreConfig
	err = s.store.update(func(tx *transaction) error {
		_, err := tx.Exec(`UPDATE score_configs SET name = coalesce(?, name), description = coalesce(?, description),
			min_value = coalesce(?, min_value), max_value = coalesce(?, max_value), archived = CASE ? WHEN 1 THEN ? ELSE archived END,
			updated = ? WHERE id = ?`, nullable(name), description, low, high, f.has("isArchived"), archived, s.now(), c.path["id"])
		if err != nil {
			return err
		}
		var exists bool
		sc, exists, err = findScoreConfig(tx, c.path["id"])
		if err == nil && !exists {
			err = notFound("Score config not found within authorized project")
		}
		return err
	})
	return reply{http.StatusOK, s.configJSON(sc)}, err
}

// getScoreConfig answers GET /score-configs/{id}.
func (s *Server) getScoreConfig(c *call) (reply, error) {
	sc, exists, err := findScoreConfig(s.store.r, c.path["id"])
	if err != nil {
		return reply{}, err
	}
	if !exists {
		return reply{}, notFound("Score config not found within authorized project")
	}
	return ok(s.configJSON(sc))
}
