package langfuse

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestQueues(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
		file := map[string]string{"annotation-queues": "queues.json", "items": "queue_items.json"}
		_, _ = w.Write(sample(t, file[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]))
	})
	for nameOrID, want := range map[string]string{"review": "q1", "other": "review", "q1": "q1", "no": ""} {
		queue, err := client.GetAnnotationQueue(t.Context(), nameOrID)
		if queue.ID != want || errors.Is(err, ErrNotFound) != (want == "") {
			t.Errorf("%q: %+v, %v", nameOrID, queue, err)
		}
	}
	items := collect(t, client.ListQueueItems(t.Context(), "q1", QueueCompleted))
	if len(items) != 2 || items[0].ObjectType != ObjectObservation || items[0].CompletedAt.IsZero() || !items[1].CompletedAt.IsZero() {
		t.Errorf("%+v", items)
	}
	if got := record.seen()[4].uri; got != "/api/public/annotation-queues/q1/items?limit=100&page=1&status=COMPLETED" {
		t.Errorf("asked %s", got)
	}
}
