package configs

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// loadSample reads every item of the built-in dataset. Unknown keys are errors.
func loadSample(t *testing.T) []item {
	t.Helper()
	var items []item
	sc := bufio.NewScanner(OpenSample())
	for sc.Scan() {
		dec := json.NewDecoder(strings.NewReader(sc.Text()))
		dec.DisallowUnknownFields()
		var it item
		if err := dec.Decode(&it); err != nil {
			t.Fatalf("line %d: %v", len(items)+1, err)
		}
		if dec.More() {
			t.Fatalf("line %d: more than one value", len(items)+1)
		}
		items = append(items, it)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return items
}

func TestOpenSample(t *testing.T) {
	want, err := os.ReadFile("sample/" + SampleName + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second reader starts at the beginning again
		got, err := io.ReadAll(OpenSample())
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("Open gives %d bytes, the file has %d others", len(got), len(want))
		}
	}
	if SampleDescription == "" {
		t.Error("the description is empty")
	}
	if !strings.HasSuffix(string(want), "}\n") {
		t.Error("the file does not end with a complete line")
	}
}

func TestItems_keepTheGuideline(t *testing.T) {
	seen := map[string]bool{}
	for _, it := range loadSample(t) {
		if seen[it.ID] {
			t.Errorf("id %q is used twice", it.ID)
		}
		seen[it.ID] = true
		for _, problem := range guidelineProblems(it) {
			t.Errorf("%s: %s", it.ID, problem)
		}
	}
}

// TestItems_cover checks counts on which the README and users of the dataset rely. If a change of
// the data breaks one, both need a review.
func TestItems_cover(t *testing.T) {
	items := loadSample(t)
	languages, categories, relations := map[string]int{}, map[string]int{}, map[string]int{}
	var over700, over1200, empty, unannotated, entitiesOnly, aliased, hyphens int
	for _, it := range items {
		languages[it.Metadata.Language]++
		categories[it.Metadata.Category]++
		words, exp := len(strings.Fields(it.Input.Text)), it.Expected
		countIf(&over700, words > 700)
		countIf(&over1200, words > 1200)
		countIf(&unannotated, exp.Relationships == nil)
		none := exp.Relationships != nil && len(exp.Relationships) == 0
		countIf(&empty, none && exp.Entities != nil && len(exp.Entities) == 0)
		countIf(&entitiesOnly, none && len(exp.Entities) > 0)
		for _, e := range exp.Entities {
			countIf(&aliased, len(e.Aliases) > 0)
			countIf(&hyphens, strings.Contains(e.Name, "--"))
		}
		for _, r := range exp.Relationships {
			relations[r.Type]++
		}
		if exp.Entities == nil {
			t.Errorf("%s: entities are not annotated", it.ID)
		}
	}
	var symmetric, invertible int
	for name := range relations {
		countIf(&symmetric, slices.Contains(symmetricTypes, name))
		countIf(&invertible, slices.ContainsFunc(inverseTypes, func(p [2]string) bool { return p[0] == name || p[1] == name }))
	}
	foreign := len(items) - languages["en"]
	for what, c := range map[string]struct{ got, least, most int }{
		"items": {len(items), 26, 60}, "over 700 words": {over700, 3, 99}, "over 1,200 words": {over1200, 1, 99},
		"in German": {languages["de"], 1, 3}, "in Russian": {languages["ru"], 1, 3},
		"in Chinese": {languages["zh"], 1, 3}, "in Arabic": {languages["ar"], 1, 3},
		"not in English": {foreign, 4, 6}, "languages": {len(languages), 5, 5}, "categories": {len(categories), 9, 20},
		"nothing to find": {empty, 2, 5}, "relationships not annotated": {unannotated, 1, 1},
		"entities only": {entitiesOnly, 1, 3}, "entities with aliases": {aliased, 60, 999},
		"names with a double hyphen": {hyphens, 1, 99}, "symmetric types in use": {symmetric, 8, 9},
		"types with an inverse in use": {invertible, 14, 28},
	} {
		if c.got < c.least || c.got > c.most {
			t.Errorf("%s: %d, want %d to %d", what, c.got, c.least, c.most)
		}
	}
}

func countIf(n *int, when bool) {
	if when {
		*n++
	}
}

// TestGuidelineProblems breaks a good item in one way at a time, and checks that
// guidelineProblems finds it.
func TestGuidelineProblems(t *testing.T) {
	const good = `{"id": "good-item", "input": {"document_text": "Ann Lee (Lee) of Acme Ltd married Bo Lind.",
		"object_schemas": {"Person": {"name": "Person", "description": "a human"}, "Org": {"name": "Org", "description": "a body"}},
		"relationship_schemas": {
			"married_to": {"name": "married_to", "description": "spouse", "source_types": ["Person"], "target_types": ["Person"]},
			"employs": {"name": "employs", "description": "d", "source_types": ["Org"], "target_types": ["Person"]},
			"employed_by": {"name": "employed_by", "description": "d", "source_types": ["Person"], "target_types": ["Org"]}},
		"allowed_types": ["Person", "Org"]},
		"expectedOutput": {"entities": [{"name": "Ann Lee", "type": "Person", "aliases": ["Lee"]},
			{"name": "Bo Lind", "type": "Person"}, {"name": "Acme Ltd", "type": "Org"}],
			"relationships": [{"source_name": "Ann Lee", "target_name": "Bo Lind", "relationship_type": "married_to"},
				{"source_name": "Acme Ltd", "target_name": "Ann Lee", "relationship_type": "employs"}]},
		"metadata": {"document_category": "news", "difficulty": "easy", "language": "en"}}`
	addFact := func(it *item, source, kind, target string) {
		it.Expected.Relationships = append(it.Expected.Relationships, relationship{source, target, kind})
	}
	defects := map[string]struct {
		spoil func(*item)
		want  string // "" if there is no problem
	}{
		"none":             {func(*item) {}, ""},
		"other direction":  {func(it *item) { addFact(it, "Bo Lind", "employed_by", "Acme Ltd") }, ""},
		"id":               {func(it *item) { it.ID = "Good Item" }, "id"},
		"tab":              {func(it *item) { it.Input.Text += "\tx" }, "control"},
		"bad bytes":        {func(it *item) { it.Input.Text += "\xff." }, "control"},
		"difficulty":       {func(it *item) { it.Metadata.Difficulty = "so-so" }, "difficulty"},
		"language":         {func(it *item) { it.Metadata.Language = "" }, "language"},
		"allowed types":    {func(it *item) { it.Input.AllowedTypes = []string{"Person"} }, "allowed_types"},
		"absent name":      {func(it *item) { it.Expected.Entities[1].Name = "Bo Lint" }, "does not stand"},
		"part of a word":   {func(it *item) { it.Expected.Entities[1].Aliases = []string{"Lin"} }, "does not stand"},
		"absent alias":     {func(it *item) { it.Expected.Entities[0].Aliases = []string{"A. L."} }, "does not stand"},
		"shared name":      {func(it *item) { it.Expected.Entities[1].Aliases = []string{"Lee"} }, "belongs to"},
		"type":             {func(it *item) { it.Expected.Entities[0].Type = "Human" }, "not in the schema"},
		"end by alias":     {func(it *item) { it.Expected.Relationships[0].Source = "Lee" }, "names of two"},
		"self":             {func(it *item) { addFact(it, "Bo Lind", "married_to", "Bo Lind") }, "names of two"},
		"end type":         {func(it *item) { addFact(it, "Bo Lind", "employs", "Ann Lee") }, "allows"},
		"unknown relation": {func(it *item) { addFact(it, "Bo Lind", "knows", "Ann Lee") }, "not in the schema"},
		"copy":             {func(it *item) { addFact(it, "Acme Ltd", "employs", "Ann Lee") }, "twice"},
		"inverse copy":     {func(it *item) { addFact(it, "Ann Lee", "employed_by", "Acme Ltd") }, "twice"},
		"symmetric copy":   {func(it *item) { addFact(it, "Bo Lind", "married_to", "Ann Lee") }, "twice"},
	}
	for name, d := range defects {
		var it item
		if err := json.Unmarshal([]byte(good), &it); err != nil {
			t.Fatal(err)
		}
		d.spoil(&it)
		found := guidelineProblems(it)
		if d.want == "" && len(found) > 0 {
			t.Errorf("%s: reported %q", name, found)
		}
		if !strings.Contains(strings.Join(found, "; "), d.want) {
			t.Errorf("%s: found %q, want something with %q", name, found, d.want)
		}
	}
}
