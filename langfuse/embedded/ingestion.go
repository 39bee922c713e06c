package embedded

import (
	"bytes"
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"extraction-experiment/internal/textutil"
)

// event is one envelope of a batch that can be stored: a score, or else what
// was said of a trace or of an observation. One that has neither is a log line,
// or an entity without an id, which is acknowledged and lost.
type event struct {
	id, kind    string
	at          int64
	score       *score
	trace       *trace
	observation *observation
}

// ingest answers POST /ingestion with 207: one entry per event, among the
// successes or among the errors. In events_only mode only scores and log lines
// are taken.
func (s *Server) ingest(c *call) (any, error) {
	buffer, release := s.buffer(c.r.ContentLength)
	defer release()
	f := c.formIn(buffer, largeBody)
	raws := f.elements("batch")
	if err := f.err(); err != nil {
		return nil, err
	}
	successes, failures := make([]acceptedEvent, 0, len(raws)), []object{}
	taken := make([][]byte, 0, len(raws))
	reader := eventReader{mode: s.cfg.Mode}
	var about reach
	for _, raw := range raws {
		ev, err := reader.read(raw)
		switch {
		case c.refuse != nil && c.refuse():
			failures = append(failures, object{"id": ev.id, "status": http.StatusInternalServerError,
				"message": "Error processing events", "error": "Internal Server Error"})
		case err != nil:
			failures = append(failures, eventError(ev.id, err))
		default:
			successes = append(successes, acceptedEvent{ev.id, http.StatusCreated})
			if !s.loses(ev) {
				taken = append(taken, raw)
				if ev.observation != nil { // it may take the place of a span
					about.add(anyExperiment)
				} else if ev.score != nil {
					about.add(ev.score.run)
				}
			}
		}
	}
	answer := jsonAnswer(http.StatusMultiStatus, object{"successes": successes, "errors": failures})
	batch := f.raw("batch")
	switch len(taken) {
	case 0:
		return answer, nil
	case len(raws):
	default:
		batch = slices.Concat([]byte{'['}, bytes.Join(taken, []byte{','}), []byte{']'})
	}
	return answer, s.take(s.cfg.IngestionDelay, "events", batch, about)
}

// acceptedEvent is an entry among the successes.
type acceptedEvent struct {
	ID     string `json:"id"`
	Status int    `json:"status"`
}

// loses says whether nothing is to be stored of an event.
func (s *Server) loses(ev event) bool {
	switch {
	case ev.score != nil:
		return s.cfg.drops(DropScore, ev.score.id)
	case ev.observation != nil:
		return s.cfg.drops(DropSpan, ev.observation.span)
	}
	return ev.trace == nil
}

// storeEvents puts what a batch holds into the tables: scores in the order in which they
// stand, the rest by instant, what creates before what updates.
func storeEvents(tx *transaction, m message) error {
	var events []event
	reader := eventReader{mode: m.mode, received: m.received}
	for raw := range textutil.JSONElements(m.body) {
		ev, err := reader.read(raw)
		if err != nil {
			return err
		}
		events = append(events, ev)
	}
	slices.SortStableFunc(events, func(a, b event) int {
		if a.score != nil || b.score != nil {
			return 0
		}
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.action(), b.action()))
	})
	described := map[string]bool{}
	for _, ev := range events {
		var err error
		switch {
		case ev.score != nil:
			err = storeScore(tx, *ev.score, m.received)
		case ev.trace != nil:
			err = ev.trace.store(tx)
		case ev.observation != nil:
			err = ev.observation.merge(tx, m.mode, ev.at, described)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// action is create or update.
func (ev event) action() string {
	_, action, _ := strings.Cut(ev.kind, "-")
	return action
}

// eventReader reads envelopes as the server does that took them.
type eventReader struct {
	mode             Mode
	received         int64
	envelope, inside form
}

// read reads one envelope. On an error the event has its id, if one was readable.
func (r *eventReader) read(raw json.RawMessage) (ev event, err error) {
	f, body := &r.envelope, &r.inside
	f.open(raw)
	ev.id, ev.kind = f.text("id"), f.must("type")
	at, given := f.instant("timestamp")
	if !given && !f.failed("timestamp") {
		f.add("invalid_type", "timestamp", "Invalid input: expected ISO datetime")
	}
	if ev.id == "" && !f.failed("id") {
		f.add("too_small", "id", "Too small: expected string to have >=1 characters")
	}
	ev.at = at
	if ev.kind != "score-create" && ev.kind != "sdk-log" && !r.mode.legacy() {
		ev.id = cmp.Or(ev.id, "unknown")
		return ev, &fault{http.StatusBadRequest, object{"message": "Event type not accepted",
			"error": fmt.Sprintf("Event type %q is not accepted by /api/public/ingestion when LANGFUSE_MIGRATION_V4_WRITE_MODE "+
				"is events_only. This endpoint only accepts score and log events. Send traces to /api/public/otel/v1/traces.",
				textutil.Cut(cmp.Or(ev.kind, "unknown"), 100))}}
	}
	if err := f.err(); err != nil || ev.kind == "sdk-log" {
		return ev, err
	}
	body.open(f.raw("body"))
	if body.problem != nil {
		return ev, badQuery("body", "Invalid input: expected object")
	}
	switch ev.kind {
	case "score-create":
		sc := readScore(body)
		sc.timestamp, sc.eventAt, sc.eventID = ev.at, ev.at, ev.id
		ev.score = &sc
	case "trace-create":
		ev.trace = readTrace(body, ev.at, r.received)
	case "span-create", "span-update", "generation-create", "generation-update", "event-create":
		kind, _, _ := strings.Cut(ev.kind, "-")
		ev.observation = readObservation(body, strings.ToUpper(kind), r.received)
	default:
		body.add("custom", "type", "Invalid input: unknown event type "+textutil.Cut(ev.kind, 100))
	}
	if body.text("id") == "" {
		ev.score, ev.trace, ev.observation = nil, nil, nil
	}
	return ev, body.err()
}

func eventError(id string, err error) object {
	out := object{"id": id, "status": http.StatusBadRequest, "message": "Invalid request data", "error": err.Error()}
	if f := new(fault); errors.As(err, &f) {
		if body, isObject := f.body.(object); isObject {
			out["message"], out["error"] = body["message"], asText(body["error"])
		}
	}
	return out
}

// readTrace reads the body of a trace-create event.
func readTrace(f *form, at, now int64) *trace {
	tags := f.texts("tags")
	slices.Sort(tags)
	timestamp, _ := f.instant("timestamp")
	t := trace{id: f.text("id"), timestamp: cmp.Or(timestamp, at), name: f.text("name"), user: f.text("userId"), session: f.text("sessionId"),
		release: f.text("release"), version: f.text("version"), environment: environment(f.text("environment")),
		tags: joined(slices.Compact(tags)), created: now, updated: now,
		metadata: metadataOf(f), input: contentOf(f, "input"), output: contentOf(f, "output")}
	f.into("public", &t.public, "boolean")
	return &t
}

// readObservation reads the body of an event that creates or updates an
// observation. Zero values stand for what it leaves out.
func readObservation(f *form, kind string, now int64) *observation {
	o := observation{trace: f.text("traceId"), span: f.text("id"), parent: f.text("parentObservationId"), kind: kind,
		name: f.text("name"), level: f.oneOf("level", "DEBUG", "DEFAULT", "WARNING", "ERROR"), statusMessage: f.text("statusMessage"),
		version: f.text("version"), environment: environment(f.text("environment")), created: now, updated: now,
		input: contentOf(f, "input"), output: contentOf(f, "output"), metadata: metadataOf(f), model: f.text("model")}
	o.start, _ = f.instant("startTime")
	o.end, _ = f.instant("endTime")
	o.completionStart.Int64, o.completionStart.Valid = f.instant("completionStartTime")
	o.parameters = f.nullJSON("modelParameters").String
	if o.parameters != "" && objectText(o.parameters) == "" {
		f.add("invalid_type", "modelParameters", "Invalid input: expected record")
	}
	o.readUsage(f)
	version := f.nullNumber("promptVersion")
	o.promptName, o.promptVersion = f.text("promptName"), sql.NullInt64{Int64: int64(version.Float64), Valid: version.Valid}
	if (o.promptName != "") != (version.Float64 != 0) {
		f.add("custom", "promptName", "Invalid input: promptName and promptVersion belong together")
	}
	return &o
}

// readUsage reads tokens and money, from usageDetails and costDetails or else
// from the older usage.
func (o *observation) readUsage(f *form) {
	tokens, money := numbers{}, numbers{}
	for kind, n := range numbersOf(string(f.raw("usage"))) {
		if part, isMoney := strings.CutSuffix(kind, "Cost"); isMoney {
			money[part] = n
		} else {
			tokens[kind] = n
		}
	}
	o.usage, o.cost, o.totalCost = accounts(attributes{
		"langfuse.observation.usage_details": cmp.Or(f.nullJSON("usageDetails").String, asText(tokens)),
		"langfuse.observation.cost_details":  cmp.Or(f.nullJSON("costDetails").String, asText(money)),
	})
}

// contentOf returns an input or output as text: a text as it is, anything else
// as JSON.
func contentOf(f *form, key string) sql.NullString {
	content := f.nullJSON(key)
	if strings.HasPrefix(content.String, `"`) {
		content.String = textutil.JSONText(f.raw(key))
	}
	return content
}

// metadataOf returns the metadata of a body as a JSON object.
func metadataOf(f *form) string {
	text := f.nullJSON("metadata").String
	if text != "" && objectText(text) == "" {
		text = asText(object{"metadata": json.RawMessage(text)})
	}
	return text
}

// merge lays what an event says of an observation over what is stored of it. An
// update may leave out the trace; an observation that belongs to none becomes a
// trace of its own.
func (o observation) merge(tx *transaction, mode Mode, at int64, described map[string]bool) error {
	old, err := readObservations(tx, true, "WHERE o.span_id = ?1 AND (?2 = '' OR o.trace_id = ?2) ORDER BY o.updated DESC LIMIT 1",
		o.span, o.trace)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		old[0].expand()
		o.fill(old[0])
	}
	if o.trace == "" {
		o.trace = o.span
		lone := trace{id: o.span, timestamp: at, name: o.name, environment: o.environment, created: o.created, updated: o.updated,
			metadata: o.metadata, input: o.input, output: o.output}
		if err := lone.store(tx); err != nil {
			return err
		}
	}
	if o.start == 0 {
		o.start = at
	}
	if o.end != 0 {
		o.end = max(o.end, o.start)
	}
	o.level, o.tags, o.root = cmp.Or(o.level, "DEFAULT"), cmp.Or(o.tags, "[]"), o.parent == ""
	return o.write(tx, mode, described)
}

// fill takes from what is stored each field that an event leaves out.
func (o *observation) fill(old observation) {
	for _, text := range [][2]*string{{&o.trace, &old.trace}, {&o.parent, &old.parent}, {&o.name, &old.name}, {&o.level, &old.level},
		{&o.statusMessage, &old.statusMessage}, {&o.version, &old.version}, {&o.model, &old.model}, {&o.parameters, &old.parameters},
		{&o.usage, &old.usage}, {&o.release, &old.release}, {&o.user, &old.user}, {&o.session, &old.session},
		{&o.traceName, &old.traceName}, {&o.tags, &old.tags}, {&o.cost, &old.cost}, {&o.promptName, &old.promptName}} {
		*text[0] = cmp.Or(*text[0], *text[1])
	}
	o.totalCost, o.promptVersion = cmp.Or(o.totalCost, old.totalCost), cmp.Or(o.promptVersion, old.promptVersion)
	o.completionStart = cmp.Or(o.completionStart, old.completionStart)
	o.input, o.output = cmp.Or(o.input, old.input), cmp.Or(o.output, old.output)
	o.start, o.end = cmp.Or(o.start, old.start), cmp.Or(o.end, old.end)
	o.metadata = merged(old.metadata, o.metadata)
	o.kind, o.created = old.kind, old.created
}

// merged lays one JSON object over another.
func merged(under, over string) string {
	fields := map[string]json.RawMessage{}
	for _, text := range []string{under, over} {
		var more map[string]json.RawMessage
		if json.Unmarshal([]byte(cmp.Or(text, "{}")), &more) == nil {
			maps.Copy(fields, more)
		}
	}
	return asText(fields)
}
