package embedded

import (
	"database/sql"
	"math"
)

// window reads fromStartTime, which has to be given, and toStartTime.
func (c *call) window() (from, to int64, err error) {
	from, given, err := c.instant("fromStartTime")
	if err == nil && !given {
		err = badData(issue{Code: "invalid_type", Path: []any{"fromStartTime"},
			Message: "Invalid input: expected string, received undefined"})
	}
	if err != nil {
		return 0, 0, err
	}
	to, given, err = c.instant("toStartTime")
	if !given {
		to = math.MaxInt64
	}
	return from, to, err
}

// experiment is what the spans of one experiment add up to within a window.
type experiment struct {
	id, name, description, dataset, metadata string
	start, end                               int64
	items                                    int
}

func scanExperiment(rows *sql.Rows) (experiment, error) {
	var e experiment
	err := rows.Scan(&e.id, &e.name, &e.description, &e.dataset, &e.metadata, &e.start, &e.end, &e.items)
	return e, err
}

// listExperiments answers GET /experiments, the latest start first. The number
// of items counts root spans, so an item that was tried twice counts twice.
func (s *Server) listExperiments(c *call) (reply, error) {
	groups, err := c.fields([]string{"core", "metadata", "scores"}, []string{"core"})
	if err != nil {
		return reply{}, err
	}
	limit, err := c.number("limit", 50, 1, 100)
	if err != nil {
		return reply{}, err
	}
	scoreLimit, err := c.number("scoreLimit", 50, 1, 50)
	if err != nil {
		return reply{}, err
	}
	w, having, err := experimentWhere(c)
	if err != nil {
		return reply{}, err
	}
	if !s.cfg.Mode.events() { // only now: a bad query is 400 in Langfuse 3 too
		return reply{}, notFound("%s", onlyV4Text("experiments"))
	}
	args := append(append(w.args, having.args...), limit+1)
	found, err := collect(s.store.r, scanExperiment, `SELECT e.id, e.name, e.description, e.dataset_id, e.metadata,
			min(o.start_ms) AS first, max(o.end_ms), sum(o.is_item_root)
		FROM experiments e CROSS JOIN observations o INDEXED BY observations_of_experiment
			ON o.experiment_id = e.id AND o.experiment_id != ''
		WHERE `+w.String()+` GROUP BY e.id HAVING `+having.String()+` ORDER BY first DESC, e.id DESC LIMIT ?`, args...)
	if err != nil {
		return reply{}, err
	}
	meta := object{}
	if len(found) > limit {
		found = found[:limit]
		last := found[limit-1]
		meta["cursor"] = cursor{At: last.start, ID: last.id}.String()
	}
	data := make([]object, len(found))
	for i, e := range found {
		data[i] = e.json(groups)
		if !groups["scores"] {
			continue
		}
		data[i]["scores"], err = collect(s.store.r, s.wholeScore,
			wholeScores+"run_id = ? AND run_id != '' ORDER BY timestamp DESC, id LIMIT ?", e.id, scoreLimit)
		if err != nil {
			return reply{}, err
		}
	}
	return ok(object{"data": data, "meta": meta})
}

func experimentWhere(c *call) (w, having where, err error) {
	from, to, err := c.window()
	if err != nil {
		return w, having, err
	}
	w.add("o.start_ms >= ? AND o.start_ms < ?", from, to)
	columns := map[string]string{"id": "e.id", "name": "e.name", "datasetId": "e.dataset_id"}
	if err := c.filterOr(&w, columns, func() {
		for key, column := range columns {
			w.in(column, c.list(key))
		}
	}); err != nil {
		return w, having, err
	}
	at, given, err := c.cursor()
	if given {
		having.add("(first, e.id) < (?, ?)", at.At, at.ID)
	}
	return w, having, err
}

func (e experiment) json(groups map[string]bool) object {
	out := object{"id": e.id, "name": e.name, "description": nullable(e.description), "datasetId": e.dataset,
		"startTime": iso(e.start), "endTime": iso(e.end), "itemCount": e.items}
	if groups["metadata"] {
		out["metadata"] = rawOrNull(sql.NullString{String: e.metadata, Valid: true})
	}
	return out
}
