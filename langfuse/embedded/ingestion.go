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

// event is a valid event of a batch with a score, a trace or an observation. An event without any
// of them is a log line, or an entity without an id, which Langfuse acknowledges and loses.
type event struct {
	id, kind    string
	at          int64
	score       *score
	trace       *trace
	observation *observation
}

// ingest answers POST /ingestion with 207 and one entry per event, in successes or in errors. In
// events_only mode it accepts only scores and log lines.
func (s *Server) ingest(c *call) (any, error) {
	buffer, release := s.buffer(c.r.ContentLength)
	defer release()
	f := c.formInBuffer(buffer, largeBody)
	batch := f.raw("batch")
	if len(batch) == 0 || batch[0] != '[' {
		f.addIssue("invalid_type", "batch", "Invalid input: expected array")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	successes, failures, kept := []acceptedEvent{}, []object{}, [][]byte{}
	reader := eventReader{mode: s.cfg.Mode}
	var experiments []string
	for raw := range textutil.JSONElements(batch) {
		ev, err := reader.read(raw)
		switch {
		case c.refuse != nil && c.refuse():
			failures = append(failures, object{"id": ev.id, "status": http.StatusInternalServerError,
				"message": "Error processing events", "error": "Internal Server Error"})
		case err != nil:
			failures = append(failures, eventError(ev.id, err))
		default:
			successes = append(successes, acceptedEvent{ev.id, http.StatusCreated})
			if !s.discards(ev) {
				kept = append(kept, raw)
				if ev.observation != nil { // it may replace a span
					experiments = append(experiments, anyExperiment)
				} else if ev.score != nil {
					experiments = append(experiments, ev.score.run)
				}
			}
		}
	}
	answer := newAnswer(http.StatusMultiStatus, object{"successes": successes, "errors": failures})
	if len(kept) == 0 {
		return answer, nil
	}
	if len(kept) < len(successes)+len(failures) {
		batch = slices.Concat([]byte{'['}, bytes.Join(kept, []byte{','}), []byte{']'})
	}
	return answer, s.enqueue(s.cfg.IngestionDelay, "events", batch, experiments...)
}

// acceptedEvent is an entry of successes.
type acceptedEvent struct {
	ID     string `json:"id"`
	Status int    `json:"status"`
}

// discards reports whether the server acknowledges the event without storing it.
func (s *Server) discards(ev event) bool {
	switch {
	case ev.score != nil:
		return s.cfg.drops(DropScore, ev.score.id)
	case ev.observation != nil:
		return s.cfg.drops(DropSpan, ev.observation.span)
	}
	return ev.trace == nil
}

// storeEvents stores the events of a batch in the tables: scores in the order of the batch, all
// others by timestamp, and creations before updates.
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
		_, actionA, _ := strings.Cut(a.kind, "-")
		_, actionB, _ := strings.Cut(b.kind, "-")
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(actionA, actionB))
	})
	for _, ev := range events {
		var err error
		switch {
		case ev.score != nil:
			err = storeScore(tx, *ev.score, m.received)
		case ev.trace != nil:
			ev.trace.store(tx)
		case ev.observation != nil:
			err = ev.observation.merge(tx, m.mode, ev.at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventReader parses events in the mode of the server that received them. It reuses its forms.
type eventReader struct {
	mode           Mode
	received       int64
	envelope, body form
}

// read parses one event. If it returns an error, the event has its id if that could be read.
func (r *eventReader) read(raw json.RawMessage) (ev event, err error) {
	f, body := &r.envelope, &r.body
	f.parse(raw)
	ev.id, ev.kind = f.text("id"), f.required("type")
	at, given := f.instant("timestamp")
	if !given && !f.hasIssue("timestamp") {
		f.addIssue("invalid_type", "timestamp", "Invalid input: expected ISO datetime")
	}
	if ev.id == "" && !f.hasIssue("id") {
		f.addIssue("too_small", "id", "Too small: expected string to have >=1 characters")
	}
	ev.at = at
	if ev.kind != "score-create" && ev.kind != "sdk-log" && !r.mode.hasTraces() {
		ev.id = cmp.Or(ev.id, "unknown")
		return ev, &apiError{http.StatusBadRequest, object{"message": "Event type not accepted",
			"error": fmt.Sprintf("Event type %q is not accepted by /api/public/ingestion when LANGFUSE_MIGRATION_V4_WRITE_MODE "+
				"is events_only. This endpoint only accepts score and log events. Send traces to /api/public/otel/v1/traces.",
				textutil.Cut(cmp.Or(ev.kind, "unknown"), 100))}}
	}
	if err := f.err(); err != nil || ev.kind == "sdk-log" {
		return ev, err
	}
	body.parse(f.raw("body"))
	if body.problem != nil {
		return ev, invalidQuery("body", "Invalid input: expected object")
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
		body.addIssue("custom", "type", "Invalid input: unknown event type "+textutil.Cut(ev.kind, 100))
	}
	if body.text("id") == "" {
		ev.score, ev.trace, ev.observation = nil, nil, nil
	}
	return ev, body.err()
}

func eventError(id string, err error) object {
	out := object{"id": id, "status": http.StatusBadRequest, "message": "Invalid request data", "error": err.Error()}
	if apiErr := new(apiError); errors.As(err, &apiErr) {
		if body, isObject := apiErr.body.(object); isObject {
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
		tags: jsonList(slices.Compact(tags)), created: now, updated: now,
		metadata: metadataOf(f), input: contentOf(f, "input"), output: contentOf(f, "output")}
	f.decode("public", &t.public, "boolean")
	return &t
}

// readObservation reads the body of an event that creates or updates an observation. Fields that
// are absent have their zero value.
func readObservation(f *form, kind string, now int64) *observation {
	o := observation{trace: f.text("traceId"), span: f.text("id"), parent: f.text("parentObservationId"), kind: kind,
		name: f.text("name"), level: f.oneOf("level", "DEBUG", "DEFAULT", "WARNING", "ERROR"), statusMessage: f.text("statusMessage"),
		version: f.text("version"), environment: environment(f.text("environment")), created: now, updated: now,
		input: contentOf(f, "input"), output: contentOf(f, "output"), metadata: metadataOf(f), model: f.text("model")}
	o.start, _ = f.instant("startTime")
	o.end, _ = f.instant("endTime")
	o.completionStart.Int64, o.completionStart.Valid = f.instant("completionStartTime")
	o.parameters = f.nullJSON("modelParameters").String
	if o.parameters != "" && objectOrEmpty(o.parameters) == "" {
		f.addIssue("invalid_type", "modelParameters", "Invalid input: expected record")
	}
	o.readUsage(f)
	version := f.nullNumber("promptVersion")
	o.promptName, o.promptVersion = f.text("promptName"), sql.NullInt64{Int64: int64(version.Float64), Valid: version.Valid}
	if (o.promptName != "") != (version.Float64 != 0) {
		f.addIssue("custom", "promptName", "Invalid input: promptName and promptVersion belong together")
	}
	return &o
}

// readUsage reads tokens and costs from usageDetails and costDetails, or from the older field
// usage.
func (o *observation) readUsage(f *form) {
	tokens, costs := numbers{}, numbers{}
	for kind, n := range numbersOf(string(f.raw("usage"))) {
		if part, isMoney := strings.CutSuffix(kind, "Cost"); isMoney {
			costs[part] = n
		} else {
			tokens[kind] = n
		}
	}
	o.usage, o.cost, o.totalCost = usageAndCost(attributes{
		"langfuse.observation.usage_details": cmp.Or(f.nullJSON("usageDetails").String, asText(tokens)),
		"langfuse.observation.cost_details":  cmp.Or(f.nullJSON("costDetails").String, asText(costs)),
	})
}

// contentOf returns an input or output: a string unchanged, any other value as JSON.
func contentOf(f *form, key string) sql.NullString {
	content := f.nullJSON(key)
	if strings.HasPrefix(content.String, `"`) {
		content.String = textutil.JSONText(f.raw(key))
	}
	return content
}

// metadataOf returns the metadata of a body as a JSON object, or "".
func metadataOf(f *form) string {
	text := f.nullJSON("metadata").String
	if text != "" && objectOrEmpty(text) == "" {
		text = asText(object{"metadata": json.RawMessage(text)})
	}
	return text
}

// merge merges the observation of an event with the stored one. An update may omit the trace. An
// observation without a trace becomes a trace of its own.
func (o observation) merge(tx *transaction, mode Mode, at int64) error {
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
		ownTrace := trace{id: o.span, timestamp: at, name: o.name, environment: o.environment, created: o.created, updated: o.updated,
			metadata: o.metadata, input: o.input, output: o.output}
		ownTrace.store(tx)
	}
	if o.start == 0 {
		o.start = at
	}
	if o.end != 0 {
		o.end = max(o.end, o.start)
	}
	o.level, o.tags, o.root = cmp.Or(o.level, "DEFAULT"), cmp.Or(o.tags, "[]"), o.parent == ""
	o.write(tx, mode)
	return nil
}

// fill copies each field that the event omits from the stored observation.
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
	o.metadata = mergeJSON(old.metadata, o.metadata)
	o.kind, o.created = old.kind, old.created
}

// mergeJSON returns a JSON object with the fields of both; changes takes precedence.
func mergeJSON(base, changes string) string {
	fields := map[string]json.RawMessage{}
	for _, text := range []string{base, changes} {
		var more map[string]json.RawMessage
		if json.Unmarshal([]byte(cmp.Or(text, "{}")), &more) == nil {
			maps.Copy(fields, more)
		}
	}
	return asText(fields)
}
