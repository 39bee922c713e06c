package embedded

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

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

// selectScores begins a query whose rows scanScore reads.
const selectScores = "SELECT " + scoreColumns + " FROM scores WHERE "

func (sc *score) columns() []any {
	return []any{&sc.id, &sc.name, &sc.dataType, &sc.value, &sc.text, &sc.timestamp, &sc.eventAt, &sc.eventID, &sc.source,
		&sc.environment, &sc.config, &sc.queue, &sc.author, &sc.trace, &sc.observation, &sc.session, &sc.run,
		&sc.created, &sc.updated, &sc.metadata, &sc.comment}
}

func scanScore(rows *sql.Rows) (score, error) {
	var sc score
	err := rows.Scan(sc.columns()...)
	return sc, err
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
	sc.id = orElse(sc.id, uuid.NewString())
	stored := object{"id": sc.id}
	if body["id"] = sc.id; s.cfg.drops(DropScore, sc.id) {
		return stored, nil
	}
	var about reach
	if sc.run != "" {
		about.add(sc.run)
	}
	return stored, s.take(s.cfg.IngestionDelay, "score", []byte(asText(body)), about)
}

// storeOneScore puts what createScore took into the table.
func storeOneScore(tx *transaction, m message) error {
	sc := readScore(formOf(m.body))
	sc.timestamp, sc.eventAt = m.received, m.received
	return storeScore(tx, sc, m.received)
}

// deleteScore answers DELETE /scores/{id} with 202, also for an id that is not
// there. It is done before the next read unless DeleteDelay says later.
func (s *Server) deleteScore(c *call) (any, error) {
	var about reach
	about.add(anyExperiment)
	return reply{http.StatusAccepted, object{"message": "Score deletion request received successfully"}},
		s.take(s.cfg.DeleteDelay, "delete-score", []byte(c.path("id")), about)
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
		id: f.text("id"), name: f.must("name"), source: orElse(f.oneOf("source", "API", "EVAL", "ANNOTATION"), "API"),
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
	length := utf8.RuneCountInString(text)
	switch {
	case numeric && !isNumber:
		f.add("invalid_type", "value", "Invalid input: expected number for "+sc.dataType)
	case sc.dataType == "":
		f.add("invalid_type", "value", "Invalid input: expected number or string, received null or undefined")
	case !numeric && !isText:
		f.add("invalid_type", "value", "Invalid input: expected string for "+sc.dataType)
	case sc.dataType == "BOOLEAN" && number != 0 && number != 1:
		f.add("custom", "value", "Value must be either 0 or 1 for BOOLEAN")
	case sc.dataType == "TEXT" && (length < 1 || length > 500):
		f.add("custom", "value", "Invalid input: expected 1 to 500 characters for TEXT")
	}
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
	inserted, err := sc.insert(tx)
	if err != nil || inserted {
		return err
	}
	old, exists, err := one(tx, scanScore, selectScores+"id = ?", sc.id)
	if err != nil || !exists {
		return err
	}
	if _, err := tx.Exec("DELETE FROM scores WHERE id = ?", sc.id); err != nil {
		return err
	}
	sc = replaceScore(old, sc)
	_, err = sc.insert(tx)
	return err
}

// insert reports whether the score's id was free.
func (sc *score) insert(tx *transaction) (bool, error) {
	values := sc.columns()
	return changed(tx.Exec("INSERT INTO scores("+scoreColumns+") VALUES(?"+strings.Repeat(",?", len(values)-1)+
		") ON CONFLICT(id) DO NOTHING", values...))
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
		*text[0] = orElse(*text[0], *text[1])
	}
	winner.timestamp, winner.created, winner.updated = old.timestamp, old.created, given.updated
	return winner
}

// whole is a score with all its fields, as the third version of the API shows it.
func (sc score) whole() object {
	return sc.json(map[string]bool{"details": true, "subject": true, "annotation": true})
}

func (sc score) json(groups map[string]bool) object {
	out := object{
		"id": sc.id, "projectId": DefaultProjectID, "name": sc.name, "value": sc.plain(), "dataType": sc.dataType,
		"source": sc.source, "environment": sc.environment, "timestamp": iso(sc.timestamp),
		"createdAt": iso(sc.created), "updatedAt": iso(sc.updated),
	}
	if groups["details"] {
		maps.Copy(out, object{"comment": nullable(sc.comment), "configId": nullable(sc.config), "metadata": jsonText(sc.metadata)})
	}
	if groups["subject"] {
		out["subject"] = sc.subject()
	}
	if groups["annotation"] {
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

// legacyJSON is a score as the versions 1 and 2 of the API show it: booleans
// are 0 and 1 with a text beside, texts stand beside the value 0.
func (sc score) legacyJSON() object {
	out := sc.whole()
	delete(out, "subject")
	maps.Copy(out, object{"value": sc.value.Float64, "stringValue": orNull(sc.text), "metadata": jsonOr(sc.metadata, "{}"),
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

// scoreFilter names the query keys that hold lists, with their columns.
func scoreFilter() map[string]string {
	return map[string]string{"name": "name", "source": "source", "dataType": "data_type", "environment": "environment",
		"queueId": "queue_id", "traceId": "trace_id", "observationId": "observation_id", "sessionId": "session_id"}
}

func (w *where) scores(c *call, filter map[string]string) {
	for key, column := range filter {
		values := c.list(key)
		if key == "source" || key == "dataType" {
			values = c.upper(key)
		}
		w.in(column, values)
		if len(values) > 0 && slices.Contains([]string{"trace_id", "session_id", "run_id"}, column) {
			w.add(column + " != ''") // lets the partial index be used
		}
	}
	w.between(c, "timestamp", "fromTimestamp", "toTimestamp")
}

// listLegacyScores answers GET /v2/scores, the newest first.
func (s *Server) listLegacyScores(c *call) (any, error) {
	filter := scoreFilter()
	filter["scoreIds"], filter["datasetRunId"] = "id", "run_id"
	var w where
	w.scores(c, filter)
	return s.listed(c, 50, func(rows *sql.Rows) (object, error) {
		sc, err := scanScore(rows)
		return sc.legacyJSON(), err
	}, scoreColumns, "scores", &w, "timestamp DESC, id")
}

// listScores answers GET /v3/scores, newest first. Unknown query keys are 400.
func (s *Server) listScores(c *call) (any, error) {
	filter := scoreFilter()
	maps.Copy(filter, map[string]string{"id": "id", "configId": "config_id", "authorUserId": "author_id", "experimentId": "run_id"})
	c.strictly(append(slices.Collect(maps.Keys(filter)), "limit", "cursor", "fields", "value", "valueMin", "valueMax",
		"fromTimestamp", "toTimestamp")...)
	c.checkScoreQuery()
	groups := c.fields([]string{"core", "details", "subject", "annotation"}, []string{"core"})
	limit := c.number("limit", 50, 1, 100)
	var w where
	w.scores(c, filter)
	w.scoreValue(c)
	if at, given := c.cursor(); given {
		w.add("(timestamp, id) < (?, ?)", at.At, at.ID)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	found, err := collect(s.store.r, scanScore, selectScores+w.String()+" ORDER BY timestamp DESC, id DESC LIMIT ?",
		append(w.args, limit+1)...)
	meta := object{"limit": limit}
	found = cut(found, limit, meta, func(sc score) cursor { return cursor{At: sc.timestamp, ID: sc.id} })
	data := make([]object, len(found))
	for i, sc := range found {
		data[i] = sc.json(groups)
	}
	return object{"data": data, "meta": meta}, err
}

// checkScoreQuery refuses values that do not exist and keys that do not go
// together.
func (c *call) checkScoreQuery() {
	for key, known := range map[string][]string{"source": {"API", "ANNOTATION", "EVAL"},
		"dataType": {"NUMERIC", "CATEGORICAL", "BOOLEAN", "CORRECTION", "TEXT"}} {
		for _, value := range c.upper(key) {
			if !slices.Contains(known, value) {
				c.blame(badQuery(key, fmt.Sprintf("Invalid %s value: %q. Allowed: %s", key, clip(value, 100), strings.Join(known, ", "))))
			}
		}
	}
	subjects := 0
	for _, key := range []string{"traceId", "sessionId", "experimentId"} {
		subjects += min(1, len(c.list(key)))
	}
	if subjects > 1 {
		c.blame(badQuery("traceId", "traceId, sessionId and experimentId are mutually exclusive"))
	}
	if len(c.list("observationId")) > 0 && len(c.list("traceId")) == 0 {
		c.blame(badQuery("observationId", "observationId requires traceId"))
	}
}

// scoreValue reads value, which needs one data type to be understood, and the
// bounds valueMin and valueMax, which need NUMERIC.
func (w *where) scoreValue(c *call) {
	types, values := c.upper("dataType"), c.list("value")
	for key, comparison := range map[string]string{"valueMin": "value >= ?", "valueMax": "value <= ?"} {
		text := c.query.Get(key)
		if text == "" {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !slices.Equal(types, []string{"NUMERIC"}) {
			c.blame(badQuery(key, "valueMin and valueMax are numbers and require dataType=NUMERIC as a single value"))
		}
		w.add(comparison, n)
	}
	if len(values) == 0 {
		return
	}
	if len(types) == 1 && types[0] == "CATEGORICAL" {
		w.in("text", values)
		return
	}
	var numbers []float64
	for _, text := range values {
		n, err := strconv.ParseFloat(text, 64)
		if len(types) == 1 && types[0] == "BOOLEAN" {
			n, err = map[string]float64{"true": 1}[text], nil
			if text != "true" && text != "false" {
				err = strconv.ErrSyntax
			}
		} else if len(types) != 1 || types[0] != "NUMERIC" {
			err = strconv.ErrSyntax
		}
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			c.blame(badQuery("value", "value filter requires a single dataType from: NUMERIC, BOOLEAN, CATEGORICAL, and values of it"))
		}
		numbers = append(numbers, n)
	}
	w.add("value IN (SELECT value FROM json_each(?))", asText(numbers))
}

// upper returns a list whose values count in upper case.
func (c *call) upper(key string) []string {
	values := c.list(key)
	for i := range values {
		values[i] = strings.ToUpper(values[i])
	}
	return values
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

func scanConfig(rows *sql.Rows) (scoreConfig, error) {
	var sc scoreConfig
	err := rows.Scan(&sc.id, &sc.name, &sc.dataType, &sc.low, &sc.high, &sc.categories, &sc.description,
		&sc.archived, &sc.created, &sc.updated)
	return sc, err
}

func findScoreConfig(q querier, id string) (scoreConfig, bool, error) {
	return one(q, scanConfig, "SELECT "+configColumns+" FROM score_configs WHERE id = ?", id)
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
		"categories": rawOrNull(sc.categories), "description": orNull(sc.description), "isArchived": sc.archived,
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
	if length := utf8.RuneCountInString(sc.name); (length < 1 || length > 35) && !f.failed("name") {
		f.add("custom", "name", "Invalid input: expected 1 to 35 characters")
	}
	if sc.dataType == "BOOLEAN" {
		sc.categories = sql.NullString{String: `[{"label":"True","value":1},{"label":"False","value":0}]`, Valid: true}
	}
	if sc.dataType == "CATEGORICAL" && len(sc.labels()) == 0 {
		f.add("custom", "categories", "Categories must be a list with at least one {label, value}")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return sc.json(), s.store.update(func(tx *transaction) error {
		_, err := tx.Exec("INSERT INTO score_configs("+configColumns+") VALUES(?,?,?,?,?,?,?,?,?,?)", sc.id, sc.name,
			sc.dataType, sc.low, sc.high, sc.categories, sc.description, sc.archived, sc.created, sc.updated)
		return err
	})
}

// listScoreConfigs answers GET /score-configs, newest first.
func (s *Server) listScoreConfigs(c *call) (any, error) {
	return s.listed(c, 50, func(rows *sql.Rows) (object, error) {
		sc, err := scanConfig(rows)
		return sc.json(), err
	}, configColumns, "score_configs", &where{}, "created DESC, id")
}

// getScoreConfig answers GET /score-configs/{id}.
func (s *Server) getScoreConfig(c *call) (any, error) {
	sc, exists, err := findScoreConfig(s.store.r, c.path("id"))
	if err == nil && !exists {
		err = notFound("Score config not found within authorized project")
	}
	return sc.json(), err
}
