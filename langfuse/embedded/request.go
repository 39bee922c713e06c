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

// call is one request on its way through a handler. Readers of its query
// remember the first thing that is wrong, for err.
type call struct {
	r       *http.Request
	w       http.ResponseWriter
	query   url.Values
	problem error
	// refuse, where it is set, says which events of a batch fail.
	refuse func() bool
}

// err returns what is wrong with the query, or nil.
func (c *call) err() error { return c.problem }

func (c *call) blame(err error) {
	if c.problem == nil {
		c.problem = err
	}
}

// path returns a segment of the path, decoded once.
func (c *call) path(key string) string { return c.r.PathValue(key) }

// decodedAgain is what the server makes of a name that it decodes a second time: in a
// path, a percent sign has to be sent as %2525.
func (c *call) decodedAgain(text string) string {
	name, err := url.PathUnescape(text)
	if err != nil {
		c.blame(&fault{http.StatusInternalServerError, object{"message": "Internal Server Error", "error": "URI malformed"}})
	}
	return name
}

// number reads a whole number from 1 on.
func (c *call) number(key string, usual, high int) int {
	text := c.query.Get(key)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > high {
		c.blame(badQuery(key, fmt.Sprintf("Invalid input: expected a number from 1 to %d", high)))
	}
	return n
}

// instant reads a timestamp; the bool says whether it was given.
func (c *call) instant(key string) (int64, bool) {
	text := c.query.Get(key)
	if text == "" {
		return 0, false
	}
	ms, valid := parseInstant(text)
	if !valid {
		c.blame(badQuery(key, "Invalid ISO datetime"))
	}
	return ms, valid
}

// list reads values separated by commas. Blanks around a value are dropped and
// empty values are not values, so a name with either cannot be asked for.
func (c *call) list(key string) []string {
	var values []string
	for part := range strings.SplitSeq(c.query.Get(key), ",") {
		if part = strings.TrimSpace(part); part != "" {
			values = append(values, part)
		}
	}
	return values
}

// all returns the values of a query key that may be repeated.
func (c *call) all(key string) []string {
	return slices.DeleteFunc(slices.Clone(c.query[key]), func(s string) bool { return s == "" })
}

// fields reads the groups of fields that are asked for; the usual ones are the first.
func (c *call) fields(usual int, known ...string) map[string]bool {
	wanted := c.list("fields")
	if len(wanted) == 0 {
		wanted = known[:usual]
	}
	groups := map[string]bool{}
	for _, group := range wanted {
		if !slices.Contains(known, group) {
			c.blame(badQuery("fields", "Invalid option: expected one of "+strings.Join(known, "|")))
		}
		groups[group] = true
	}
	return groups
}

// strictly refuses query keys that are not known: to pass one over would be to answer
// another question. Langfuse does so on some routes only.
func (c *call) strictly(known ...string) {
	extra := slices.Collect(maps.Keys(c.query))
	extra = slices.DeleteFunc(extra, func(key string) bool { return slices.Contains(known, key) })
	if len(extra) > 0 {
		c.blame(badData(unrecognized(extra)))
	}
}

// unrecognized names keys that are not known.
func unrecognized(keys []string) issue {
	for i, key := range keys {
		keys[i] = textutil.Cut(key, 100)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return issue{Code: "unrecognized_keys", Path: []any{}, Keys: keys,
		Message: "Unrecognized keys: " + textutil.Cut(joined(keys), 400)}
}

// cursor is the last row of a page: what it was ordered by, and its ids.
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
		c.blame(invalid("Invalid cursor format"))
	}
	return at, true
}

// paged answers with rows, of which one more was read only to know whether there is more:
// then the cursor is set to the last that is shown.
func paged[T any](found []T, limit int, meta object, last func(T) cursor, show func(T) (object, error)) (any, error) {
	if len(found) > limit {
		at := last(found[limit-1])
		at.Version = 1
		meta["cursor"] = base64.RawURLEncoding.EncodeToString([]byte(asText(at)))
		found = found[:limit]
	}
	data := make([]object, len(found))
	for i, row := range found {
		var err error
		if data[i], err = show(row); err != nil {
			return nil, err
		}
	}
	return object{"data": data, "meta": meta}, nil
}

// choose adds to an object the groups of fields that are wanted.
func choose(out object, wanted map[string]bool, groups map[string]object) object {
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

// given adds a condition on a value; an empty value is not a condition.
func (w *where) given(term, value string) {
	if value != "" {
		w.add(term, value)
	}
}

// equal adds "column is value"; an empty value is not a condition.
func (w *where) equal(column, value string) { w.given(column+" = ?", value) }

// in adds "column is one of values"; no values is not a condition. The values are
// one argument, since SQLite takes no more than 32766 of them.
func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	w.add(column+" IN (SELECT value FROM json_each(?))", joined(values))
}

// between adds the window of two query keys; its end does not belong to it.
func (w *where) between(c *call, column, from, to string) {
	if at, given := c.instant(from); given {
		w.add(column+" >= ?", at)
	}
	if at, given := c.instant(to); given {
		w.add(column+" < ?", at)
	}
}

func (w *where) String() string {
	if len(w.terms) == 0 {
		return "1"
	}
	return strings.Join(w.terms, " AND ")
}

// filter adds the conditions of the JSON list in ?filter, as far as they are
// used: a text is, is one of, or a list has any or all of some. The columns are
// looked up, never inserted.
func (w *where) filter(c *call, columns map[string]string) {
	var conditions []struct {
		Type, Column, Operator string
		Value                  json.RawMessage
	}
	if err := json.Unmarshal([]byte(cmp.Or(c.query.Get("filter"), "[]")), &conditions); err != nil {
		c.blame(invalid("Invalid JSON in filter parameter"))
	}
	for _, cond := range conditions {
		column := columns[cond.Column]
		if column == "" {
			c.blame(invalid("Column %s does not match", textutil.Cut(cond.Column, 100)))
		}
		var one string
		var list []string
		badText, badList := json.Unmarshal(cond.Value, &one), json.Unmarshal(cond.Value, &list)
		const listed = " IN (SELECT value FROM json_each(?))"
		switch kind := cond.Type + " " + cond.Operator; {
		case kind == "string =" && badText == nil:
			w.add(column+" = ?", one)
		case kind == "stringOptions any of" && badList == nil:
			w.add(column+listed, joined(list))
		case kind == "arrayOptions any of" && badList == nil:
			w.add("EXISTS (SELECT 1 FROM json_each("+column+") WHERE value"+listed+")", joined(list))
		case kind == "arrayOptions all of" && badList == nil:
			w.add("NOT EXISTS (SELECT 1 FROM json_each(?) WHERE value NOT IN (SELECT value FROM json_each("+column+")))", joined(list))
		default:
			c.blame(badQuery("filter", fmt.Sprintf("Invalid filter on column %s", textutil.Cut(cond.Column, 100))))
		}
	}
}

// listed answers with one page of a table: the newest rows by the order, as
// scan reads their columns.
func listed[T any](s *Server, c *call, usual int, scan func(*sql.Rows) (T, error), columns, table string, w *where,
	order string) (any, error) {
	number, limit := c.number("page", 1, math.MaxInt32), c.number("limit", usual, 100)
	if err := c.err(); err != nil {
		return nil, err
	}
	total, err := count(s.store.r, "SELECT count(*) FROM "+table+" WHERE "+w.String(), w.args...)
	if err != nil {
		return nil, err
	}
	data, err := collect(s.store.r, scan, "SELECT "+columns+" FROM "+table+" WHERE "+w.String()+" ORDER BY "+order+
		" LIMIT ? OFFSET ?", append(w.args, limit, (number-1)*limit)...)
	return pageOf(data, number, limit, total), err
}

func pageOf(data any, number, limit, total int) object {
	return object{"data": data, "meta": object{"page": number, "limit": limit, "totalItems": total,
		"totalPages": (total + limit - 1) / limit}}
}
