package embedded

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"

	"github.com/google/uuid"
)

// model is one row of models: prices are US dollars a unit, by kind of usage.
type model struct {
	id, name, pattern, unit, tokenizer string
	tokenizerConfig                    sql.NullString
	start                              sql.NullInt64
	prices                             map[string]float64
	created                            int64
}

const modelColumns = "id, name, pattern, start, unit, tokenizer, tokenizer_config, prices, created"

func scanModel(rows *sql.Rows) (model, error) {
	var m model
	var prices string
	err := rows.Scan(&m.id, &m.name, &m.pattern, &m.start, &m.unit, &m.tokenizer, &m.tokenizerConfig, &prices, &m.created)
	if err == nil {
		err = json.Unmarshal([]byte(prices), &m.prices)
	}
	return m, err
}

func (m model) json() object {
	flat := object{}
	for kind, price := range m.prices {
		flat[kind] = object{"price": price}
	}
	price := func(kind string) any {
		p, known := m.prices[kind]
		return numberOrNull(p, known)
	}
	return object{"id": m.id, "modelName": m.name, "matchPattern": m.pattern, "startDate": isoOrNull(m.start), "unit": nullable(m.unit),
		"inputPrice": price("input"), "outputPrice": price("output"), "totalPrice": price("total"), "prices": flat,
		"tokenizerId": nullable(m.tokenizer), "tokenizerConfig": rawOrNull(m.tokenizerConfig), "isLangfuseManaged": false,
		"createdAt": iso(m.created), "pricingTiers": []object{{"id": m.id + "_tier_default", "name": "Standard", "isDefault": true,
			"priority": 0, "conditions": []any{}, "prices": m.prices}}}
}

// createModel answers POST /models with flat prices. A pattern has to be a
// regular expression; the name has to be new. Tiers are not taken here.
func (s *Server) createModel(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	m := model{id: uuid.NewString(), name: f.must("modelName"), pattern: f.must("matchPattern"), unit: f.must("unit"),
		tokenizer: f.text("tokenizerId"), tokenizerConfig: nullJSON(f, "tokenizerConfig"), prices: map[string]float64{}, created: s.now()}
	m.start.Int64, m.start.Valid = f.instant("startDate")
	m.readPrices(f)
	if !slices.Contains([]string{"TOKENS", "CHARACTERS", "MILLISECONDS", "SECONDS", "REQUESTS", "IMAGES"}, m.unit) && !f.failed("unit") {
		f.add("invalid_value", "unit", "Invalid option: expected one of TOKENS|CHARACTERS|MILLISECONDS|SECONDS|REQUESTS|IMAGES")
	}
	if err := f.err(); err != nil {
		return reply{}, err
	}
	if _, err := regexp.Compile(m.pattern); err != nil {
		return reply{}, invalid("matchPattern is not a valid regex pattern (Postgres)")
	}
	err = s.store.update(func(tx *transaction) error {
		taken, err := count(tx, "SELECT count(*) FROM models WHERE name = ?", m.name)
		if err != nil {
			return err
		}
		if taken > 0 {
			return invalid("Model name '%s' already exists in project", clip(m.name, 300))
		}
		_, err = tx.Exec("INSERT INTO models("+modelColumns+") VALUES(?,?,?,?,?,?,?,?,?)", m.id, m.name, m.pattern, m.start, m.unit,
			m.tokenizer, m.tokenizerConfig, asText(m.prices), m.created)
		return err
	})
	return reply{http.StatusOK, m.json()}, err
}

func (m *model) readPrices(f *form) {
	for kind, key := range map[string]string{"input": "inputPrice", "output": "outputPrice", "total": "totalPrice"} {
		price := nullNumber(f, key)
		if price.Float64 < 0 {
			f.add("too_small", key, "Too small: expected number to be >=0")
		}
		if price.Valid {
			m.prices[kind] = price.Float64
		}
	}
	if len(m.prices) == 0 {
		f.issues = append(f.issues, issue{Code: "custom", Path: []any{},
			Message: "Must provide either flat prices (inputPrice/outputPrice/totalPrice) OR pricingTiers"})
	}
	if m.prices["total"] != 0 && m.prices["input"]+m.prices["output"] != 0 {
		f.add("custom", "totalPrice", "If input and/or output price is set, total price must be null")
	}
}

// listModels answers GET /models by name. There are none of Langfuse's own.
func (s *Server) listModels(c *call) (reply, error) {
	return s.listed(c, func(rows *sql.Rows) (object, error) {
		m, err := scanModel(rows)
		return m.json(), err
	}, modelColumns, "models", &where{}, "name, id")
}

// getModel answers GET /models/{id}.
func (s *Server) getModel(c *call) (reply, error) {
	found, err := collect(s.store.r, scanModel, "SELECT "+modelColumns+" FROM models WHERE id = ?", c.path["id"])
	if err != nil {
		return reply{}, err
	}
	if len(found) == 0 {
		return reply{}, notFound("No model with this id found.")
	}
	return ok(found[0].json())
}

// deleteModel answers DELETE /models/{id}.
func (s *Server) deleteModel(c *call) (reply, error) {
	err := s.store.update(func(tx *transaction) error {
		done, err := tx.Exec("DELETE FROM models WHERE id = ?", c.path["id"])
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err == nil && n == 0 {
			err = notFound("No model with this id found. Note: You cannot delete built-in models, override them with a model with the same name.")
		}
		return err
	})
	return reply{http.StatusOK, object{"message": "Model successfully deleted"}}, err
}
