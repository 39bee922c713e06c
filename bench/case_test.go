package bench_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"extraction-experiment/bench"
)

// regressionRecord returns a valid regression record.
func regressionRecord() map[string]any {
	return map[string]any{
		"caseId": "grammar--pack--1--1a2b3c4d", "category": "json-parse", "documentText": "Alpha Beta", "instructions": "Extract Beta.",
		"targetSchema": map[string]any{"type": "object"}, "providerResponseText": `{"extractions":[]}`,
		"expected":  map[string]any{"emptyResultKind": "empty_by_evidence", "minExtractions": 0, "maxExtractions": 0},
		"sourceUrl": "https://example.org/source", "packId": "2026-02-15--grammar-pack--1a2b3c4d",
	}
}

func toJSON(t *testing.T, record map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestParse_malformed checks the errors for records that are invalid in one way each. The record is
// in line 3, after a valid one and an empty line.
func TestParse_malformed(t *testing.T) {
	first := regressionRecord()
	first["caseId"] = "first--pack--1--1a2b3c4d"
	expected := func(kind any, least, most any) map[string]any {
		return map[string]any{"emptyResultKind": kind, "minExtractions": least, "maxExtractions": most}
	}
	for want, change := range map[string]map[string]any{
		"caseId is missing": {"caseId": nil}, "caseId is empty": {"caseId": ""}, "caseId: expected a text": {"caseId": 7},
		"duplicate caseId": {"caseId": first["caseId"]}, `caseId: "UPPER" is not of the form`: {"caseId": "UPPER"},
		"category is missing": {"category": nil}, `category: "TODO" is a placeholder`: {"category": "TODO"},
		"documentText is missing": {"documentText": nil}, "documentText is empty": {"documentText": " "},
		"instructions is missing": {"instructions": nil}, `instructions: "tbd" is a placeholder`: {"instructions": "tbd"},
		"targetSchema is missing": {"targetSchema": nil}, "targetSchema: expected an object": {"targetSchema": "x"}, "targetSchema: ": {"targetSchema": map[string]any{"type": 7}},
		"no URLLoader registered":         {"targetSchema": map[string]any{"$ref": "file:///etc/passwd"}},
		"providerResponseText is missing": {"providerResponseText": nil}, "providerResponseText: expected a text": {"providerResponseText": map[string]any{}},
		"expected is missing":                              {"expected": nil},
		"expected: expected an object, got number":         {"expected": 7},
		"are all required":                                 {"expected": map[string]any{"emptyResultKind": "non_empty"}},
		`expected.emptyResultKind: "full" is not one of`:   {"expected": expected("full", 0, 1)},
		"non_empty cannot have from -1 to 1":               {"expected": expected("non_empty", -1, 1)},
		"non_empty cannot have from 2 to 1":                {"expected": expected("non_empty", 2, 1)},
		"non_empty cannot have from 0 to 0":                {"expected": expected("non_empty", 0, 0)},
		"empty_by_failure cannot have from 1 to 1":         {"expected": expected("empty_by_failure", 1, 1)},
		`unknown field "minimum"`:                          {"expected": map[string]any{"emptyResultKind": "non_empty", "minExtractions": 1, "maxExtractions": 1, "minimum": 1}},
		"expected.maxExtractions: expected a whole number": {"expected": expected("non_empty", 1, 1.5)},
		"sourceUrl is missing":                             {"sourceUrl": nil}, `sourceUrl: "not a url" is not an address`: {"sourceUrl": "not a url"},
		"packId is missing": {"packId": nil}, `packId: "pack" is not of the form`: {"packId": "pack"},
		"sourceQuote has 281 characters": {"sourceQuote": strings.Repeat("é", 281)}, "sourceQuote is empty": {"sourceQuote": ""},
		`the script "multi_pass_v9" is not known`:                    {"providerResponseText": `{"mode":"multi_pass_v9"}`},
		`multi_pass_v1 needs a text "repair"`:                        {"providerResponseText": `{"mode":"multi_pass_v1","draft":"x","failureKind":"json_pipeline"}`},
		`multi_pass_v1 needs a text "draft"`:                         {"providerResponseText": `{"mode":"multi_pass_v1","draft":null,"repair":"{}","failureKind":"json_pipeline"}`},
		`the failureKind "zzz" is not one of json_pipeline`:          {"providerResponseText": `{"mode":"multi_pass_v1","draft":"x","repair":"{}","failureKind":"zzz"}`},
		`needs a text "generateStructured"`:                          {"providerResponseText": `{"mode":"structured_split_v1","generate":"x"}`},
		`has no key "generated"; did you mean`:                       {"providerResponseText": `{"mode":"structured_split_v1","generate":"x","generateStructured":"x","generated":"x"}`},
		`the draft should fail with "json_pipeline" and`:             {"providerResponseText": `{"mode":"multi_pass_v1","draft":"{\"extractions\":[]}","repair":"{}","failureKind":"json_pipeline_failure"}`},
		`should fail with "quote_invariant" and does wi`:             {"providerResponseText": `{"mode":"multi_pass_v1","draft":"x","repair":"{}","failureKind":"quote_invariant"}`},
		"minExtractions: expected a whole number, got n":             {"expected": expected("non_empty", 1.5, 2)},
		`unknown field "documenttext"; did you mean "documentText"?`: {"documenttext": "x"},
	} {
		record := regressionRecord()
		maps.Copy(record, change)
		maps.DeleteFunc(record, func(_ string, v any) bool { return v == nil })
		_, err := bench.Parse(true, "r.jsonl", []byte(toJSON(t, first)+"\n\n"+toJSON(t, record)+"\n"))
		if err == nil || strings.Count(err.Error(), "r.jsonl: line ") != 1 || !strings.Contains(err.Error(), "r.jsonl: line 3: ") || !strings.Contains(err.Error(), want) || err.(interface{ ExitCode() int }).ExitCode() != 64 {
			t.Errorf("%v does not say %q at line 3", err, want)
		}
	}
	for want, text := range map[string]string{
		"x: line 1: expected one JSON object": "[1]", "line 2: expected one JSON object": "\n{", "there are no cases": "\n",
		"goldSpans[0]: QUOTE_MISMATCH":                             strings.Replace(smokeLine("a", "a b", "a"), `"quote":"a"`, `"quote":"b"`, 1),
		`unknown field "text"`:                                     strings.Replace(smokeLine("a", "a b", "a"), `"quote":"a"`, `"text":"a"`, 1),
		"goldSpans: expected a list; write []":                     `{"caseId":"a","documentText":"x","instructions":"i","targetSchema":{},"providerResponseText":"","goldSpans":null}`,
		`: the key "caseId" is given twice`:                        strings.Replace(smokeLine("a", "a b", "a"), `{"caseId"`, `{"caseId":"b","caseId"`, 1),
		`: the key "goldSpans[0].quote" is given twice`:            strings.Replace(smokeLine("a", "a b", "a"), `"quote"`, `"quote":"a","quote"`, 1),
		"object: it is not valid UTF-8":                            strings.Replace(smokeLine("a", "a b", "a"), "Extract letters", "Extract letters \xff", 1),
		"goldSpans.charStart: expected a whole number, got string": strings.Replace(smokeLine("a", "a b", "a"), `"charStart":0`, `"charStart":"0"`, 1),
		`unknown field "packId"`:                                   strings.Replace(smokeLine("a", "a b", "a"), `"caseId"`, `"packId":"p","caseId"`, 1),
		"goldSpans[0]: OFFSETS_OUT_OF_":                            strings.Replace(smokeLine("a", "a b", "a"), `"charEnd":1`, `"charEnd":9`, 1),
	} {
		if _, err := bench.Parse(false, "x", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v does not say %q", text, err, want)
		}
	}
}

func TestParse_all(t *testing.T) {
	text := "{}\n7\n" + toJSON(t, regressionRecord()) + "\n" + toJSON(t, regressionRecord())
	_, err := bench.Parse(false, "r", []byte(text))
	for _, want := range []string{"line 1: caseId is missing", "line 1: packId is missing", "line 2: expected one JSON object", "line 4: duplicate caseId"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// FuzzStored checks that the records of any stored answer quote the document unless they have a
// Code.
func FuzzStored(f *testing.F) {
	f.Add("a b", `{"extractions":[{"extractionClass":"letter","quote":"a","span":{"charStart":0,"charEnd":1}}]}`)
	f.Add("a", `{"mode":"multi_pass_v1","draft":"","repair":"{}","failureKind":"json_pipeline"}`)
	f.Add("𝒜", `{"mode":"structured_split_v1","generate":"","generateStructured":"{\"extractions\":[null]}"}`)
	f.Fuzz(func(t *testing.T, doc, answer string) {
		a, err := bench.Stored(doc, json.RawMessage(`{"type":"object"}`), answer)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range a.Records {
			if rec.Code == "" && (rec.Spans == nil || string([]rune(doc)[rec.Spans.Rune[0]:rec.Spans.Rune[1]]) != rec.Quote) {
				t.Fatalf("%+v does not quote %q", rec, doc)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`{"caseId":"a","documentText":"x","instructions":"i","targetSchema":{},"providerResponseText":"","goldSpans":[]}`)
	f.Add(`{"caseId":"a","caseId":[{"b":{},"b":[1,{"c":null}]}]}`)
	f.Add(`{"caseId":"a","documentText":"x","instructions":"i","targetSchema":{},"goldSpans":[],"providerResponseText":"{\"mode\":\"multi_pass_v1\"}"}`)
	f.Fuzz(func(t *testing.T, text string) {
		cases, err := bench.Parse(false, "f", []byte(text))
		if err == nil && len(cases) == 0 {
			t.Fatal("no case and no error")
		}
	})
}
