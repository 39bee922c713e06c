package embedded

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// page is a place in a list that is counted.
type page struct {
	number, limit int
}

func (p page) offset() int {
	return (p.number - 1) * p.limit
}

func (p page) meta(total int) object {
	return object{"page": p.number, "limit": p.limit, "totalItems": total,
		"totalPages": (total + p.limit - 1) / p.limit}
}

// page reads ?page and ?limit; the limit is at most 100.
func (c *call) page(usual int) (page, error) {
	number, err := c.number("page", 1, 1, math.MaxInt32)
	if err != nil {
		return page{}, err
	}
	limit, err := c.number("limit", usual, 1, 100)
	return page{number, limit}, err
}

func (c *call) number(key string, usual, low, high int) (int, error) {
	text := c.query.Get(key)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, badQuery(key, "Invalid input: expected a whole number")
	}
	if n < low || n > high {
		return 0, badQuery(key, fmt.Sprintf("Invalid input: expected a number from %d to %d", low, high))
	}
	return n, nil
}

// instant reads a timestamp; the bool says whether it was given.
func (c *call) instant(key string) (int64, bool, error) {
	text := c.query.Get(key)
	if text == "" {
		return 0, false, nil
	}
	ms, valid := parseInstant(text)
	if !valid {
		return 0, false, badQuery(key, "Invalid ISO datetime")
	}
	return ms, true, nil
}

// list reads values separated by commas. Blanks around a value are dropped and
// empty values are no values, so a name with either cannot be asked for.
func (c *call) list(key string) []string {
	var values []string
	for part := range strings.SplitSeq(c.query.Get(key), ",") {
		if part = strings.TrimSpace(part); part != "" {
			values = append(values, part)
		}
	}
	return values
}

// fields reads the groups of fields that are asked for.
func (c *call) fields(known, usual []string) (map[string]bool, error) {
	wanted := c.list("fields")
	if len(wanted) == 0 {
		wanted = usual
	}
	groups := map[string]bool{}
	for _, group := range wanted {
		if !slices.Contains(known, group) {
			return nil, badQuery("fields", "Invalid option: expected one of "+strings.Join(known, "|"))
		}
		groups[group] = true
	}
	return groups, nil
}

// cursor is the last row of a page: what it was ordered by, and its ids.
type cursor struct {
	Version int    `json:"v"`
	At      int64  `json:"at"`
	Trace   string `json:"trace,omitempty"`
	ID      string `json:"id"`
}

func (c cursor) String() string {
	c.Version = 1
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func (c *call) cursor() (cursor, bool, error) {
	given := c.query.Get("cursor")
	if given == "" {
		return cursor{}, false, nil
	}
	var at cursor
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(given, "="))
	if err != nil || json.Unmarshal(text, &at) != nil || at.Version != 1 {
		return cursor{}, false, invalid("Invalid cursor format")
	}
	return at, true, nil
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

// in adds "column is one of values"; no values is no condition. The values are
// one argument, since SQLite takes no more than 32766 of them.
func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	w.add(column+" IN (SELECT value FROM json_each(?))", joined(values))
}

func (w *where) String() string {
	if len(w.terms) == 0 {
		return "1"
	}
	return strings.Join(w.terms, " AND ")
}
