package embedded

import "database/sql"

// merge lays what an event says of an observation over what is stored of it.
// An update may leave out the trace; an observation that belongs to none becomes
// a trace of its own.
func (w *spanWriter) merge(given observation) error {
	condition, args := "WHERE o.span_id = ?", []any{given.span}
	if given.trace != "" {
		condition, args = condition+" AND o.trace_id = ?", append(args, given.trace)
	}
	old, err := readWhole(w.tx, condition+" ORDER BY o.updated DESC, o.rowid DESC LIMIT 1", args...)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		given = mergeObservations(old[0], given)
	}
	if given.trace == "" {
		given.trace = given.span
		err = storeTrace(w.tx, trace{id: given.span, timestamp: given.eventAt, name: given.name, environment: given.environment,
			eventAt: given.eventAt, created: given.created, updated: given.updated, metadata: given.legacyMetadata,
			input: given.input, output: given.output})
	}
	if err != nil {
		return err
	}
	if given.start == 0 {
		given.start = given.eventAt
	}
	if given.end != 0 {
		given.end = max(given.end, given.start)
	}
	given.level, given.root = orElse(given.level, "DEFAULT"), given.parent == ""
	given.metadata = flatMetadata(given.legacyMetadata)
	given.tags = orElse(given.tags, "[]")
	if _, err := w.forget.Exec(given.trace, given.span, given.start); err != nil {
		return err
	}
	return w.write(given)
}

// mergeObservations takes each field from the later of two events that has it.
func mergeObservations(old, given observation) observation {
	winner, loser := given, old
	if given.eventAt < old.eventAt {
		winner, loser = old, given
	}
	keepTexts([][2]*string{
		{&winner.trace, &loser.trace}, {&winner.parent, &loser.parent}, {&winner.name, &loser.name},
		{&winner.level, &loser.level}, {&winner.statusMessage, &loser.statusMessage}, {&winner.version, &loser.version},
		{&winner.model, &loser.model}, {&winner.parameters, &loser.parameters}, {&winner.usage, &loser.usage},
		{&winner.release, &loser.release}, {&winner.user, &loser.user}, {&winner.session, &loser.session},
		{&winner.traceName, &loser.traceName}, {&winner.tags, &loser.tags},
	}...)
	for _, field := range []struct{ into, from *sql.NullString }{{&winner.input, &loser.input}, {&winner.output, &loser.output}} {
		if !field.into.Valid {
			*field.into = *field.from
		}
	}
	if winner.cost == "" {
		winner.cost, winner.totalCost = loser.cost, loser.totalCost
	}
	if winner.promptName == "" {
		winner.promptName, winner.promptVersion = loser.promptName, loser.promptVersion
	}
	if !winner.completionStart.Valid {
		winner.completionStart = loser.completionStart
	}
	if winner.start == 0 {
		winner.start = loser.start
	}
	if winner.end == 0 {
		winner.end = loser.end
	}
	winner.kind = old.kind
	winner.legacyMetadata = mergedObjects(loser.legacyMetadata, winner.legacyMetadata)
	winner.created, winner.updated = old.created, given.updated
	return winner
}

// flatMetadata is the flat form of nested metadata, which Langfuse 4 shows.
func flatMetadata(nested string) string {
	flat, fits := flatFields(orElse(nested, "{}"))
	if !fits {
		flat = map[string]string{"metadata": nested}
	}
	return asText(flat)
}
