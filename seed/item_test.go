package seed

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// sampleTrace returns a trace with a root, the step "a" below it, a step below "a", and a step
// beside "a".
func sampleTrace(input, output string) langfuse.Trace {
	return langfuse.Trace{ID: "t", Input: json.RawMessage(input), Output: json.RawMessage(output), Observations: []langfuse.Observation{
		{ID: "root", Name: "request"}, {ID: "a", ParentID: "root", Name: "llm", Input: json.RawMessage(input), Output: json.RawMessage(output)},
		{ID: "a1", ParentID: "a", Name: "parse", Type: "SPAN"}, {ID: "b", ParentID: "root", Name: "store"}}}
}

const (
	someInput  = `{"document_text":"Ada lived in London."}`
	someOutput = `{"entities":[{"name":"Ada","type":"Person"}],"relationships":[]}`
)

// TestEvidenceSearch checks which scores on which observations are evidence for the step "a" of the
// trace, and which reject it.
func TestEvidenceSearch(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	score := func(name string, value any, kind, id, author string, minute int) langfuse.Score {
		s := scoresOf(name, value)[0]
		s.ID, s.Source, s.AuthorUserID, s.Timestamp = name+"-"+id, "ANNOTATION", author, at.Add(time.Duration(minute)*time.Minute)
		s.Subject = langfuse.ScoreSubject{Kind: kind, ID: id}
		s.Type = map[bool]langfuse.ScoreType{true: langfuse.ScoreBoolean, false: langfuse.ScoreNumeric}[value == true || value == false]
		if _, isText := value.(string); isText {
			s.Type = langfuse.ScoreCategorical
		}
		return s
	}
	correction := func(kind, id string) langfuse.Score {
		s := score("output", someOutput, kind, id, "", 0)
		s.Type = langfuse.ScoreCorrection
		return s
	}
	inQueue := func(s langfuse.Score) langfuse.Score { s.QueueID = "q"; return s }
	queues := map[string][]completedItem{"t": {{langfuse.QueueItem{ID: "i", QueueID: "q", ObjectID: "t", ObjectType: langfuse.ObjectTrace}, "review"}}}
	rules := EvidenceRules{Scores: []ScoreRule{mustScoreRule("verdict=right")}}
	tests := map[string]struct {
		scores []langfuse.Score
		rules  EvidenceRules
		want   string // kind and id of the evidence, or a part of the reason
	}{
		"nothing":                          {nil, EvidenceRules{}, "no completed queue item"},
		"on the trace":                     {[]langfuse.Score{score("ok", true, "trace", "t", "u", 0)}, EvidenceRules{}, "annotation ok-t"},
		"on it":                            {[]langfuse.Score{score("ok", true, "observation", "a", "u", 0)}, EvidenceRules{}, "annotation ok-a"},
		"above it":                         {[]langfuse.Score{score("ok", true, "observation", "root", "u", 0)}, EvidenceRules{}, "annotation ok-root"},
		"below it":                         {[]langfuse.Score{score("ok", true, "observation", "a1", "u", 0)}, EvidenceRules{}, "annotation ok-a1"},
		"beside it":                        {[]langfuse.Score{score("ok", true, "observation", "b", "u", 0)}, EvidenceRules{}, "which is another"},
		"of another trace":                 {[]langfuse.Score{score("ok", true, "trace", "x", "u", 0)}, EvidenceRules{}, "which is another"},
		"without an author":                {[]langfuse.Score{score("ok", true, "trace", "t", "", 0)}, EvidenceRules{}, "a program wrote it"},
		"a number above 0":                 {[]langfuse.Score{score("stars", 4.0, "trace", "t", "u", 0)}, EvidenceRules{}, "annotation stars-t"},
		"0":                                {[]langfuse.Score{score("stars", 0.0, "trace", "t", "u", 0)}, EvidenceRules{}, "stars = 0: it is judged wrong"},
		"a category says nothing":          {[]langfuse.Score{score("verdict", "right", "trace", "t", "u", 0)}, EvidenceRules{}, "does not say"},
		"unless a rule names it":           {[]langfuse.Score{score("verdict", "right", "trace", "t", "u", 0)}, rules, "annotation verdict-t"},
		"a no of that rule":                {[]langfuse.Score{score("verdict", "wrong", "trace", "t", "u", 0), score("ok", true, "trace", "t", "u", 1)}, rules, "judged wrong"},
		"a later yes":                      {[]langfuse.Score{score("validated", false, "trace", "t", "u", 0), score("validated", true, "observation", "a", "v", 1)}, EvidenceRules{}, "annotation validated-a"},
		"a later no":                       {[]langfuse.Score{score("validated", true, "observation", "a", "v", 0), score("validated", false, "trace", "t", "u", 1)}, EvidenceRules{}, "judged wrong"},
		"yes and no at once":               {[]langfuse.Score{score("validated", true, "observation", "a", "v", 0), score("validated", false, "trace", "t", "u", 0)}, EvidenceRules{}, "judged wrong"},
		"a no without an author is none":   {[]langfuse.Score{score("validated", false, "trace", "t", "", 1), score("ok", true, "trace", "t", "u", 0)}, EvidenceRules{}, "annotation ok-t"},
		"a no of any name":                 {[]langfuse.Score{score("usable", false, "trace", "t", "u", 0), score("ok", true, "trace", "t", "u", 1)}, EvidenceRules{}, "usable = false: it is judged wrong"},
		"a 0 of any name":                  {[]langfuse.Score{score("stars", 0.0, "trace", "t", "u", 0), score("ok", true, "trace", "t", "u", 1)}, EvidenceRules{}, "judged wrong"},
		"a later yes of another name":      {[]langfuse.Score{score("correct", false, "trace", "t", "u", 0), score("validated", true, "trace", "t", "u", 1)}, EvidenceRules{}, "correct = false"},
		"a no beside the names of rules":   {[]langfuse.Score{score("urgent", false, "trace", "t", "u", 1), score("verdict", "right", "trace", "t", "u", 0)}, rules, "annotation verdict-t"},
		"a yes beside the names of rules":  {[]langfuse.Score{score("ok", true, "trace", "t", "u", 0)}, rules, "does not say that it is right"},
		"correct = no, beside rules":       {[]langfuse.Score{score("correct", false, "trace", "t", "u", 1), score("verdict", "right", "trace", "t", "u", 0)}, rules, "judged wrong"},
		"a no in a completed queue":        {[]langfuse.Score{inQueue(score("usable", false, "trace", "t", "u", 0)), score("verdict", "right", "trace", "t", "u", 1)}, rules, "usable = false"},
		"a correction of it":               {[]langfuse.Score{correction("observation", "a")}, EvidenceRules{}, "correction output-a"},
		"of the trace":                     {[]langfuse.Score{correction("trace", "t")}, EvidenceRules{}, "correction output-t"},
		"of a step below":                  {[]langfuse.Score{correction("observation", "a1")}, EvidenceRules{}, "is of the observation a1 (parse), and not used: a mapping with observation: {name: \"parse\", type: SPAN}"},
		"the nearest correction":           {[]langfuse.Score{correction("trace", "t"), correction("observation", "root"), correction("observation", "a")}, EvidenceRules{}, "correction output-a"},
		"an annotation before corrections": {[]langfuse.Score{correction("trace", "t"), score("ok", true, "trace", "t", "u", 0)}, EvidenceRules{}, "annotation ok-t"},
	}
	for name, tt := range tests {
		w := newEvidenceSearch(sampleTrace(someInput, someOutput), tt.scores, nil, tt.rules, source{id: "a"})
		if strings.HasSuffix(name, "queue") {
			w.queues = queues
		}
		e, reason := w.find()
		got := reason
		if reason == "" {
			got = string(e.Kind) + " " + e.ID
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestMapper_truncated checks that a trace without its root, or with a mark of truncation, is
// refused as truncated.
func TestMapper_truncated(t *testing.T) {
	noRoot := langfuse.Trace{ID: "t", Observations: []langfuse.Observation{{ID: "a", ParentID: "root", Output: json.RawMessage(someOutput)}}}
	for name, trace := range map[string]langfuse.Trace{
		"no root":        noRoot,
		"our mark":       sampleTrace(`{"truncated":true,"bytes":9,"begins":"{"}`, someOutput),
		"mark of an SDK": sampleTrace(someInput, `"<truncated due to size exceeding limit>"`),
		"inside":         sampleTrace(`{"document_text":"Ada lived in [truncated]"}`, someOutput),
		"half of JSON":   sampleTrace(someInput, `"{\"entities\":[{\"name\":\"Ada\"},{\"na"`),
	} {
		out := (&mapper{cfg: TraceConfig{Config: Config{Dataset: "d"}, AcceptUnvalidated: true}}).item(trace, nil)
		if len(out.problems) != 1 || out.problems[0].Kind != Truncated {
			t.Errorf("%s: %v", name, out.problems)
		}
	}
}

// FuzzMapper_item checks that mapping any trace returns a valid item or an error.
func FuzzMapper_item(f *testing.F) {
	f.Add(someInput, someOutput, "", "a@b")
	f.Add(`"text"`, `"no"`, `{"entities":[]}`, "x")
	f.Add(`{"text":"a@b c@d"}`, `[1]`, `[`, "")
	f.Add(`{"document_text":"ß@ſ Ⅷ İ"}`, `{"entities":[{"name":"SS@S","mentions":[{"quote":"ß","start":0,"end":1}]}]}`, ``, "ß")
	redaction := mustRedaction(f, "patterns: [{name: mail, regex: '\\S+@\\S+'}, {name: b, regex: '[a-c]{2}'}]\nfields: [name]")
	f.Fuzz(func(t *testing.T, input, output, corrected, note string) {
		trace := sampleTrace(input, output)
		for i := range trace.Observations {
			trace.Observations[i].Metadata = must(textutil.MarshalJSON(map[string]string{"note": note}))
		}
		var scores []langfuse.Score
		if corrected != "" {
			scores = []langfuse.Score{{ID: "c", Type: langfuse.ScoreCorrection, Value: langfuse.TextValue(corrected), Subject: langfuse.ScoreSubject{Kind: "trace", ID: "t"}}}
		}
		for _, r := range []*Redaction{nil, redaction} {
			m := &mapper{replaced: map[string]int{}, cfg: TraceConfig{Config: Config{Dataset: "d", Redaction: r}, AcceptUnvalidated: true,
				Mapping: Mapping{Metadata: map[string]Paths{"note": {mustPath("metadata.note")}}}}}
			out := m.item(trace, scores)
			if len(out.problems) > 0 {
				continue
			}
			if _, _, err := extraction.DecodeExtraction(out.item.Expected); err != nil || !utf8.Valid(out.item.Input) || dataset.ValidID(out.item.ID) != nil {
				t.Errorf("%+v: %v", out.item, err)
			}
		}
	})
}

// TestMapper_private checks that errors and warnings quote the trace, but not if there is a
// redaction.
func TestMapper_private(t *testing.T) {
	const secret = "Ada Lovelace"
	wrong := scoresOf("verdict", "says "+secret)[0]
	wrong.Source, wrong.AuthorUserID, wrong.Type, wrong.Subject = "ANNOTATION", "u", langfuse.ScoreText, langfuse.ScoreSubject{Kind: "trace", ID: "t"}
	for name, tt := range map[string]struct {
		input, output string
		scores        []langfuse.Score
		observation   string
	}{
		"prose":              {someInput, `"I know of Ada Lovelace only."`, nil, ""},
		"keys of the output": {someInput, `{"Ada Lovelace": 1}`, nil, ""},
		"keys of the input":  {`{"Ada Lovelace": 1}`, someOutput, nil, ""},
		"a warning":          {someInput, `{"entities":[],"relationships":[],"Ada Lovelace":1}`, nil, ""},
		"a score":            {someInput, someOutput, []langfuse.Score{wrong}, ""},
		"an observation":     {someInput, someOutput, nil, "nothing"},
	} {
		for _, r := range []*Redaction{nil, mustRedaction(t, "patterns: [{name: p, regex: '(?i)ada lovelace'}]"), mustRedaction(t, "fields: [nothing]")} {
			trace := sampleTrace(tt.input, tt.output)
			trace.Observations[3].Name = "store " + secret
			m := &mapper{replaced: map[string]int{}, cfg: TraceConfig{Config: Config{Dataset: "d", Redaction: r}, AcceptUnvalidated: tt.scores == nil,
				Mapping: Mapping{Observation: ObservationFilter{Name: tt.observation}}}}
			out := m.item(trace, tt.scores)
			messages := fmt.Sprint(out.problems, out.warnings)
			if shown := strings.Contains(messages, secret); shown != (r == nil) || len(out.problems) == 0 && len(out.warnings) < 2 {
				t.Errorf("%s, with redaction %t: %s", name, r != nil, messages)
			}
		}
	}
	for path, want := range map[string]string{"": "", "expectedOutput.entities[2].name": "expectedOutput.entities[2].name", "expectedOutput.entities[0].properties.Ada": "expectedOutput.entities[0].properties.…"} {
		if got := redactPath(path); got != want {
			t.Errorf("%q became %q, want %q", path, got, want)
		}
	}
}

// TestFromTraces_withdrawn checks that gold that a person rejects later stays in the dataset, and
// that the refusal names the item and the command that archives it.
func TestFromTraces_withdrawn(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		verdict := s.newScoreConfig("usable", "BOOLEAN")
		id := s.sendExtraction(0, "Ada lived in London.", gold("Ada", "London"))
		s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: true, Author: "bob"})
		seed := func() TraceResult {
			return s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Config: Config{IDPrefix: "p-", Redaction: mustRedaction(t, "fields: [nothing]")}})
		}
		if result := seed(); result.Created != 1 {
			t.Fatal(result.Err())
		}
		item := s.onlyItem().ID
		s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: false, Author: "eve"})
		if why := seed().refusals()[id]; !strings.Contains(why, "seed --dataset gold --archive "+item) || !strings.Contains(why, "eve") {
			t.Errorf("%q does not say how %s is taken out", why, item)
		}
		if _, err := Archive(t.Context(), s.Client, "gold", []string{item}); err != nil {
			t.Fatal(err)
		}
		if why := seed().refusals()[id]; !strings.Contains(why, "judged wrong") {
			t.Errorf("%q, of an item that is archived", why)
		}
	})
}

// TestFromTraces_correctionOfStep checks that the correction of an inner step does not correct the
// trace: with other evidence the item is made without it, and a warning says so; with the mapping
// that the message proposes the correction is the gold.
func TestFromTraces_correctionOfStep(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		id := s.sendExtraction(0, "Ada lived in London.", gold("Ada", "Rome"))
		verdict := s.newScoreConfig("validated", "BOOLEAN")
		s.annotate(embedded.Annotation{TraceID: id, ObservationID: spanID(0, 1), Correction: string(must(textutil.MarshalJSON(gold("Ada", "London")))), Author: "ann"})
		if why := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{}).refusals()[id]; !strings.Contains(why, `observation: {name: "llm", type: GENERATION}`) || strings.Contains(why, "no correction") {
			t.Errorf("%q", why)
		}
		s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: true, Author: "bob"})
		result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{})
		if result.Created != 1 || result.Report.Warnings.Kinds[PassedOver] != 1 {
			t.Errorf("%d created, %+v", result.Created, result.Report.Warnings)
		}
		mapping := Mapping{Observation: ObservationFilter{Name: "llm", Type: "GENERATION"}, Input: map[string]Paths{"document_text": {mustPath("input[1].content")}}}
		if _, err := Archive(t.Context(), s.Client, "gold", []string{s.onlyItem().ID}); err != nil { // a trace has one item
			t.Fatal(err)
		}
		if result = s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Mapping: mapping}); result.Created != 1 || result.Report.Warnings.Kinds[PassedOver] != 0 {
			t.Errorf("%v, %+v", result.Err(), result.Report.Warnings)
		}
	})
}

// TestFromTraces_queueOfObservations checks that two observations of one trace in a queue make one
// item, and that a warning names the observations.
func TestFromTraces_queueOfObservations(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		queue := s.newQueue("review")
		s.sendExtraction(0, "Ada lived in London.", gold("Ada", "London"))
		s.complete(queue, spanID(0, 0), "OBSERVATION")
		s.complete(queue, spanID(0, 1), "OBSERVATION")
		result := s.mustSeedTraces(Selection{Queue: "review"}, TraceConfig{})
		messages := ""
		for _, w := range result.Report.Warnings.First {
			if w.Kind == Repeated {
				messages += w.String()
			}
		}
		if result.Created != 1 || result.Report.Warnings.Kinds[Repeated] != 1 || !strings.Contains(messages, spanID(0, 0)) || !strings.Contains(messages, spanID(0, 1)) || !strings.Contains(messages, "queue review") {
			t.Errorf("%d created: %q", result.Created, messages)
		}
	})
}

// TestFromTraces_noStratum checks that a sample stratified by a key that no trace has gives a
// warning.
func TestFromTraces_noStratum(t *testing.T) {
	s := newServer(t)
	s.sendMany(3)
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0), traceID(1), traceID(2)}, Sample: 2, Stratify: "metadata.categroy"}, TraceConfig{Config: Config{DryRun: true}})
	if result.Report.Warnings.Kinds[NoStratum] != 1 || !strings.Contains(result.Report.Warnings.First[0].Message, "metadata.categroy") {
		t.Errorf("%+v", result.Report.Warnings)
	}
}

// sendMany sends n production traces with the same content.
func (s *server) sendMany(n int) {
	for i := range n {
		s.sendExtraction(i, "Ada lived in London.", gold("Ada", "London"))
	}
}

// TestMapper_unknownKeys checks that unknown keys of the gold are left out of the item with a
// warning.
func TestMapper_unknownKeys(t *testing.T) {
	out := (&mapper{cfg: TraceConfig{Config: Config{Dataset: "d"}, AcceptUnvalidated: true}}).item(sampleTrace(someInput, `{"entities":[],"relationships":[],"mood":1}`), nil)
	last := out.warnings[len(out.warnings)-1].Message
	if len(out.problems) > 0 || strings.Contains(string(out.item.Expected), "mood") || !strings.Contains(last, `are left out: "mood"`) {
		t.Errorf("%v, %q, %s", out.problems, last, out.item.Expected)
	}
}

// TestEvidenceSearch_countableHint checks that a refusal for lack of evidence names the existing
// tags and scores, and the flags that make them count.
func TestEvidenceSearch_countableHint(t *testing.T) {
	trace := langfuse.Trace{ID: "t", Tags: []string{"prod", "reviewed"}}
	on := func(name string, kind langfuse.ScoreType, value langfuse.ScoreValue, trace string) langfuse.Score {
		return langfuse.Score{Name: name, Type: kind, Value: value, Subject: langfuse.ScoreSubject{Kind: "trace", ID: trace}}
	}
	scores := []langfuse.Score{
		on("quality", langfuse.ScoreNumeric, langfuse.NumberValue(0.95), "t"), on("quality", langfuse.ScoreNumeric, langfuse.NumberValue(0.1), "t"),
		on("ok", langfuse.ScoreBoolean, langfuse.BoolValue(true), "t"), on("verdict", langfuse.ScoreCategorical, langfuse.TextValue("good"), "t"),
		on("elsewhere", langfuse.ScoreNumeric, langfuse.NumberValue(1), "another"),
	}
	w := evidenceSearch{trace: trace, scores: scores}
	const want = "tags: prod, reviewed (--accept-tag TAG makes one count); scores: quality = 0.95, ok = true, verdict = good (--accept-score 'NAME>=V'); --accept-unvalidated takes it as it is"
	if got := w.countableHint(); got != want {
		t.Errorf("%s", got)
	}
	w.private, w.trace.Tags = true, strings.Split("abcdefghijk", "")
	if got := w.countableHint(); !strings.Contains(got, "g, h and 3 more (--accept-tag") || strings.Contains(got, "good") {
		t.Errorf("%s", got)
	}
	if got := (evidenceSearch{}).countableHint(); !strings.HasPrefix(got, "tags: none (") || !strings.Contains(got, "scores: none (") {
		t.Errorf("%s", got)
	}
}

// TestParseScoreRule_operators checks that an unknown operator is an error with a suggestion.
func TestParseScoreRule_operators(t *testing.T) {
	for text, want := range map[string]string{
		"quality=>0.9":   "write 'quality>=0.9'",
		"quality =< 0.9": "write 'quality<=0.9'",
		"verdict<>good":  "write 'verdict!=good'",
		"verdict=!good":  "write 'verdict!=good'",
	} {
		_, err := ParseScoreRule(text)
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != 64 {
			t.Errorf("%q: %v does not say %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"a >= 0.9": "a>=0.9", "a==1": "a=1", "validated": "validated>=1", "verdict!=bad": "verdict!=bad", "a<2": "a<2"} {
		if r, err := ParseScoreRule(text); err != nil || r.Name+r.Operator+r.Value != want {
			t.Errorf("%q: %v %v", text, r, err)
		}
	}
}
