package embedded

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

// score is one row of scores. A value is a number, or a text for the types
// CATEGORICAL, TEXT and CORRECTION.
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

// selectScores begins a query for scores.
const selectScores = "SELECT " + scoreColumns + " FROM scores WHERE "

func (sc *score) columns() []any {
	return []any{&sc.id, &sc.name, &sc.dataType, &sc.value, &sc.text, &sc.timestamp, &sc.eventAt, &sc.eventID, &sc.source,
		&sc.environment, &sc.config, &sc.queue, &sc.author, &sc.trace, &sc.observation, &sc.session, &sc.run,
		&sc.created, &sc.updated, &sc.metadata, &sc.comment}
}

// createScore answers POST /scores. An id is made where none is given. The
// instant is now, and of two requests with one id the later one counts.
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
	var about reach
	about.add(sc.run)
	event := object{"id": sc.id, "type": "score-create", "timestamp": iso(s.now()), "body": body}
	return stored, s.take(s.cfg.IngestionDelay, "events", []byte(asText([]object{event})), about)
}

// deleteScore answers DELETE /scores/{id} with 202, also for an id that is not
// there. It is done before the next read unless DeleteDelay says later.
func (s *Server) deleteScore(c *call) (any, error) {
	return jsonAnswer(http.StatusAccepted, object{"message": "Score deletion request received successfully"}),
		s.take(s.cfg.DeleteDelay, "delete-score", []byte(c.path("id")), reach{anyExperiment})
}

// removeScore takes a score out of the table.
func removeScore(tx *transaction, m message) error {
	_, err := tx.Exec("DELETE FROM scores WHERE id = ?", string(m.body))
	return err
}

// readScore reads the body that POST /scores and score-create share. It wants
// exactly one of trace, session and run; an observation belongs to its trace.
func readScore(f *form) score {
	sc := score{
		id: f.text("id"), name: f.must("name"), source: cmp.Or(f.oneOf("source", "API", "EVAL", "ANNOTATION"), "API"),
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
	given := 0
	for _, id := range []string{sc.trace, sc.session, sc.run} {
		if id != "" {
			given++
		}
	}
	switch {
	case sc.name == "" && !f.failed("name"):
		f.add("too_small", "name", "Too small: expected string to have >=1 characters")
	case given != 1:
		f.add("custom", "traceId", "Provide exactly one of the following: traceId, sessionId, datasetRunId")
	case sc.observation != "" && sc.trace == "":
		f.add("custom", "observationId", "Provide exactly one of the following: an observationId needs its traceId")
	case correction && sc.run != "":
		f.add("custom", "datasetRunId", "CORRECTION scores cannot be attached to a dataset run")
	case correction && sc.config != "":
		f.add("custom", "configId", "CORRECTION scores cannot have a configId")
	case sc.source == "ANNOTATION" && sc.config == "" && !correction:
		f.add("custom", "configId", "configId is required for scores with source ANNOTATION")
	}
	return sc
}

// readValue reads the value by its type; without a type a number is NUMERIC
// and a text CATEGORICAL.
func (sc *score) readValue(f *form) {
	raw := f.raw("value")
	text, isText := "", len(raw) > 0 && raw[0] == '"'
	if isText {
		text = f.text("value")
	}
	number, isNumber := 0.0, !isText && f.has("value")
	if isNumber {
		isNumber = f.into("value", &number, "number or string") && !f.failed("value")
	}
	switch {
	case sc.dataType == "" && isNumber:
		sc.dataType = "NUMERIC"
	case sc.dataType == "" && isText:
		sc.dataType = "CATEGORICAL"
	}
	sc.value = sql.NullFloat64{Float64: number, Valid: isNumber}
	sc.text = sql.NullString{String: text, Valid: isText}
	numeric := sc.dataType == "NUMERIC" || sc.dataType == "BOOLEAN"
	switch {
	case numeric && !isNumber:
		f.add("invalid_type", "value", "Invalid input: expected number for "+sc.dataType)
	case sc.dataType == "":
		f.add("invalid_type", "value", "Invalid input: expected number or string, received null or undefined")
	case !numeric && !isText:
		f.add("invalid_type", "value", "Invalid input: expected string for "+sc.dataType)
	case sc.dataType == "BOOLEAN" && number != 0 && number != 1:
		f.add("custom", "value", "Value must be either 0 or 1 for BOOLEAN")
	case sc.dataType == "TEXT":
		f.sized("value", text, 1, 500)
	}
}

// storeScore puts a score in the place that its id has. A score that does not
// fit its configuration is dropped without a word, as Langfuse's worker does.
func storeScore(tx *transaction, sc score, now int64) error {
	if sc.config != "" {
		cfg, exists, err := one(tx, scanned[scoreConfig], selectConfig, sc.config)
		if err != nil || !exists || !cfg.allows(sc) {
			return err
		}
		sc.name = cfg.name
	}
	sc.created, sc.updated = now, now
	inserted, err := tx.insert("scores", scoreColumns, sc.columns()...)
	if err != nil || inserted {
		return err
	}
	old, _, err := one(tx, scanned[score], "DELETE FROM scores WHERE id = ? RETURNING "+scoreColumns, sc.id)
	if err != nil {
		return err
	}
	sc = replaceScore(old, sc)
	_, err = tx.insert("scores", scoreColumns, sc.columns()...)
	return err
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
	for _, text := range [][2]*string{{&winner.comment, &loser.comment}, {&winner.metadata, &loser.metadata},
		{&winner.config, &loser.config}, {&winner.queue, &loser.queue}, {&winner.author, &loser.author}} {
		*text[0] = cmp.Or(*text[0], *text[1])
	}
	winner.timestamp, winner.created, winner.updated = old.timestamp, old.created, given.updated
	return winner
}

// whole is a score with all its fields, as the third version of the API shows it.
func (sc score) whole() object {
	return sc.json(map[string]bool{"details": true, "subject": true, "annotation": true})
}

func (sc score) json(groups map[string]bool) object {
	return choose(object{
		"id": sc.id, "projectId": DefaultProjectID, "name": sc.name, "value": sc.plain(), "dataType": sc.dataType,
		"source": sc.source, "environment": sc.environment, "timestamp": iso(sc.timestamp),
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated),
	}, groups, map[string]object{
		"details":    {"comment": nullable(sc.comment), "configId": nullable(sc.config), "metadata": jsonText(sc.metadata)},
		"subject":    {"subject": sc.subject()},
		"annotation": {"authorUserId": nullable(sc.author), "queueId": nullable(sc.queue)},
	})
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

// legacyJSON is a score as the versions 1 and 2 of the API show it: booleans
// are 0 and 1 with a text beside, texts are beside the value 0.
func (sc score) legacyJSON() object {
	out := sc.whole()
	delete(out, "subject")
	maps.Copy(out, object{"value": sc.value.Float64, "stringValue": orNull(sc.text), "metadata": jsonText(cmp.Or(sc.metadata, "{}")),
		"traceId": nullable(sc.trace), "observationId": nullable(sc.observation), "sessionId": nullable(sc.session),
		"datasetRunId": nullable(sc.run)})
	switch sc.dataType {
	case "BOOLEAN":
		out["stringValue"] = map[bool]string{true: "True", false: "False"}[sc.value.Float64 == 1]
	case "TEXT":
		delete(out, "value")
	}
	return out
}

// scores adds the conditions of query keys that hold lists, by the column of each key.
func (w *where) scores(c *call, columns map[string]string) {
	for key, column := range columns {
		values := c.list(key)
		w.in(column, values)
		if len(values) > 0 && (column == "trace_id" || column == "run_id") {
			w.add(column + " != ''") // lets the partial index be used
		}
	}
}

// listLegacyScores answers GET /v2/scores, the newest first.
func (s *Server) listLegacyScores(c *call) (any, error) {
	c.strictly("scoreIds", "name", "traceId", "datasetRunId", "page", "limit")
	var w where
	w.scores(c, map[string]string{"scoreIds": "id", "name": "name", "traceId": "trace_id", "datasetRunId": "run_id"})
	return listed(s, c, 50, shown(score.legacyJSON), scoreColumns, "scores", &w, "timestamp DESC, id")
}

// listScores answers GET /v3/scores, newest first. A value can be asked for where it
// is true or false.
func (s *Server) listScores(c *call) (any, error) {
	columns := map[string]string{"id": "id", "name": "name", "source": "source", "dataType": "data_type",
		"environment": "environment", "traceId": "trace_id", "experimentId": "run_id"}
	c.strictly(slices.AppendSeq([]string{"limit", "cursor", "fields", "value"}, maps.Keys(columns))...)
	groups, limit := c.fields(1, "core", "details", "subject", "annotation"), c.number("limit", 50, 100)
	var w where
	w.scores(c, columns)
	if value := c.query.Get("value"); value != "" {
		number := map[string]string{"true": "1", "false": "0"}[value]
		if number == "" || c.query.Get("dataType") != "BOOLEAN" {
			c.blame(badQuery("value", "Invalid input: expected true or false, and dataType=BOOLEAN"))
		}
		w.equal("value", number)
	}
	if at, given := c.cursor(); given {
		w.add("(timestamp, id) < (?, ?)", at.At, at.ID)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	found, err := collect(s.store.r, scanned[score], selectScores+w.String()+" ORDER BY timestamp DESC, id DESC LIMIT ?",
		append(w.args, limit+1)...)
	if err != nil {
		return nil, err
	}
	last := func(sc score) cursor { return cursor{At: sc.timestamp, ID: sc.id} }
	show := func(sc score) (object, error) { return sc.json(groups), nil }
	return paged(found, limit, object{"limit": limit}, last, show)
}

// scores shows the newest scores that a condition selects; a negative number is all.
func (s *Server) scores(show func(score) object, most int, condition string, args ...any) ([]object, error) {
	return collect(s.store.r, shown(show), selectScores+condition+" ORDER BY timestamp DESC, id LIMIT ?", append(args, most)...)
}

// scoreConfig is one row of score_configs: what scores of a name may look like.
type scoreConfig struct {
	id, name, dataType      string
	low, high               sql.NullFloat64
	categories, description sql.NullString
	archived                bool
	created, updated        int64
}

const configColumns = "id, name, data_type, min_value, max_value, categories, description, archived, created, updated"

// selectConfig is a query for the configuration of an id.
const selectConfig = "SELECT " + configColumns + " FROM score_configs WHERE id = ?"

func (sc *scoreConfig) columns() []any {
	return []any{&sc.id, &sc.name, &sc.dataType, &sc.low, &sc.high, &sc.categories, &sc.description,
		&sc.archived, &sc.created, &sc.updated}
}

// allows says whether a score fits: same type, inside the range, a known category.
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
		"minValue": orNull(sc.low), "maxValue": orNull(sc.high),
		"categories": jsonText(sc.categories.String), "description": orNull(sc.description), "isArchived": sc.archived,
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated)}
}

// createScoreConfig answers POST /score-configs. Names are not unique.
func (s *Server) createScoreConfig(c *call) (any, error) {
	f := c.form(smallBody)
	now := s.now()
	sc := scoreConfig{id: uuid.NewString(), name: f.must("name"), low: f.nullNumber("minValue"), high: f.nullNumber("maxValue"),
		categories: f.nullJSON("categories"), description: f.nullText("description"), created: now, updated: now}
	f.must("dataType")
	sc.dataType = f.oneOf("dataType", "NUMERIC", "TEXT", "BOOLEAN", "CATEGORICAL")
	f.sized("name", sc.name, 1, 35)
	if sc.dataType == "BOOLEAN" {
		sc.categories = sql.NullString{String: `[{"label":"True","value":1},{"label":"False","value":0}]`, Valid: true}
	}
	if sc.dataType == "CATEGORICAL" && len(sc.labels()) == 0 {
		f.add("custom", "categories", "Categories must be a list with at least one {label, value}")
	}
	return sc.json(), s.update(f, func(tx *transaction) error {
		_, err := tx.insert("score_configs", configColumns, sc.columns()...)
		return err
	})
}

// listScoreConfigs answers GET /score-configs, newest first.
func (s *Server) listScoreConfigs(c *call) (any, error) {
	return listed(s, c, 50, shown(scoreConfig.json), configColumns, "score_configs", &where{}, "created DESC, id")
}

// getScoreConfig answers GET /score-configs/{id}.
func (s *Server) getScoreConfig(c *call) (any, error) {
	missing := notFound("Score config not found within authorized project")
	sc, err := mustOne(s.store.r, missing, scanned[scoreConfig], selectConfig, c.path("id"))
	return sc.json(), err
}
