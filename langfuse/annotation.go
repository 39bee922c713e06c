package langfuse

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf16"

	"extraction-experiment/internal/textutil"
)

// AnnotationQueue is a list of traces and observations for people to score.
type AnnotationQueue struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// ScoreConfigIDs are the score configurations that annotators select from, at least one.
	ScoreConfigIDs []string `json:"scoreConfigIds"`
}

// The statuses of a queue item and the types of its object.
const (
	QueuePending   = "PENDING"
	QueueCompleted = "COMPLETED"

	ObjectTrace       = "TRACE"
	ObjectObservation = "OBSERVATION"
)

// QueueItem is one item of an annotation queue. It does not contain the annotator, nor the
// trace id of an observation (see FindObservation).
type QueueItem struct {
	ID          string    `json:"id"`
	QueueID     string    `json:"queueId"`
	ObjectID    string    `json:"objectId"`
	ObjectType  string    `json:"objectType"`  // for example ObjectTrace
	Status      string    `json:"status"`      // QueuePending or QueueCompleted
	CompletedAt time.Time `json:"completedAt"` // zero while pending
}

// ListAnnotationQueues yields the annotation queues of the project. Works on all servers.
// Retried; the first error ends the iteration.
//
// API: GET /api/public/annotation-queues
func (c *Client) ListAnnotationQueues(ctx context.Context) iter.Seq2[AnnotationQueue, error] {
	return listPages[AnnotationQueue](ctx, c, "annotation-queues", url.Values{}, 0)
}

// GetAnnotationQueue returns the queue with the given name, or otherwise with the given id.
// Errors: ErrNotFound (the message lists the first ten queues), and those of
// ListAnnotationQueues.
//
// API: GET /api/public/annotation-queues
func (c *Client) GetAnnotationQueue(ctx context.Context, nameOrID string) (AnnotationQueue, error) {
	var byID AnnotationQueue
	var names []string
	for queue, err := range c.ListAnnotationQueues(ctx) {
		switch {
		case err != nil:
			return AnnotationQueue{}, fmt.Errorf("annotation queue %q: %w", nameOrID, err)
		case queue.Name == nameOrID:
			return queue, nil
		case queue.ID == nameOrID:
			byID = queue
		}
		if len(names) < 10 {
			names = append(names, textutil.Cut(textutil.Line(queue.Name), 80))
		}
	}
	if byID.ID != "" {
		return byID, nil
	}
	return AnnotationQueue{}, fmt.Errorf("annotation queue %q: %w in this project, which has %s", nameOrID, ErrNotFound,
		cmp.Or(strings.Join(names, ", "), "none"))
}

// ListQueueItems yields the items of a queue with a status, or all items if status is "", the
// newest first. An object that was added twice has two items. Works on all servers. Retried;
// the first error ends the iteration.
//
// API: GET /api/public/annotation-queues/{queueId}/items
func (c *Client) ListQueueItems(ctx context.Context, queueID, status string) iter.Seq2[QueueItem, error] {
	query := url.Values{}
	setText(query, "status", status)
	return listPages[QueueItem](ctx, c, "annotation-queues/"+url.PathEscape(queueID)+"/items", query, maxPageLimit)
}

// CreateAnnotationQueue creates a queue and returns it. It ignores queue.ID, which the server
// sets. The name must not be taken, and the score configurations must exist (see
// ListScoreConfigs). Retried only after 429: after another error, check whether the queue
// exists before calling again. Errors: *APIError (400: the name or a configuration is invalid),
// *ConnectionError.
//
// API: POST /api/public/annotation-queues
func (c *Client) CreateAnnotationQueue(ctx context.Context, queue AnnotationQueue) (AnnotationQueue, error) {
	queue.ID = ""
	return call[AnnotationQueue](ctx, c, postOnce("annotation-queues"), queue, "annotation queue %q", queue.Name)
}

// QueueTraces adds traces to a queue, in the given order, and returns the added traces. It
// skips traces that the queue already has, pending or completed; it lists the queue once to
// find them. The traces need not exist. At the first error, QueueTraces stops and returns the
// traces added so far. Safe to repeat, also after an error, but concurrent calls may add a
// trace twice. Listing is retried; adding a trace is retried only after 429. Errors:
// ErrNotFound (the queue does not exist), *APIError, *ConnectionError.
//
// API: GET and POST /api/public/annotation-queues/{queueId}/items
func (c *Client) QueueTraces(ctx context.Context, queueID string, traceIDs []string) (added []string, err error) {
	add := postOnce("annotation-queues/" + url.PathEscape(queueID) + "/items")
	queued := map[string]bool{}
	for item, err := range c.ListQueueItems(ctx, queueID, "") {
		if err != nil {
			return nil, fmt.Errorf("items of the annotation queue: %w", err)
		}
		if item.ObjectType == ObjectTrace {
			queued[item.ObjectID] = true
		}
	}
	for _, id := range traceIDs {
		if queued[id] {
			continue
		}
		queued[id] = true
		body := map[string]string{"objectId": id, "objectType": ObjectTrace}
		_, err := call[QueueItem](ctx, c, add, body, "adding trace %s to the annotation queue", textutil.Cut(id, 80))
		if err != nil {
			return added, err
		}
		added = append(added, id)
	}
	return added, nil
}

// ReopenQueueItem makes a completed item of a queue pending again. Its time of completion stays.
// Safe to repeat, retried. Errors: ErrNotFound, *APIError, *ConnectionError.
//
// API: PATCH /api/public/annotation-queues/{queueId}/items/{itemId}
func (c *Client) ReopenQueueItem(ctx context.Context, queueID, itemID string) error {
	r := request{method: http.MethodPatch,
		path: "annotation-queues/" + url.PathEscape(queueID) + "/items/" + url.PathEscape(itemID)}
	_, err := call[QueueItem](ctx, c, r, map[string]string{"status": QueuePending}, "opening a queue item again")
	return err
}

// Comment is a comment on a trace, an observation, a session or a prompt.
type Comment struct {
	ID         string `json:"id,omitempty"`
	ProjectID  string `json:"projectId"`
	ObjectType string `json:"objectType"` // for example ObjectTrace
	ObjectID   string `json:"objectId"`
	Content    string `json:"content"`
}

// MaxComment is the maximum length of the content of a comment in UTF-16 code units.
const MaxComment = 5000

// CreateComment creates a comment and returns its id. ProjectID (see GetProject), ObjectType,
// ObjectID and Content are required. The object must exist: for a trace that was just sent, use
// Wait to repeat the call as long as the error is ErrNotFound. Retried only after 429: after
// another error, check with ListComments before calling again. Errors: *UsageError (the content
// is empty or longer than MaxComment; nothing is sent), ErrNotFound, *APIError,
// *ConnectionError.
//
// API: POST /api/public/comments
func (c *Client) CreateComment(ctx context.Context, comment Comment) (id string, err error) {
	if length := len(utf16.Encode([]rune(comment.Content))); length == 0 || length > MaxComment {
		return "", usageError("a comment has 1 to %d characters, this one %d", MaxComment, length)
	}
	comment.ID = ""
	created, err := call[Comment](ctx, c, postOnce("comments"), comment, "comment on %s %s", comment.ObjectType,
		textutil.Cut(comment.ObjectID, 80))
	return created.ID, err
}

// ListComments yields the comments on an object, the newest first. Works on all servers.
// Retried; the first error ends the iteration.
//
// API: GET /api/public/comments
func (c *Client) ListComments(ctx context.Context, objectType, objectID string) iter.Seq2[Comment, error] {
	return listPages[Comment](ctx, c, "comments", url.Values{"objectType": {objectType}, "objectId": {objectID}}, maxPageLimit)
}
