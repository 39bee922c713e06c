package embedded

import (
	"database/sql"
	"net/http"
	"slices"

	"github.com/google/uuid"
)

const queueItemColumns = "id, queue_id, object_id, object_type, status, completed, created, updated"

func scanQueueItem(rows *sql.Rows) (object, error) {
	var id, queue, subject, kind, status string
	var completed sql.NullInt64
	var created, updated int64
	err := rows.Scan(&id, &queue, &subject, &kind, &status, &completed, &created, &updated)
	return object{"id": id, "queueId": queue, "objectId": subject, "objectType": kind, "status": status,
		"completedAt": isoOrNull(completed), "createdAt": iso(created), "updatedAt": iso(updated)}, err
}

func findQueueItem(q querier, queue, id string) (object, error) {
	found, err := collect(q, scanQueueItem, "SELECT "+queueItemColumns+" FROM queue_items WHERE queue_id = ? AND id = ?", queue, id)
	if err == nil && len(found) == 0 {
		err = notFound("Annotation queue item not found")
	}
	return append(found, nil)[0], err
}

// createQueueItem answers POST /annotation-queues/{id}/items. The object need
// not exist; the same one may be queued twice.
func (s *Server) createQueueItem(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	subject, kind := f.must("objectId"), f.must("objectType")
	status := orElse(readStatus(f), "PENDING")
	if !slices.Contains([]string{"TRACE", "OBSERVATION", "SESSION"}, kind) && !f.failed("objectType") {
		f.add("invalid_value", "objectType", `Invalid option: expected one of "TRACE"|"OBSERVATION"|"SESSION"`)
	}
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	var made object
	err = s.store.update(func(tx *transaction) error {
		if _, err := findQueue(tx, c.path["id"]); err != nil {
			return err
		}
		id, now := uuid.NewString(), s.now()
		_, err := tx.Exec("INSERT INTO queue_items("+queueItemColumns+") VALUES(?,?,?,?,?,?,?,?)", id, c.path["id"], subject, kind,
			status, sql.NullInt64{Int64: now, Valid: status == "COMPLETED"}, now, now)
		if err != nil {
			return err
		}
		made, err = findQueueItem(tx, c.path["id"], id)
		return err
	})
	return reply{http.StatusOK, made}, err
}

func readStatus(f *form) string {
	status := f.text("status")
	if status != "" && status != "PENDING" && status != "COMPLETED" {
		f.add("invalid_value", "status", `Invalid option: expected one of "PENDING"|"COMPLETED"`)
	}
	return status
}

// listQueueItems answers GET /annotation-queues/{id}/items?status, the newest
// first.
func (s *Server) listQueueItems(c *call) (reply, error) {
	if err := c.strictly("page", "limit", "status"); err != nil {
		return reply{}, err
	}
	if _, err := findQueue(s.store.r, c.path["id"]); err != nil {
		return reply{}, err
	}
	var w where
	w.add("queue_id = ?", c.path["id"])
	if c.query.Has("status") {
		status := c.query.Get("status")
		if status != "PENDING" && status != "COMPLETED" {
			return reply{}, badQuery("status", `Invalid option: expected one of "PENDING"|"COMPLETED"`)
		}
		w.add("status = ?", status)
	}
	return s.listed(c, scanQueueItem, queueItemColumns, "queue_items", &w, "created DESC, id DESC")
}

// getQueueItem answers GET /annotation-queues/{id}/items/{item}.
func (s *Server) getQueueItem(c *call) (reply, error) {
	found, err := findQueueItem(s.store.r, c.path["id"], c.path["item"])
	return reply{http.StatusOK, found}, err
}

// updateQueueItem answers PATCH /annotation-queues/{id}/items/{item}. Completing
// sets the instant, and opening again leaves it, as Langfuse does.
func (s *Server) updateQueueItem(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	status := readStatus(f)
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	var changed object
	err = s.store.update(func(tx *transaction) error {
		if _, err := findQueueItem(tx, c.path["id"], c.path["item"]); err != nil {
			return err
		}
		now := s.now()
		_, err := tx.Exec(`UPDATE queue_items SET status = CASE ?1 WHEN '' THEN status ELSE ?1 END,
			completed = CASE ?1 WHEN 'COMPLETED' THEN ?2 ELSE completed END, updated = ?2 WHERE id = ?3`, status, now, c.path["item"])
		if err != nil {
			return err
		}
		changed, err = findQueueItem(tx, c.path["id"], c.path["item"])
		return err
	})
	return reply{http.StatusOK, changed}, err
}

// deleteQueueItem answers DELETE /annotation-queues/{id}/items/{item}.
func (s *Server) deleteQueueItem(c *call) (reply, error) {
	err := s.store.update(func(tx *transaction) error {
		if _, err := findQueueItem(tx, c.path["id"], c.path["item"]); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM queue_items WHERE id = ?", c.path["item"])
		return err
	})
	return reply{http.StatusOK, object{"success": true, "message": "Annotation queue item deleted successfully"}}, err
}
