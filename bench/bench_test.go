package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"extraction-experiment/bench"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// TestMain creates temporary folders in memory.
func TestMain(m *testing.M) {
	suite.InMemory()
	m.Run()
}

const smoke, regression = "datasets/smoke.jsonl", "datasets/regression.jsonl"

// checkDatasets runs datasets in one and in three trials, and returns what is wrong: malformed
// records, metrics that are not 1 and gates that do not hold.
func checkDatasets(t *testing.T, datasets ...string) string {
	t.Helper()
	var wrong []string
	for _, trials := range []int{1, 3} {
		r, err := bench.Run(t.Context(), bench.Config{Datasets: datasets, Trials: trials})
		if err != nil {
			return err.Error()
		}
		for name, v := range map[string]float64{
			"schemaValidRate": r.SchemaValidRate, "quoteInvariantRate": r.QuoteInvariantRate, "uniqueExtractionStability": r.UniqueExtractionStability,
			"successRate": r.SuccessRate, "coverageRate": r.CoverageRate, "variance.stability": r.Variance.Stability, "1 - drift": 1 - r.CaseOutcomeDriftRate,
		} {
			if v != 1 {
				wrong = append(wrong, fmt.Sprintf("%d trials: %s is %v; causes: %+v", trials, name, v, r.Causes))
			}
		}
		if len(r.Causes) != 0 || len(r.Variance.ExtractionCounts) != trials || r.Trials != trials || r.Mode != "deterministic" {
			wrong = append(wrong, fmt.Sprintf("%+v", r))
		}
		if _, err := bench.Verdict(10, bench.Check(r, bench.Gates())); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return strings.Join(wrong, "\n")
}

// TestSuite checks that every metric of both datasets is 1, and that a valid regression record of
// any category and caseId can be added, while checkDatasets reports one that is wrong.
func TestSuite(t *testing.T) {
	if wrong := checkDatasets(t, smoke, regression); wrong != "" {
		t.Error(wrong)
	}
	const record = `{"caseId":"added by TestSuite","category":"harbours","documentText":"The ferry Aurora sails.","instructions":"Extract ships.","targetSchema":{},` +
		`"providerResponseText":"{\"extractions\":[{\"extractionClass\":\"ship\",\"quote\":\"Aurora\",\"charStart\":10,\"charEnd\":16}]}",` +
		`"expected":{"emptyResultKind":"non_empty","minExtractions":1,"maxExtractions":1},"sourceUrl":"https://example.org","packId":"mine"}`
	for name, c := range map[string]struct{ record, wrong string }{
		"valid":       {record, ""},
		"malformed":   {strings.Replace(record, `"packId":"mine"`, `"packId":""`, 1), "packId is empty"},
		"not quoting": {strings.Replace(record, `\"charStart\":10`, `\"charStart\":9`, 1), "quoteInvariantRate is"},
		"not as said": {strings.Replace(record, `"minExtractions":1,"maxExtractions":1`, `"minExtractions":2,"maxExtractions":2`, 1), "successRate is"},
	} {
		dir := t.TempDir()
		pack, target := filepath.Join(dir, "regressions.jsonl"), filepath.Join(dir, "regression.jsonl")
		if err := os.WriteFile(pack, []byte(c.record), 0o600); err != nil {
			t.Fatal(err)
		}
		added, _, err := bench.Additions(t.Context(), false, pack, regression)
		if (err == nil) == (name == "malformed") {
			t.Errorf("%s: bench add says %v", name, err)
		}
		if added == nil {
			added = []byte(c.record)
		}
		if err := os.WriteFile(target, added, 0o600); err != nil {
			t.Fatal(err)
		}
		if wrong := checkDatasets(t, target); (wrong == "") != (c.wrong == "") || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%s: %q does not say %q", name, wrong, c.wrong)
		}
	}
}

// TestDatasets_breadth checks that the smoke cases have short and long documents, and that the
// regression records have many categories.
func TestDatasets_breadth(t *testing.T) {
	cases, err := bench.Read(t.Context(), false, smoke, regression)
	if err != nil {
		t.Fatal(err)
	}
	short, long, categories := 0, 0, map[string]bool{}
	for _, c := range cases {
		switch n := utf8.RuneCountInString(c.DocumentText); {
		case c.Expected != nil:
			categories[c.Category] = true
		case n < 200:
			short++
		case n > 1000:
			long++
		}
	}
	if short < 6 || long < 3 || len(categories) < 8 {
		t.Errorf("%d short and %d long smoke cases, %d categories", short, long, len(categories))
	}
}

// fakeAnswerer is a bench.Answerer that answers the i-th question about a document with records
// that quote the i-th list of names. The name "fail" makes the call fail.
type fakeAnswerer struct {
	mu      sync.Mutex
	calls   map[string]int        // by document
	answers map[string][][]string // by document
}

func (a *fakeAnswerer) Answer(_ context.Context, q bench.Question) (string, []outcome.Call, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.answers[q.DocumentText][a.calls[q.DocumentText]]
	a.calls[q.DocumentText]++
	records := []string{}
	for _, name := range names {
		if name == "fail" {
			return "", nil, &outcome.Failure{Class: outcome.Provider, Message: "nobody there"}
		}
		at := strings.Index(q.DocumentText, name)
		records = append(records, fmt.Sprintf(`{"extractionClass":"letter","quote":%q,"span":{"offsetMode":%q,"charStart":%d,"charEnd":%d}}`, name, q.OffsetMode, at, at+len(name)))
	}
	return `{"extractions":[` + strings.Join(records, ",") + `]}`, nil, nil
}

// smokeLine returns a smoke case as a line of JSON. The gold spans are the first places of the gold
// texts in the document.
func smokeLine(id, text string, gold ...string) string {
	spans := []string{}
	for _, g := range gold {
		at := strings.Index(text, g)
		spans = append(spans, fmt.Sprintf(`{"quote":%q,"charStart":%d,"charEnd":%d}`, g, at, at+len(g)))
	}
	return fmt.Sprintf(`{"caseId":%q,"documentText":%q,"instructions":"Extract letters.","targetSchema":{"properties":{"extractionClass":{"enum":["letter"]}}},"providerResponseText":"","goldSpans":[%s]}`, id, text, strings.Join(spans, ","))
}

// parseCases returns the cases in the lines.
func parseCases(t *testing.T, lines ...string) []bench.Case {
	t.Helper()
	list, err := bench.Parse(false, "test", []byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestVariance compares the metrics of two cases in five trials with those calculated by hand.
// Case p has the letters of "a b c" and case q those of "x y"; together
//
//	trial 1 {a b c x}, 2 {a b x}, 3 {a b c x}, 4 {a x y}, 5 {a b c x}
//
// Pairs: 1-2 3/4, 1-3 1, 1-4 2/5, 1-5 1, 2-3 3/4, 2-4 2/4, 2-5 3/4, 3-4 2/5,
// 3-5 1, 4-5 2/5. Sum 0.75+1+0.4+1+0.75+0.5+0.75+0.4+1+0.4 = 6.95; mean 0.695.
// Counts 4 3 4 3 4: mean 3.6, variance (3·0.16 + 2·0.36)/5 = 0.24. Gold is a in p
// and x in q: always found. Both cases drift.
func TestVariance(t *testing.T) {
	answerer := &fakeAnswerer{calls: map[string]int{}, answers: map[string][][]string{
		"a b c": {{"a", "b", "c"}, {"a", "b"}, {"a", "b", "c"}, {"a"}, {"a", "b", "c"}},
		"x y":   {{"x"}, {"x"}, {"x"}, {"x", "y"}, {"x"}},
	}}
	r, err := bench.Run(t.Context(), bench.Config{Cases: parseCases(t, smokeLine("p", "a b c", "a"), smokeLine("q", "x y", "x")), Mode: bench.VarianceMode, Trials: 5, Answerer: answerer})
	if err != nil {
		t.Fatal(err)
	}
	near := func(name string, got, want float64) {
		if d := got - want; d > 1e-12 || d < -1e-12 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("stability", r.UniqueExtractionStability, 0.695)
	near("mean", r.Variance.Mean, 3.6)
	near("variance", r.Variance.Variance, 0.24)
	near("standard deviation", r.Variance.StdDev*r.Variance.StdDev, 0.24)
	near("stability of counts", r.Variance.Stability, 0.75)
	near("drift", r.CaseOutcomeDriftRate, 1)
	near("success", r.SuccessRate, 1)
	near("quotes", r.QuoteInvariantRate, 1)
	if r.Variance.Min != 3 || r.Variance.Max != 4 || fmt.Sprint(r.DriftingCases) != "[p q]" {
		t.Errorf("%+v %v", r.Variance, r.DriftingCases)
	}
}

// TestStability_caseInKey checks that the same span in two cases counts as two extractions. Trial 1
// finds "a" in both, trial 2 only in p: 1/2. Without the case in the key it would be 1.
func TestStability_caseInKey(t *testing.T) {
	answerer := &fakeAnswerer{calls: map[string]int{}, answers: map[string][][]string{"a b": {{"a"}, {"a"}}, "a c": {{"a"}, {}}}}
	r, err := bench.Run(t.Context(), bench.Config{Cases: parseCases(t, smokeLine("p", "a b", "a"), smokeLine("q", "a c", "a")), Trials: 2, Answerer: answerer})
	if err != nil {
		t.Fatal(err)
	}
	if r.UniqueExtractionStability != 0.5 || r.CaseOutcomeDriftRate != 0.5 || r.SuccessRate != 0.75 || r.SuccessRateStdDev != 0.25 {
		t.Errorf("%+v", r)
	}
	if len(r.Causes) != 1 || r.Causes[0].CaseID != "q" || r.Causes[0].Trial != 2 || r.Causes[0].Metric != "successRate" {
		t.Errorf("causes %+v", r.Causes)
	}
}

// TestQuoteCodes checks the Code of records with right and wrong offsets, and that causes name the
// record. The document has a letter of two UTF-16 units and four bytes, and one made of two code
// points.
func TestQuoteCodes(t *testing.T) {
	const doc = "𝒜 e\u0301 z" // code points: 𝒜0 space1 e2 ´3 space4 z5, 6 in all; UTF-16 7, bytes 4+1+1+2+1+1 = 10
	records, codes := map[string]string{}, map[string]bench.Code{}
	for name, c := range map[string]struct {
		span string
		code bench.Code
	}{
		"utf16":                {`{"offsetMode":"utf16_code_unit","charStart":6,"charEnd":7}`, ""},
		"utf16, by default":    {`{"charStart":6,"charEnd":7}`, ""},
		"rune":                 {`{"offsetMode":"rune","charStart":5,"charEnd":6}`, ""},
		"byte":                 {`{"offsetMode":"byte","charStart":9,"charEnd":10}`, ""},
		"runes as utf16":       {`{"offsetMode":"utf16_code_unit","charStart":5,"charEnd":6}`, bench.QuoteMismatch},
		"no such mode":         {`{"offsetMode":"grapheme","charStart":5,"charEnd":6}`, bench.UnsupportedMode},
		"missing":              {`{"offsetMode":"rune","charStart":5}`, bench.InvalidOffsets},
		"fraction":             {`{"offsetMode":"rune","charStart":5,"charEnd":5.5}`, bench.InvalidOffsets},
		"text":                 {`{"offsetMode":"rune","charStart":"5","charEnd":6}`, bench.InvalidOffsets},
		"negative":             {`{"offsetMode":"rune","charStart":-1,"charEnd":6}`, bench.InvalidOffsets},
		"end before start":     {`{"offsetMode":"rune","charStart":6,"charEnd":5}`, bench.InvalidOffsets},
		"empty":                {`{"offsetMode":"rune","charStart":5,"charEnd":5}`, bench.InvalidOffsets},
		"beyond the end":       {`{"offsetMode":"rune","charStart":5,"charEnd":7}`, bench.OutOfRange},
		"beyond the end, 8":    {`{"offsetMode":"byte","charStart":9,"charEnd":11}`, bench.OutOfRange},
		"between surrogates":   {`{"offsetMode":"utf16_code_unit","charStart":1,"charEnd":2}`, bench.OffsetMismatch},
		"between bytes":        {`{"offsetMode":"byte","charStart":2,"charEnd":4}`, bench.OffsetMismatch},
		"something else there": {`{"offsetMode":"rune","charStart":0,"charEnd":1}`, bench.QuoteMismatch},
	} {
		records[name], codes[name] = fmt.Sprintf(`{"extractionClass":"letter","quote":"z","span":%s}`, c.span), c.code
	}
	for quote, span := range map[string]string{
		"𝒜":        `{"offsetMode":"utf16_code_unit","charStart":0,"charEnd":2}`,
		"e\u0301":  `{"offsetMode":"utf16_code_unit","charStart":3,"charEnd":5}`,
		"e\u0301 ": `{"offsetMode":"byte","charStart":5,"charEnd":9}`,
		" e":       `{"offsetMode":"rune","charStart":1,"charEnd":3}`,
	} {
		records["quote "+quote] = fmt.Sprintf(`{"extractionClass":"letter","quote":%q,"span":%s}`, quote, span)
	}
	records["twice"] = `{"extractionClass":"letter","quote":"z","offsetMode":"rune","charStart":4,"charEnd":6,"span":{"offsetMode":"rune","charStart":5,"charEnd":6}}`
	codes["twice"] = bench.OffsetMismatch // stated twice and differently
	records["mode at the top"] = `{"extractionClass":"letter","quote":"z","offsetMode":"rune","span":{"charStart":5,"charEnd":6}}`
	records["aliases"] = `{"extractionClass":"letter","quote":"z","offsetMode":"code_point","span":{"offsetMode":"rune","charStart":5,"charEnd":6}}`
	records["two modes"] = `{"extractionClass":"letter","quote":"z","offsetMode":"byte","span":{"offsetMode":"rune","charStart":5,"charEnd":6}}`
	codes["two modes"] = bench.OffsetMismatch
	causes := causesOf(t, doc, records)
	for name := range records {
		want := fmt.Sprint([]bench.Code{codes[name]})
		if codes[name] == "" {
			want = "[]"
		}
		got := []bench.Code{}
		for _, c := range causes[name] {
			got = append(got, c.Code)
			if c.Quote != "z" {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: codes %v, want %s", name, got, want)
		}
	}
}

// TestCause_offsets checks that offsets that are not whole numbers are shown as stated, and that
// records that cannot be decoded are explained without Go's terms.
func TestCause_offsets(t *testing.T) {
	wantDetails, records := map[string]string{
		`{"extractionClass":"letter","quote":"z","span":{"charStart":1.5,"charEnd":1e30}}`:      "at 1.5 to 1e30 (utf16_code_unit)",
		`{"extractionClass":"letter","quote":"z","span":{"offsetMode":"rune","charStart":"1"}}`: `at "1" to none (rune)`,
		`{"extractionClass":"letter","quote":"z","charStart":0,"charEnd":-1}`:                   "at 0 to -1 (utf16_code_unit)",
		`{"extractionClass":"letter","quote":"z"}`:                                              "no offsets are stated",
		`{"extractionClass":"letter","quote":7}`:                                                "it is not a record: quote: expected a text, got number",
		`7`:                                                                                     "it is not a record: expected an object, got number",
	}, map[string]string{}
	for record, want := range wantDetails {
		records[want] = record
	}
	for want, causes := range causesOf(t, "z", records) {
		if !slices.ContainsFunc(causes, func(c bench.Cause) bool { return c.Detail == want }) {
			t.Errorf("%s: %+v do not say %q", records[want], causes, want)
		}
		delete(records, want)
	}
	if len(records) != 0 {
		t.Errorf("nothing is wrong with %v", records)
	}
}

// causesOf runs a case for each record, with a stored answer that has only this record, and returns
// the causes by name. It checks that the rates and the counted codes match the causes.
func causesOf(t *testing.T, doc string, records map[string]string) map[string][]bench.Cause {
	t.Helper()
	var list []bench.Case
	for name, record := range records {
		list = append(list, bench.Case{
			CaseID: name, Category: name, DocumentText: doc, Instructions: "i", TargetSchema: json.RawMessage(`{"properties":{"extractionClass":{"const":"letter"}}}`),
			ProviderResponseText: `{"extractions":[` + record + `]}`,
			Expected:             &bench.Expected{EmptyResultKind: bench.NonEmpty, MinExtractions: 1, MaxExtractions: 1},
		})
	}
	r, err := bench.Run(t.Context(), bench.Config{Cases: list})
	if err != nil || len(r.Categories) != len(records) {
		t.Fatalf("%v, %+v", err, r.Categories)
	}
	causes := map[string][]bench.Cause{}
	for _, c := range r.Causes {
		causes[c.CaseID] = append(causes[c.CaseID], c)
	}
	quoteErrors := 0
	for _, c := range r.Categories { // each is one record
		shape, quote := 1.0, 1.0
		for _, cause := range causes[c.Name] {
			if cause.Metric == "schemaValidRate" {
				shape = 0
			} else {
				quote = 0
				quoteErrors++
			}
		}
		if c.Extractions != 1 || c.SchemaValidRate != shape || c.QuoteInvariantRate != quote {
			t.Errorf("%+v with the causes %+v", c, causes[c.Name])
		}
	}
	for _, n := range r.QuoteErrors {
		quoteErrors -= n
	}
	if quoteErrors != 0 {
		t.Errorf("codes %v do not add up to the causes %+v", r.QuoteErrors, r.Causes)
	}
	return causes
}

// TestShape checks that malformed records lower schemaValidRate.
func TestShape(t *testing.T) {
	records := map[string]string{
		"no class":         `{"quote":"z","span":{"charStart":0,"charEnd":1}}`,
		"no quote":         `{"extractionClass":"letter","span":{"charStart":0,"charEnd":1}}`,
		"another class":    `{"extractionClass":"digit","quote":"z","span":{"charStart":0,"charEnd":1}}`,
		"no object":        `7`,
		"quote of no text": `{"extractionClass":"letter","quote":7}`,
	}
	causes := causesOf(t, "z", records)
	for name := range records {
		if list := causes[name]; len(list) == 0 || list[len(list)-1].Metric != "schemaValidRate" {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

// TestRun_failedCase checks that a case that expects an unusable stored answer does not succeed if
// the case itself fails, here because of its invalid schema, which only Read validates.
func TestRun_failedCase(t *testing.T) {
	r, err := bench.Run(t.Context(), bench.Config{Cases: []bench.Case{{
		CaseID: "one", DocumentText: "z", Instructions: "i", TargetSchema: json.RawMessage(`{"type":7}`),
		Expected: &bench.Expected{EmptyResultKind: bench.EmptyByFailure},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if r.SuccessRate != 0 || len(r.Causes) != 1 || !strings.Contains(r.Causes[0].Detail, "targetSchema") {
		t.Errorf("success rate %v, causes %+v", r.SuccessRate, r.Causes)
	}
}

// TestGates checks that values equal to the limits pass all gates, and that values slightly beyond
// the limits pass none.
func TestGates(t *testing.T) {
	gates := bench.Gates()
	for i, limit := range []float64{0.9, 0.8, 0.7, 0.6, 0.5, 0.25, 0.05, 0.05, 8, 42} {
		gates[i].Limit = limit
	}
	at := bench.Report{
		SuccessRate: 0.9, SchemaValidRate: 0.8, QuoteInvariantRate: 0.7, CoverageRate: 0.6, UniqueExtractionStability: 0.5,
		SuccessRateStdDev: 0.05, CaseOutcomeDriftRate: 0.05,
		Variance: bench.Variance{Variance: 0.25}, Breadth: bench.Breadth{RegressionCategoryCount: 8, TotalCaseCount: 42},
	}
	if line, err := bench.Verdict(len(gates), bench.Check(at, gates)); err != nil || line != "all 10 gates hold" {
		t.Errorf("exactly at every threshold: %s, %v", line, err)
	}
	const step = 1e-6
	beyond := bench.Report{
		SuccessRate: 0.9 - step, SchemaValidRate: 0.8 - step, QuoteInvariantRate: 0.7 - step, CoverageRate: 0.6 - step, UniqueExtractionStability: 0.5 - step,
		SuccessRateStdDev: 0.05 + step, CaseOutcomeDriftRate: 0.05 + step,
		Variance: bench.Variance{Variance: 0.25 + step}, Breadth: bench.Breadth{RegressionCategoryCount: 7, TotalCaseCount: 41},
	}
	_, err := bench.Verdict(len(gates), bench.Check(beyond, gates))
	if cli.ExitCode(err) != cli.ExitGate {
		t.Fatalf("got %v", err)
	}
	for _, gate := range []string{"min-success-rate", "min-schema-validity-rate", "min-quote-invariant-pass-rate", "min-coverage-rate", "min-stability", "max-extraction-count-variance",
		"max-success-rate-stddev", "max-case-outcome-drift-rate", "min-regression-category-count", "min-total-case-count"} {
		if !strings.Contains(err.Error(), "--"+gate+" ") {
			t.Errorf("%v does not name %s", err, gate)
		}
	}
}

func TestRun_usage(t *testing.T) {
	for want, cfg := range map[string]bench.Config{
		"no cases to run":               {},
		`no mode "fast"`:                {Mode: "fast", Cases: []bench.Case{{}}},
		"one is not enough":             {Mode: bench.VarianceMode, Trials: 1, Cases: []bench.Case{{}}},
		"leave the model out":           {Mode: bench.DeterministicMode, Answerer: &fakeAnswerer{}, Cases: []bench.Case{{}}},
		"Trials is not from 0 to 10000": {Trials: -1, Cases: []bench.Case{{}}},
		"none.jsonl":                    {Datasets: []string{filepath.Join(t.TempDir(), "none.jsonl")}},
	} {
		if _, err := bench.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestAdditions(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile(regression)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(string(raw)), "\n")
	write := func(name string, text ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(text, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	target := write("target.jsonl", lines[:2]...)
	added, n, err := bench.Additions(t.Context(), true, write("pack.jsonl", lines[2:5]...), target)
	if err != nil || n != 3 || strings.Count(string(added), "\n") != 3 {
		t.Fatalf("%d, %v", n, err)
	}
	_, _, err = bench.Additions(t.Context(), false, write("again.jsonl", lines[1], strings.Replace(lines[0], "json-parse--plain", "json-parse--other", 1)), target)
	for _, want := range []string{"again.jsonl: line 1: duplicate caseId", "again.jsonl: line 2: the same record as"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// stopper closes stop after the next left outcomes.
type stopper struct {
	left int
	stop chan struct{}
	seen []string // items of the outcomes
}

func (s *stopper) done(o outcome.Outcome) {
	s.seen = append(s.seen, o.Item)
	if s.left--; s.left == 0 {
		close(s.stop)
	}
}

// TestRun_unanswered checks that the rates of a run that was stopped before its first answer are 0.
func TestRun_unanswered(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	r, err := bench.Run(t.Context(), bench.Config{Cases: parseCases(t, smokeLine("p", "a b", "a")), Trials: 2, Answerer: &fakeAnswerer{}, Stop: stop})
	var text strings.Builder
	must(t, report.Bench(&text, r, report.Options{}))
	if !errors.Is(err, experiment.ErrInterrupted) || r.SchemaValidRate != 0 || r.QuoteInvariantRate != 0 || r.UniqueExtractionStability != 0 || r.Err() != nil || !strings.Contains(text.String(), "nothing to measure") {
		t.Errorf("%v %+v\n%s", err, r, &text)
	}
}

// TestResume stops and resumes a run, and checks that missing outcomes do not count as drift and
// that every question is asked once. Resuming with another configuration is an error.
func TestResume(t *testing.T) {
	list := parseCases(t, smokeLine("p", "a b", "a"), smokeLine("q", "a c", "a"), smokeLine("r", "a d", "a"))
	s := &stopper{left: 4, stop: make(chan struct{})}
	answerer := &fakeAnswerer{calls: map[string]int{}, answers: map[string][][]string{"a b": {{"a"}, {"a"}}, "a c": {{"a"}, {"a"}}, "a d": {{"a"}, {"a"}}}}
	cfg := bench.Config{Cases: list, Trials: 2, Answerer: answerer, System: outcome.System{Model: "noisy"}, Out: filepath.Join(t.TempDir(), "r.run"), Concurrency: 1, Stop: s.stop, Observer: experiment.Observer{Done: s.done}}
	r, err := bench.Run(t.Context(), cfg)
	if !errors.Is(err, experiment.ErrInterrupted) {
		t.Fatalf("got %v", err)
	}
	if r.CaseOutcomeDriftRate != 0 || r.UniqueExtractionStability != 1 || r.SuccessRate >= 1 || len(r.Warnings) != 1 {
		t.Errorf("stopped: %+v", r)
	}
	cfg.Stop, cfg.Observer, cfg.Resume = nil, experiment.Observer{}, true
	for want, change := range map[string]func(*bench.Config){
		"trials: began with 2, now 3":         func(c *bench.Config) { c.Trials = 3 },
		"model: began with noisy, now other":  func(c *bench.Config) { c.System.Model = "other" },
		"items (sha256): began with":          func(c *bench.Config) { c.Cases = list[:2] },
		"mode: began with variance, now dete": func(c *bench.Config) { c.Mode, c.Answerer, c.Trials = bench.DeterministicMode, nil, 2 },
	} {
		other := cfg
		change(&other)
		if _, err := bench.Run(t.Context(), other); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	r, err = bench.Run(t.Context(), cfg)
	if err != nil || r.SuccessRate != 1 || r.CaseOutcomeDriftRate != 0 || len(r.Warnings) != 0 {
		t.Errorf("resumed: %v, %+v", err, r)
	}
	if answerer.calls["a b"] != 2 || answerer.calls["a c"] != 2 || answerer.calls["a d"] != 2 {
		t.Errorf("asked %v", answerer.calls)
	}
	cfg.Out = filepath.Join(t.TempDir(), "none.run") // Resume without a run file starts a run
	if _, err := bench.Run(t.Context(), cfg); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(cfg.Out); err != nil {
		t.Error(err)
	}
}

// TestResume_stability stops a run of five trials after two of them, which share nothing. The other
// nine pairs of trials have no case in common, and do not count.
func TestResume_stability(t *testing.T) {
	s := &stopper{left: 4, stop: make(chan struct{})}
	answers := map[string][][]string{"a b": {{"a"}, {"b"}, {}, {}, {}}, "a c": {{"a"}, {"c"}, {}, {}, {}}}
	r, err := bench.Run(t.Context(), bench.Config{Cases: parseCases(t, smokeLine("p", "a b", "a"), smokeLine("q", "a c", "a")), Trials: 5,
		Answerer: &fakeAnswerer{calls: map[string]int{}, answers: answers}, Out: filepath.Join(t.TempDir(), "r.run"),
		Concurrency: 1, Stop: s.stop, Observer: experiment.Observer{Done: s.done}})
	if !errors.Is(err, experiment.ErrInterrupted) || r.Answered != 4 || r.UniqueExtractionStability != 0 {
		t.Errorf("%v, %d answered, stability %v", err, r.Answered, r.UniqueExtractionStability)
	}
}

// TestRecord_key: offsets that cannot be converted tell records apart as they were written.
func TestRecord_key(t *testing.T) {
	a, err := bench.Stored("abc", json.RawMessage(`{}`), `{"extractions":[{"quote":"c","charStart":0.5,"charEnd":3},{"quote":"c","charStart":7.5,"charEnd":3}]}`)
	if err != nil || len(a.Records) != 2 || bench.RecordKey(a.Records[0]) == bench.RecordKey(a.Records[1]) {
		t.Errorf("%v, %+v", err, a.Records)
	}
}

// TestFailedCalls checks that all rates of a system that never answers are 0, and that failed calls
// count as neither successful nor covered. Case q has no gold spans.
//
// "half": p is answered in trial 1 and q in trial 2. Success 1/2 and 1/2, coverage
// (1 + 0 + 0 + 1)/4. Both cases drift; they have outcomes in both trials, whose
// keys share nothing: 0/1.
func TestFailedCalls(t *testing.T) {
	for name, c := range map[string]struct {
		p, q                                 [][]string
		failed, code                         int
		schema, stability, success, coverage float64
	}{
		"dead":    {[][]string{{"fail"}, {"fail"}}, [][]string{{"fail"}, {"fail"}}, 4, 69, 0, 0, 0, 0},
		"half":    {[][]string{{"a"}, {"fail"}}, [][]string{{"fail"}, {}}, 2, 4, 1, 0, 0.5, 0.5},
		"none":    {[][]string{{"a"}, {"a"}}, [][]string{{}, {}}, 0, 0, 1, 1, 1, 1},
		"nothing": {[][]string{{}, {}}, [][]string{{}, {}}, 0, 0, 1, 1, 0.5, 0.5},
	} {
		answerer := &fakeAnswerer{calls: map[string]int{}, answers: map[string][][]string{"a b": c.p, "x y": c.q}}
		r, err := bench.Run(t.Context(), bench.Config{Cases: parseCases(t, smokeLine("p", "a b", "a"), smokeLine("q", "x y")), Trials: 2, Answerer: answerer})
		if err != nil {
			t.Fatal(err)
		}
		if r.FailedCalls != c.failed || r.SchemaValidRate != c.schema || r.QuoteInvariantRate != c.schema ||
			r.UniqueExtractionStability != c.stability || r.SuccessRate != c.success || r.CoverageRate != c.coverage {
			t.Errorf("%s: %+v", name, r)
		}
		code := 0
		if err := r.Err(); err != nil {
			code = cli.ExitCode(err)
			if !strings.Contains(err.Error(), "of 4 calls failed") || !strings.Contains(err.Error(), "nobody there") {
				t.Errorf("%s: %v", name, err)
			}
		}
		var text strings.Builder
		if err := report.Bench(&text, r, report.Options{}); err != nil {
			t.Fatal(err)
		}
		if code != c.code || strings.Contains(text.String(), "nobody there") != (c.failed > 0) {
			t.Errorf("%s: exit code %d, want %d\n%s", name, code, c.code, &text)
		}
	}
}
