package embedded

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// condition is one element of the JSON list in ?filter.
type condition struct {
	Type     string `json:"type"`
	Column   string `json:"column"`
	Operator string `json:"operator"`
	Value    any    `json:"value"`
	Key      string `json:"key"`
}

// The bounds of a filter.
const (
	maxConditions = 100
	maxOptions    = 1000
)

// filterOr adds the conditions of ?filter, or else those of the plain query
// parameters: a filter takes their place.
func (c *call) filterOr(w *where, columns map[string]string, plainly func()) error {
	conditions, err := c.conditions()
	if err != nil {
		return err
	}
	if len(conditions) == 0 {
		plainly()
		return nil
	}
	for _, cond := range conditions {
		if err := w.condition(cond, columns); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) conditions() ([]condition, error) {
	text := c.query.Get("filter")
	if text == "" {
		return nil, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, invalid("Invalid JSON in filter parameter")
	}
	var conditions []condition
	if err := json.Unmarshal([]byte(text), &conditions); err != nil {
		return nil, badQuery("filter", "Invalid input: expected a list of filters")
	}
	if len(conditions) > maxConditions {
		return nil, badQuery("filter", fmt.Sprintf("Too big: expected at most %d filters", maxConditions))
	}
	return conditions, nil
}

// condition adds one condition. The column is looked up, never inserted.
func (w *where) condition(cond condition, columns map[string]string) error {
	column := columns[cond.Column]
	if column == "" {
		return invalid("Column %s does not match", clip(cond.Column, 100))
	}
	if strings.HasPrefix(cond.Type, "number") || cond.Type == "datetime" {
		return w.ordered(cond, column)
	}
	switch cond.Type {
	case "string":
		return w.matched(cond, column)
	case "stringOptions", "arrayOptions":
		return w.options(cond, column)
	case "boolean":
		on, isBool := cond.Value.(bool)
		if isBool && (cond.Operator == "=" || cond.Operator == "<>") {
			w.add(column+" = ?", on == (cond.Operator == "="))
			return nil
		}
	case "null":
		if empty, known := map[string]string{"is null": " = ''", "is not null": " != ''"}[cond.Operator]; known {
			w.add("coalesce(" + column + ", '')" + empty)
			return nil
		}
	}
	return badQuery("filter", fmt.Sprintf("Invalid filter on column %s", clip(cond.Column, 100)))
}

func (w *where) ordered(cond condition, column string) error {
	compare := map[string]string{"=": "=", ">": ">", "<": "<", ">=": ">=", "<=": "<="}[cond.Operator]
	value := cond.Value
	if text, isText := value.(string); isText && cond.Type == "datetime" {
		ms, valid := parseInstant(text)
		if !valid {
			return badQuery("filter", "Invalid ISO datetime")
		}
		value = float64(ms)
	}
	number, isNumber := value.(float64)
	if compare == "" || !isNumber {
		return badQuery("filter", fmt.Sprintf("Invalid filter on column %s", clip(cond.Column, 100)))
	}
	w.add(column+" "+compare+" ?", number)
	return nil
}

func (w *where) matched(cond condition, column string) error {
	text, isText := cond.Value.(string)
	if !isText {
		return badQuery("filter", "Invalid input: expected string")
	}
	switch cond.Operator {
	case "=":
		w.add(column+" = ?", text)
	case "contains":
		w.add("instr("+column+", ?) > 0", text)
	case "does not contain":
		w.add("instr("+column+", ?) = 0", text)
	case "starts with":
		w.add("substr("+column+", 1, length(?)) = ?", text, text)
	case "ends with":
		w.add("(? = '' OR substr("+column+", -length(?)) = ?)", text, text, text)
	default:
		return badQuery("filter", "Invalid operator "+clip(cond.Operator, 100))
	}
	return nil
}

// options compares with a list. A column that holds a list has any, all or none
// of the values.
func (w *where) options(cond condition, column string) error {
	given, isList := cond.Value.([]any)
	values := make([]string, 0, len(given))
	for _, one := range given {
		if text, isText := one.(string); isText && !slices.Contains(values, text) {
			values = append(values, text)
		} else if !isText {
			isList = false
		}
	}
	if !isList || len(values) == 0 || len(values) > maxOptions {
		return badQuery("filter", "Invalid input: expected a list of strings")
	}
	const listed = " IN (SELECT value FROM json_each(?))"
	term, args := column+listed, []any{joined(values)}
	if cond.Type == "arrayOptions" {
		term = "EXISTS (SELECT 1 FROM json_each(" + column + ") WHERE value" + listed + ")"
	}
	switch {
	case cond.Operator == "any of":
	case cond.Operator == "none of":
		term = "NOT " + term
	case cond.Operator == "all of" && cond.Type == "arrayOptions":
		term = "(SELECT count(DISTINCT value) FROM json_each(" + column + ") WHERE value" + listed + ") = ?"
		args = append(args, len(values))
	default:
		return badQuery("filter", "Invalid operator "+clip(cond.Operator, 100))
	}
	w.add(term, args...)
	return nil
}
