package embedded

import (
	"cmp"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/textutil"
)

// call is a request and its answer. The readers of its query keep the first error in err.
type call struct {
	r     *http.Request
	w     http.ResponseWriter
	query url.Values
	err   error // the first problem of the query
	where       // the conditions of the list that the query asks for
	// refuse, if not nil, reports whether the next event of a batch fails.
	refuse func() bool
}

func (c *call) reject(err error) {
	c.err = cmp.Or(c.err, err)
}

// path returns a segment of the path, decoded once.
func (c *call) path(key string) string { return c.r.PathValue(key) }

// decodeAgain decodes a name that the server decodes twice. In a path, clients have to send a
// percent sign as %2525.
func (c *call) decodeAgain(text string) string {
	name, err := url.PathUnescape(text)
	if err != nil {
		body := object{"message": "Internal Server Error", "error": "URI malformed"}
		c.reject(&apiError{http.StatusInternalServerError, body})
	}
	return name
}

// number reads an integer from 1 to maximum.
func (c *call) number(key string, defaultValue, maximum int) int {
	text := c.query.Get(key)
	if text == "" {
		return defaultValue
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maximum {
		c.reject(invalidQuery(key, fmt.Sprintf("Invalid input: expected a number from 1 to %d", maximum)))
	}
	return n
}

// instant reads a timestamp in milliseconds, at least 1, and reports whether it is present and valid.
func (c *call) instant(key string) (int64, bool) {
	text := c.query.Get(key)
	if text == "" {
		return 0, false
	}
	ms, valid := parseInstant(text)
	if !valid {
		c.reject(invalidQuery(key, "Invalid ISO datetime"))
	}
	return max(1, ms), valid
}

// list reads values separated by commas. It drops spaces around values and empty values, so names
// with leading or trailing spaces cannot be selected.
func (c *call) list(key string) []string {
	var values []string
	for part := range strings.SplitSeq(c.query.Get(key), ",") {
		if part = strings.TrimSpace(part); part != "" {
			values = append(values, part)
		}
	}
	return values
}

// values returns the non-empty values of a query key that may be repeated.
func (c *call) values(key string) []string {
	return slices.DeleteFunc(slices.Clone(c.query[key]), func(s string) bool { return s == "" })
}

// fields reads the requested groups of fields. The default is the first ones of the known groups.
func (c *call) fields(defaults int, known ...string) map[string]bool {
	wanted := c.list("fields")
	if len(wanted) == 0 {
		wanted = known[:defaults]
	}
	groups := map[string]bool{}
	for _, group := range wanted {
		if !slices.Contains(known, group) {
			c.reject(invalidQuery("fields", "Invalid option: expected one of "+strings.Join(known, "|")))
		}
		groups[group] = true
	}
	return groups
}

// allowKeys rejects unknown query keys, because ignoring one would answer a different question.
// Langfuse does so on some routes only.
func (c *call) allowKeys(known ...string) {
	unknown := slices.Collect(maps.Keys(c.query))
	unknown = slices.DeleteFunc(unknown, func(key string) bool { return slices.Contains(known, key) })
	if len(unknown) > 0 {
		c.reject(invalidData(unknownKeys(unknown)))
	}
}

// unknownKeys returns the issue that keys are unknown.
func unknownKeys(keys []string) issue {
	for i, key := range keys {
		keys[i] = textutil.Cut(key, 100)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return issue{Code: "unrecognized_keys", Path: []any{}, Keys: keys,
		Message: "Unrecognized keys: " + textutil.Cut(jsonList(keys), 400)}
}

// cursor identifies the last row of a page by its sort key and its ids.
type cursor struct {
	Version int    `json:"v"`
	At      int64  `json:"at"`
	Trace   string `json:"trace,omitempty"`
	ID      string `json:"id"`
}

func (c *call) cursor() (at cursor, given bool) {
	text := c.query.Get("cursor")
	if text == "" {
		return at, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || json.Unmarshal(raw, &at) != nil || at.Version != 1 {
		c.reject(invalidRequest("Invalid cursor format"))
	}
	return at, true
}

// cursorPage answers with up to limit rows. If there are more rows, the answer has a cursor of
// the last row shown; callers read one row more than limit.
func cursorPage[T any](rows []T, limit int, meta object, last func(T) cursor,
	show func(T) (object, error)) (any, error) {
	if len(rows) > limit {
		at := last(rows[limit-1])
		at.Version = 1
		meta["cursor"] = base64.RawURLEncoding.EncodeToString([]byte(asText(at)))
		rows = rows[:limit]
	}
	data := make([]object, len(rows))
	for i, row := range rows {
		var err error
		if data[i], err = show(row); err != nil {
			return nil, err
		}
	}
	return object{"data": data, "meta": meta}, nil
}

// addGroups adds the wanted groups of fields to an object and returns it.
func addGroups(out object, wanted map[string]bool, groups map[string]object) object {
	for group, fields := range groups {
		if wanted[group] {
			maps.Copy(out, fields)
		}
	}
	return out
}

// where collects the conditions of a statement and their arguments.
type where struct {
	terms []string
	args  []any
}

func (w *where) add(term string, args ...any) {
	w.terms = append(w.terms, term)
	w.args = append(w.args, args...)
}

// addIfSet adds a condition on a value, unless the value is empty.
func (w *where) addIfSet(term, value string) {
	if value != "" {
		w.add(term, value)
	}
}

// equal adds the condition column = value, unless the value is empty.
func (w *where) equal(column, value string) { w.addIfSet(column+" = ?", value) }

// in adds the condition that a column has one of the values, unless there are none. The values
// are a single argument, because SQLite accepts no more than 32766.
func (w *where) in(column string, values []string) {
	if len(values) > 0 {
		w.add(column+" IN (SELECT value FROM json_each(?))", jsonList(values))
	}
}

// between adds the time range of two query keys; the end is exclusive.
func (c *call) between(column, from, to string) {
	if at, given := c.instant(from); given {
		c.add(column+" >= ?", at)
	}
	if at, given := c.instant(to); given {
		c.add(column+" < ?", at)
	}
}

// sql returns the conditions as SQL.
func (w *where) sql() string {
	if len(w.terms) == 0 {
		return "1"
	}
	return strings.Join(w.terms, " AND ")
}

// filter adds the conditions of the JSON list in ?filter. It supports strings that are equal to
// or one of some values, and lists that contain any or all of some values. Columns are looked up
// and never inserted.
func (c *call) filter(columns map[string]string) {
	var conditions []struct {
		Type, Column, Operator string
		Value                  json.RawMessage
	}
	if err := json.Unmarshal([]byte(cmp.Or(c.query.Get("filter"), "[]")), &conditions); err != nil {
		c.reject(invalidRequest("Invalid JSON in filter parameter"))
	}
	for _, cond := range conditions {
		column := columns[cond.Column]
		if column == "" {
			c.reject(invalidRequest("Column %s does not match", textutil.Cut(cond.Column, 100)))
		}
		var text string
		var list []string
		badText, badList := json.Unmarshal(cond.Value, &text), json.Unmarshal(cond.Value, &list)
		const inList = " IN (SELECT value FROM json_each(?))"
		switch kind := cond.Type + " " + cond.Operator; {
		case kind == "string =" && badText == nil:
			c.add(column+" = ?", text)
		case kind == "stringOptions any of" && badList == nil:
			c.add(column+inList, jsonList(list))
		case kind == "arrayOptions any of" && badList == nil && cond.Column == "tags":
			c.add("EXISTS (SELECT 1 FROM json_each("+column+") WHERE value"+inList+")", jsonList(list))
		case kind == "arrayOptions all of" && badList == nil && cond.Column == "tags":
			c.add("NOT EXISTS (SELECT 1 FROM json_each(?) WHERE value NOT IN (SELECT value FROM json_each("+column+")))",
				jsonList(list))
		default:
			c.reject(invalidQuery("filter", fmt.Sprintf("Invalid filter on column %s", textutil.Cut(cond.Column, 100))))
		}
	}
}

// numberedPage answers with one page of the rows of a table that the conditions of the call
// select, in the given order.
func numberedPage[T any](s *Server, c *call, defaultLimit int, scan func(*sql.Rows) (T, error),
	columns, table, order string) (any, error) {
	number, limit := c.number("page", 1, math.MaxInt32), c.number("limit", defaultLimit, 100)
	if c.err != nil {
		return nil, c.err
	}
	total, err := queryInt(s.store.r, "SELECT count(*) FROM "+table+" WHERE "+c.sql(), c.args...)
	if err != nil {
		return nil, err
	}
	data, err := queryRows(s.store.r, scan, "SELECT "+columns+" FROM "+table+" WHERE "+c.sql()+" ORDER BY "+order+
		" LIMIT ? OFFSET ?", append(c.args, limit, (number-1)*limit)...)
	return pageOf(data, number, limit, total), err
}

func pageOf(data any, number, limit, total int) object {
	return object{"data": data, "meta": object{"page": number, "limit": limit, "totalItems": total,
		"totalPages": (total + limit - 1) / limit}}
}
