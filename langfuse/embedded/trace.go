package embedded

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// trace is one row of traces: what the events of one trace add up to.
type trace struct {
	id                        string
	timestamp                 int64
	name, user, session       string
	release, version          string
	environment               string
	public                    sql.NullBool
	tags                      string // a JSON list of texts, in order
	eventAt, created, updated int64
	metadata                  string // a JSON object, or nothing
	input, output             sql.NullString
}

const traceColumns = `t.id, t.timestamp, t.name, t.user_id, t.session_id, t.release, t.version, t.environment, t.public,
	t.tags, t.event_at, t.created, t.updated`

const traceContents = `, t.metadata, t.input, t.output`

// readTraces selects traces; their contents only where asked for.
func readTraces(q querier, contents bool, rest string, args ...any) ([]trace, error) {
	columns := traceColumns
	if contents {
		columns += traceContents
	}
	return collect(q, func(rows *sql.Rows) (trace, error) {
		var t trace
		into := []any{&t.id, &t.timestamp, &t.name, &t.user, &t.session, &t.release, &t.version, &t.environment,
			&t.public, &t.tags, &t.eventAt, &t.created, &t.updated}
		if contents {
			into = append(into, &t.metadata, &t.input, &t.output)
		}
		err := rows.Scan(into...)
		return t, err
	}, "SELECT "+columns+" FROM traces t "+rest, args...)
}

// traceOf is what a span says of its trace: all of it where it is the root,
// what it carries as attributes of the trace, or else only that it exists.
func traceOf(b batch, sp span, o observation) trace {
	a := sp.attributes
	t := trace{id: o.trace, timestamp: o.start, created: o.created, updated: o.updated, environment: o.environment}
	isRoot := sp.parent == "" || a["langfuse.internal.as_root"] == true
	if !isRoot && !speaksOfTrace(a) {
		return t // its event instant is zero: it overrides nothing
	}
	t.eventAt = o.start
	t.name, t.user, t.session, t.release, t.version, t.tags = o.traceName, o.user, o.session, o.release, o.version, o.tags
	if on, given := a["langfuse.trace.public"].(bool); given {
		t.public = sql.NullBool{Bool: on, Valid: true}
	}
	t.metadata = legacyMetadata(b, a, "langfuse.trace.metadata")
	t.input, t.output = a.content("langfuse.trace.input"), a.content("langfuse.trace.output")
	if !isRoot {
		return t
	}
	t.name = orElse(t.name, o.name)
	if !t.input.Valid {
		t.input = o.input
	}
	if !t.output.Valid {
		t.output = o.output
	}
	return t
}

func speaksOfTrace(a attributes) bool {
	for key := range a {
		if strings.HasPrefix(key, "langfuse.trace.") || slices.Contains([]string{"langfuse.user.id", "user.id",
			"langfuse.session.id", "session.id"}, key) {
			return true
		}
	}
	return false
}

// storeTrace lays what was said of a trace over what is stored of it.
func storeTrace(tx *transaction, given trace) error {
	old, err := readTraces(tx, true, "WHERE t.id = ?", given.id)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		given = mergeTraces(old[0], given)
	}
	_, err = tx.Exec(`INSERT OR REPLACE INTO traces(id, timestamp, name, user_id, session_id, release, version,
			environment, public, tags, event_at, created, updated, metadata, input, output)
		VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, given.id, given.timestamp, given.name, given.user, given.session,
		given.release, given.version, given.environment, given.public.Bool, orElse(given.tags, "[]"), given.eventAt,
		given.created, given.updated, given.metadata, given.input, given.output)
	return err
}

// mergeTraces takes each field from the later of two events that has it. Tags
// are united, metadata is merged, the first instant stays.
func mergeTraces(old, given trace) trace {
	winner, loser := given, old
	if given.eventAt < old.eventAt {
		winner, loser = old, given
	}
	keepTexts([2]*string{&winner.name, &loser.name}, [2]*string{&winner.user, &loser.user}, [2]*string{&winner.session, &loser.session},
		[2]*string{&winner.release, &loser.release}, [2]*string{&winner.version, &loser.version})
	if !winner.public.Valid {
		winner.public = loser.public
	}
	if !winner.input.Valid {
		winner.input = loser.input
	}
	if !winner.output.Valid {
		winner.output = loser.output
	}
	winner.tags = unitedTags(winner.tags, loser.tags)
	winner.metadata = mergedObjects(loser.metadata, winner.metadata)
	winner.timestamp, winner.created, winner.updated = old.timestamp, old.created, given.updated
	return winner
}

func unitedTags(lists ...string) string {
	all := map[string]bool{}
	for _, list := range lists {
		var tags []string
		if json.Unmarshal([]byte(orElse(list, "[]")), &tags) != nil {
			continue
		}
		for _, tag := range tags {
			all[tag] = true
		}
	}
	return joined(append([]string{}, slices.Sorted(maps.Keys(all))...))
}

// mergedObjects lays one JSON object over another, object by object.
func mergedObjects(under, over string) string {
	if under == "" || over == "" || under == over {
		return orElse(over, under)
	}
	below, errBelow := decodeJSON([]byte(under))
	above, errAbove := decodeJSON([]byte(over))
	if errBelow != nil || errAbove != nil {
		return over
	}
	return asText(mergedValues(below, above))
}

func mergedValues(under, over any) any {
	below, isObject := under.(map[string]any)
	above, also := over.(map[string]any)
	if !isObject || !also {
		return over
	}
	for key, v := range above {
		if old, known := below[key]; known {
			v = mergedValues(old, v)
		}
		below[key] = v
	}
	return below
}
