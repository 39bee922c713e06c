package embedded

import (
	"slices"
	"strings"
)

// traceFilter maps the columns of a filter; some are query parameters too.
func traceFilter() map[string]string {
	spans := func(sum string) string {
		return "(SELECT " + sum + " FROM observations o WHERE o.trace_id = t.id AND " + newestRow + ")"
	}
	return map[string]string{"id": "t.id", "name": "t.name", "traceName": "t.name", "userId": "t.user_id",
		"sessionId": "t.session_id", "version": "t.version", "release": "t.release", "environment": "t.environment",
		"timestamp": "t.timestamp", "tags": "t.tags", "traceTags": "t.tags",
		"latency":   spans("(max(o.end_ms) - min(o.start_ms)) / 1000.0"),
		"totalCost": spans("coalesce(sum(o.total_cost), 0)"),
		"level":     spans("CASE WHEN sum(o.level = 'ERROR') > 0 THEN 'ERROR' WHEN sum(o.level = 'WARNING') > 0 THEN 'WARNING' ELSE 'DEFAULT' END")}
}

// listTraces answers GET /traces, the newest first unless ?orderBy says else.
// Without ?fields whole inputs and outputs are returned, whatever their size.
func (s *Server) listTraces(c *call) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	order, err := c.traceOrder()
	if err != nil {
		return reply{}, err
	}
	w, err := traceWhere(c)
	if err != nil {
		return reply{}, err
	}
	total, err := count(s.store.r, "SELECT count(*) FROM traces t WHERE "+w.String(), w.args...)
	if err != nil {
		return reply{}, err
	}
	groups := c.traceGroups()
	found, err := readTraces(s.store.r, groups["io"], "WHERE "+w.String()+" ORDER BY "+order+", t.id LIMIT ? OFFSET ?",
		append(w.args, p.limit, p.offset())...)
	if err != nil {
		return reply{}, err
	}
	data := make([]object, len(found))
	for i, t := range found {
		data[i] = s.traceJSON(t, groups)
		if err := s.addListed(data[i], groups); err != nil {
			return reply{}, err
		}
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}

// addListed adds the ids of the observations and scores, and the metrics.
func (s *Server) addListed(out object, groups map[string]bool) (err error) {
	if groups["observations"] {
		out["observations"], err = collect(s.store.r, scanText,
			"SELECT DISTINCT span_id FROM observations WHERE trace_id = ? ORDER BY span_id", out["id"])
	}
	if groups["scores"] && err == nil {
		out["scores"], err = collect(s.store.r, scanText,
			"SELECT id FROM scores WHERE trace_id = ? AND trace_id != '' ORDER BY id", out["id"])
	}
	if groups["metrics"] && err == nil {
		err = s.addMetrics(out)
	}
	return err
}

func (c *call) traceOrder() (string, error) {
	column, direction, _ := strings.Cut(orElse(c.query.Get("orderBy"), "timestamp.desc"), ".")
	known := slices.Contains([]string{"timestamp", "id", "name", "userId", "sessionId", "version", "release", "environment",
		"latency", "totalCost"}, column)
	direction = strings.ToUpper(direction)
	if !known || (direction != "ASC" && direction != "DESC") {
		return "", badQuery("orderBy", "Invalid input: expected a column and .asc or .desc")
	}
	return traceFilter()[column] + " " + direction, nil
}

// traceWhere reads the query. A condition of ?filter takes the place of the
// parameter for its column; every one of the tags has to be there.
func traceWhere(c *call) (where, error) {
	var w where
	columns := traceFilter()
	conditions, err := c.conditions()
	if err != nil {
		return w, err
	}
	replaced := map[string]bool{}
	for _, cond := range conditions {
		if err := w.traceCondition(cond, columns); err != nil {
			return w, err
		}
		replaced[columns[cond.Column]] = true
	}
	for _, key := range []string{"name", "userId", "sessionId", "version", "release"} {
		if text := c.query.Get(key); text != "" && !replaced[columns[key]] {
			w.add(columns[key]+" = ?", text)
		}
	}
	if !replaced["t.environment"] {
		w.in("t.environment", c.all("environment"))
	}
	for _, tag := range c.all("tags") {
		if !replaced["t.tags"] {
			w.add("EXISTS (SELECT 1 FROM json_each(t.tags) WHERE value = ?)", tag)
		}
	}
	if replaced["t.timestamp"] {
		return w, nil
	}
	return w, w.between(c, "t.timestamp", "fromTimestamp", "toTimestamp")
}

// all returns the values of a query key that may be repeated.
func (c *call) all(key string) []string {
	return slices.DeleteFunc(slices.Clone(c.query[key]), func(s string) bool { return s == "" })
}

// between adds the window of two query keys; its end does not belong to it.
func (w *where) between(c *call, column, from, to string) error {
	for key, comparison := range map[string]string{from: " >= ?", to: " < ?"} {
		at, given, err := c.instant(key)
		if err != nil {
			return err
		}
		if given {
			w.add(column+comparison, at)
		}
	}
	return nil
}

// traceCondition adds one condition. Those on scores and metadata have a key
// besides the column; a mean is one over numbers and booleans.
func (w *where) traceCondition(cond condition, columns map[string]string) error {
	const scores = "EXISTS (SELECT 1 FROM (SELECT %v AS value FROM scores s WHERE s.trace_id = t.id AND s.trace_id != '' AND s.name = ?%s) WHERE "
	keyed := map[string][2]string{ // by type and column: what is looked at, with which further condition
		"numberObject scores_avg":          {"avg(s.value)", " AND s.data_type IN ('NUMERIC', 'BOOLEAN')"},
		"booleanObject score_booleans":     {"s.value", " AND s.data_type = 'BOOLEAN'"},
		"categoryOptions score_categories": {"s.text", " AND s.data_type = 'CATEGORICAL'"},
	}[cond.Type+" "+cond.Column]
	prefix := strings.NewReplacer("%v", keyed[0], "%s", keyed[1]).Replace(scores)
	plainly := map[string]string{"numberObject": "number", "booleanObject": "boolean", "categoryOptions": "stringOptions"}[cond.Type]
	if cond.Type == "stringObject" && cond.Column == "metadata" {
		prefix = "EXISTS (SELECT 1 FROM json_each(CASE t.metadata WHEN '' THEN '{}' ELSE t.metadata END) WHERE key = ? AND "
		plainly = "string"
	} else if keyed[0] == "" {
		return w.condition(cond, columns)
	}
	var inner where
	cond.Type = plainly
	if err := inner.condition(cond, map[string]string{cond.Column: "value"}); err != nil {
		return err
	}
	w.add(prefix+inner.String()+")", append([]any{cond.Key}, inner.args...)...)
	return nil
}
