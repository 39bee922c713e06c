package embedded

import (
	"database/sql"
	"math"
)

// A session is what traces name; it begins with the first of them.
const sessionsFrom = ` FROM (SELECT session_id AS id, min(created) AS created, environment FROM traces t
	WHERE t.session_id != '' GROUP BY t.session_id) WHERE `

func (s *Server) readSessions(condition string, args ...any) ([]object, error) {
	return collect(s.store.r, func(rows *sql.Rows) (object, error) {
		var id, environment string
		var created int64
		err := rows.Scan(&id, &created, &environment)
		return object{"id": id, "createdAt": iso(created), "projectId": s.cfg.ProjectID, "environment": environment}, err
	}, "SELECT id, created, environment"+sessionsFrom+condition+" ORDER BY created DESC, id LIMIT ? OFFSET ?", args...)
}

// listSessions answers GET /sessions, the newest first.
func (s *Server) listSessions(c *call) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	var w where
	w.in("environment", c.all("environment"))
	if err := w.between(c, "created", "fromTimestamp", "toTimestamp"); err != nil {
		return reply{}, err
	}
	total, err := count(s.store.r, "SELECT count(*)"+sessionsFrom+w.String(), w.args...)
	if err != nil {
		return reply{}, err
	}
	data, err := s.readSessions(w.String(), append(w.args, p.limit, p.offset())...)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}

// getSession answers GET /sessions/{id} with the session's traces.
func (s *Server) getSession(c *call) (reply, error) {
	found, err := s.readSessions("id = ?", c.path["id"], 1, 0)
	if err != nil {
		return reply{}, err
	}
	if len(found) == 0 {
		return reply{}, notFound("Session not found within authorized project")
	}
	traces, err := readTraces(s.store.r, true, "WHERE t.session_id = ? AND t.session_id != '' ORDER BY t.timestamp DESC, t.id LIMIT ?",
		c.path["id"], math.MaxInt32)
	if err != nil {
		return reply{}, err
	}
	list := make([]object, len(traces))
	for i, t := range traces {
		list[i] = s.traceJSON(t, map[string]bool{"core": true, "io": true})
		for _, key := range []string{"observations", "scores", "latency", "totalCost", "htmlPath"} {
			delete(list[i], key)
		}
	}
	found[0]["traces"] = list
	return ok(found[0])
}
