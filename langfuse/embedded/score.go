package embedded

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"extraction-experiment/internal/textutil"
)

// score is a row of the table scores. Its value is a number, or a text for CATEGORICAL, TEXT and
// CORRECTION.
type score struct {
	id, name, dataType               string
	value                            sql.NullFloat64
	text                             sql.NullString
	timestamp, eventAt               int64
	eventID                          string
	source, environment              string
	config, queue, author            string
	trace, observation, session, run string
	created, updated                 int64
	metadata, comment                string
}

const scoreColumns = `id, name, data_type, value, text, timestamp, event_at, event_id, source, environment, config_id,
	queue_id, author_id, trace_id, observation_id, session_id, run_id, created, updated, metadata, comment`

// selectScores is the beginning of a query for scores.
const selectScores = "SELECT " + scoreColumns + " FROM scores WHERE "

func (sc *score) columns() []any {
	return []any{&sc.id, &sc.name, &sc.dataType, &sc.value, &sc.text, &sc.timestamp, &sc.eventAt, &sc.eventID, &sc.source,
		&sc.environment, &sc.config, &sc.queue, &sc.author, &sc.trace, &sc.observation, &sc.session, &sc.run,
		&sc.created, &sc.updated, &sc.metadata, &sc.comment}
}

// createScore answers POST /scores. It generates an id if none is given. The timestamp is the
// current time, and the later of two requests with the same id counts.
func (s *Server) createScore(c *call) (any, error) {
	f := c.form(smallBody)
	sc := readScore(f)
	if err := f.err(); err != nil {
		return nil, err
	}
	body := object{}
	for _, field := range f.fields {
		body[field.key] = field.value
	}
	sc.id = cmp.Or(sc.id, uuid.NewString())
	stored := object{"id": sc.id}
	if body["id"] = sc.id; s.cfg.drops(DropScore, sc.id) {
		return stored, nil
	}
	event := object{"id": sc.id, "type": "score-create", "timestamp": iso(s.now()), "body": body}
	return stored, s.enqueue(s.cfg.IngestionDelay, "events", []byte(asText([]object{event})), sc.run)
}

// deleteScore answers DELETE /scores/{id} with 202, also for an unknown id. The score is gone in
// the next read, or after Config.DeleteDelay.
func (s *Server) deleteScore(c *call) (any, error) {
	return newAnswer(http.StatusAccepted, object{"message": "Score deletion request received successfully"}),
		s.enqueue(s.cfg.DeleteDelay, "delete-score", []byte(c.path("id")), anyExperiment)
}

// readScore reads the body of POST /scores and of score-create events. Exactly one of trace,
// session and run is required; an observation needs its trace.
func readScore(f *form) score {
	sc := score{
		id: f.text("id"), name: f.required("name"), source: cmp.Or(f.oneOf("source", "API", "EVAL", "ANNOTATION"), "API"),
		dataType:    f.oneOf("dataType", "NUMERIC", "BOOLEAN", "CATEGORICAL", "TEXT", "CORRECTION"),
		environment: environment(f.text("environment")), config: f.text("configId"), queue: f.text("queueId"),
		trace: f.text("traceId"), observation: f.text("observationId"), session: f.text("sessionId"),
		run: f.text("datasetRunId"), comment: f.text("comment"), metadata: f.nullJSON("metadata").String,
	}
	sc.readValue(f)
	correction := sc.dataType == "CORRECTION"
	if correction {
		sc.name = "output"
	}
	switch {
	case sc.name == "":
		f.addIssue("too_small", "name", "Too small: expected string to have >=1 characters")
	case !textutil.ExactlyOne(sc.trace != "", sc.session != "", sc.run != ""):
		f.addIssue("custom", "traceId", "Provide exactly one of the following: traceId, sessionId, datasetRunId")
	case sc.observation != "" && sc.trace == "":
		f.addIssue("custom", "observationId", "Provide exactly one of the following: an observationId needs its traceId")
	case correction && sc.run != "":
		f.addIssue("custom", "datasetRunId", "CORRECTION scores cannot be attached to a dataset run")
	case correction && sc.config != "":
		f.addIssue("custom", "configId", "CORRECTION scores cannot have a configId")
	case sc.source == "ANNOTATION" && sc.config == "" && !correction:
		f.addIssue("custom", "configId", "configId is required for scores with source ANNOTATION")
	}
	return sc
}

// readValue reads the value by its data type. Without a type, a number is NUMERIC and a string
// CATEGORICAL.
func (sc *score) readValue(f *form) {
	if raw := f.raw("value"); len(raw) > 0 && raw[0] == '"' {
		sc.text = f.nullText("value")
	} else {
		sc.value.Valid = f.decode("value", &sc.value.Float64, "number or string")
	}
	number, isNumber, isText := sc.value.Float64, sc.value.Valid, sc.text.Valid
	switch {
	case sc.dataType == "" && isNumber:
		sc.dataType = "NUMERIC"
	case sc.dataType == "" && isText:
		sc.dataType = "CATEGORICAL"
	}
	numeric := sc.dataType == "NUMERIC" || sc.dataType == "BOOLEAN"
	switch {
	case numeric && !isNumber:
		f.addIssue("invalid_type", "value", "Invalid input: expected number for "+sc.dataType)
	case sc.dataType == "":
		f.addIssue("invalid_type", "value", "Invalid input: expected number or string, received null or undefined")
	case !numeric && !isText:
		f.addIssue("invalid_type", "value", "Invalid input: expected string for "+sc.dataType)
	case sc.dataType == "BOOLEAN" && number != 0 && number != 1:
		f.addIssue("custom", "value", "Value must be either 0 or 1 for BOOLEAN")
	case sc.dataType == "TEXT":
		f.checkLength("value", sc.text.String, 1, 500)
	}
}

// storeScore stores a score, and merges it with a stored one of the same id. It silently drops a
// score that its configuration does not allow, as Langfuse's worker does.
func storeScore(tx *transaction, sc score, now int64) error {
	if sc.config != "" {
		cfg, exists, err := queryRow(tx, scanRow[scoreConfig], selectConfig, sc.config)
		if err != nil || !exists || !cfg.allows(sc) {
			return err
		}
		sc.name = cfg.name
	}
	sc.created, sc.updated = now, now
	if tx.insert("scores", scoreColumns, sc.columns()...) {
		return nil
	}
	old, _, err := queryRow(tx, scanRow[score], "DELETE FROM scores WHERE id = ? RETURNING "+scoreColumns, sc.id)
	sc = mergeScores(old, sc)
	tx.insert("scores", scoreColumns, sc.columns()...)
	return err
}

// mergeScores merges two events with the same score id. The event with the later timestamp wins,
// in whatever order they arrive. At equal timestamps the stored one wins, unless both are the
// same event. Fields that the winner omits come from the other one. The timestamp and creation
// time are those of the stored score.
func mergeScores(stored, given score) score {
	winner, loser := given, stored
	if given.eventAt < stored.eventAt || (given.eventAt == stored.eventAt && given.eventID != stored.eventID) {
		winner, loser = stored, given
	}
	for _, text := range [][2]*string{{&winner.comment, &loser.comment}, {&winner.metadata, &loser.metadata},
		{&winner.config, &loser.config}, {&winner.queue, &loser.queue}, {&winner.author, &loser.author}} {
		*text[0] = cmp.Or(*text[0], *text[1])
	}
	winner.timestamp, winner.created, winner.updated = stored.timestamp, stored.created, given.updated
	return winner
}

// fullJSON returns a score with all fields in the form of version 3 of the API.
func (sc score) fullJSON() object {
	return sc.json(map[string]bool{"details": true, "subject": true, "annotation": true})
}

func (sc score) json(groups map[string]bool) object {
	return addGroups(object{
		"id": sc.id, "projectId": DefaultProjectID, "name": sc.name, "value": sc.apiValue(), "dataType": sc.dataType,
		"source": sc.source, "environment": sc.environment, "timestamp": iso(sc.timestamp),
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated),
	}, groups, map[string]object{
		"details": {"comment": textOrNull(sc.comment), "configId": textOrNull(sc.config),
			"metadata": jsonOrNull(sc.metadata)},
		"subject":    {"subject": sc.subject()},
		"annotation": {"authorUserId": textOrNull(sc.author), "queueId": textOrNull(sc.queue)},
	})
}

func (sc score) apiValue() any {
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

// legacyJSON returns a score in the form of versions 1 and 2 of the API. A BOOLEAN is 0 or 1 with
// a stringValue. A CATEGORICAL or CORRECTION has its text as stringValue and the value 0; a TEXT
// has no value.
func (sc score) legacyJSON() object {
	out := sc.fullJSON()
	delete(out, "subject")
	maps.Copy(out, object{"value": sc.value.Float64, "stringValue": valueOrNull(sc.text), "metadata": jsonOrNull(cmp.Or(sc.metadata, "{}")),
		"traceId": textOrNull(sc.trace), "observationId": textOrNull(sc.observation), "sessionId": textOrNull(sc.session),
		"datasetRunId": textOrNull(sc.run)})
	switch sc.dataType {
	case "BOOLEAN":
		out["stringValue"] = map[bool]string{true: "True", false: "False"}[sc.value.Float64 == 1]
	case "TEXT":
		delete(out, "value")
	}
	return out
}

// inLists adds the conditions of query keys that hold lists, by the column of each key.
func (c *call) inLists(columns map[string]string) {
	for key, column := range columns {
		values := c.list(key)
		c.in(column, values)
		if len(values) > 0 && (column == "trace_id" || column == "run_id") {
			c.add(column + " != ''") // makes the partial index usable
		}
	}
}

// listLegacyScores answers GET /v2/scores, newest first.
func (s *Server) listLegacyScores(c *call) (any, error) {
	c.allowKeys("scoreIds", "name", "traceId", "datasetRunId", "page", "limit")
	c.inLists(map[string]string{"scoreIds": "id", "name": "name", "traceId": "trace_id", "datasetRunId": "run_id"})
	return numberedPage(s, c, 50, scanObject(score.legacyJSON), scoreColumns, "scores", "timestamp DESC, id")
}

// listScores answers GET /v3/scores, newest first. A filter by value is supported for BOOLEAN
// only.
func (s *Server) listScores(c *call) (any, error) {
	columns := map[string]string{"id": "id", "name": "name", "source": "source", "dataType": "data_type",
		"environment": "environment", "traceId": "trace_id", "experimentId": "run_id"}
	c.allowKeys(slices.AppendSeq([]string{"limit", "cursor", "fields", "value"}, maps.Keys(columns))...)
	groups, limit := c.fields(1, "core", "details", "subject", "annotation"), c.number("limit", 50, 100)
	c.inLists(columns)
	if value := c.query.Get("value"); value != "" {
		number := map[string]string{"true": "1", "false": "0"}[value]
		if number == "" || c.query.Get("dataType") != "BOOLEAN" {
			c.reject(invalidQuery("value", "Invalid input: expected true or false, and dataType=BOOLEAN"))
		}
		c.equal("value", number)
	}
	if at, given := c.cursor(); given {
		c.add("(timestamp, id) < (?, ?)", at.At, at.ID)
	}
	if c.err != nil {
		return nil, c.err
	}
	found, err := queryRows(s.store.r, scanRow[score], selectScores+c.sql()+" ORDER BY timestamp DESC, id DESC LIMIT ?",
		append(c.args, limit+1)...)
	if err != nil {
		return nil, err
	}
	last := func(sc score) cursor { return cursor{At: sc.timestamp, ID: sc.id} }
	show := func(sc score) (object, error) { return sc.json(groups), nil }
	return cursorPage(found, limit, object{"limit": limit}, last, show)
}

// newestScores returns the newest scores that satisfy the condition; a negative limit means all.
func (s *Server) newestScores(show func(score) object, limit int, condition string, args ...any) ([]object, error) {
	return queryRows(s.store.r, scanObject(show), selectScores+condition+" ORDER BY timestamp DESC, id LIMIT ?", append(args, limit)...)
}

// scoreConfig is a row of score_configs: it defines which scores are valid.
type scoreConfig struct {
	id, name, dataType      string
	low, high               sql.NullFloat64
	categories, description sql.NullString
	archived                bool
	created, updated        int64
}

const configColumns = "id, name, data_type, min_value, max_value, categories, description, archived, created, updated"

// selectConfig is the query for a configuration by id.
const selectConfig = "SELECT " + configColumns + " FROM score_configs WHERE id = ?"

func (sc *scoreConfig) columns() []any {
	return []any{&sc.id, &sc.name, &sc.dataType, &sc.low, &sc.high, &sc.categories, &sc.description,
		&sc.archived, &sc.created, &sc.updated}
}

// allows reports whether a score has the data type, is in the range, and has a known category. An
// archived configuration allows none.
func (sc scoreConfig) allows(s score) bool {
	if sc.archived || s.dataType != sc.dataType {
		return false
	}
	if s.value.Valid && ((sc.low.Valid && s.value.Float64 < sc.low.Float64) || (sc.high.Valid && s.value.Float64 > sc.high.Float64)) {
		return false
	}
	return sc.dataType != "CATEGORICAL" || slices.Contains(sc.labels(), s.text.String)
}

func (sc scoreConfig) labels() (labels []string) {
	var categories []struct{ Label string }
	if json.Unmarshal([]byte(sc.categories.String), &categories) != nil {
		return nil
	}
	for _, category := range categories {
		labels = append(labels, category.Label)
	}
	return labels
}

func (sc scoreConfig) json() object {
	return object{"id": sc.id, "projectId": DefaultProjectID, "name": sc.name, "dataType": sc.dataType,
		"minValue": valueOrNull(sc.low), "maxValue": valueOrNull(sc.high),
		"categories": jsonOrNull(sc.categories.String), "description": valueOrNull(sc.description), "isArchived": sc.archived,
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated)}
}

// createScoreConfig answers POST /score-configs. Names are not unique.
func (s *Server) createScoreConfig(c *call) (any, error) {
	f := c.form(smallBody)
	now := s.now()
	sc := scoreConfig{id: uuid.NewString(), name: f.required("name"),
		low: f.nullNumber("minValue"), high: f.nullNumber("maxValue"), categories: f.nullJSON("categories"), description: f.nullText("description"), created: now, updated: now}
	f.required("dataType")
	sc.dataType = f.oneOf("dataType", "NUMERIC", "TEXT", "BOOLEAN", "CATEGORICAL")
	f.checkLength("name", sc.name, 1, 35)
	if sc.dataType == "BOOLEAN" {
		sc.categories = sql.NullString{String: `[{"label":"True","value":1},{"label":"False","value":0}]`, Valid: true}
	}
	if sc.dataType == "CATEGORICAL" && len(sc.labels()) == 0 {
		f.addIssue("custom", "categories", "Categories must be a list with at least one {label, value}")
	}
	return sc.json(), s.update(f, func(tx *transaction) error {
		tx.insert("score_configs", configColumns, sc.columns()...)
		return nil
	})
}

// listScoreConfigs answers GET /score-configs, newest first.
func (s *Server) listScoreConfigs(c *call) (any, error) {
	return numberedPage(s, c, 50, scanObject(scoreConfig.json), configColumns, "score_configs",
		"created DESC, id")
}

// getScoreConfig answers GET /score-configs/{id}.
func (s *Server) getScoreConfig(c *call) (any, error) {
	errMissing := notFound("Score config not found within authorized project")
	sc, err := requireRow(s.store.r, errMissing, scanRow[scoreConfig], selectConfig, c.path("id"))
	return sc.json(), err
}
