package embedded

import (
	"database/sql"
	"strings"
)

const scoreColumns = `id, name, data_type, value, text, timestamp, event_at, event_id, source, environment, config_id,
	queue_id, author_id, trace_id, observation_id, session_id, run_id, created, updated, metadata, comment`

func scanScore(rows *sql.Rows) (score, error) {
	var s score
	err := rows.Scan(&s.id, &s.name, &s.dataType, &s.value, &s.text, &s.timestamp, &s.eventAt, &s.eventID, &s.source,
		&s.environment, &s.config, &s.queue, &s.author, &s.trace, &s.observation, &s.session, &s.run,
		&s.created, &s.updated, &s.metadata, &s.comment)
	return s, err
}

// storeScore puts a score in the place that its id has. A score that does not
// fit its configuration is dropped without a word, as Langfuse's worker does.
func storeScore(tx *transaction, sc score, now int64) error {
	if sc.config != "" {
		cfg, exists, err := findScoreConfig(tx, sc.config)
		if err != nil {
			return err
		}
		if !exists || !cfg.allows(sc) {
			return nil
		}
		sc.name = cfg.name
	}
	sc.created, sc.updated = now, now
	inserted, err := insertScore(tx, sc)
	if err != nil || inserted {
		return err
	}
	old, err := collect(tx, scanScore, "SELECT "+scoreColumns+" FROM scores WHERE id = ?", sc.id)
	if err != nil || len(old) == 0 {
		return err
	}
	if _, err := tx.Exec("DELETE FROM scores WHERE id = ?", sc.id); err != nil {
		return err
	}
	_, err = insertScore(tx, replaceScore(old[0], sc))
	return err
}

// insertScore reports whether its id was free.
func insertScore(tx *transaction, sc score) (bool, error) {
	result, err := tx.Exec("INSERT INTO scores("+scoreColumns+") VALUES(?"+strings.Repeat(",?", 20)+") ON CONFLICT(id) DO NOTHING",
		sc.id, sc.name, sc.dataType, sc.value, sc.text, sc.timestamp, sc.eventAt, sc.eventID, sc.source,
		sc.environment, sc.config, sc.queue, sc.author, sc.trace, sc.observation, sc.session, sc.run,
		sc.created, sc.updated, sc.metadata, sc.comment)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// replaceScore decides between two events with one score id. The one with the
// later event instant counts, not the one that came later. At equal instants
// the stored one stays, unless both are the same event. What the event that
// counts leaves out is kept from the other. The row keeps the instant at which
// it was first stored.
func replaceScore(old, given score) score {
	winner, loser := given, old
	if given.eventAt < old.eventAt || (given.eventAt == old.eventAt && given.eventID != old.eventID) {
		winner, loser = old, given
	}
	keepTexts([2]*string{&winner.comment, &loser.comment}, [2]*string{&winner.metadata, &loser.metadata},
		[2]*string{&winner.config, &loser.config}, [2]*string{&winner.queue, &loser.queue}, [2]*string{&winner.author, &loser.author})
	winner.timestamp, winner.created, winner.updated = old.timestamp, old.created, given.updated
	return winner
}

// groups of fields of a score
const (
	scoreDetails    = "details"
	scoreSubject    = "subject"
	scoreAnnotation = "annotation"
)

func (s *Server) scoreJSON(sc score, groups map[string]bool) object {
	out := object{
		"id": sc.id, "projectId": s.cfg.ProjectID, "name": sc.name, "value": sc.plain(), "dataType": sc.dataType,
		"source": sc.source, "environment": sc.environment, "timestamp": iso(sc.timestamp),
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated),
	}
	if groups[scoreDetails] {
		out["comment"], out["configId"] = nullable(sc.comment), nullable(sc.config)
		out["metadata"] = rawOrNull(sql.NullString{String: sc.metadata, Valid: true})
	}
	if groups[scoreSubject] {
		out["subject"] = sc.subject()
	}
	if groups[scoreAnnotation] {
		out["authorUserId"], out["queueId"] = nullable(sc.author), nullable(sc.queue)
	}
	return out
}

func (sc score) plain() any {
	switch sc.dataType {
	case "BOOLEAN":
		return sc.value.Float64 == 1
	case "NUMERIC":
		return sc.value.Float64
	}
	return sc.text.String
}

func (sc score) subject() object {
	switch {
	case sc.run != "":
		return object{"kind": "experiment", "id": sc.run}
	case sc.session != "":
		return object{"kind": "session", "id": sc.session}
	case sc.observation != "":
		return object{"kind": "observation", "id": sc.observation, "traceId": sc.trace}
	}
	return object{"kind": "trace", "id": sc.trace}
}

// wholeScores begins a query whose rows wholeScore reads.
const wholeScores = "SELECT " + scoreColumns + " FROM scores WHERE "

// wholeScore reads a score with all its fields.
func (s *Server) wholeScore(rows *sql.Rows) (object, error) {
	sc, err := scanScore(rows)
	return s.scoreJSON(sc, map[string]bool{scoreDetails: true, scoreSubject: true, scoreAnnotation: true}), err
}
