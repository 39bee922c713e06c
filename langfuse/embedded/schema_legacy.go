package embedded

// schemaLegacy is what Langfuse 3 keeps besides: traces, dataset runs with
// their items; and what people add: annotation queues, comments, models.
const schemaLegacy = `
ALTER TABLE observations ADD COLUMN event_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE observations ADD COLUMN legacy_metadata TEXT NOT NULL DEFAULT '';
CREATE INDEX observations_by_span ON observations(span_id);

-- A trace is merged from its events; event_at is the latest of them.
CREATE TABLE traces(
	id TEXT PRIMARY KEY, timestamp INTEGER NOT NULL, name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
	release TEXT NOT NULL, version TEXT NOT NULL, environment TEXT NOT NULL, public INTEGER NOT NULL, tags TEXT NOT NULL,
	event_at INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
	metadata TEXT NOT NULL, input TEXT, output TEXT);
CREATE INDEX traces_by_time ON traces(timestamp, id);
CREATE INDEX traces_of_session ON traces(session_id) WHERE session_id != '';

CREATE TABLE runs(
	id TEXT PRIMARY KEY, dataset_id TEXT NOT NULL REFERENCES datasets(id), name TEXT NOT NULL,
	created INTEGER NOT NULL, updated INTEGER NOT NULL, description TEXT, metadata TEXT,
	UNIQUE(dataset_id, name));

-- Every link that was made; reads show the newest of a run and item.
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

CREATE TABLE models(
	id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, pattern TEXT NOT NULL, start INTEGER, unit TEXT NOT NULL,
	tokenizer TEXT NOT NULL, tokenizer_config TEXT, prices TEXT NOT NULL, created INTEGER NOT NULL);
`
