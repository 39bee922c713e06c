package embedded

// migrations returns the statements that upgrade a file from each version to the next; a new file
// has version 0. Steps are added and never changed, because existing files have taken them. The
// exceptions are tables, columns and indices that are unused or that a later step replaces: their
// statements were removed, as from the third step.
func migrations() []string {
	return []string{schemaEvents, schemaLegacy, "", schemaIdentity, schemaSaid, schemaNarrow, schemaInbox, schemaPacking}
}

// schemaEvents creates the tables of Langfuse 4. Times are in milliseconds since 1970, and JSON
// is text. Wide columns are last, so that a scan of the narrow ones does not read them. An item
// has a row per version; the current one has no valid_to. An experiment has the first non-empty
// texts of its spans.
const schemaEvents = `
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE datasets(
	id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created INTEGER NOT NULL, updated INTEGER NOT NULL,
	description TEXT, metadata TEXT, input_schema TEXT, expected_schema TEXT);
CREATE INDEX datasets_by_creation ON datasets(created DESC, id);

CREATE TABLE items(
	id TEXT NOT NULL, dataset_id TEXT NOT NULL REFERENCES datasets(id),
	valid_from INTEGER NOT NULL, valid_to INTEGER, deleted INTEGER NOT NULL, status TEXT NOT NULL,
	source_trace TEXT NOT NULL, source_observation TEXT NOT NULL,
	created INTEGER NOT NULL, updated INTEGER NOT NULL,
	metadata TEXT, expected TEXT, input TEXT);
CREATE UNIQUE INDEX items_current ON items(id) WHERE valid_to IS NULL;
CREATE INDEX items_by_id ON items(id, valid_from);
CREATE INDEX items_listed ON items(dataset_id, valid_from DESC, id, valid_to, deleted, status);
CREATE INDEX items_by_source ON items(source_trace) WHERE source_trace != '';

CREATE TABLE observations(
	trace_id TEXT NOT NULL, span_id TEXT NOT NULL, start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL,
	parent_id TEXT NOT NULL, is_root INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
	level TEXT NOT NULL, status_message TEXT NOT NULL, environment TEXT NOT NULL, version TEXT NOT NULL,
	release TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL, trace_name TEXT NOT NULL,
	tags TEXT NOT NULL, public INTEGER NOT NULL, model TEXT NOT NULL, model_parameters TEXT NOT NULL,
	usage TEXT NOT NULL, cost TEXT NOT NULL, total_cost REAL, completion_start INTEGER,
	prompt_id TEXT NOT NULL, prompt_name TEXT NOT NULL, prompt_version INTEGER,
	experiment_id TEXT NOT NULL, experiment_name TEXT NOT NULL, experiment_dataset_id TEXT NOT NULL,
	experiment_item_id TEXT NOT NULL, experiment_item_version INTEGER, is_item_root INTEGER NOT NULL,
	created INTEGER NOT NULL, updated INTEGER NOT NULL,
	experiment_description TEXT NOT NULL, experiment_metadata TEXT NOT NULL,
	experiment_item_metadata TEXT NOT NULL, metadata TEXT NOT NULL,
	input TEXT, output TEXT, expected TEXT);
CREATE INDEX observations_of_experiment ON observations(experiment_id, start_ms, end_ms, is_item_root)
	WHERE experiment_id != '';

CREATE TABLE experiments(
	id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL, dataset_id TEXT NOT NULL, metadata TEXT NOT NULL);

CREATE TABLE scores(
	id TEXT PRIMARY KEY, name TEXT NOT NULL, data_type TEXT NOT NULL, value REAL, text TEXT,
	timestamp INTEGER NOT NULL, event_at INTEGER NOT NULL, event_id TEXT NOT NULL,
	source TEXT NOT NULL, environment TEXT NOT NULL, config_id TEXT NOT NULL, queue_id TEXT NOT NULL,
	author_id TEXT NOT NULL, trace_id TEXT NOT NULL, observation_id TEXT NOT NULL, session_id TEXT NOT NULL,
	run_id TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, metadata TEXT NOT NULL, comment TEXT NOT NULL);
CREATE INDEX scores_of_run ON scores(run_id) WHERE run_id != '';

CREATE TABLE score_configs(
	id TEXT PRIMARY KEY, name TEXT NOT NULL, data_type TEXT NOT NULL, min_value REAL, max_value REAL,
	categories TEXT, description TEXT, archived INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL);

CREATE TABLE prompts(
	id TEXT PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, type TEXT NOT NULL, prompt TEXT NOT NULL,
	config TEXT NOT NULL, tags TEXT NOT NULL, commit_message TEXT, created INTEGER NOT NULL, updated INTEGER NOT NULL,
	UNIQUE(name, version));
CREATE TABLE prompt_labels(
	name TEXT NOT NULL, label TEXT NOT NULL, version INTEGER NOT NULL,
	PRIMARY KEY(name, label)) WITHOUT ROWID;
`

// schemaLegacy adds the tables of Langfuse 3, which are traces and dataset runs with their items,
// and those of people's work, which are annotation queues and comments. A trace is merged from
// its events. All links of a run and an item are kept, and reads show the newest one.
const schemaLegacy = `
CREATE INDEX observations_by_span ON observations(span_id);

CREATE TABLE traces(
	id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
	release TEXT NOT NULL, version TEXT NOT NULL, environment TEXT NOT NULL, public INTEGER NOT NULL, tags TEXT NOT NULL,
	event_at INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
	metadata TEXT NOT NULL, input TEXT, output TEXT);

CREATE TABLE runs(
	id TEXT PRIMARY KEY, dataset_id TEXT NOT NULL REFERENCES datasets(id), name TEXT NOT NULL,
	created INTEGER NOT NULL, updated INTEGER NOT NULL, description TEXT, metadata TEXT,
	UNIQUE(dataset_id, name));

CREATE TABLE run_items(
	seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run_id TEXT NOT NULL, item_id TEXT NOT NULL,
	trace_id TEXT NOT NULL, observation_id TEXT NOT NULL, created INTEGER NOT NULL);
CREATE INDEX run_items_newest ON run_items(run_id, item_id, created, seq);

CREATE TABLE queues(
	id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT, configs TEXT NOT NULL,
	created INTEGER NOT NULL, updated INTEGER NOT NULL);
CREATE TABLE queue_items(
	id TEXT PRIMARY KEY, queue_id TEXT NOT NULL REFERENCES queues(id), object_id TEXT NOT NULL, object_type TEXT NOT NULL,
	status TEXT NOT NULL, completed INTEGER, created INTEGER NOT NULL, updated INTEGER NOT NULL);
CREATE INDEX queue_items_listed ON queue_items(queue_id, created DESC, id DESC);

CREATE TABLE comments(
	id TEXT PRIMARY KEY, object_type TEXT NOT NULL, object_id TEXT NOT NULL, content TEXT NOT NULL,
	author_id TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL);
CREATE INDEX comments_of ON comments(object_type, object_id, created DESC);
`

// schemaIdentity allows one row per span, whatever its start.
const schemaIdentity = `
DROP INDEX IF EXISTS observations_identity;
DELETE FROM observations WHERE rowid NOT IN (SELECT max(rowid) FROM observations GROUP BY trace_id, span_id);
CREATE UNIQUE INDEX observations_identity ON observations(trace_id, span_id);
`

// schemaSaid avoids that the metadata of a span repeats other columns; see
// observation.experimentAttributes.
const schemaSaid = `ALTER TABLE observations ADD COLUMN said INTEGER NOT NULL DEFAULT 0;`

// schemaNarrow makes indices narrow: the ids behind a time only ordered rows of the same
// millisecond.
const schemaNarrow = `
DROP INDEX IF EXISTS observations_by_start;
CREATE INDEX observations_by_start ON observations(start_ms);
DROP INDEX IF EXISTS observations_roots;
CREATE INDEX observations_roots ON observations(start_ms) WHERE is_root = 1;
DROP INDEX IF EXISTS observations_of_items;
CREATE INDEX observations_of_items ON observations(start_ms) WHERE is_item_root = 1;
DROP INDEX IF EXISTS scores_by_time;
CREATE INDEX scores_by_time ON scores(timestamp);
DROP INDEX IF EXISTS scores_of_trace;
CREATE INDEX scores_of_trace ON scores(trace_id) WHERE trace_id != '';
DROP INDEX IF EXISTS scores_by_name;
CREATE INDEX scores_by_name ON scores(name, timestamp);
DROP INDEX IF EXISTS traces_by_time;
CREATE INDEX traces_by_time ON traces(timestamp);
`

// schemaInbox adds the table of messages that are acknowledged and not yet in the other tables;
// see message.
const schemaInbox = `
CREATE TABLE inbox(
	seq INTEGER PRIMARY KEY, due INTEGER NOT NULL, received INTEGER NOT NULL, mode TEXT NOT NULL, kind TEXT NOT NULL,
	body BLOB NOT NULL, problem TEXT, latest INTEGER NOT NULL, experiments TEXT NOT NULL);
CREATE INDEX inbox_due ON inbox(due, seq);
`

// schemaPacking is for earlier programs, which read there how the body of a message is compressed.
const schemaPacking = `ALTER TABLE inbox ADD COLUMN packing TEXT NOT NULL DEFAULT 'zstd';`
