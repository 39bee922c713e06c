package langfuse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"
)

// AnnotationQueue is a list of things that people are asked to judge.
type AnnotationQueue struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	CreatedAt   time.Time `json:"createdAt"`
}

// The states of a queue item, and what it can be about.
const (
	QueuePending   = "PENDING"
	QueueCompleted = "COMPLETED"

	ObjectTrace       = "TRACE"
	ObjectObservation = "OBSERVATION"
)

// QueueItem is one entry of an annotation queue. Who judged it is not known; of
// an observation only its own id is there, not that of its trace.
type QueueItem struct {
	ID          string    `json:"id"`
	QueueID     string    `json:"queueId"`
	ObjectID    string    `json:"objectId"`
	ObjectType  string    `json:"objectType"`  // ObjectTrace and so on
	Status      string    `json:"status"`      // QueuePending or QueueCompleted
	CompletedAt time.Time `json:"completedAt"` // zero while pending
	CreatedAt   time.Time `json:"createdAt"`
}

// ListAnnotationQueues yields the annotation queues of the project. Works on all
// servers. Retried; the first error ends the iteration.
//
// API: GET /api/public/annotation-queues
func (c *Client) ListAnnotationQueues(ctx context.Context) iter.Seq2[AnnotationQueue, error] {
	return listPages[AnnotationQueue](ctx, c, "annotation-queues", url.Values{}, 0)
}

// GetAnnotationQueue returns the queue of that name, or else of that id. Errors:
// ErrNotFound, and those of ListAnnotationQueues.
//
// API: GET /api/public/annotation-queues
func (c *Client) GetAnnotationQueue(ctx context.Context, nameOrID string) (AnnotationQueue, error) {
	var byID *AnnotationQueue
	for queue, err := range c.ListAnnotationQueues(ctx) {
		if err != nil {
			return AnnotationQueue{}, fmt.Errorf("annotation queue %q: %w", nameOrID, err)
		}
		if queue.Name == nameOrID {
			return queue, nil
		}
		if queue.ID == nameOrID {
			byID = &queue
		}
	}
	if byID == nil {
		return AnnotationQueue{}, fmt.Errorf("annotation queue %q: %w", nameOrID, ErrNotFound)
	}
	return *byID, nil
}

// ListQueueItems yields the items of a queue, the newest first: those of a
// status, or with "" all. An object that was added twice is there twice. Works on
// all servers. Retried; the first error ends the iteration.
//
// API: GET /api/public/annotation-queues/{queueId}/items
func (c *Client) ListQueueItems(ctx context.Context, queueID, status string) iter.Seq2[QueueItem, error] {
	if queueID == "" {
		return failing[QueueItem](errors.New("langfuse: listing the items of an annotation queue needs its id"))
	}
	query := url.Values{}
	setText(query, "status", status)
	return listPages[QueueItem](ctx, c, "annotation-queues/"+url.PathEscape(queueID)+"/items", query, maxPageLimit)
}
