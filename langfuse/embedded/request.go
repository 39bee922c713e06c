package embedded

import (
	"bytes"
	"cmp"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// given adds a condition on a value; an empty value is no condition.
func (w *where) given(term, value string) {
	if value != "" {
		w.add(term, value)
	}
}

// equal adds "column is value"; an empty value is no condition.
func (w *where) equal(column, value string) { w.given(column+" = ?", value) }

// in adds "column is one of values"; no values is no condition. The values are
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
	return object{"data": data, "meta": object{"page": number, "limit": limit, "totalItems": total,
		"totalPages": (total + limit - 1) / limit}}, err
}

// The sizes of request bodies, by route; the texts are part of the contract.
const (
	smallBody = 1 << 20
	largeBody = 4<<20 + 1<<19 // 4.5 MB, for dataset items and ingestion
)

// form is a JSON object from outside. Its readers collect issues instead of
// failing, so that one answer names every field that is wrong.
type form struct {
	fields  []field // of a key that stands there twice the last counts
	issues  []issue
	problem error // why there are no fields
}

type field struct {
	key   string
	value json.RawMessage
	read  bool
}

// form reads the body of a call as one JSON object. One that is none has no
// fields, and err says why.
func (c *call) form(limit int64) *form { return c.formIn(new(bytes.Buffer), limit) }

// formIn is form with a buffer for the body, whose texts are those of the form.
func (c *call) formIn(buffer *bytes.Buffer, limit int64) *form {
	body, err := readBody(buffer, c.r.Body, limit, c.r.ContentLength)
	switch {
	case err != nil:
		return &form{problem: err}
	case len(bytes.TrimSpace(body)) == 0:
		body = []byte("{}")
	}
	return newForm(body)
}

func newForm(body json.RawMessage) *form {
	if depth := textutil.JSONDepth(body); depth > maxDepth {
		text := fmt.Sprintf("Invalid input: nested deeper than %d", maxDepth)
		return &form{problem: badData(issue{Code: "custom", Path: []any{}, Message: text})}
	} else if depth < 0 {
		return &form{problem: &fault{http.StatusBadRequest, "Invalid JSON"}}
	}
	f := new(form)
	f.open(body)
	return f
}

// readBody reads a body up to a limit, into an empty buffer, of what is said to have that
// many bytes; -1 is unknown.
func readBody(into *bytes.Buffer, r io.Reader, limit, said int64) ([]byte, error) {
	into.Grow(int(min(max(0, said), 8<<20)) + bytes.MinRead)
	if _, err := into.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, spanFault("Failed to read the request body: " + err.Error())
	}
	if int64(into.Len()) > limit {
		return nil, &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("Body exceeded %gmb limit", float64(limit)/(1<<20))}
	}
	return into.Bytes(), nil
}

// open reads what is known to be JSON, or is absent, in the place of what the form was
// before. Keys and texts of the form are parts of it, so that it must not change.
func (f *form) open(raw json.RawMessage) {
	*f = form{fields: f.fields[:0]}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		f.problem = badData(issue{Code: "invalid_type", Path: []any{}, Message: "Invalid input: expected object"})
		return
	}
	for key, value := range textutil.RawJSONMembers(raw) {
		f.fields = append(f.fields, field{key: textutil.JSONTextIn(key), value: value})
	}
}

func (f *form) add(code, key, message string) {
	f.issues = append(f.issues, issue{Code: code, Path: []any{key}, Message: message})
}

// sized wants a text of so many characters, unless something else is wrong with the field.
func (f *form) sized(key, text string, low, high int) {
	if n := utf8.RuneCountInString(text); (n < low || n > high) && !f.failed(key) {
		f.add("custom", key, fmt.Sprintf("Invalid input: expected %d to %d characters", low, high))
	}
}

// failed says whether an issue names a field.
func (f *form) failed(key string) bool {
	return slices.ContainsFunc(f.issues, func(found issue) bool { return len(found.Path) > 0 && found.Path[0] == key })
}

// raw returns a field as it came, nil where it is absent. null is returned.
func (f *form) raw(key string) (value json.RawMessage) {
	for i := range f.fields {
		if f.fields[i].key == key {
			f.fields[i].read, value = true, f.fields[i].value
		}
	}
	return value
}

// has says whether a field is there and not null.
func (f *form) has(key string) bool {
	raw := f.raw(key)
	return raw != nil && string(raw) != "null"
}

// into reads a field that may be absent or null; the bool says whether it is there.
func (f *form) into(key string, v any, kind string) bool {
	if !f.has(key) {
		return false
	}
	if json.Unmarshal(f.raw(key), v) != nil {
		f.add("invalid_type", key, "Invalid input: expected "+kind)
	}
	return true
}

// elements returns the values of a list, which has to be there.
func (f *form) elements(key string) []json.RawMessage {
	raw := f.raw(key)
	if len(raw) == 0 || raw[0] != '[' {
		f.add("invalid_type", key, "Invalid input: expected array")
		return nil
	}
	return slices.Collect(textutil.JSONElements(raw))
}

// text returns a string that may be absent or null.
func (f *form) text(key string) string {
	raw := f.raw(key)
	if len(raw) > 0 && raw[0] == '"' && utf8.Valid(raw) {
		return textutil.JSONTextIn(raw)
	}
	if raw == nil {
		return ""
	}
	var s string
	f.into(key, &s, "string")
	return s
}

// must returns a string that has to be there; it may be empty.
func (f *form) must(key string) string {
	if !f.has(key) {
		f.add("invalid_type", key, "Invalid input: expected string, received undefined")
	}
	return f.text(key)
}

// oneOf returns a string that has to be one of some; an empty one where it is
// absent.
func (f *form) oneOf(key string, known ...string) string {
	s := f.text(key)
	if f.has(key) && !slices.Contains(known, s) && !f.failed(key) {
		f.add("invalid_value", key, "Invalid option: expected one of "+strings.Join(known, "|"))
	}
	return s
}

// texts returns a list of strings that may be absent.
func (f *form) texts(key string) (list []string) {
	f.into(key, &list, "array of strings")
	return list
}

// nullText returns a string that may be null.
func (f *form) nullText(key string) sql.NullString {
	return sql.NullString{String: f.text(key), Valid: f.has(key)}
}

// nullJSON returns a field as the text of its JSON.
func (f *form) nullJSON(key string) sql.NullString {
	if !f.has(key) {
		return sql.NullString{}
	}
	return sql.NullString{String: string(f.raw(key)), Valid: true}
}

// nullNumber returns a number that may be null.
func (f *form) nullNumber(key string) (n sql.NullFloat64) {
	n.Valid = f.into(key, &n.Float64, "number")
	return n
}

// instant returns a timestamp that may be absent, in milliseconds.
func (f *form) instant(key string) (int64, bool) {
	s := f.text(key)
	if s == "" {
		return 0, false
	}
	ms, valid := parseInstant(s)
	if !valid {
		f.add("invalid_format", key, "Invalid ISO datetime")
	}
	return ms, valid
}

// only adds an issue for the fields that no reader has asked for.
func (f *form) only() *form {
	var extra []string
	for _, field := range f.fields {
		if !field.read {
			extra = append(extra, field.key)
		}
	}
	if len(extra) > 0 {
		f.issues = append(f.issues, unrecognized(extra))
	}
	return f
}

// err returns the 400 for the issues, or nil.
func (f *form) err() error {
	if f.problem != nil || len(f.issues) == 0 {
		return f.problem
	}
	return badData(f.issues...)
}

// update works in a transaction, unless something is wrong with the form.
func (s *Server) update(f *form, work func(*transaction) error) error {
	if err := f.err(); err != nil {
		return err
	}
	return s.store.update(work)
}

// parseInstant reads RFC 3339, or a bare date as its midnight in UTC.
func parseInstant(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// eachLeaf changes what of a decoded JSON value is no list and no object; a member has its key.
func eachLeaf(key string, v any, change func(key string, leaf any) any) any {
	switch node := v.(type) {
	case []any:
		for i := range node {
			node[i] = eachLeaf("", node[i], change)
		}
	case map[string]any:
		for key := range node {
			node[key] = eachLeaf(key, node[key], change)
		}
	default:
		return change(key, v)
	}
	return v
}

// iso writes milliseconds as the API writes instants.
func iso(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func isoOrNull(ms sql.NullInt64) any {
	if !ms.Valid {
		return nil
	}
	return iso(ms.Int64)
}

// nullable is how an absent text is written: as null.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// orNull is the value of a column that may be null.
func orNull(column driver.Valuer) any {
	v, _ := column.Value() // of sql.NullString and its like: there is no error
	return v
}

// jsonText passes stored JSON on as it is; nothing stored is null.
func jsonText(s string) any {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// maxDepth is how deep JSON may nest. The encoder refuses what the decoder took
// once it stands deeper inside of an answer, so a page with it could never be
// read again.
const maxDepth = 1000

// storable says whether a text is JSON that does not nest deeper.
func storable(raw []byte) bool {
	depth := textutil.JSONDepth(raw)
	return depth >= 0 && depth <= maxDepth
}

// decodeJSON reads one value and keeps numbers as they are written.
func decodeJSON(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	return v, nil
}

// parsedText reads a text that is JSON as what it says; any other stays a text.
func parsedText(text string) any {
	if storable([]byte(text)) {
		if decoded, err := decodeJSON([]byte(text)); err == nil {
			return decoded
		}
	}
	return text
}

// asText writes a value as text: a text as it is, anything else as JSON.
func asText(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	text, err := textutil.MarshalJSON(v)
	if err != nil { // a number that JSON cannot write
		return ""
	}
	return string(text)
}

// joined is a list as JSON.
func joined(list []string) string {
	return asText(append([]string{}, list...))
}
