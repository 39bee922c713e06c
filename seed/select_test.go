package seed

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// TestFromTraces_selection checks that every kind of selection finds its traces, in every mode.
func TestFromTraces_selection(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		verdict, queue := s.newScoreConfig("validated", "BOOLEAN"), s.newQueue("review")
		// Ten traces, a minute apart. The even ones have the tag, another name and environment, and
		// category a; the odd ones have category b.
		for i := range 10 {
			attributes := map[string]string{"langfuse.trace.name": "odd", "langfuse.trace.metadata.category": "b"}
			if i%2 == 0 {
				attributes = map[string]string{"langfuse.trace.name": "even", "langfuse.environment": "staging", "langfuse.trace.metadata.category": "a"}
			}
			id := traceID(i)
			one := span{id: spanID(i, 0), name: "root", at: time.Duration(i) * time.Minute, attributes: attributes,
				input: map[string]any{"document_text": fmt.Sprintf("Ada lived in London, at number %d.", i*104729)}, output: gold("Ada", "London")}
			s.sendTagged(id, i%2 == 0, one)
			s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: true, Author: "ann"})
			s.post("/api/public/scores", map[string]any{"id": fmt.Sprint("q", i), "traceId": id, "observationId": spanID(i, 0), "name": "quality", "value": float64(i) / 10})
		}
		s.complete(queue, traceID(1), "TRACE")
		s.complete(queue, spanID(2, 0), "OBSERVATION")
		s.complete(queue, "session-1", "SESSION")
		s.complete(queue, spanID(99, 0), "OBSERVATION") // no trace has it

		tests := []struct {
			name      string
			selection Selection
			want      string
			refused   int
		}{
			{"ids", Selection{IDs: []string{traceID(3), traceID(1)}}, "1 3", 0},
			{"ids with a limit", Selection{IDs: []string{traceID(3), traceID(1)}, Limit: 1}, "3", 0},
			{"tag", Selection{Tags: []string{"checked"}}, "0 2 4 6 8", 0},
			{"two tags", Selection{Tags: []string{"checked", "none"}}, "", 0},
			{"name", Selection{Name: "odd"}, "1 3 5 7 9", 0},
			{"environment", Selection{Environment: "staging"}, "0 2 4 6 8", 0},
			{"time", Selection{Since: startTime.Add(3 * time.Minute), Until: startTime.Add(6 * time.Minute)}, "3 4 5", 0},
			{"the newest", Selection{Since: startTime, Limit: 2}, "8 9", 0},
			{"score of an observation", Selection{Scores: []ScoreRule{mustScoreRule("quality>0.7")}}, "8 9", 0},
			{"two scores", Selection{Scores: []ScoreRule{mustScoreRule("quality>=0.5"), mustScoreRule("quality<=0.6"), mustScoreRule("validated=true")}}, "5 6", 0},
			{"score and tag", Selection{Scores: []ScoreRule{mustScoreRule("quality>=0.5")}, Tags: []string{"checked"}}, "6 8", 0},
			{"queue", Selection{Queue: "review"}, "1 2", 2},
			{"queue and name", Selection{Queue: "review", Name: "odd"}, "1", 2},
			{"a sample of every kind", Selection{Since: startTime, Sample: 4, Seed: 7, Stratify: "metadata.category"}, "2 of a, 2 of b", 0},
		}
		for i, tt := range tests {
			name := fmt.Sprint("gold-", i)
			result := s.mustSeedTraces(tt.selection, TraceConfig{Config: Config{Dataset: name, DryRun: true}, Mapping: Mapping{
				Metadata: map[string]Paths{"category": {mustPath("trace.metadata.category")}}},
				Show: func(Seeded) {}})
			if result.Refused != tt.refused || (result.Err() == nil) != (tt.refused == 0) {
				t.Errorf("%s: %d refused: %v", tt.name, result.Refused, result.Err())
			}
			message := fmt.Sprintf("0 of %s refused, and %d items of the queue:", textutil.Counted(result.Selected, "trace"), tt.refused)
			if tt.refused > 0 && !strings.HasPrefix(result.Err().Error(), message) {
				t.Errorf("%s: %v, want %q", tt.name, result.Err(), message)
			}
			if got := s.selectedNumbers(tt.selection); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
		if _, err := s.seedTraces(Selection{Queue: "nowhere"}, TraceConfig{}); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
			t.Errorf("%v: the queue must be named", err)
		}
	})
}

func mustPath(text string) Path {
	p, err := ParsePath(text)
	if err != nil {
		panic(err)
	}
	return p
}

// sendTagged sends a trace over OTLP, with the tag "checked" if tagged is true.
func (s *server) sendTagged(trace string, tagged bool, one span) {
	if tagged {
		one.attributes["langfuse.trace.tags"] = `["checked","x"]`
	}
	s.sendTrace(trace, one)
}

// selectedNumbers returns the numbers of the traces of a dry run, sorted, or for a stratified
// sample the number of traces in each category.
func (s *server) selectedNumbers(selection Selection) string {
	s.t.Helper()
	var numbers [100]bool
	category := map[string]int{}
	s.mustSeedTraces(selection, TraceConfig{Config: Config{DryRun: true}, Show: func(one Seeded) {
		for i := range numbers {
			if one.Trace == traceID(i) && one.Content != nil {
				numbers[i] = true
				category[map[bool]string{true: "a", false: "b"}[i%2 == 0]]++
			}
		}
	}})
	if selection.Stratify != "" {
		return fmt.Sprintf("%d of a, %d of b", category["a"], category["b"])
	}
	var list []string
	for i, isSelected := range numbers {
		if isSelected {
			list = append(list, fmt.Sprint(i))
		}
	}
	return strings.Join(list, " ")
}

func TestSelection_validate(t *testing.T) {
	for want, s := range map[string]Selection{
		"give trace ids, or conditions": {},
		"not both":                      {IDs: []string{"a"}, Name: "b"},
		"negative":                      {Name: "a", Limit: -1},
		"not before":                    {Since: startTime, Until: startTime},
		"stratify needs a sample":       {Name: "a", Stratify: "metadata.x"},
		"cannot be read":                {Name: "a", Sample: 1, Stratify: "metadata.x..y"},
	} {
		_, err := FromTraces(context.Background(), nil, langfuse.Capabilities{}, s, TraceConfig{Config: Config{Dataset: "d"}})
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != 64 {
			t.Errorf("%v: want %q and exit code 64", err, want)
		}
	}
}

// TestFromTraces_rateLimits checks that a trace that cannot be read and an item that cannot be
// written because of a rate limit are reported, and that the others are seeded.
func TestFromTraces_rateLimits(t *testing.T) {
	s := newServerIn(t, embedded.ModeV3)
	for i := range 3 {
		s.correct(s.sendExtraction(i, fmt.Sprintf("Ada lived in London, %d.", i*104729), nil), gold("Ada", "London"))
	}
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, n int) bool {
		busy := strings.HasSuffix(r.URL.Path, "/traces/"+traceID(1)) || isItemWrite(r) && n == 1
		if busy {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "429 - rate limit exceeded", http.StatusTooManyRequests)
		}
		return busy
	})
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0), traceID(1), traceID(2)}}, TraceConfig{})
	if result.Created != 1 || result.Refused != 2 || !strings.Contains(result.refusals()[traceID(1)], "rate limit") {
		t.Errorf("%d created, %d refused: %v", result.Created, result.Refused, result.Err())
	}
	s.setIntercept(nil)
	again := s.mustSeedTraces(Selection{IDs: []string{traceID(0), traceID(1), traceID(2)}}, TraceConfig{})
	if again.Created != 2 || again.Unchanged != 1 || again.Err() != nil {
		t.Errorf("again: %d created, %d unchanged: %v", again.Created, again.Unchanged, again.Err())
	}
}

// twentyTraces sends 20 traces, more than FromTraces reads in one request.
func twentyTraces(t *testing.T) (s *server, ids []string) {
	s = newServer(t)
	for i := range 20 {
		s.correct(s.sendExtraction(i, fmt.Sprintf("Ada lived in London, %d.", i*104729), nil), gold("Ada", "London"))
		ids = append(ids, traceID(i))
	}
	return s, ids
}

// TestFromTraces_rateLimitOfMany checks that all traces of a refused request are reported, without
// further requests.
func TestFromTraces_rateLimitOfMany(t *testing.T) {
	s, ids := twentyTraces(t)
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		busy := strings.HasSuffix(r.URL.Path, "/v2/observations") && strings.Contains(r.URL.RawQuery, traceID(0))
		if busy {
			http.Error(w, "429 - rate limit exceeded", http.StatusTooManyRequests)
		}
		return busy
	})
	result := s.mustSeedTraces(Selection{IDs: ids}, TraceConfig{})
	if result.Created != 4 || result.Refused != 16 || result.Report.Problems.Kinds[NotRead] != 16 || s.count["GET /v2/observations"] != 2 {
		t.Errorf("%d created, %d refused, %d requests: %v", result.Created, result.Refused, s.count["GET /v2/observations"], result.Err())
	}
}

// TestFromTraces_unreachable checks that an unreachable Langfuse ends the work with exit code 69.
func TestFromTraces_unreachable(t *testing.T) {
	s := newServer(t)
	id := s.sendExtraction(0, "Ada lived in London.", gold("Ada", "London"))
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if strings.HasSuffix(r.URL.Path, "/observations") {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		return false
	})
	_, err := s.seedTraces(Selection{IDs: []string{id}}, TraceConfig{})
	if err == nil || cli.ExitCode(err) != 69 {
		t.Errorf("%v: want exit code 69", err)
	}
}

// TestFromTraces_endsAtOnce checks that an error that ends the work does not wait for traces that
// are read ahead.
func TestFromTraces_endsAtOnce(t *testing.T) {
	s, ids := twentyTraces(t)
	waits := make(chan struct{})
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, _ int) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/v2/observations") && strings.Contains(r.URL.RawQuery, traceID(19)):
			close(waits)
			<-r.Context().Done() // the client has gone
		case isItemWrite(r):
			<-waits
			http.Error(w, "the key was taken back", http.StatusUnauthorized)
		default:
			return false
		}
		return true
	})
	ended := make(chan error)
	go func() {
		_, err := s.seedTraces(Selection{IDs: ids}, TraceConfig{})
		ended <- err
	}()
	select {
	case err := <-ended:
		if cli.ExitCode(err) != 69 {
			t.Errorf("%v: want exit code 69", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for what it reads ahead")
	}
}

// TestFromTraces_schemas checks that items are compared with the schemas of the dataset before
// anything is sent, and that all violations are reported with their paths.
func TestFromTraces_schemas(t *testing.T) {
	s := newServer(t)
	s.post("/api/public/v2/datasets", map[string]any{"name": "gold", "expectedOutputSchema": map[string]any{
		"type": "object", "required": []any{"entities"}, "properties": map[string]any{"entities": map[string]any{"type": "array", "items": map[string]any{
			"type": "object", "properties": map[string]any{"type": map[string]any{"enum": []any{"Person"}}, "name": map[string]any{"type": "string", "maxLength": 4}}}}}}})
	id := s.sendExtraction(0, "Ada lived in London.", nil)
	s.correct(id, gold("Ada", "London"))
	result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{})
	for _, path := range []string{"expectedOutput.entities[1].name", "expectedOutput.entities[1].type"} {
		if !strings.Contains(result.refusals()[id], path) {
			t.Errorf("%v does not name %s", result.Err(), path)
		}
	}
	if s.writes() != 0 || result.Refused != 1 {
		t.Errorf("%d refused", result.Refused)
	}
}

// TestFromTraces_similar checks that an item whose document is almost that of an existing item, or
// of another item of the call, is reported with that item.
func TestFromTraces_similar(t *testing.T) {
	s := newServer(t)
	text := strings.Repeat("Ada lived in London, in a small house by the river, for many years. ", 3)
	s.mustSeed(`{"id":"there","input":{"document_text":"`+text+`"},"expectedOutput":{"entities":[],"relationships":[]}}`, Config{Dataset: "gold"})
	for i, addition := range []string{"", "Then she left.", "It has nothing to do with anything, this text of a length that makes it quite another text than the one it begins with, so that most of its parts are its own. All of them differ, one from the other, and from what stands before."} {
		s.correct(s.sendExtraction(i, text+addition, nil), gold("Ada", "London"))
	}
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0), traceID(1), traceID(2)}}, TraceConfig{})
	named := map[string]string{}
	for _, w := range result.Report.Warnings.First {
		if w.Kind == Similar {
			named[w.File] = w.Message
		}
	}
	if len(named) != 2 || named["trace "+traceID(0)] != "is 100% similar to the document of the item there" || !strings.Contains(named["trace "+traceID(1)], "similar to the document of the item there") || result.Created != 3 {
		t.Errorf("%q, %d created", named, result.Created)
	}
}

// TestFromTraces_out checks that with Out the items are written there and not to Langfuse, with the same
// warnings.
func TestFromTraces_out(t *testing.T) {
	s := newServer(t)
	s.correct(s.sendExtraction(0, "Ada lived in London.", nil), gold("Ada", "London"))
	s.sendExtraction(1, "Ada lived in London.", nil)
	s.mustSeed(`{"id":"there","input":{"document_text":"Ada lived in London."}}`, Config{Dataset: "gold"})
	var b strings.Builder
	w, err := dataset.NewWriter(&b, dataset.JSONL)
	if err != nil {
		t.Fatal(err)
	}
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0), traceID(1)}}, TraceConfig{Out: w})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if result.Written != 1 || result.Refused != 1 || result.Report.Warnings.Kinds[Similar] != 1 || s.writes() != 1 ||
		!strings.Contains(b.String(), itemID("gold", traceID(0), spanID(0, 0))) {
		t.Errorf("%+v\n%s", result, b.String())
	}
	if file := s.mustSeed(b.String(), Config{Dataset: "gold"}); file.Created != 1 {
		t.Errorf("%+v", file)
	}
	if again := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{}); again.Unchanged != 1 {
		t.Errorf("%+v: what was seeded from the file is what the trace gives", again.Result)
	}
}

func TestDraw_stratified(t *testing.T) {
	var list []candidate
	for i := range 60 { // 30 a, 20 b, 10 c
		stratum := "a"
		if i%6 >= 3 {
			stratum = "b"
		}
		if i%6 == 5 {
			stratum = "c"
		}
		list = append(list, candidate{id: fmt.Sprintf("t%02d", i), stratum: stratum})
	}
	count := func(list []candidate) map[string]int {
		n := map[string]int{}
		for _, c := range list {
			n[c.stratum]++
		}
		return n
	}
	// 7·30/60 = 3.5, 7·20/60 = 2.33, 7·10/60 = 1.17: rounded down 3+2+1; a gets the one left over.
	same := func(a, b candidate) bool { return a.id == b.id }
	drawn := draw(list, 7, 1)
	if diff := cmp.Diff(map[string]int{"a": 4, "b": 2, "c": 1}, count(drawn)); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSortedFunc(drawn, func(a, b candidate) int { return strings.Compare(a.id, b.id) }) {
		t.Errorf("%v is not in the order given", drawn)
	}
	shuffled := slices.Clone(list)
	slices.Reverse(shuffled)
	again := draw(shuffled, 7, 1)
	slices.Reverse(again)
	if !slices.EqualFunc(drawn, again, same) {
		t.Errorf("another order draws %v, not %v", again, drawn)
	}
	if other := draw(list, 7, 2); slices.EqualFunc(drawn, other, same) {
		t.Error("another seed draws the same")
	}
	if all := draw(list, 60, 1); len(all) != 60 {
		t.Errorf("%d of 60", len(all))
	}
}

func TestScoreRule_holds(t *testing.T) {
	for text, want := range map[string]string{ // results for the scores 0.9, true and "correct"
		"s>=0.9": "yes yes no", "s>0.9": "no yes no", "s<0.9": "no no no", "s=true": "no yes no", "s!=1": "yes no no",
		"s=correct": "no no yes", "s!=correct": "no no no", "s!=wrong": "no no yes", "s": "no yes no", "other>=0": "no no no",
	} {
		r := mustScoreRule(text)
		var got []string
		for _, s := range scoresOf("s", 0.9, true, "correct") {
			got = append(got, map[bool]string{true: "yes", false: "no"}[r.holds(s)])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

// scoresOf returns a score of that name for each value: a number, a bool or a text.
func scoresOf(name string, values ...any) []langfuse.Score {
	var list []langfuse.Score
	for _, value := range values {
		s := langfuse.Score{Name: name}
		switch v := value.(type) {
		case float64:
			s.Value = langfuse.NumberValue(v)
		case bool:
			s.Value = langfuse.BoolValue(v)
		case string:
			s.Value = langfuse.TextValue(v)
		}
		list = append(list, s)
	}
	return list
}
