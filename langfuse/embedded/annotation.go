package embedded

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"extraction-experiment/internal/textutil"
)

// Annotation is a score or a correction that a person sets on a trace or on one of its
// observations in Langfuse's user interface, which this server does not have. Unlike a score sent
// over the API, it has an author.
type Annotation struct {
	// TraceID is the annotated trace. ObservationID, if not empty, is the annotated span in it.
	TraceID, ObservationID string
	// ConfigID is the id of the score configuration, which determines name and data type. It is
	// required unless Correction is set.
	ConfigID string
	// Value is a number for NUMERIC, a bool for BOOLEAN, a string for
	// CATEGORICAL and TEXT.
	Value any
	// Correction, if not empty, makes the annotation a correction: the text that the output
	// should have been. ConfigID and Value must then be empty.
	Correction string
	// Author is the user id of the person; empty means "embedded-user".
	Author string
	// QueueID is the annotation queue in which the person worked, or empty.
	QueueID string
	// Comment is the remark of the person, or empty.
	Comment string
}

// Annotate stores an annotation immediately, with the source ANNOTATION, the author and the
// environment of the span, and returns the id of the score. Each call stores another score. It
// returns an error if the configuration does not exist or does not allow the value, if the trace
// or span does not exist, or if not exactly one of value and correction is given.
//
// Over HTTP it is POST /api/embedded/annotations with traceId, observationId, configId, value,
// correction, authorUserId, queueId and comment, which answers {"id"}. Langfuse itself has no
// such route.
func (s *Server) Annotate(a Annotation) (id string, err error) {
	if err := s.settle(); err != nil {
		return "", err
	}
	sc, err := s.annotationScore(a)
	if err == nil {
		err = s.store.update(func(tx *transaction) error { return storeScore(tx, sc, sc.timestamp) })
	}
	if err != nil {
		return "", fmt.Errorf("annotating trace %s: %w", textutil.Cut(a.TraceID, 100), err)
	}
	return sc.id, nil
}

func (s *Server) annotationScore(a Annotation) (sc score, err error) {
	switch {
	case a.TraceID == "":
		return sc, errors.New("the trace id is missing")
	case (a.Correction == "") == (a.Value == nil):
		return sc, errors.New("give either a value or a correction")
	}
	environment, err := requireRow(s.store.r, errors.New("there is no such trace or observation"), scanValue[string],
		`SELECT environment FROM (SELECT environment, is_root, start_ms FROM observations WHERE trace_id = ?1
			AND (?2 = '' OR span_id = ?2) UNION ALL SELECT environment, -1, 0 FROM traces WHERE id = ?1 AND ?2 = '')
		ORDER BY is_root DESC, start_ms LIMIT 1`, a.TraceID, a.ObservationID)
	cfg, value := scoreConfig{name: "output", dataType: "CORRECTION"}, any(a.Correction)
	if err == nil && a.Correction == "" {
		errMissing := fmt.Errorf("there is no score configuration %q", textutil.Cut(a.ConfigID, 100))
		cfg, err = requireRow(s.store.r, errMissing, scanRow[scoreConfig], selectConfig, a.ConfigID)
		value = a.Value
	}
	if err != nil {
		return sc, err
	}
	if flag, isBool := value.(bool); isBool {
		value = map[bool]float64{true: 1, false: 0}[flag]
	}
	body, err := textutil.MarshalJSON(object{"id": uuid.NewString(), "name": cfg.name, "dataType": cfg.dataType,
		"value": value, "source": "ANNOTATION", "environment": environment, "configId": cfg.id, "queueId": a.QueueID,
		"traceId": a.TraceID, "observationId": a.ObservationID, "comment": a.Comment})
	if err != nil {
		return sc, err
	}
	f := newForm(body)
	sc = readScore(f)
	sc.author, sc.timestamp = cmp.Or(a.Author, "embedded-user"), s.now()
	sc.eventAt = sc.timestamp
	if err = f.err(); err == nil && a.Correction == "" && !cfg.allows(sc) {
		err = fmt.Errorf("the value %v does not fit the score configuration %q", value, cfg.name)
	}
	return sc, err
}

// createAnnotation answers POST /api/embedded/annotations.
func (s *Server) createAnnotation(c *call) (any, error) {
	f := c.form(smallBody)
	a := Annotation{TraceID: f.required("traceId"), ObservationID: f.text("observationId"), ConfigID: f.text("configId"),
		Correction: f.text("correction"), Author: f.text("authorUserId"), QueueID: f.text("queueId"), Comment: f.text("comment")}
	f.decode("value", &a.Value, "JSON value")
	if err := f.rejectUnknown().err(); err != nil {
		return nil, err
	}
	id, err := s.Annotate(a)
	if err != nil {
		return nil, invalidRequest("%s", err)
	}
	return object{"id": id}, nil
}

// queueJSON is the SQL expression for an annotation queue in the API's form.
const queueJSON = `json_object('id', id, 'name', name, 'description', description, 'scoreConfigIds', json(configs),
	'createdAt', ` + isoCreated + `, 'updatedAt', ` + isoUpdated + `)`

func findQueue(q querier, id string) (any, error) {
	return requireRow(q, notFound("Annotation queue not found"), scanJSON,
		"SELECT "+queueJSON+" FROM queues WHERE id = ?", id)
}

// createQueue answers POST /annotation-queues. Names are unique, and all score configurations
// must exist.
func (s *Server) createQueue(c *call) (queue any, err error) {
	f := c.form(smallBody)
	name, description, configs := f.required("name"), f.nullText("description"), f.texts("scoreConfigIds")
	if len(configs) == 0 {
		f.addIssue("too_small", "scoreConfigIds", "Too small: expected array to have >=1 items")
	}
	err = s.update(f.rejectUnknown(), func(tx *transaction) error {
		unknown, err := queryInt(tx, "SELECT count(*) FROM json_each(?) WHERE value NOT IN (SELECT id FROM score_configs)", jsonList(configs))
		if err == nil && unknown > 0 {
			err = invalidRequest("At least one of the score config IDs cannot be found for the given project.")
		}
		if err != nil {
			return err
		}
		id, now := uuid.NewString(), s.now()
		queue, err = requireRow(tx, invalidRequest("A queue with this name already exists."), scanJSON, `INSERT INTO queues(
			id, name, description, configs, created, updated) VALUES(?,?,?,?,?,?) ON CONFLICT DO NOTHING RETURNING `+queueJSON,
			id, name, description, jsonList(configs), now, now)
		return err
	})
	return queue, err
}

// listQueues answers GET /annotation-queues, newest first.
func (s *Server) listQueues(c *call) (any, error) {
	c.allowKeys("page", "limit")
	return numberedPage(s, c, 50, scanJSON, queueJSON, "queues", "created DESC, id DESC")
}

// queueItemJSON is the SQL expression for an item of a queue in the API's form.
const queueItemJSON = `json_object('id', id, 'queueId', queue_id, 'objectId', object_id, 'objectType', object_type,
	'status', status, 'completedAt', ` + isoCompleted + `, 'createdAt', ` + isoCreated + `, 'updatedAt', ` + isoUpdated + `)`

// createQueueItem answers POST /annotation-queues/{id}/items. The object need not exist, and the
// same object may be queued twice.
func (s *Server) createQueueItem(c *call) (entry any, err error) {
	f := c.form(smallBody)
	objectID, objectType := f.required("objectId"), f.required("objectType")
	f.oneOf("objectType", "TRACE", "OBSERVATION", "SESSION")
	status := cmp.Or(f.oneOf("status", "PENDING", "COMPLETED"), "PENDING")
	err = s.update(f.rejectUnknown(), func(tx *transaction) error {
		if _, err := findQueue(tx, c.path("id")); err != nil {
			return err
		}
		id, now := uuid.NewString(), s.now()
		entry, _, err = queryRow(tx, scanJSON, `INSERT INTO queue_items(id, queue_id, object_id, object_type,
			status, completed, created, updated) VALUES(?,?,?,?,?,?,?,?) RETURNING `+queueItemJSON, id, c.path("id"),
			objectID, objectType, status, sql.NullInt64{Int64: now, Valid: status == "COMPLETED"}, now, now)
		return err
	})
	return entry, err
}

// listQueueItems answers GET /annotation-queues/{id}/items?status, newest first.
func (s *Server) listQueueItems(c *call) (any, error) {
	c.allowKeys("page", "limit", "status")
	if _, err := findQueue(s.store.r, c.path("id")); err != nil {
		return nil, err
	}
	c.equal("queue_id", c.path("id"))
	c.equal("status", c.query.Get("status"))
	return numberedPage(s, c, 50, scanJSON, queueItemJSON, "queue_items", "created DESC, id DESC")
}

// updateQueueItem answers PATCH /annotation-queues/{id}/items/{item}. Completing an item sets its
// completion time; reopening it keeps that time, as Langfuse does.
func (s *Server) updateQueueItem(c *call) (entry any, err error) {
	f := c.form(smallBody)
	status := f.oneOf("status", "PENDING", "COMPLETED")
	err = s.update(f.rejectUnknown(), func(tx *transaction) error {
		entry, err = requireRow(tx, notFound("Annotation queue item not found"), scanJSON, `UPDATE queue_items
			SET status = CASE ?1 WHEN '' THEN status ELSE ?1 END,
				completed = CASE ?1 WHEN 'COMPLETED' THEN ?2 ELSE completed END, updated = ?2
			WHERE queue_id = ?3 AND id = ?4 RETURNING `+queueItemJSON, status, s.now(), c.path("id"), c.path("item"))
		return err
	})
	return entry, err
}

const commentColumns = "id, object_type, object_id, content, author_id, created, updated"

// commentJSON is the SQL expression for a comment in the API's form.
const commentJSON = `json_object('id', id, 'projectId', '` + DefaultProjectID + `', 'objectType', object_type, 'objectId', object_id,
	'content', content, 'authorUserId', nullif(author_id, ''), 'createdAt', ` + isoCreated + `, 'updatedAt', ` + isoUpdated + `)`

// createComment answers POST /comments on traces and observations, which must exist. A trace
// exists if it has a row or any span. The author may be any string, because this server has no
// users.
func (s *Server) createComment(c *call) (any, error) {
	f := c.form(smallBody)
	project, objectType, objectID, author := f.required("projectId"), f.required("objectType"),
		f.required("objectId"), f.text("authorUserId")
	f.oneOf("objectType", "TRACE", "OBSERVATION")
	content := strings.TrimSpace(f.required("content"))
	f.checkLength("content", content, 1, 5000)
	id, now := uuid.NewString(), s.now()
	return object{"id": id}, s.update(f.rejectUnknown(), func(tx *transaction) error {
		n, err := queryInt(tx, `SELECT count(*) FROM (SELECT 'TRACE' AS kind FROM traces WHERE id = ?1
			UNION ALL SELECT 'TRACE' FROM observations WHERE trace_id = ?1
			UNION ALL SELECT 'OBSERVATION' FROM observations WHERE span_id = ?1) WHERE kind = ?2`, objectID, objectType)
		if err == nil && (n == 0 || project != DefaultProjectID) {
			err = notFound("Reference object, %s: %s not found. Skipping comment creation.", objectType,
				textutil.Cut(objectID, 300))
		}
		tx.insert("comments", commentColumns, id, objectType, objectID, content, author, now, now)
		return err
	})
}

// listComments answers GET /comments, newest first.
func (s *Server) listComments(c *call) (any, error) {
	c.allowKeys("objectType", "objectId", "page", "limit")
	objectType, objectID := c.query.Get("objectType"), c.query.Get("objectId")
	if objectID != "" && objectType == "" {
		c.reject(invalidQuery("objectType", "objectType is required when objectId is provided"))
	}
	c.equal("object_type", objectType)
	c.equal("object_id", objectID)
	return numberedPage(s, c, 50, scanJSON, commentJSON, "comments", "created DESC, id DESC")
}
