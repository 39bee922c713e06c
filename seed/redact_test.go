package seed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

func mustRedaction(t interface{ Fatal(...any) }, text string) *Redaction {
	r, err := ParseRedaction([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// redacted returns the redacted item and the number of replacements by label.
func (r *Redaction) redacted(item dataset.Item) (dataset.Item, map[string]int, error) {
	item, w, err := r.redactItem(item)
	return item, w.placeholders.count, err
}

func TestRedaction_Item(t *testing.T) {
	tests := map[string]struct {
		patterns string
		item     dataset.Item
		want     dataset.Item
		count    map[string]int
	}{
		"the same everywhere, in any case": {
			`patterns: [{name: person, regex: 'Ada Lovelace'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"Ada Lovelace wrote. ADA  LOVELACE was first."}`),
				Expected: json.RawMessage(`{"entities":[{"name":"ada lovelace","type":"Person"}]}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"[PERSON-1] wrote. [PERSON-1] was first."}`),
				Expected: json.RawMessage(`{"entities":[{"name":"[PERSON-1]","type":"Person"}]}`)},
			map[string]int{"PERSON": 3},
		},
		"a match beyond the end of a gold name": {
			// The pattern matches "John Smith", and the gold is "Smith of London". Both still
			// agree, and the same part of the other "Smith of London" is covered.
			`patterns: [{name: p, regex: 'John Smith'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"John Smith of London. Smith of London left."}`),
				Expected: json.RawMessage(`{"entities":[{"name":"Smith of London"}]}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"[P-1][P-2] of London. [P-2] of London left."}`),
				Expected: json.RawMessage(`{"entities":[{"name":"[P-2] of London"}]}`)},
			map[string]int{"P": 4},
		},
		"a match around a gold name": {
			`patterns: [{name: p, regex: 'Mr\. \w+'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"Mr. Smith left. Smith came."}`),
				Expected: json.RawMessage(`{"entities":[{"name":"Smith"}]}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"[P-1][P-2] left. [P-2] came."}`),
				Expected: json.RawMessage(`{"entities":[{"name":"[P-2]"}]}`)},
			map[string]int{"P": 4},
		},
		"a group alone, found elsewhere too": {
			`patterns: [{name: patient, regex: 'Patient: (?P<take>\w+ \w+)'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"Patient: Jo Doe\nJo Doe is well."}`),
				Metadata: json.RawMessage(`{"note":"seen jo doe"}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"Patient: [PATIENT-1]\n[PATIENT-1] is well."}`),
				Metadata: json.RawMessage(`{"note":"seen [PATIENT-1]"}`)},
			map[string]int{"PATIENT": 3},
		},
		"a group without a name narrows nothing": {
			`patterns: [{name: mail, regex: '\w+@\w+(\.\w+)+'}, {name: no, regex: 'x(?P<take>y)|Jo Doe'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"Jo Doe: jo@example.org"}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"[NO-1]: [MAIL-1]"}`)},
			map[string]int{"MAIL": 1, "NO": 1},
		},
		"overlapping matches: the first pattern wins": {
			`patterns: [{name: mail, regex: '\w+@\w+'}, {name: word, regex: 'ada'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"ada@x and ada"}`)},
			// The secret of the pattern word is a part of the secret of mail.
			dataset.Item{Input: json.RawMessage(`{"document_text":"[MAIL-1] and [WORD-1]"}`)},
			map[string]int{"MAIL": 1, "WORD": 1},
		},
		"fields, numbers too": {
			`fields: [ssn, user.name]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"No 12345 of Bo."}`),
				Metadata: json.RawMessage(`{"ssn":12345,"user":{"name":"Bo"},"name":"kept"}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"No [SSN-1] of [USER_NAME-1]."}`),
				Metadata: json.RawMessage(`{"name":"kept","ssn":"[SSN-1]","user":{"name":"[USER_NAME-1]"}}`)},
			map[string]int{"SSN": 2, "USER_NAME": 2},
		},
		"fields inside texts of JSON, and with dots in their keys": {
			`{patterns: [{name: mail, regex: '\w+@\w+'}], fields: [ssn, user.name, metadata.card.no]}`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"Bo and Zoë, 12345, 77."}`),
				Metadata: json.RawMessage(`{"a":"{\"ssn\": 12345, \"user\": {\"name\": \"Zo\\u00eb\"}, \"by\": \"x\\u0040y\"}","card":"{\"no\":\"77\"}","b":"[\"{\\\"ssn\\\":\\\"12345\\\"}\"]","user.name":"Bo","name":"kept"}`)},
			// A field in a JSON text inside a JSON text is removed with that whole inner text.
			dataset.Item{Input: json.RawMessage(`{"document_text":"[USER_NAME-1] and [USER_NAME-2], [SSN-1], [METADATA_CARD_NO-1]."}`),
				Metadata: json.RawMessage(`{"a":"{\"ssn\": [SSN-1], \"user\": {\"name\": \"[USER_NAME-3]\"}, \"by\": \"[MAIL-1]\"}","b":"[\"[SSN-2]\"]","card":"{\"no\":\"[METADATA_CARD_NO-1]\"}","name":"kept","user.name":"[USER_NAME-1]"}`)},
			map[string]int{"SSN": 3, "USER_NAME": 4, "METADATA_CARD_NO": 2, "MAIL": 1},
		},
		"an anchored pattern inside a text of JSON": {
			`patterns: [{name: phone, regex: '^\+[0-9]+$'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"x"}`),
				Metadata: json.RawMessage(`{"a":"{\"phone\":\"+491234\",\"other\":\"call +491235\"}"}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"x"}`),
				Metadata: json.RawMessage(`{"a":"{\"phone\":\"[PHONE-1]\",\"other\":\"call +491235\"}"}`)},
			map[string]int{"PHONE": 1},
		},
		"a secret of elsewhere in texts of JSON with escapes": {
			`patterns: [{name: p, regex: 'Patient: (?P<take>\p{L}+ \p{L}+)'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"Patient: Zoë Müller."}`),
				Metadata: json.RawMessage(`{"a":"{\"by\": \"Zo\\u00eb M\\u00fcller\"}",` +
					`"b":"[\"[\\\"ZO\\\\u00cb\\\\nM\\u00fcller\\\"]\"]","c":"[\"Zo\\u00eb\", \"of Zoë Müller\\nM\\u00fcller\"]"}`)},
			// A hidden one takes the whole inner text with it, as a field does.
			dataset.Item{Input: json.RawMessage(`{"document_text":"Patient: [P-1]."}`),
				Metadata: json.RawMessage(`{"a":"{\"by\": \"[P-2]\"}","b":"[\"[P-3]\"]","c":"[\"Zo\\u00eb\", \"of [P-1]\\nM\\u00fcller\"]"}`)},
			map[string]int{"P": 4},
		},
		"links to Langfuse, and other texts in their place": {
			`patterns: [{name: date, regex: '\d{4}-\d\d-\d\d'}, {name: no, regex: '\d{5,}'}, {name: mail, regex: '\w+@\w+'}]`,
			dataset.Item{Metadata: json.RawMessage(`{"evidence":{"kind":"queue","id":"cm123456789abcdefghijklmn",` +
				`"time":"2026-11-20T09:00:00.5Z","observation":"12345678-0000-4000-8000-123456789abc","author":"a@x"},` +
				`"source_trace_id":"0123456789abcdef0123456789abcdef",` +
				`"review":[{"verdict":"corrected","gold":"1234567890abcdef","findings":["123456789abc"],` +
				`"at":"2026-11-20T09:00:00Z","trace":"0123456789abcdef0123456789abcdef","by":"a@x"},{"at":"2026-11-20"}]}`)},
			dataset.Item{Metadata: json.RawMessage(`{"evidence":{"kind":"queue","id":"cm123456789abcdefghijklmn",` +
				`"time":"2026-11-20T09:00:00.5Z","observation":"12345678-0000-4000-8000-123456789abc","author":"[MAIL-1]"},` +
				`"source_trace_id":"0123456789abcdef0123456789abcdef",` +
				`"review":[{"verdict":"corrected","gold":"1234567890abcdef","findings":["123456789abc"],` +
				`"at":"2026-11-20T09:00:00Z","trace":"0123456789abcdef0123456789abcdef","by":"[MAIL-1]"},{"at":"[DATE-1]"}]}`)},
			map[string]int{"MAIL": 2, "DATE": 1},
		},
		"metadata of one's own under the keys of evidence": {
			`patterns: [{name: mail, regex: '\w+@\w+'}, {name: no, regex: '\d{5,}'}]`,
			dataset.Item{Metadata: json.RawMessage(`{"evidence":{"kind":"mail from a@x","id":"471147",` +
				`"time":"a@x","observation":471148}}`)},
			dataset.Item{Metadata: json.RawMessage(`{"evidence":{"kind":"mail from [MAIL-1]","id":"[NO-1]",` +
				`"time":"[MAIL-1]","observation":"[NO-2]"}}`)},
			map[string]int{"MAIL": 2, "NO": 2},
		},
		"a number that stands there already is another's": {
			`patterns: [{name: mail, regex: '\w+@\w+'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"[MAIL-1] and [mail-2] wrote to a@b."}`), Metadata: json.RawMessage(`{"note":"[MAIL-3]"}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"[MAIL-1] and [mail-2] wrote to [MAIL-4]."}`), Metadata: json.RawMessage(`{"note":"[MAIL-3]"}`)},
			map[string]int{"MAIL": 1},
		},
		"mentions move": {
			`patterns: [{name: p, regex: 'Ada'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"Ada met Bob."}`),
				Expected: json.RawMessage(`{"entities":[{"name":"Bob","mentions":[{"quote":"Bob","start":8,"end":11}]},{"name":"Ada","mentions":[{"quote":"Ada","start":0,"end":3}]}]}`)},
			// "[P-1] met Bob.": Bob begins at 10.
			dataset.Item{Input: json.RawMessage(`{"document_text":"[P-1] met Bob."}`),
				Expected: json.RawMessage(`{"entities":[{"mentions":[{"end":13,"quote":"Bob","start":10}],"name":"Bob"},{"mentions":[{"end":5,"quote":"[P-1]","start":0}],"name":"[P-1]"}]}`)},
			map[string]int{"P": 3}, // text, name and quote
		},
		"what only looks like the place of a mention": {
			`patterns: [{name: p, regex: 'Ada'}, {name: n, regex: '4711'}]`,
			dataset.Item{Input: json.RawMessage(`{"document_text":"x","mentions":[{"start":"Ada","end":4711}]}`),
				Expected: json.RawMessage(`{"entities":[{"name":"x","mentions":[{"quote":"x","start":"Ada","end":4711}]}]}`),
				Metadata: json.RawMessage(`{"mentions":{"end":"Ada"}}`)},
			dataset.Item{Input: json.RawMessage(`{"document_text":"x","mentions":[{"start":"[P-1]","end":"[N-1]"}]}`),
				Expected: json.RawMessage(`{"entities":[{"name":"x","mentions":[{"quote":"x","start":"[P-1]","end":4711}]}]}`),
				Metadata: json.RawMessage(`{"mentions":{"end":"[P-1]"}}`)},
			map[string]int{"P": 3, "N": 1},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, count, err := mustRedaction(t, tt.patterns).redacted(tt.item)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range []struct {
				name      string
				got, want json.RawMessage
			}{{"input", got.Input, tt.want.Input}, {"expected", got.Expected, tt.want.Expected}, {"metadata", got.Metadata, tt.want.Metadata}} {
				if diff := cmp.Diff(canonical(t, f.want), canonical(t, f.got)); diff != "" {
					t.Errorf("%s: %s", f.name, diff)
				}
			}
			if diff := cmp.Diff(tt.count, count); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func canonical(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	b, err := dataset.Canonical(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRedaction_key(t *testing.T) {
	item := dataset.Item{Input: json.RawMessage(`{"document_text":"Ada"}`), Metadata: json.RawMessage(`{"by":{"Ada":1}}`)}
	_, _, err := mustRedaction(t, `patterns: [{name: p, regex: 'Ada'}]`).redacted(item)
	if err == nil || !strings.Contains(err.Error(), "key") || strings.Contains(err.Error(), "Ada") {
		t.Errorf("%v: a key with a secret must be refused, without naming it", err)
	}
}

func TestParseRedaction_problems(t *testing.T) {
	tests := map[string]string{
		"":                                      "neither a pattern nor a field",
		`patterns: [{name: a, regex: '('}]`:     "missing closing",
		`patterns: [{name: 'a b', regex: 'x'}]`: "letters, digits",
		`{patterns: [{regex: 'x'}], fields: ['.']}`:          "empty",
		`patterns: [{name: a}]`:                              "regex is missing",
		`{fields: [ssn, ssn]}`:                               "twice",
		`{patterns: [{name: ssn, regex: a}], fields: [ssn]}`: "twice, by patterns or fields",
		`pattern: x`: "pattern",
	}
	for text, want := range tests {
		_, err := ParseRedaction([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if cli.ExitCode(err) != 64 {
			t.Errorf("%q: %v has not exit code 64", text, err)
		}
	}
}

// TestRedaction_agrees checks, for any text, gold and patterns, that nothing that a pattern matched
// is left, that gold that was in the text is still in it, that ends of relationships are still
// names of their entities, and that mentions quote the text.
func TestRedaction_agrees(t *testing.T) {
	const alphabet = "aAbBé ß-.1"
	patterns := []string{`a`, `ab`, `b\W`, `\b\w`, `[ab]+`, `^.b`, `1.`, `é`, `(?:a|b) (?P<take>\w+)`, `ss|ß`, `.$`, `b a`}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune(alphabet)), 1, 30, -1).Draw(t, "text")
		runes := []rune(text)
		var entities []extraction.Entity
		for range rapid.IntRange(1, 4).Draw(t, "entities") {
			from := rapid.IntRange(0, len(runes)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, min(len(runes), from+6)).Draw(t, "to")
			quote := string(runes[from:to])
			entities = append(entities, extraction.Entity{Name: quote, Mentions: []extraction.Span{{Quote: quote, Start: from, End: to}}})
		}
		var relationships []extraction.Relationship
		for _, e := range entities {
			relationships = append(relationships, extraction.Relationship{Source: e.Name, Target: entities[0].Name, Type: "R"})
		}
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(patterns), 1, 3, rapid.ID[string]).Draw(t, "patterns")
		file := "patterns:\n"
		for i, p := range chosen {
			file += fmt.Sprintf("  - {name: Q%d, regex: '%s'}\n", i, p)
		}
		r := mustRedaction(t, file)
		input, _ := textutil.MarshalJSON(map[string]any{"document_text": text})
		expected, _ := textutil.MarshalJSON(extraction.Extraction{Entities: entities, Relationships: relationships})
		got, _, err := r.redacted(dataset.Item{Input: input, Expected: expected})
		if err != nil {
			return // a key holds a secret
		}
		checkAgreement(t, r, text, entities, got)
	})
}

func checkAgreement(t *rapid.T, r *Redaction, text string, before []extraction.Entity, got dataset.Item) {
	document, _, err := extraction.DecodeDocument(got.Input)
	if err != nil {
		t.Skip("nothing but white space")
	}
	after, _, err := extraction.DecodeExtraction(got.Expected)
	if err != nil {
		t.Fatal(err)
	}
	r.matches(text, func(from, to int, _ byte) {
		found := newMask(text[from:to]).folded
		for at := range newMask(replacePlaceholders(document.Text)).occurrences(found) {
			t.Fatalf("%q is left in %q, of %q (at %d)", text[from:to], document.Text, text, at)
		}
	})
	folded := newMask(text)
	for i, e := range after.Entities {
		name := newMask(before[i].Name).folded
		inText := false
		for at := range folded.occurrences(name) { // another spelling is another name
			inText = inText || folded.original(at, at+len(name)) == newMask(before[i].Name).original(0, len(name))
		}
		if inText && !strings.Contains(textutil.FoldName(document.Text), textutil.FoldName(e.Name)) {
			t.Fatalf("%q became %q, which is not in %q, of %q", before[i].Name, e.Name, document.Text, text)
		}
		if after.Relationships[i].Source != e.Name || after.Relationships[i].Target != after.Entities[0].Name {
			t.Fatalf("%+v do not name %+v", after.Relationships[i], after.Entities)
		}
		m := e.Mentions[0]
		if quote := string([]rune(document.Text)[m.Start:m.End]); quote != m.Quote {
			t.Fatalf("mention %+v stands where the text has %q", m, quote)
		}
	}
}

// replacePlaceholders replaces the placeholders by a letter that no pattern matches.
func replacePlaceholders(text string) string {
	for label := range 3 {
		for n := range 60 {
			text = strings.ReplaceAll(text, fmt.Sprintf("[Q%d-%d]", label, n), "z")
		}
	}
	return text
}

// occurrences yields every position of the folded text part in the mask, also if they overlap. A
// text of fewer than three characters must be a whole word.
func (m *mask) occurrences(part string) iter.Seq[int] {
	wholeWord := utf8.RuneCountInString(part) < 3
	return func(yield func(int) bool) {
		for at := 0; part != "" && at+len(part) <= len(m.folded); {
			i := strings.Index(m.folded[at:], part)
			if i < 0 {
				return
			}
			at += i
			if (!wholeWord || m.isWord(at, at+len(part))) && !yield(at) {
				return
			}
			_, width := utf8.DecodeRuneInString(m.folded[at:])
			at += width
		}
	}
}

// TestRedaction_bounded checks that redaction ends with an item or an error, however much the
// patterns match.
func TestRedaction_bounded(t *testing.T) {
	var words, runs strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&words, "w%d ", i)
	}
	for i := range 700 { // every run occurs in all longer ones: 699³/6, 57 million occurrences
		runs.WriteString(strings.Repeat("a", i) + " ")
	}
	for name, tt := range map[string]struct {
		text, pattern string
		refused       bool
	}{
		"every word": {words.String(), `\w+`, false}, "every run": {runs.String(), `a+`, true},
		"every letter": {words.String(), `.`, false}, "all": {words.String(), `(?s).+`, false},
	} {
		input := must(textutil.MarshalJSON(map[string]any{"document_text": tt.text}))
		expected := must(textutil.MarshalJSON(map[string]any{"entities": []any{map[string]any{"name": tt.text[:100]}, map[string]any{"name": "a"}, map[string]any{"name": "w1"}}}))
		_, count, err := mustRedaction(t, "patterns: [{name: p, regex: '"+tt.pattern+"'}]").redacted(dataset.Item{Input: input, Expected: expected})
		if errors.Is(err, errTooMuch) != tt.refused || err == nil && count["P"] == 0 {
			t.Errorf("%s: %d replacements, %v", name, count["P"], err)
		}
	}
}

// TestParseRedaction_documented checks that the pattern file in docs/seeding.md does what the page
// says.
func TestParseRedaction_documented(t *testing.T) {
	page, err := os.ReadFile("../docs/seeding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(page), "--redact FILE`\n")
	_, part, opens := strings.Cut(part, "```yaml\n")
	file, _, closes := strings.Cut(part, "```")
	if !found || !opens || !closes {
		t.Fatal("docs/seeding.md shows no file of patterns")
	}
	item := dataset.Item{
		Input:    json.RawMessage(`{"document_text":"Patient: Jo Doe\nMail jo.doe+x@mail.example.org, no 078-05-1120, Kim."}`),
		Metadata: json.RawMessage(`{"ssn":"078-05-1120","user":{"name":"Kim"}}`),
	}
	got, _, err := mustRedaction(t, file).redacted(item)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"document_text":"Patient: [PATIENT-1]\nMail [EMAIL-1], no [SSN-1], [METADATA_USER_NAME-1]."}`
	if string(got.Input) != want || strings.Contains(string(got.Metadata), "Kim") || strings.Contains(string(got.Metadata), "078") {
		t.Errorf("%s\n%s", got.Input, got.Metadata)
	}
}

// TestFromTraces_redaction checks that with a redaction no request and nothing shown has a secret,
// and that the gold is still in the text.
func TestFromTraces_redaction(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		secrets := []string{"Ada Lovelace", "ADA LOVELACE", "ada@example.org", "555-0199", "Lovelace", "K-4711"}
		const text = "Patient: Ada Lovelace\nMail ada@example.org, call 555-0199. ADA  LOVELACE lived in London. File K-4711 of Lovelace House."
		answer := map[string]any{
			"entities": []any{
				map[string]any{"name": "Ada Lovelace", "type": "Person", "aliases": []any{"Lovelace", "ada@example.org"}},
				map[string]any{"name": "Lovelace House", "type": "Building"}, map[string]any{"name": "London", "type": "City"}},
			"relationships": []any{map[string]any{"source_name": "Ada Lovelace", "target_name": "Lovelace House", "relationship_type": "owns"}},
		}
		id := s.sendExtraction(0, text, nil)
		s.correct(id, answer)
		mapping := Mapping{Metadata: map[string]Paths{"file": {mustPath("trace.output.file")}, "prompt": {mustPath("input.document_text")}}}
		redaction := mustRedaction(t, `
patterns:
  - {name: person, regex: 'Patient:\s+(?P<take>\w+ \w+)'}
  - {name: family, regex: '\bLovelace\b'}
  - {name: mail, regex: '[\w.]+@[\w.]+\w'}
  - {name: phone, regex: '\d{3}-\d{4}'}
  - {name: file, regex: 'K-\d+'}
`)
		s.mu.Lock()
		s.sent = &bytes.Buffer{}
		s.mu.Unlock()
		var shown bytes.Buffer
		cfg := TraceConfig{Config: Config{Redaction: redaction}, Mapping: mapping, Show: func(one Seeded) { shown.Write(must(textutil.MarshalJSON(one))) }}
		result := s.mustSeedTraces(Selection{IDs: []string{id}}, cfg)
		if result.Created != 1 || result.Err() != nil || result.Redacted["MAIL"] == 0 || result.Redacted["PERSON"] == 0 {
			t.Fatalf("%+v", result)
		}
		everything := s.sent.String() + shown.String() + fmt.Sprint(result.Report)
		if !strings.Contains(everything, "[PERSON-1]") {
			t.Fatalf("nothing was recorded: %s", everything)
		}
		for _, secret := range secrets {
			if strings.Contains(textutil.FoldName(everything), textutil.FoldName(secret)) {
				t.Errorf("%q left: %s", secret, everything)
			}
		}
		item := s.onlyItem()
		document, _, err := extraction.DecodeDocument(item.Input)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := extraction.DecodeExtraction(item.ExpectedOutput)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.Entities {
			for _, name := range append([]string{e.Name}, e.Aliases...) {
				if !strings.Contains(document.Text, name) {
					t.Errorf("%q is not in %q", name, document.Text)
				}
			}
		}
		if got.Relationships[0].Source != got.Entities[0].Name || got.Relationships[0].Target != got.Entities[1].Name {
			t.Errorf("%+v", got)
		}
		if again := s.mustSeedTraces(Selection{IDs: []string{id}}, cfg); again.Unchanged != 1 {
			t.Errorf("again: %+v", again.Result)
		}
	})
}

// TestFile_redaction checks that with a redaction nothing that is sent or reported about a file has
// a secret: neither texts, gold and metadata nor derived ids, warnings and problems.
func TestFile_redaction(t *testing.T) {
	const good = `{"id":"a","input":{"document_text":"Ada (ada@x.org) was born in London."},"expectedOutput":{"entities":[` +
		`{"name":"Ada","mentions":[{"quote":"Ada","start":0,"end":3}]}],"relationships":[]},"metadata":{"ssn":4711,"by":"4711 of ADA@X.ORG"}}
{"input":{"document_text":"Call bo@x.org."},"expectedOutput":{"entities":[],"relationships":[]}}
{"input":{"document_text":"Call cy@x.org."},"expectedOutput":{"entities":[{"name":"nobody@x.org"}],"relationships":[]}}
{"input":{"document_text":"Call dee@x.org, please."},"expectedOutput":{"entities":[],"relationships":[]},"status":"hal@x.org"}
`
	const bad = `{"id":"eve@x.org","input":{"document_text":"Eve"}}
{"id":"f","input":{"document_text":"F"},"metadata":{"fay@x.org":1}}
{"id":"g","input":{"document_text":"G"},"gus@x.org":1
`
	cfg := Config{KeepGoing: true, Redaction: mustRedaction(t, "{patterns: [{name: mail, regex: '[a-z]+@x[.]org'}, {name: name, regex: 'Ada'}], fields: [ssn]}")}
	s := newServer(t)
	s.mu.Lock()
	s.sent = &bytes.Buffer{}
	s.mu.Unlock()
	result, err := s.seed(good+bad, cfg)
	if err != nil || counts(result) != [4]int{3, 0, 0, 4} { // refused: line 3, and those of bad
		t.Fatalf("%v after %v: %+v", err, counts(result), result.Report)
	}
	everything := s.sent.String() + fmt.Sprint(result.Report, result.Err())
	for _, secret := range []string{"ada (", `"ada"`, "bo@", "cy@", "nobody", "dee", "eve@", "fay", "gus@", "4711", "x.org"} {
		if strings.Contains(strings.ToLower(everything), secret) {
			t.Errorf("%q left: %s", secret, everything)
		}
	}
	// After redaction lines 2 and 3 have the same input, and neither has an id.
	for _, want := range []string{
		"line 3: redacting: has the same input as line 2 once both are redacted, and no id", "line 5: redacting: its id holds what MAIL takes out",
		"line 6: redacting: a key of an object holds what MAIL takes out", "line 7: ",
	} {
		if !strings.Contains(everything, want) {
			t.Errorf("%s does not say %q", everything, want)
		}
	}
	// SSN: the field and its other occurrence. MAIL: in the metadata, in lines 2 and 4, and in the
	// text of line 1, where the gold name is only a part of it in other letters. NAME: in the text,
	// and as name and quote.
	if want := map[string]int{"MAIL": 4, "NAME": 3, "SSN": 2}; !reflect.DeepEqual(result.Redacted, want) {
		t.Errorf("replaced %v, want %v", result.Redacted, want)
	}
	items := map[string]langfuse.DatasetItem{}
	for stored, err := range StoredItems(t.Context(), s.Client, "docs") {
		if err != nil {
			t.Fatal(err)
		}
		items[stored.ID] = stored
		if derived, err := dataset.DeriveID(itemOf(stored)); stored.ID != "a" && (err != nil || derived != stored.ID) {
			t.Errorf("%s: the id is not that of what was sent, %s, %v", stored.ID, derived, err)
		}
	}
	if got := string(items["a"].Input); !strings.Contains(got, "was born in London") {
		t.Error(got)
	}
	if again, err := s.seed(good, cfg); err != nil || counts(again) != [4]int{0, 0, 3, 1} {
		t.Errorf("again: %v, %v", counts(again), err)
	}
}

// TestFromTraces_redactedAuthor checks that neither the item nor anything shown has the author of
// an annotation if a pattern matches it or it is a redacted field.
func TestFromTraces_redactedAuthor(t *testing.T) {
	s := newServer(t)
	id := s.sendExtraction(0, "Ada lived in London.", gold("Ada", "London"))
	s.annotate(embedded.Annotation{TraceID: id, ConfigID: s.newScoreConfig("validated", "BOOLEAN"), Value: true, Author: "bob@example.org"})
	for want, patterns := range map[string]string{"[MAIL": `patterns: [{name: mail, regex: '\w+@[\w.]+'}]`, "[EVIDENCE_AUTHOR": "fields: [evidence.author]"} {
		text := ""
		show := func(one Seeded) { text += string(must(textutil.MarshalJSON(one))) }
		result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Config: Config{DryRun: true, Redaction: mustRedaction(t, patterns)}, Show: show})
		if result.Created != 1 || strings.Contains(text, "bob") || !strings.Contains(text, want) {
			t.Errorf("%s: %v, %s", patterns, result.Err(), text)
		}
	}
}

// TestFromTraces_unredacted checks that a trace with a secret in a key is refused without quoting
// the secret, because it cannot be removed, also if the pattern only matches elsewhere.
func TestFromTraces_unredacted(t *testing.T) {
	for text, pattern := range map[string]string{
		"Ada lived in London.": "Ada", "Patient: Ada lived in London.": `'Patient: (?P<take>\w+)'`,
	} {
		s := newServer(t)
		id := s.sendExtraction(0, text, nil)
		answer := gold("Ada", "London")
		answer["entities"].([]any)[0].(map[string]any)["properties"] = map[string]any{"Ada": true}
		s.correct(id, answer)
		redaction := mustRedaction(t, "patterns: [{name: p, regex: "+pattern+"}]")
		result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Config: Config{Redaction: redaction}})
		why := result.refusals()[id]
		if result.Refused != 1 || !strings.Contains(why, "key of an object") || strings.Contains(why, "Ada") {
			t.Errorf("%s: %q", pattern, why)
		}
	}
}

// TestFromTraces_observation checks that the mapping chooses the observation by name and type, and
// of several the one with an annotation.
func TestFromTraces_observation(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		attempt := func(k int, city string) span {
			return span{id: spanID(0, k), parent: spanID(0, 0), name: "llm", kind: "generation",
				input: []any{map[string]any{"role": "user", "content": "Ada lived in " + city + "."}}, output: "```json\n" + string(must(textutil.MarshalJSON(gold("Ada", city)))) + "\n```"}
		}
		s.sendTrace(traceID(0), span{id: spanID(0, 0), name: "request", input: "ignored", output: "ignored"}, attempt(1, "Rome"), attempt(2, "London"), attempt(3, "Paris"),
			span{id: spanID(0, 4), parent: spanID(0, 0), name: "store", input: "x"})
		mapping := Mapping{Observation: ObservationFilter{"llm", "GENERATION"}, Input: map[string]Paths{"document_text": {mustPath("input[?role=user].content")}},
			Constant: map[string]any{"object_schemas": schemas}}
		seed := func() TraceResult {
			return s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: mapping})
		}
		if why := seed().refusals()[traceID(0)]; !strings.Contains(why, "nothing shows") {
			t.Errorf("%q", why)
		}
		verdict := s.newScoreConfig("validated", "BOOLEAN")
		s.annotate(approval(0, 4, verdict))
		if why := seed().refusals()[traceID(0)]; !strings.Contains(why, "is about the observation "+spanID(0, 4)+", which is another") {
			t.Errorf("%q", why)
		}
		s.annotate(approval(0, 2, verdict))
		if result := seed(); result.Err() != nil || result.Created != 1 {
			t.Fatalf("%v", result.Err())
		}
		item := s.onlyItem()
		if item.SourceObservationID != spanID(0, 2) || !strings.Contains(string(item.Input), "Ada lived in London.") || !strings.Contains(string(item.ExpectedOutput), "London") {
			t.Errorf("%+v", item)
		}
		mapping.Observation.Name = "nothing"
		if why := seed().refusals()[traceID(0)]; !strings.Contains(why, `{name: "nothing"`) || !strings.Contains(why, "store (SPAN)") {
			t.Errorf("%q", why)
		}
	})
}

// TestMapper_correctedPart checks that a correction is read in the form of the output that it
// corrects.
func TestMapper_correctedPart(t *testing.T) {
	s := newServer(t)
	s.sendTrace(traceID(0), span{id: spanID(0, 0), name: "request", input: map[string]any{"request": map[string]any{"body": "Ada lived in London."}},
		output: map[string]any{"status": 200, "result": gold("Ada", "Rome")}})
	mapping := Mapping{Input: map[string]Paths{"document_text": {mustPath("input.request.body")}}, Expected: Paths{mustPath("output.result")}}
	s.correct(traceID(0), map[string]any{"status": 200, "result": gold("Ada", "London")})
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: mapping})
	if result.Err() != nil || !strings.Contains(string(s.onlyItem().ExpectedOutput), "London") {
		t.Errorf("%v, %s", result.Err(), s.onlyItem().ExpectedOutput)
	}
}

// TestMapper_correctionBesideThePath checks that a correction counts even if the mapping takes the
// gold from another place than the output.
func TestMapper_correctionBesideThePath(t *testing.T) {
	s := newServer(t)
	s.sendTrace(traceID(0), span{id: spanID(0, 0), name: "request", input: map[string]any{"text": "Ada lived in London.", "guess": gold("Ada", "Rome")}, output: "done"})
	s.correct(traceID(0), gold("Ada", "London"))
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: Mapping{Expected: Paths{mustPath("input.guess")}}})
	if result.Err() != nil || !strings.Contains(string(s.onlyItem().ExpectedOutput), "London") {
		t.Errorf("%v, %s", result.Err(), s.onlyItem().ExpectedOutput)
	}
	s.annotate(embedded.Annotation{TraceID: traceID(0), Correction: "nothing at all", Author: "ann"})
	result = s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: Mapping{Expected: Paths{mustPath("input.guess")}}})
	if result.Report.Problems.Kinds[NotJSON] != 1 {
		t.Errorf("%v: the newest correction is not JSON", result.Err())
	}
}

func must(raw []byte, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return raw
}

func TestItemID(t *testing.T) {
	ids := map[string]bool{}
	for _, parts := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"a", "bc", ""}, {"", "ab", "c"}, {"a", "b", "d"}, {"1:a", "b", "c"}} {
		id := itemID(parts[0], parts[1], parts[2])
		if ids[id] || id != itemID(parts[0], parts[1], parts[2]) || dataset.ValidID(id) != nil {
			t.Errorf("%q: %s", parts, id)
		}
		ids[id] = true
	}
}

// TestFromTraces_redactedField checks that a field of the metadata is found in nested objects and
// in JSON texts.
func TestFromTraces_redactedField(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		s.sendTrace(traceID(0), span{id: spanID(0, 0), name: "extract", input: map[string]any{"document_text": "Kim lived in London."},
			attributes: map[string]string{"langfuse.trace.metadata.customer": `{"user":{"name":"Kim"},"ssn":471147114711}`}})
		s.correct(traceID(0), gold("Kim", "London"))
		cfg := TraceConfig{Mapping: Mapping{Metadata: map[string]Paths{"customer": {mustPath("trace.metadata.customer")}}}, Config: Config{Redaction: mustRedaction(t, "fields: [user.name, ssn]")}}
		if result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, cfg); result.Created != 1 {
			t.Fatal(result.Err())
		}
		item := s.onlyItem()
		all := string(item.Input) + string(item.ExpectedOutput) + string(item.Metadata)
		if strings.Contains(all, "Kim") || strings.Contains(all, "471147114711") || !strings.Contains(string(item.Metadata), "[SSN-1]") {
			t.Error(all)
		}
	})
}
