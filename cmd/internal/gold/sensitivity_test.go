package gold

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/compare"
	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// storeRun writes a run file with the outputs of a system. A nil output fails the item; a nil gold
// is an item without gold.
func storeRun(t testing.TB, name string, options scoring.Options, trials int, gold []*extraction.Extraction,
	extracted func(item, trial int) *extraction.Extraction) compare.Source {
	t.Helper()
	raw, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := scoring.New(options)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".run")
	run, err := runstore.Create(path, outcome.Header{RunUID: name, Name: name, Harness: harness.Name, Trials: trials,
		Dataset: outcome.Dataset{Name: "d"}, Scorer: outcome.Scorer{Version: scoring.Version, Options: raw,
			Primary: harness.Primary}})
	if err != nil {
		t.Fatal(err)
	}
	var items []dataset.Item
	for i, g := range gold {
		item := dataset.Item{ID: fmt.Sprintf("i%02d", i), Input: []byte(`{"document_text":"x"}`),
			Metadata: fmt.Appendf(nil, `{"source":%d}`, i%8)}
		if g != nil {
			item.Expected, err = g.MarshalJSON()
		}
		items = append(items, item)
	}
	problems := []error{err, run.AddItems(t.Context(), items), run.CompleteListing(t.Context(), "same")}
	for i, item := range items {
		for trial := 1; trial <= trials; trial++ {
			problems = append(problems, run.Commit(t.Context(), newOutcome(t, rules, item, trial, extracted(i, trial))))
		}
	}
	footer := outcome.Footer{Status: outcome.Complete, Planned: len(items) * trials}
	problems = append(problems, run.Finish(t.Context(), footer), run.Close())
	if err := errors.Join(problems...); err != nil {
		t.Fatal(err)
	}
	reader, err := runstore.OpenAny(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	return runs.Source{RunFile: experiment.RunFile{Reader: reader, Metadata: true}}
}

// newOutcome returns the outcome of an item as a run stores it.
func newOutcome(t testing.TB, rules *scoring.Scorer, item dataset.Item, trial int,
	found *extraction.Extraction) outcome.Outcome {
	judge, err := harness.Scorer{Rules: rules}.ForItem(item)
	if err != nil {
		t.Fatal(err)
	}
	o := outcome.Outcome{Item: item.ID, Trial: trial, Attempt: 1}
	if found == nil {
		o.Class, o.Failure = outcome.Timeout, &outcome.Failure{Class: outcome.Timeout, Message: "no answer"}
		o.Scores = judge.(interface{ Undelivered() []outcome.Score }).Undelivered()
		return o
	}
	if o.Output, err = found.MarshalJSON(); err != nil {
		t.Fatal(err)
	}
	scored, err := judge.Score(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	o.Scores = scored.Scores
	return o
}

func compareRuns(t testing.TB, cfg compare.Config, s Sensitivity) compare.Comparison {
	t.Helper()
	result, err := cfg.Compare(t.Context(), s.Sources[0], s.Sources[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	s.Config = cfg
	if err := s.AddTo(t.Context(), &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// flippingRuns returns two runs of twelve items of two entities. For ten of them the candidate
// finds both entities, one with two of nine letters wrong, at a similarity of 7/9 = 0.777…, and the
// base finds one entity exactly: F1 is 2·1/(2+1) = 2/3. For two items both runs find both.
//
//	threshold   candidate               base                     difference
//	to 0.77     1                       (2·1 + 10·2/3)/12        10/12 · 1/3 = +5/18
//	from 0.78   (2·1 + 10·2·1/4)/12     as before                −10/12 · 1/6 = −5/36
func flippingRuns(t testing.TB) Sensitivity {
	var gold []*extraction.Extraction
	names := func(i int) (string, string) {
		return strings.Repeat(string(rune('a'+i)), 3) + "rstuvw", "other " + strings.Repeat(string(rune('A'+i)), 8)
	}
	for i := range 12 {
		one, two := names(i)
		gold = append(gold, &extraction.Extraction{Entities: entities(one, "person", two, "person")})
	}
	system := func(name string, extract func(one, two string) []extraction.Entity) compare.Source {
		return storeRun(t, name, scoring.DefaultOptions(), 1, gold, func(i, _ int) *extraction.Extraction {
			if i < 2 {
				return gold[i]
			}
			one, two := names(i)
			return &extraction.Extraction{Entities: extract(one, two), Relationships: relationships()}
		})
	}
	return Sensitivity{Sources: []compare.Source{
		system("base", func(one, _ string) []extraction.Entity { return entities(one, "person") }),
		system("cand", func(one, two string) []extraction.Entity { return entities(one[:7]+"zz", "person", two, "person") }),
	}}
}

func TestSensitivity_flip(t *testing.T) {
	t.Parallel()
	s := flippingRuns(t)
	r := compareRuns(t, runs.Comparison(), s).Candidates[0]
	if len(r.Sensitivity.Flips) != 1 {
		t.Fatalf("flips: %+v", r.Sensitivity.Flips)
	}
	flip := r.Sensitivity.Flips[0]
	if flip.Below.Threshold != "0.77" || flip.At.Threshold != "0.78" || *flip.Below.Score.Difference != 5./18 ||
		!near(*flip.At.Score.Difference, -5./36) {
		t.Errorf("%+v", flip)
	}
	const want = "the ranking by entity_f1 flips at threshold 0.78: " +
		"up to 0.77 cand is ahead (+0.2778, a significant difference), " +
		"from 0.78 on base is ahead (-0.1389, a significant difference)"
	if last := r.Warnings[len(r.Warnings)-1]; last != want {
		t.Errorf("got  %s\nwant %s", last, want)
	}
	var rows []string
	for _, w := range r.Sensitivity.Settings {
		for _, above := range r.Scores { // another score than the primary one has the p (Holm) of the comparison
			if w.Score.Name == above.Name && !above.Primary && *w.Score.PHolm != *above.PHolm {
				t.Errorf("%s: p (Holm) %v, in the table of scores %v", w.What, *w.Score.PHolm, *above.PHolm)
			}
		}
		rows = append(rows, fmt.Sprintf("%s %s %s", w.What, w.Score.Name, w.Score.Verdict))
	}
	wantRows := []string{"as the runs are scored entity_f1 worse"}
	for _, threshold := range strings.Fields("0.50 0.55 0.60 0.65 0.70 0.75") {
		wantRows = append(wantRows, "threshold "+threshold+" entity_f1 better")
	}
	for _, threshold := range strings.Fields("0.80 0.85 0.90 0.95 1.00") {
		wantRows = append(wantRows, "threshold "+threshold+" entity_f1 worse")
	}
	wantRows = append(wantRows, "exact names only entity_f1 worse", "entities, with types entity_typed_f1 worse",
		"entities, exact names and types entity_strict_f1 worse")
	if diff := cmp.Diff(wantRows, rows); diff != "" { // relationships are not annotated
		t.Error(diff)
	}
}

func near(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }

// TestSensitivity_doubtful: if doubtful items are known, there is a row without them. Without the
// ten items that differ the two runs are equal.
func TestSensitivity_doubtful(t *testing.T) {
	t.Parallel()
	s := flippingRuns(t)
	s.Doubtful = map[string]bool{"elsewhere": true}
	for i := 2; i < 12; i++ {
		s.Doubtful[fmt.Sprintf("i%02d", i)] = true
	}
	r := compareRuns(t, runs.Comparison(), s).Candidates[0]
	last := r.Sensitivity.Settings[len(r.Sensitivity.Settings)-1]
	if last.What != "without doubtful items" || last.LeftOut != 10 || last.Score.N != 2 ||
		last.Score.Verdict != compare.Same {
		t.Errorf("%+v", last)
	}
	if notes := strings.Join(r.Sensitivity.Notes, "\n"); !strings.Contains(notes, "favours the compared systems") ||
		!strings.Contains(notes, "no gate reads it") {
		t.Errorf("notes: %s", notes)
	}
}

// TestSensitivity_own: with the runs' own options the numbers are exactly those of the plain
// comparison, with trials, failures, items without gold, other options, clusters and two
// candidates.
func TestSensitivity_own(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"Ann Lee", "Anne Lee", "Acme", "Acme Inc", "Rome", "Roma", "Bob Stone", "Bob Stones", "Paris", "Zoe"}
	draw := func() *extraction.Extraction {
		e := extraction.Extraction{Entities: entities(), Relationships: relationships()}
		for range random.IntN(5) {
			name, kind := names[random.IntN(len(names))], []string{"person", "org", ""}[random.IntN(3)]
			e.Entities = append(e.Entities, entities(name, kind)...)
		}
		return &e
	}
	for i, tt := range []struct {
		trials    int
		threshold string
		cluster   string
		metric    string
	}{
		{2, "0.7", "source", ""}, {1, "0.85", "", ""},
		{2, "0.85", "", scoring.ItemPerfect}, {1, "0.5", "source", scoring.TypeAccuracy},
	} {
		if i > 0 && !suite.Full() {
			break
		}
		options := scoring.DefaultOptions()
		options.Threshold = tt.threshold
		gold := []*extraction.Extraction{nil}
		for range 24 {
			gold = append(gold, draw())
		}
		var s Sensitivity
		for _, name := range []string{"base", "first", "second"} {
			s.Sources = append(s.Sources, storeRun(t, name, options, tt.trials, gold, func(i, _ int) *extraction.Extraction {
				switch random.IntN(10) {
				case 0:
					return nil
				case 1, 2, 3, 4:
					if gold[i] != nil {
						return gold[i]
					}
				}
				return draw()
			}))
		}
		s.Sources = append(s.Sources, s.Sources[0]) // an interval needs results that differ
		cfg := runs.Comparison()
		cfg.ClusterBy, cfg.Metric, cfg.Seed, cfg.Flips = tt.cluster, tt.metric, 7, 500
		for i, r := range compareRuns(t, cfg, s).Candidates {
			plain, own := r.Primary(), r.Sensitivity.Settings[0]
			plain.Pooled = nil // sensitivity does not resample it
			if diff := cmp.Diff(plain, own.Score); !own.Own || diff != "" {
				t.Errorf("%+v, candidate %d: %s", tt, i, diff)
			}
			if i < 2 && plain.CI95 == nil {
				t.Errorf("%+v, candidate %d shows nothing: %+v", tt, i, plain)
			}
		}
	}
}

// TestSensitivity_allDoubtful: without doubtful items the row says so; if all items are doubtful,
// there is no row.
func TestSensitivity_allDoubtful(t *testing.T) {
	t.Parallel()
	s := flippingRuns(t)
	s.Doubtful = map[string]bool{}
	last := func() compare.Setting {
		settings := compareRuns(t, runs.Comparison(), s).Candidates[0].Sensitivity.Settings
		return settings[len(settings)-1]
	}
	if none := last(); none.What != "without doubtful items: there are none" || none.Score.N != 12 {
		t.Errorf("%+v", none)
	}
	for i := range 12 {
		s.Doubtful[fmt.Sprintf("i%02d", i)] = true
	}
	if all := last(); all.What != "entities, exact names and types" {
		t.Errorf("%+v", all)
	}
}

// remoteSource is a run without outputs on this machine.
type remoteSource struct{ compare.Source }

func (remoteSource) Where() string { return "Langfuse" }

func TestSensitivity_refused(t *testing.T) {
	t.Parallel()
	s := flippingRuns(t)
	result := compareRuns(t, runs.Comparison(), s)
	remote := Sensitivity{Sources: []compare.Source{s.Sources[0], remoteSource{s.Sources[1]}}}
	if err := remote.AddTo(t.Context(), &result); err == nil || !strings.Contains(err.Error(), "outputs are needed") {
		t.Errorf("a run in Langfuse: %v", err)
	}
	result.Metric = scoring.GroundedRate
	if err := s.AddTo(t.Context(), &result); err == nil || !strings.Contains(err.Error(), scoring.GroundedRate) {
		t.Errorf("another score: %v", err)
	}
}

// TestRescoredOutcome: scoring reports missing and unreadable outputs and gold, and accepts an item
// without gold.
func TestRescoredOutcome(t *testing.T) {
	for _, tt := range []struct{ gold, output, want string }{
		{`{"entities":[]}`, ``, "outputs are needed"},
		{`{"entities":[]}`, `null`, "outputs are needed"},
		{`{"entities":[]}`, `{"entities":5}`, "its output cannot be read"},
		{`{"entities":5}`, `{"entities":[]}`, "the expected output cannot be used"},
		{``, `{"entities":[]}`, ""},
	} {
		err := new(rescoredOutcome).score([]byte(tt.gold), []byte(tt.output), nil)
		if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	failed := &rescoredOutcome{Outcome: outcome.Outcome{Class: outcome.Item}}
	if err := failed.score([]byte(`{"entities":5}`), nil, nil); err != nil {
		t.Errorf("an item that failed stays failed: %v", err)
	}
}
