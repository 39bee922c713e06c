package embedded

import (
	"database/sql"
	"net/http"
	"slices"
)

// traceGroups returns the groups of fields that ?fields asks for; names that are
// not known are passed over, and none at all means all.
func (c *call) traceGroups() map[string]bool {
	known := []string{"core", "io", "scores", "observations", "metrics"}
	wanted := slices.DeleteFunc(c.list("fields"), func(name string) bool { return !slices.Contains(known, name) })
	if len(wanted) == 0 {
		wanted = known
	}
	groups := map[string]bool{}
	for _, group := range wanted {
		groups[group] = true
	}
	return groups
}

// traceJSON is a trace without its observations, scores and metrics; those are
// empty lists and -1 until they are filled in.
func (s *Server) traceJSON(t trace, groups map[string]bool) object {
	out := object{"id": t.id, "externalId": nil, "timestamp": iso(t.timestamp), "name": nullable(t.name),
		"userId": nullable(t.user), "sessionId": nullable(t.session), "release": nullable(t.release),
		"version": nullable(t.version), "projectId": s.cfg.ProjectID, "environment": t.environment, "public": t.public.Bool,
		"bookmarked": false, "tags": jsonOr(t.tags, "[]"), "createdAt": iso(t.created), "updatedAt": iso(t.updated),
		"htmlPath": "/project/" + s.cfg.ProjectID + "/traces/" + t.id, "observations": []any{}, "scores": []any{},
		"latency": -1, "totalCost": -1, "metadata": object{}}
	if groups["io"] {
		out["metadata"] = jsonOr(t.metadata, "{}")
		out["input"] = parsedContent(t.input.String, t.input.Valid)
		out["output"] = parsedContent(t.output.String, t.output.Valid)
	}
	return out
}

// getTrace answers GET /traces/{id}: the trace with its observations and scores.
func (s *Server) getTrace(c *call) (reply, error) {
	groups := c.traceGroups()
	found, err := readTraces(s.store.r, true, "WHERE t.id = ?", c.path["id"])
	if err != nil {
		return reply{}, err
	}
	if len(found) == 0 {
		return reply{}, notFound("Trace %s not found within authorized project", clip(c.path["id"], 300))
	}
	out := s.traceJSON(found[0], groups)
	if groups["observations"] {
		spans, err := readWhole(s.store.r, "WHERE o.trace_id = ? AND "+newestRow+" ORDER BY o.start_ms, o.span_id", c.path["id"])
		if err != nil {
			return reply{}, err
		}
		out["observations"] = s.legacyObservations(spans)
	}
	if groups["scores"] {
		out["scores"], err = collect(s.store.r, func(rows *sql.Rows) (object, error) {
			sc, err := scanScore(rows)
			return s.legacyScore(sc), err
		}, wholeScores+"trace_id = ? AND trace_id != '' AND data_type IN ("+plainTypes+") ORDER BY timestamp DESC, id", c.path["id"])
		if err != nil {
			return reply{}, err
		}
	}
	if groups["metrics"] {
		err = s.addMetrics(out)
	}
	if err != nil {
		return reply{}, err
	}
	return ok(out)
}

// addMetrics sets the time from the first start to the last end in seconds, and
// the sum of the costs in US dollars.
func (s *Server) addMetrics(out object) error {
	var latency, cost float64
	err := s.store.r.QueryRow(`SELECT max(coalesce(max(o.end_ms) - min(o.start_ms), 0), 0) / 1000.0, coalesce(sum(o.total_cost), 0)
		FROM observations o WHERE o.trace_id = ? AND `+newestRow, out["id"]).Scan(&latency, &cost)
	out["latency"], out["totalCost"] = latency, cost
	return err
}

// deleteTrace answers DELETE /traces/{id}, in every mode.
func (s *Server) deleteTrace(c *call) (reply, error) {
	return s.deleteTraces([]string{c.path["id"]}, "Trace deleted successfully")
}

// deleteManyTraces answers DELETE /traces with {"traceIds": […]}, up to 1000.
func (s *Server) deleteManyTraces(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	ids := f.texts("traceIds")
	if len(ids) == 0 {
		f.add("too_small", "traceIds", "At least 1 traceId is required.")
	}
	if len(ids) > 1000 {
		f.add("too_big", "traceIds", "Cannot specify more than 1000 traces in a single request.")
	}
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	return s.deleteTraces(ids, "Traces deleted successfully")
}

// deleteTraces removes traces with their observations and scores; ids that are
// not there are no error. It waits for DeleteDelay.
func (s *Server) deleteTraces(ids []string, message string) (reply, error) {
	err := s.later(s.cfg.DeleteDelay, func(tx *transaction) error {
		for _, table := range []string{"traces WHERE id", "observations WHERE trace_id", "scores WHERE trace_id"} {
			if _, err := tx.Exec("DELETE FROM "+table+" IN (SELECT value FROM json_each(?))", joined(ids)); err != nil {
				return err
			}
		}
		return nil
	})
	return reply{http.StatusOK, object{"message": message}}, err
}
