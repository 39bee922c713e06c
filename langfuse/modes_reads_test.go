package langfuse_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

func (d deployment) checkScores(name string) {
	d.Helper()
	var got []string
	query := langfuse.ScoresQuery{TraceIDs: []string{traceID(1), traceID(2), traceID(3), traceID(9)}}
	for _, s := range collect(d.T, d.client.ReadScores(d.Context(), d.server.Capabilities, query)) {
		got = append(got, s.ID+" "+s.Value.String()+" "+s.Subject.Kind+" "+s.TraceID()[31:])
	}
	slices.Sort(got)
	want := []string{"f1-1 0 observation 1", "f1-2 0 observation 2", "f1-3 0 observation 3", "ok-1 0 trace 1", "ok-2 1 trace 2", "ok-3 1 trace 3"}
	if !slices.Equal(got, want) {
		d.Errorf("%q, want %q", got, want)
	}
	scores := collect(d.T, d.client.ListRunScores(d.Context(), d.server, langfuse.RunRef{DatasetID: d.dataset.ID, Name: name}))
	if len(scores) != 1 || scores[0].ID != "micro" || scores[0].Value != langfuse.NumberValue(0.91) || scores[0].Subject.Kind != "experiment" {
		d.Errorf("%+v", scores)
	}
	query = langfuse.ScoresQuery{IDs: []string{"ok-2", "ok-3", "no"}}
	if found := collect(d.T, d.client.ReadScores(d.Context(), d.server.Capabilities, query)); len(found) != 2 {
		d.Errorf("%+v", found)
	}
}

func (d deployment) checkTraces() {
	d.Helper()
	ids := []string{traceID(3), traceID(9), traceID(1)}
	traces := collect(d.T, d.client.ReadTraces(d.Context(), d.server.Capabilities, ids, langfuse.TraceParts{IO: true}))
	if len(traces) != 2 || traces[0].ID != traceID(3) || traces[1].ID != traceID(1) {
		d.Fatalf("%+v", traces)
	}
	for i, trace := range traces {
		root, ok := trace.Root()
		if !ok || len(trace.Observations) != 2 || trace.Name != "extract" || string(trace.Input) != `{"text":"x"}` || string(trace.Output) != `{"n":1}` ||
			root.Level != []string{"DEFAULT", "ERROR"}[i] || root.EndTime.Sub(root.StartTime) != time.Second || !slices.Contains(trace.Tags, "validated") || trace.Environment != "sdk-experiment" {
			d.Errorf("%+v", trace)
		}
		g := trace.Observations[1]
		if g.Type != "GENERATION" || g.ModelName() != "gpt-x" || g.PromptName != "extract" || g.PromptVersion != 1 || g.TotalCost != 0.0031 || g.UsageDetails["input"] != 812 || g.ParentID != root.ID {
			d.Errorf("%+v", g)
		}
	}
	if _, err := d.client.GetTrace(d.Context(), d.server.Capabilities, traceID(9), langfuse.TraceParts{}); !errors.Is(err, langfuse.ErrNotFound) {
		d.Errorf("%v", err)
	}
	roots := collect(d.T, d.client.ReadTraces(d.Context(), d.server.Capabilities, ids, langfuse.TraceParts{IO: true, Roots: true}))
	for _, trace := range roots {
		if root, ok := trace.Root(); len(roots) != 2 || !ok || string(root.Output) != `{"n":1}` || d.server.NewReads && len(trace.Observations) != 1 {
			d.Errorf("%+v", trace)
		}
	}
	for what, test := range map[string]struct {
		query langfuse.TraceQuery
		want  int
	}{
		"all":         {langfuse.TraceQuery{}, 3},
		"a tag":       {langfuse.TraceQuery{Tags: []string{"validated"}}, 3},
		"both tags":   {langfuse.TraceQuery{Tags: []string{"validated", "i1"}}, 2},
		"name":        {langfuse.TraceQuery{Name: "extract", Tags: []string{"i2"}}, 1},
		"other name":  {langfuse.TraceQuery{Name: "other"}, 0},
		"environment": {langfuse.TraceQuery{Environment: "sdk-experiment"}, 3},
		"other place": {langfuse.TraceQuery{Environment: "production"}, 0},
		"since":       {langfuse.TraceQuery{From: d.start.Add(2 * time.Second)}, 2},
		"until":       {langfuse.TraceQuery{To: d.start.Add(2 * time.Second)}, 1},
	} {
		list := collect(d.T, d.client.ListTraces(d.Context(), d.server.Capabilities, test.query, langfuse.TraceParts{IO: true}))
		if len(list) != test.want {
			d.Errorf("%s: %d traces, want %d", what, len(list), test.want)
		}
		for _, trace := range list {
			if string(trace.Input) != `{"text":"x"}` || trace.Name != "extract" || trace.Time.IsZero() {
				d.Errorf("%s: %+v", what, trace)
			}
		}
	}
}

// post sends a request that has no method in Client, and returns the id in the response.
func (d deployment) post(path, body string) string {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), http.MethodPost, d.client.BaseURL()+"/api/public/"+path, strings.NewReader(body))
	d.must(err)
	req.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	d.must(err)
	defer res.Body.Close()
	var answer struct{ ID, Message string }
	d.must(json.NewDecoder(res.Body).Decode(&answer))
	if answer.ID == "" {
		d.Fatalf("POST %s: %d %s", path, res.StatusCode, answer.Message)
	}
	return answer.ID
}

// checkAnnotations checks that scores of annotators can be read and distinguished from scores
// that a program posted.
func (d deployment) checkAnnotations() {
	d.Helper()
	created, err := d.client.CreateScoreConfig(d.Context(), langfuse.ScoreConfig{Name: "validated", Type: langfuse.ScoreBoolean, Description: "by a person"})
	d.must(err)
	config := created.ID
	if listed := collect(d.T, d.client.ListScoreConfigs(d.Context())); len(listed) != 1 || listed[0] != created || created.Description != "by a person" {
		d.Errorf("%+v, made %+v", listed, created)
	}
	queued := langfuse.AnnotationQueue{Name: "review", Description: "doubtful gold", ScoreConfigIDs: []string{config}}
	review, err := d.client.CreateAnnotationQueue(d.Context(), queued)
	d.must(err)
	if again, err := d.client.CreateAnnotationQueue(d.Context(), queued); err == nil { // the name is taken
		d.Errorf("made twice: %+v", again)
	}
	queue := review.ID
	d.post("annotation-queues/"+queue+"/items", `{"objectId":"`+spanID(30)+`","objectType":"OBSERVATION","status":"COMPLETED"}`)
	for _, want := range [][]string{{traceID(2)}, nil} { // the second call adds nothing
		added, err := d.client.QueueTraces(d.Context(), queue, []string{traceID(2), traceID(2)})
		d.must(err)
		if !slices.Equal(added, want) {
			d.Errorf("added %v, want %v", added, want)
		}
	}
	d.post("scores", `{"id":"by-program","name":"validated","value":1,"dataType":"BOOLEAN","source":"ANNOTATION","configId":"`+config+`","traceId":"`+traceID(2)+`"}`)
	_, err = d.inner.Annotate(embedded.Annotation{TraceID: traceID(3), ObservationID: spanID(30), ConfigID: config, Value: true, Author: "ann"})
	d.must(err)

	found, err := d.client.GetAnnotationQueue(d.Context(), "review")
	if err != nil || !reflect.DeepEqual(found, review) || found.Description != queued.Description {
		d.Errorf("%+v, %v", found, err)
	}
	for status, want := range map[string]int{"": 2, langfuse.QueuePending: 1, langfuse.QueueCompleted: 1} {
		items := collect(d.T, d.client.ListQueueItems(d.Context(), queue, status))
		if len(items) != want || status == langfuse.QueueCompleted && (items[0].CompletedAt.IsZero() || items[0].ObjectID != spanID(30)) {
			d.Errorf("%q: %+v", status, items)
		}
	}
	completed := collect(d.T, d.client.ListQueueItems(d.Context(), queue, langfuse.QueueCompleted))[0]
	d.must(d.client.ReopenQueueItem(d.Context(), queue, completed.ID))
	if pending := collect(d.T, d.client.ListQueueItems(d.Context(), queue, langfuse.QueuePending)); len(pending) != 2 {
		d.Errorf("after an item was opened again: %+v", pending)
	}
	authors := map[string]string{}
	query := langfuse.ScoresQuery{Names: []string{"validated"}}
	for _, score := range collect(d.T, d.client.ReadScores(d.Context(), d.server.Capabilities, query)) {
		authors[score.TraceID()] = score.AuthorUserID
	}
	if want := map[string]string{traceID(2): "", traceID(3): "ann"}; !maps.Equal(authors, want) {
		d.Errorf("%v, want %v", authors, want)
	}
}

// checkComments checks that a comment can be created on an existing trace and read back.
func (d deployment) checkComments() {
	d.Helper()
	comment := langfuse.Comment{ProjectID: d.server.Project.ID, ObjectType: langfuse.ObjectTrace, ObjectID: traceID(2), Content: "Is Ada a person?"}
	id, err := d.client.CreateComment(d.Context(), comment)
	d.must(err)
	comments := collect(d.T, d.client.ListComments(d.Context(), langfuse.ObjectTrace, traceID(2)))
	if len(comments) != 1 || comments[0].ID != id || comments[0].Content != comment.Content {
		d.Errorf("%+v", comments)
	}
	comment.ObjectID = traceID(99)
	if _, err := d.client.CreateComment(d.Context(), comment); !errors.Is(err, langfuse.ErrNotFound) {
		d.Errorf("on a trace that is not there: %v", err)
	}
	// An emoji has two UTF-16 code units, so 2500 emoji are allowed and 2501 are not.
	comment.ObjectID = traceID(2)
	for n, good := range map[int]bool{0: false, 2500: true, 2501: false} {
		comment.Content = strings.Repeat("😀", n)
		if _, err := d.client.CreateComment(d.Context(), comment); (err == nil) != good {
			d.Errorf("%d emoji: %v", n, err)
		}
	}
}
