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

// AnnotationQueue is a list of things that people are asked to judge.
type AnnotationQueue struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// ScoreConfigIDs are the score configurations that people choose among: at
	// least one.
	ScoreConfigIDs []string `json:"scoreConfigIds"`
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
}

// ListAnnotationQueues yields the annotation queues of the project. Works on all
// servers. Retried; the first error ends the iteration.
//
// API: GET /api/public/annotation-queues
func (c *Client) ListAnnotationQueues(ctx context.Context) iter.Seq2[AnnotationQueue, error] {
	return listPages[AnnotationQueue](ctx, c, "annotation-queues", url.Values{}, 0)
}

// GetAnnotationQueue returns the queue of that name, or else of that id. Errors:
// ErrNotFound, which names the first queues that there are, and those of
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

// ListQueueItems yields the items of a queue, the newest first: those of a
// status, or with "" all. An object that was added twice is there twice. Works on
// all servers. Retried; the first error ends the iteration.
//
// API: GET /api/public/annotation-queues/{queueId}/items
func (c *Client) ListQueueItems(ctx context.Context, queueID, status string) iter.Seq2[QueueItem, error] {
	query := url.Values{}
	setText(query, "status", status)
	return listPages[QueueItem](ctx, c, "annotation-queues/"+url.PathEscape(queueID)+"/items", query, maxPageLimit)
}

// CreateAnnotationQueue makes a queue with the name, description and score
// configurations given; the ID is the server's. The name must be free
// and the configurations must exist (ListScoreConfigs), else *APIError with
// status 400. Sent once where it may have been carried out: look for the queue
// before doing it again. Errors: *APIError, *ConnectionError.
//
// API: POST /api/public/annotation-queues
func (c *Client) CreateAnnotationQueue(ctx context.Context, queue AnnotationQueue) (AnnotationQueue, error) {
	queue.ID = ""
	r := request{method: http.MethodPost, path: "annotation-queues", once: true}
	return call[AnnotationQueue](ctx, c, r, queue, "annotation queue %q", queue.Name)
}

// QueueTraces adds those of the traces to a queue that it has not, pending or
// completed, in their order, and returns them; the queue is listed once. A trace
// need not exist. Langfuse takes the same trace twice, so each is sent once where
// that may have been carried out. Safe to repeat one after the other, after an
// error as well; two callers at the same time may queue a trace twice. The first
// error ends it; added is what is in the queue by then. Errors: ErrNotFound (no
// such queue), *APIError, *ConnectionError.
//
// API: GET and POST /api/public/annotation-queues/{queueId}/items
func (c *Client) QueueTraces(ctx context.Context, queueID string, traceIDs []string) (added []string, err error) {
	add := request{method: http.MethodPost, path: "annotation-queues/" + url.PathEscape(queueID) + "/items", once: true}
	there := map[string]bool{}
	for item, err := range c.ListQueueItems(ctx, queueID, "") {
		if err != nil {
			return nil, fmt.Errorf("items of the annotation queue: %w", err)
		}
		if item.ObjectType == ObjectTrace {
			there[item.ObjectID] = true
		}
	}
	for _, id := range traceIDs {
		if there[id] {
			continue
		}
		there[id] = true
		body := map[string]string{"objectId": id, "objectType": ObjectTrace}
		_, err := call[QueueItem](ctx, c, add, body, "adding trace %s to the annotation queue", textutil.Cut(id, 80))
		if err != nil {
			return added, err
		}
		added = append(added, id)
	}
	return added, nil
}

// Comment is a remark on a trace, an observation, a session or a prompt.
type Comment struct {
	ID         string `json:"id,omitempty"`
	ProjectID  string `json:"projectId"`
	ObjectType string `json:"objectType"` // ObjectTrace and so on
	ObjectID   string `json:"objectId"`
	Content    string `json:"content"`
}

// MaxComment is how long the content of a comment may be, in UTF-16 code units.
const MaxComment = 5000

// CreateComment writes a comment and returns its id; ProjectID (that of
// GetProject), ObjectType, ObjectID and Content are needed. The object must be
// there: of a trace that was just sent it is ErrNotFound until it has arrived
// (Wait). Sent once where it may have been carried out: list the comments before
// doing it again. Errors: content that is empty or over MaxComment (nothing is
// sent), *APIError, *ConnectionError.
//
// API: POST /api/public/comments
func (c *Client) CreateComment(ctx context.Context, comment Comment) (id string, err error) {
	if length := len(utf16.Encode([]rune(comment.Content))); length == 0 || length > MaxComment {
		return "", &UsageError{fmt.Errorf("langfuse: a comment has 1 to %d characters, this one %d", MaxComment, length)}
	}
	comment.ID = ""
	r := request{method: http.MethodPost, path: "comments", once: true}
	made, err := call[Comment](ctx, c, r, comment, "comment on %s %s", comment.ObjectType, textutil.Cut(comment.ObjectID, 80))
	return made.ID, err
}

// ListComments yields the comments on an object, the newest first. Works on all
// servers. Retried; the first error ends the iteration.
//
// API: GET /api/public/comments
func (c *Client) ListComments(ctx context.Context, objectType, objectID string) iter.Seq2[Comment, error] {
	return listPages[Comment](ctx, c, "comments", url.Values{"objectType": {objectType}, "objectId": {objectID}}, maxPageLimit)
}
