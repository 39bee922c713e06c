package seed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// TestFromTraces_keepsReviews checks that seeding from a trace keeps the reviews of its item, and
// the reviewed gold until the trace is corrected later. A trace whose kept gold has a secret is
// refused, also if only a field of the trace says that it is one.
func TestFromTraces_keepsReviews(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		review, doubts, verdict := s.newQueue("review"), s.newQueue("doubts"), s.newScoreConfig("validated", "BOOLEAN")
		source := traceID(0)
		s.sendTrace(source, span{id: spanID(0, 0), name: "extract", output: gold("Ada", "London"), input: map[string]any{
			"document_text": "Ada lived in London, in Paris and in Rome.", "object_schemas": schemas, "document_type": "Paris"}})
		s.complete(review, source, "TRACE")
		plain := Selection{Queue: "review"}
		data := s.mustSeedTraces(plain, TraceConfig{}).Dataset
		item := s.onlyItem()
		answer := s.sendExperiment(1, data, "first run", item.ID, gold("Ada", "London"))
		goldHash := dataset.GoldHash(item.ExpectedOutput)
		s.addDoubt(answer, Doubt{Dataset: "gold", Item: item.ID, Run: "first run", Gold: goldHash})
		s.correct(answer, gold("Ada", "Paris"))
		s.complete(doubts, answer, "TRACE")
		s.mustSeedTraces(Selection{Queue: "doubts"}, TraceConfig{Corrections: true})
		// A later yes, here of a person, does not say which gold was looked at.
		s.annotate(embedded.Annotation{TraceID: source, ConfigID: verdict, Value: true, Author: "bob"})
		check := func(what string, result TraceResult, updated int, city string) {
			t.Helper()
			stored := s.onlyItem()
			if result.Updated != updated || result.Updated+result.Unchanged != 1 || len(Reviews(stored.Metadata)) != 1 ||
				!bytes.Contains(stored.ExpectedOutput, []byte(city)) {
				t.Errorf("%s: %+v\n%s\n%s", what, result.Result, stored.ExpectedOutput, stored.Metadata)
			}
		}
		again := s.mustSeedTraces(plain, TraceConfig{})
		check("again", again, 0, "Paris")
		const kept = "keeps the gold that a person corrected in doubts at "
		if w := again.Report.Warnings; w.Total != 1 || !strings.Contains(w.First[0].String(), kept) {
			t.Errorf("%+v", w)
		}
		var file bytes.Buffer
		w, err := dataset.NewWriter(&file, dataset.JSONL)
		if err != nil {
			t.Fatal(err)
		}
		s.mustSeedTraces(plain, TraceConfig{Out: w})
		if w.Close() != nil || !strings.Contains(file.String(), `"verdict":"corrected"`) ||
			strings.Contains(file.String(), `London","type"`) {
			t.Errorf("file: %s", file.String())
		}
		for _, rules := range []string{`patterns: [{name: city, regex: ^Paris$}]`, `fields: [document_type]`} {
			redacted := s.mustSeedTraces(plain, TraceConfig{Config: Config{Redaction: mustRedaction(t, rules)}})
			if why := redacted.refusals()[source]; redacted.Refused != 1 || strings.Contains(why, "Paris") ||
				!strings.Contains(why, "reviewed gold of the item "+item.ID) {
				t.Errorf("%s: %+v", rules, redacted.Result)
			}
			check(rules, TraceResult{Result: Result{Unchanged: 1}}, 0, "Paris")
		}
		oslo := mustRedaction(t, `patterns: [{name: city, regex: ^Oslo$}]`)
		check("what is not there", s.mustSeedTraces(plain, TraceConfig{Config: Config{Redaction: oslo}}), 0, "Paris")

		s.correct(source, gold("Ada", "Rome"))
		check("a later correction", s.mustSeedTraces(plain, TraceConfig{}), 1, "Rome")
		check("and again", s.mustSeedTraces(plain, TraceConfig{}), 0, "Rome")
	})
}

// TestFile_replacesReviews checks that a file without a person's review names the items whose
// reviewed gold or metadata it replaces, and those that it takes out of the archive.
func TestFile_replacesReviews(t *testing.T) {
	s := newServer(t)
	first := `{"verdict":"corrected","gold":"g1","at":"2026-11-20T09:00:00Z","trace":"t1"}`
	second := `{"verdict":"confirmed","gold":"g2","at":"2026-11-21T09:00:00Z"}`
	item := func(id, city, metadata string) string {
		return strings.Replace(goldItem(id, city), `"metadata":{"lang":"en"},`, metadata, 1)
	}
	reviews := func(list string) string { return `"metadata":{"review":[` + list + `]},` }
	s.mustSeed(item("a", "London", reviews(first))+item("b", "London", reviews(second))+item("c", "London", ""), Config{})
	for _, step := range []struct {
		name, text string
		lost       string
	}{
		{"the same gold without metadata", item("a", "London", ""), ""},
		{"other gold with the review", item("a", "Rome", reviews(first)), ""},
		{"one review more", item("a", "Rome", reviews(first+","+second)), ""},
		{"other gold without metadata", item("a", "London", "") + item("c", "Rome", ""), "a"},
		{"other metadata", item("b", "London", `"metadata":{"lang":"en"},`) + item("c", "London", ""), "b"},
		{"the review of somebody else", item("a", "London", reviews(second)), "a"},
	} {
		for _, dry := range []bool{true, false} {
			result := s.mustSeed(step.text, Config{DryRun: dry})
			if got := strings.Join(result.LostReviews, " "); got != step.lost || result.Reactivated != nil {
				t.Errorf("%s: lost in %q, want %q; active again: %q", step.name, got, step.lost, result.Reactivated)
			}
		}
	}
	if _, err := Archive(t.Context(), s.Client, "docs", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond) // two versions of an item are at least a millisecond apart
	result := s.mustSeed(item("a", "Oslo", ""), Config{})
	if got := strings.Join(append(result.Reactivated, result.LostReviews...), " "); got != "a a" {
		t.Errorf("active again and lost: %q", got)
	}
}

// TestCorrections_changedMeanwhile checks that a correction does not replace what another process wrote
// after the dataset was listed, and that the same call again says that the gold has changed.
func TestCorrections_changedMeanwhile(t *testing.T) {
	s := newServer(t)
	data := s.mustSeed(goldItem("one", "London"), Config{Dataset: "gold"}).Dataset
	goldHash := dataset.GoldHash(s.onlyItem().ExpectedOutput)
	trace := s.sendExperiment(1, data, "first run", "one", gold("Ada", "Rome"))
	s.addDoubt(trace, Doubt{Dataset: "gold", Item: "one", Run: "first run", Gold: goldHash})
	s.correct(trace, gold("Ada", "Paris"))
	s.complete(s.newQueue("doubts"), trace, "TRACE")
	var once sync.Once
	s.setIntercept(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if strings.HasSuffix(r.URL.Path, "/v3/scores") { // the scores are read after the items
			once.Do(func() { s.mustSeed(goldItem("one", "Oslo"), Config{Dataset: "gold"}) })
		}
		return false
	})
	for _, want := range []string{"the item one was changed while this command ran", "the gold of the item one changed since"} {
		result := s.mustSeedTraces(Selection{Queue: "doubts"}, TraceConfig{Corrections: true})
		s.setIntercept(nil)
		if why := result.refusals()[trace]; result.Refused != 1 || !strings.Contains(why, want) ||
			!bytes.Contains(s.onlyItem().ExpectedOutput, []byte("Oslo")) {
			t.Errorf("%q, want %q: %+v\n%s", why, want, result.Result, s.onlyItem().ExpectedOutput)
		}
	}
}

// TestCorrections_ofTwoTraces checks that of two corrections of an item in traces that were queued by hand, one
// does not replace the other, unless it is later than what the other made. Nor does what was confirmed before
// count for the corrected gold.
func TestCorrections_ofTwoTraces(t *testing.T) {
	s := newServer(t)
	data := s.mustSeed(goldItem("one", "London"), Config{Dataset: "gold"}).Dataset
	queue := s.newQueue("doubts")
	early := s.sendExperiment(4, data, "run", "one", gold("Ada", "Rome"))
	s.complete(queue, early, "TRACE")
	time.Sleep(2 * time.Millisecond) // the queue lists the newest first
	var traces []string
	for n, city := range []string{"Paris", "Oslo"} {
		traces = append(traces, s.sendExperiment(n+1, data, "run", "one", gold("Ada", "Rome")))
		s.correct(traces[n], gold("Ada", city))
		s.complete(queue, traces[n], "TRACE")
	}
	seed := func(refused int) string {
		t.Helper()
		result := s.mustSeedTraces(Selection{Queue: "doubts"}, TraceConfig{Corrections: true})
		if result.Refused != refused || refused > 0 && !strings.Contains(fmt.Sprint(result.refusals()), "was corrected in the trace") {
			t.Errorf("%d refused: %v", result.Refused, result.refusals())
		}
		return string(s.onlyItem().ExpectedOutput)
	}
	first := seed(2)
	if again := seed(2); again != first {
		t.Errorf("%s, and then %s", first, again)
	}
	confirmed := s.sendExperiment(3, data, "run", "one", gold("Ada", "Rome"))
	s.complete(queue, confirmed, "TRACE")
	seed(2) // it is later than the correction that was taken
	if last := Reviews(s.onlyItem().Metadata); last[len(last)-1].Trace != confirmed {
		t.Errorf("%+v", last)
	}
	other := traces[0]
	if strings.Contains(first, "Paris") {
		other = traces[1]
	}
	s.correct(other, gold("Ada", "Bergen"))
	if later := seed(1); !strings.Contains(later, "Bergen") {
		t.Errorf("a later correction is not taken: %s", later)
	}
	seed(1)
}

// TestFromTraces_changedMeanwhile checks that an item of a trace is not written over what a person did
// after the dataset was listed, and that the same call again keeps the review.
func TestFromTraces_changedMeanwhile(t *testing.T) {
	for _, archived := range []bool{false, true} {
		s := newServer(t)
		trace := s.sendExtraction(1, "Ada left Oslo for Paris.", gold("Ada", "London"))
		s.complete(s.newQueue("review"), trace, "TRACE")
		selection := Selection{Queue: "review"}
		s.mustSeedTraces(selection, TraceConfig{})
		before := s.onlyItem()
		s.correct(trace, gold("Ada", "Paris"))
		edited := before
		edited.ExpectedOutput = json.RawMessage(strings.Replace(string(before.ExpectedOutput), "London", "Oslo", 1))
		edited.Metadata = json.RawMessage(`{"review":[{"verdict":"corrected","gold":"g","at":"2126-11-20T09:00:00Z"}]}`)
		if archived {
			edited = before
			edited.Status = langfuse.ItemArchived
		}
		var listed, done atomic.Bool
		s.setIntercept(func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			items := strings.HasPrefix(r.URL.Path, "/api/public/dataset-items")
			if items && listed.Load() && done.CompareAndSwap(false, true) {
				if _, err := s.Client.UpsertDatasetItem(t.Context(), edited); err != nil {
					t.Error(err)
				}
			}
			if items && r.URL.Query().Get("limit") != "1" {
				listed.Store(true)
			}
			return false
		})
		for _, want := range []string{"changed while this command ran", ""} {
			result := s.mustSeedTraces(selection, TraceConfig{})
			now, err := s.Client.GetDatasetItem(t.Context(), before.ID)
			if err != nil {
				t.Fatal(err)
			}
			if why := result.refusals()[trace]; !strings.Contains(why, want) || (want == "") != (why == "") ||
				now.Status != edited.Status || string(now.ExpectedOutput) != string(edited.ExpectedOutput) {
				t.Errorf("archived %v: %q, want %q: %s %s", archived, why, want, now.Status, now.ExpectedOutput)
			}
		}
	}
}

// TestCorrections_broughtBack checks that a correction is applied again if a file without metadata brought
// back the gold that was looked at, and not if the correction of another trace did.
func TestCorrections_broughtBack(t *testing.T) {
	s := newServer(t)
	file := strings.Replace(goldItem("one", "London"), `"metadata":{"lang":"en"},`, "", 1)
	data := s.mustSeed(file, Config{Dataset: "gold"}).Dataset
	queue := s.newQueue("doubts")
	correct := func(n int, city string) {
		trace := s.sendExperiment(n, data, fmt.Sprint("run ", n), "one", gold("Ada", "Rome"))
		s.correct(trace, gold("Ada", city))
		s.complete(queue, trace, "TRACE")
	}
	seed := func(what string, updated, unchanged, reviews int, city string) {
		t.Helper()
		result := s.mustSeedTraces(Selection{Queue: "doubts"}, TraceConfig{Corrections: true})
		item := s.onlyItem()
		if counts(result.Result) != [4]int{0, updated, unchanged, 0} || len(Reviews(item.Metadata)) != reviews ||
			!bytes.Contains(item.ExpectedOutput, []byte(city)) {
			t.Errorf("%s: %v\n%s\n%s", what, counts(result.Result), item.ExpectedOutput, item.Metadata)
		}
	}
	correct(1, "Paris")
	seed("first", 1, 0, 1, "Paris")
	s.mustSeed(file, Config{Dataset: "gold"})
	seed("brought back", 1, 0, 1, "Paris")
	seed("again", 0, 1, 1, "Paris")
	s.mustSeed(strings.Replace(file, `"London"`, `"Oslo"`, 1), Config{Dataset: "gold"})
	seed("gold that nobody looked at", 0, 1, 1, "Oslo")
	s.mustSeed(strings.Replace(file, `"London"`, `"Paris"`, 1), Config{Dataset: "gold"})
	correct(2, "London") // which was the gold of trace 1
	seed("another person", 1, 1, 2, "London")
	seed("and again", 0, 2, 2, "London")
}

// TestFromTraces_secondItem checks that a trace that has an item gets no second item from another
// observation, or under another prefix, until the first is archived.
func TestFromTraces_secondItem(t *testing.T) {
	s := newServer(t)
	id := s.sendExtraction(0, "Ada lived in London.", gold("Ada", "London"))
	s.correct(id, gold("Ada", "London"))
	s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{})
	item := s.onlyItem()
	other := TraceConfig{Mapping: Mapping{Observation: ObservationFilter{Name: "llm"},
		Input: map[string]Paths{"document_text": {mustPath("trace.input.document_text")}}}}
	for _, cfg := range []TraceConfig{other, {Config: Config{IDPrefix: "p-"}}} {
		second, _ := s.seedTraces(Selection{IDs: []string{id}}, cfg)
		if err := second.Err(); second.Refused != 1 || !strings.Contains(err.Error(), "--archive "+item.ID) {
			t.Errorf("%+v: %v", second.Result, err)
		}
	}
	s.correct(id, gold("Ada", "Rome"))
	same := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{})
	if same.Updated != 1 || s.onlyItem().ID != item.ID {
		t.Errorf("%+v: %v", same.Result, same.Err())
	}
	if _, err := Archive(t.Context(), s.Client, "gold", []string{item.ID}); err != nil {
		t.Fatal(err)
	}
	if moved := s.mustSeedTraces(Selection{IDs: []string{id}}, other); moved.Created != 1 || s.onlyItem().ID == item.ID {
		t.Errorf("%+v: %v", moved.Result, moved.Err())
	}
}

// TestFromTraces_partialCorrection checks that a correction without a list that the gold has is
// refused, and that one with an empty list or null is not.
func TestFromTraces_partialCorrection(t *testing.T) {
	s := newServer(t)
	const without = "has no list of relationships, and the gold that it replaces has 1"
	for i, tt := range []struct{ correction, refused string }{
		{`{"entities":[{"name":"Ada","type":"Person"}]}`, without},
		{`{"entities":[{"name":"Ada","type":"Person","description":"no relationships"}]}`, without},
		{"```json\n{\"entities\":[{\"name\":\"Ada\",\"description\":\"no relationships: none\"}]}\n```", without},
		{"```json\n{\"entities\":[{\"name\":\"Ada\"}],\"Relationships\" : []}\n```", ""},
		{"```json\n{\"relationships\":[]}\n```", "has no list of entities, and the gold that it replaces has 2"},
		{`{"entities":[{"name":"Ada","type":"Person"}],"relationships":[]}`, ""},
		{`{"entities":[{"name":"Ada","type":"Person"}],"relationships":null}`, ""},
	} {
		id := s.sendExtraction(i, "Ada lived in London.", gold("Ada", "London"))
		s.annotate(embedded.Annotation{TraceID: id, Correction: tt.correction, Author: "ann"})
		result, err := s.seedTraces(Selection{IDs: []string{id}}, TraceConfig{})
		if why := result.refusals()[id]; err != nil || !strings.Contains(why, tt.refused) || (why == "") != (tt.refused == "") {
			t.Errorf("%s: %q (%v)", tt.correction, why, err)
		}
	}
	line := strings.Replace(goldItem("one", "London"), `"relationships":[]`,
		`"relationships":[{"source_name":"Ada","target_name":"London","relationship_type":"left"}]`, 1)
	data := s.mustSeed(line, Config{Dataset: "gold"}).Dataset
	trace := s.sendExperiment(9, data, "first run", "one", map[string]any{"entities": []any{}})
	s.complete(s.newQueue("doubts"), trace, "TRACE")
	s.annotate(embedded.Annotation{TraceID: trace, Correction: `{"entities":[{"name":"Eve","type":"Person"}]}`, Author: "ann"})
	result, err := s.seedTraces(Selection{Queue: "doubts"}, TraceConfig{Corrections: true})
	if why := result.refusals()[trace]; err != nil || !strings.Contains(why, without) {
		t.Errorf("%q (%v)", why, err)
	}
}

// TestFromTraces_leavesExperimentsOut checks that traces of experiments do not use up a limit or a
// sample, and that one that is selected by id is refused.
func TestFromTraces_leavesExperimentsOut(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		data := s.mustSeed(goldItem("one", "London"), Config{Dataset: "of-runs"}).Dataset
		s.sendExtraction(0, "Ada lived in London.", gold("Ada", "London"))
		s.sendExtraction(1, "Bob lived in Paris.", gold("Bob", "Paris"))
		for n := range 8 {
			s.sendExperiment(10+n, data, "first run", "one", gold("Ada", "Rome"))
		}
		since := startTime.Add(-time.Hour)
		for _, selection := range []Selection{{Since: since, Limit: 2}, {Since: since, Sample: 2}, {Since: since}} {
			result := s.mustSeedTraces(selection, TraceConfig{AcceptUnvalidated: true})
			if w := result.Report.Warnings.First; result.Selected != 2 || result.Err() != nil || len(w) == 0 ||
				!strings.Contains(w[0].Message, "8 traces of experiments left out") {
				t.Errorf("%+v: %d selected, %v: %+v", selection, result.Selected, result.Err(), w)
			}
		}
		all := s.mustSeedTraces(Selection{IDs: []string{traceID(10), traceID(11), traceID(12)}}, TraceConfig{})
		names := strings.Join([]string{traceID(10), traceID(11), traceID(12)}, ", trace ")
		if got := all.Err().Error(); strings.Count(got, "is of an exp") != 1 || !strings.Contains(got, names+": is of") {
			t.Errorf("the same reason on several lines: %s", got)
		}
		if named := s.mustSeedTraces(Selection{IDs: []string{traceID(10)}}, TraceConfig{}); named.Refused != 1 {
			t.Errorf("named: %+v", named.Result)
		}
	})
}

// TestFromTraces_serverGone checks that the counts add up if the server fails while items are
// written.
func TestFromTraces_serverGone(t *testing.T) {
	s := newServer(t)
	for n := range 40 {
		s.correct(s.sendExtraction(n, fmt.Sprintf("Ada lived in London, %d.", n*7919), nil), gold("Ada", "London"))
	}
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if isItemWrite(r) && n > 3 {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	result, err := s.seedTraces(Selection{Name: "extract"}, TraceConfig{})
	if cli.ExitCode(err) != 69 || result.Created != 3 || result.Refused != 0 || result.Unanswered < 5 ||
		result.Selected-result.Done() != 37-result.Unanswered {
		t.Errorf("%+v, %d selected: %v", result.Result, result.Selected, err)
	}
	want := fmt.Sprintf("0 of 40 traces refused, %d not answered:", result.Unanswered)
	if !strings.HasPrefix(result.Err().Error(), want) {
		t.Errorf("%v, want %q", result.Err(), want)
	}
}

// TestFromTraces_unanswered checks that a single unanswered write stops no other group of traces.
func TestFromTraces_unanswered(t *testing.T) {
	s := newServer(t)
	for n := range 2*groupSize + 1 {
		s.correct(s.sendExtraction(n, fmt.Sprintf("Ada lived in London, %d.", n*7919), nil), gold("Ada", "London"))
	}
	s.setIntercept(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if isItemWrite(r) && n == 1 {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	result, err := s.seedTraces(Selection{Name: "extract"}, TraceConfig{})
	if cli.ExitCode(err) != 69 || result.Created != 2*groupSize || result.Unanswered != 1 || result.Refused != 0 {
		t.Errorf("%+v: %v", result.Result, err)
	}
}
