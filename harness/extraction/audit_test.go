package extraction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/scoring"
)

// TestRates_doubt checks the doubt of claims about two systems. The prior odds p/(1-p) are 1/19,
// and 1 for suspect gold. Systems have found 0.8, shared 0.05 and right 0.9. So a statement that
// gold lacks counts 0.8/0.05 = 16 if a system has it and (1-0.8)/(1-0.05) = 4/19 if not, an element
// of gold counts 19/4 if a system lacks it and 1/16 if not, and a change counts 9 if a system has
// it and 1/9 if it agrees with gold.
func TestRates_doubt(t *testing.T) {
	two := rates{systems: []systemRates{{0.8, 0.05, 0.9}, {0.8, 0.05, 0.9}}, weight: 1}
	half := rates{systems: two.systems, weight: 0.5}
	for _, c := range []struct {
		say  string
		r    rates
		c    claim
		odds float64
	}{
		{"both have it", two, claim{kind: NotInGold, stances: []stance{agrees, agrees}}, 256.0 / 19},
		{"one has it", two, claim{kind: NotInGold, stances: []stance{agrees, against}}, 16 * 4.0 / 19 / 19},
		{"one failed", two, claim{kind: NotInGold, stances: []stance{agrees, absent}}, 16.0 / 19},
		{"both lack it", two, claim{kind: NotFound, stances: []stance{agrees, agrees}}, 19.0 / 16},
		{"both have what gold has", two, claim{kind: NotFound, stances: []stance{against, against}}, 1.0 / 256 / 19},
		{"one has something in its place", two, claim{kind: NotFound, stances: []stance{agrees, silent}}, 1.0 / 4},
		{"not in the text", two, claim{kind: NotInText, suspect: true, stances: []stance{agrees, against}}, 19.0 / 64},
		{"another type, and gold's", two, claim{kind: OtherType, stances: []stance{agrees, against}}, 1.0 / 19},
		{"another type, and nothing", two, claim{kind: Reversed, stances: []stance{agrees, silent}}, 9.0 / 19},
		{"systems that err alike", half, claim{kind: NotInGold, stances: []stance{agrees, agrees}}, 16.0 / 19},
	} {
		want := c.odds / (1 + c.odds)
		if got := c.r.doubt(c.c); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.say, got, want)
		}
	}
}

// TestTally_rates checks the rates of two systems that find the same 24 of 30 elements, so that phi
// of the misses is 1. One of the 6 elements that both miss (0.05·30 = 1.5, so 1) is excused; phi is
// still 1, and the weight 1/(1+1).
func TestTally_rates(t *testing.T) {
	observed := newTally(2)
	for i := range 30 {
		st := []stance{against, against}
		if i >= 24 {
			st = []stance{agrees, agrees}
		}
		observed.addElement(st)
	}
	r := observed.rates()
	// (24 + 10·0.7)/(30+10) = 0.775; (24+9)/(24+10) of those found are right.
	if r.weight != 0.5 || math.Abs(r.systems[0].Found-0.775) > 1e-12 || math.Abs(r.systems[1].Right-33.0/34) > 1e-12 {
		t.Errorf("%+v", r)
	}
	// Beyond gold the other system has 20, of which 5 are shared. 0.05·30 = 1.5 of the 20 and
	// 0.775·1.5 = 1.1625 of the 5 are assumed to be true: (3.8375 + 0.5)/(18.5 + 10).
	for i := range 20 {
		st := []stance{against, agrees}
		if i < 5 {
			st[0] = agrees
		}
		observed.addBeyond(st)
	}
	if got, want := observed.rates().systems[0].Shared, (3.8375+0.5)/28.5; math.Abs(got-want) > 1e-12 {
		t.Errorf("shared %v, want %v", got, want)
	}
	// A failed item changes no rate of the system.
	before := observed.rates()
	observed.addElement([]stance{absent, against})
	observed.addBeyond([]stance{absent, agrees})
	if after := observed.rates(); after.systems[0] != before.systems[0] || after.weight != before.weight {
		t.Errorf("%+v, before %+v", after, before)
	}
	// Nor does a statement that no other system has.
	observed.addBeyond([]stance{agrees, against})
	if after := observed.rates(); after.systems[0] != before.systems[0] {
		t.Errorf("%+v, before %+v", after, before)
	}
	// Of 20, each misses one alone, and both miss one, which is excused (0.05·20 = 1), so that no
	// common miss is left.
	excused := newTally(2)
	for i := range 20 {
		st := []stance{against, against}
		if i < 2 {
			st[0] = agrees
		}
		if i == 0 || i == 2 {
			st[1] = agrees
		}
		excused.addElement(st)
	}
	if w := excused.rates().weight; w != 1 {
		t.Errorf("the weight is %v, want 1", w)
	}
	// Without common misses phi is below 0, and the weight 1.
	disjoint := newTally(2)
	for i := range 30 {
		disjoint.addElement([]stance{[]stance{against, agrees}[i%2], []stance{agrees, against}[i%2]})
	}
	if w := disjoint.rates().weight; w != 1 {
		t.Errorf("the weight is %v, want 1", w)
	}
}

// auditOne audits one item with these outputs of systems and returns the findings.
func auditOne(t *testing.T, text, expected string, outputs ...string) []Doubt {
	t.Helper()
	input, err := json.Marshal(map[string]any{"document_text": text, "object_schemas": map[string]any{"Person": map[string]any{}, "City": map[string]any{}, "Port": map[string]any{}},
		"relationship_schemas": map[string]any{"lives_in": map[string]any{"source_types": []string{"Person"}, "target_types": []string{"City"}}, "parent_of": map[string]any{}, "sibling_of": map[string]any{}}})
	if err != nil {
		t.Fatal(err)
	}
	return damagedData{items: []AuditItem{auditItem("i", string(input), expected, outputs...)}}.audit(t, 100).Findings
}

func auditItem(id, input, expected string, outputs ...string) AuditItem {
	item := AuditItem{ID: id, Input: json.RawMessage(input), Expected: json.RawMessage(expected)}
	for _, output := range outputs {
		item.Outputs = append(item.Outputs, json.RawMessage(output))
	}
	return item
}

// TestAudit_kinds checks the findings for two systems with the same output.
func TestAudit_kinds(t *testing.T) {
	const text = "Ada Lovelace lived in London. Charles Babbage, who lived in Paris, knew her. Anne was the mother of Ada."
	ada, babbage, london := `{"name":"Ada Lovelace","type":"Person"}`, `{"name":"Charles Babbage","type":"Person"}`, `,{"name":"London","type":"City"}`
	list := func(entities, relationships string) string {
		return `{"entities":[` + entities + `],"relationships":[` + relationships + `]}`
	}
	for _, c := range []struct {
		say, expected, both string
		want                string
	}{
		{"nothing", list(ada, ""), list(ada, ""), ""},
		{"gold lacks it", list(ada, ""), list(ada+","+babbage, ""), "not_in_gold: add Charles Babbage (Person)"},
		{"listed twice", list(ada, ""), list(ada+`,{"name":"ada lovelace","type":"City"}`, ""), ""},
		{"nobody finds it", list(ada+","+babbage, ""), list(ada, ""), "not_found: take out Charles Babbage (Person)"},
		{"it is not in the text", list(ada+`,{"name":"Isaac Newton","type":"Person"}`, ""), list(ada, ""), "not_in_text: take out Isaac Newton (Person)"},
		{"another type", list(`{"name":"London","type":"Person"}`, ""), list(`{"name":"London","type":"City"}`, ""), "other_type: London (Person) → London (City)"},
		{"another name", list(`{"name":"Lovelace","type":"Person"}`, ""), list(ada, ""), "other_name: Lovelace (Person) → Ada Lovelace (Person)"},
		{"the other direction", list(ada, `{"source_name":"Ada Lovelace","relationship_type":"parent_of","target_name":"Anne"}`),
			list(ada, `{"source_name":"Anne","relationship_type":"parent_of","target_name":"Ada Lovelace"}`), "reversed: parent_of(Ada Lovelace, Anne) → parent_of(Anne, Ada Lovelace)"},
		{"another relationship", list(ada, `{"source_name":"Ada Lovelace","relationship_type":"parent_of","target_name":"London"}`),
			list(ada, `{"source_name":"Ada Lovelace","relationship_type":"lives_in","target_name":"London"}`), "other_type: parent_of(Ada Lovelace, London) → lives_in(Ada Lovelace, London)"},
		{"twice", list(ada+","+ada, ""), list(ada, ""), "contradiction: take out Ada Lovelace (Person)"},
		{"no name", list(ada+`,{"name":" ","type":"Person"}`, ""), list(ada, ""), "contradiction: take out (Person)"},
		{"neither name nor type", list(ada+`,{"name":""}`, ""), list(ada, ""), "contradiction: remove the entity without name and type"},
		{"a type that the schemas do not have", list(`{"name":"London","type":"Town"}`, ""), list(`{"name":"London","type":"City"}`, ""), "other_type: London (Town) → London (City)"},
		{"an end of a type that the schema does not take", list(ada+london, `{"source_name":"London","relationship_type":"lives_in","target_name":"Ada Lovelace"}`),
			list(ada+london, ""), "contradiction: take out lives_in(London, Ada Lovelace)"},
		{"the other direction, as the schema wants it", list(ada+london, `{"source_name":"London","relationship_type":"lives_in","target_name":"Ada Lovelace"}`),
			list(ada+london, `{"source_name":"Ada Lovelace","relationship_type":"lives_in","target_name":"London"}`), "reversed: lives_in(London, Ada Lovelace) → lives_in(Ada Lovelace, London)"},
		{"two names", list(`{"name":"Babbage","type":"Person"},`+babbage, ""), list(babbage, ""),
			"not_found: take out Babbage (Person)"},
		{"another name that the text does not have", list(`{"name":"Lovelace","type":"Person"}`, ""), list(`{"name":"Ada King Lovelace","type":"Person"}`, ""), ""},
		{"an end that the text does not have", list(ada, `{"source_name":"Lovelace","relationship_type":"lives_in","target_name":"London"}`),
			list(ada, `{"source_name":"Ada King Lovelace","relationship_type":"lives_in","target_name":"London"}`), ""},
		{"another type that the schemas do not have", list(`{"name":"London","type":"City"}`, ""), list(`{"name":"London","type":"Town"}`, ""), ""},
		{"more of a type that the schemas do not have", list(ada, ""), list(ada+`,{"name":"Paris","type":"Town"}`, `{"source_name":"Ada Lovelace","relationship_type":"lived_in","target_name":"London"}`), ""},
		{"a relationship that gold lacks", list(ada, ""), list(ada, `{"source_name":"Ada Lovelace","relationship_type":"lives_in","target_name":"London"}`),
			"not_in_gold: add lives_in(Ada Lovelace, London)"},
		{"a relationship that nobody finds", list(ada, `{"source_name":"Ada Lovelace","relationship_type":"lives_in","target_name":"Paris"}`), list(ada, ""),
			"not_found: take out lives_in(Ada Lovelace, Paris)"},
		{"a relationship of another name", list(ada, `{"source_name":"Lovelace","relationship_type":"lives_in","target_name":"London"}`),
			list(ada, `{"source_name":"Ada Lovelace","relationship_type":"lives_in","target_name":"London"}`), "other_name: lives_in(Lovelace, London) → lives_in(Ada Lovelace, London)"},
		{"another type, in other letters", list(`{"name":"London","type":"Person"}`, ""), list(`{"name":"LONDON","type":"City"}`, ""), "other_type: London (Person) → London (City)"},
		{"another type, of an alias", list(`{"name":"Ada Lovelace","type":"City","aliases":["Ada"]}`, ""), list(`{"name":"Ada","type":"Person"}`, ""),
			"other_type: Ada Lovelace (City) → Ada Lovelace (Person)"},
		{"another name and type", list(`{"name":"Lovelace","type":"City"}`, ""), list(ada, ""), "other_name: Lovelace (City) → Ada Lovelace (Person)"},
		{"another type, of a name that the text does not have", list(`{"name":"Ada Lovelace","type":"City"}`, ""),
			list(`{"name":"Ada Lovelack","type":"Person"}`, ""), ""},
		{"another end of a symmetric type", list(ada, `{"source_name":"Ada Lovelace","relationship_type":"sibling_of","target_name":"Charles Babbage"}`),
			list(ada, `{"source_name":"Babbage","relationship_type":"sibling_of","target_name":"Ada Lovelace"}`),
			"other_name: sibling_of(Ada Lovelace, Charles Babbage) → sibling_of(Ada Lovelace, Babbage)"},
		{"another end, of the inverse type", list(ada, `{"source_name":"Ada Lovelace","relationship_type":"parent_of","target_name":"Charles Babbage"}`),
			list(ada, `{"source_name":"Babbage","relationship_type":"child_of","target_name":"Ada Lovelace"}`),
			"other_name: parent_of(Ada Lovelace, Charles Babbage) → parent_of(Ada Lovelace, Babbage)"},
		{"the other direction, of an alias", list(`{"name":"Ada Lovelace","type":"Person","aliases":["Ada"]}`, `{"source_name":"Ada Lovelace","relationship_type":"parent_of","target_name":"Anne"}`),
			list(ada, `{"source_name":"Anne","relationship_type":"parent_of","target_name":"Ada"}`), "reversed: parent_of(Ada Lovelace, Anne) → parent_of(Anne, Ada Lovelace)"},
		{"an end twice", list(ada, `{"source_name":"Ada","relationship_type":"parent_of","target_name":"Ada Lovelace"}`),
			list(ada, `{"source_name":"Ada","relationship_type":"parent_of","target_name":"Ada"}`), "other_name: parent_of(Ada, Ada Lovelace) → parent_of(Ada, Ada)"},
		{"an alias, too", list(`{"name":"Ada Lovelace","type":"Person","aliases":["Anne"]}`, ""), list(ada+`,{"name":"anne","type":"Person"}`, ""), ""},
		{"in other letters", list(ada, ""), list(`{"name":"ADA LOVELACE","type":"person"}`, ""), ""},
		{"of no type", list(ada, ""), list(`{"name":"Ada Lovelace"}`, ""), ""},
		{"not annotated", `{"entities":[` + ada + `]}`, list(ada, `{"source_name":"Ada Lovelace","relationship_type":"lives_in","target_name":"London"}`), ""},
	} {
		var got []string
		for _, d := range auditOne(t, text, c.expected, c.both, c.both) {
			got = append(got, string(d.Kind)+": "+d.Change())
			if d.Doubt <= 0 || d.Doubt >= 1 || len(d.Says) != 2 || d.Gold == "" || d.Reason == "" {
				t.Errorf("%s: %+v", c.say, d)
			}
		}
		slices.Sort(got)
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, want %q", c.say, got, c.want)
		}
	}
}

// TestAudit_effects checks the effects and the place of a finding. Gold has only Ada, and both
// systems have Ada and Babbage, so F1 is 2/3; with Babbage in gold it would be 1. The run has only
// this item.
func TestAudit_effects(t *testing.T) {
	list := auditOne(t, "Ada Lovelace knew Charles Babbage.", `{"entities":[{"name":"Ada Lovelace"}]}`,
		`{"entities":[{"name":"Ada Lovelace"},{"name":"Charles Babbage"}]}`, `{"entities":[{"name":"Charles Babbage"},{"name":"Ada Lovelace"}]}`)
	if len(list) != 1 || len(list[0].Effects) != 2 {
		t.Fatalf("%+v", list)
	}
	e := list[0].Effects[1]
	if e.System != "system-2" || e.Score != scoring.EntityF1 || math.Abs(*e.Before-2.0/3) > 1e-12 || *e.After != 1 || math.Abs(*e.Run-1.0/3) > 1e-12 {
		t.Errorf("%+v", e)
	}
	place := list[0].Places[0]
	if place.Quote != "Charles Babbage" || place.Start != 18 || place.Before != "Ada Lovelace knew " || place.After != "." {
		t.Errorf("%+v", place)
	}
}

// TestAudit_moves checks the effect of all findings together. Both systems have another name in the
// entity and in the relationship, so that both are right only with both findings: each F1 goes from
// 0 to 1 in one item. The run's mean of entities is over three items, as one that failed counts as 0,
// and that of relationships over two, those of which gold has the list. Of two other names of one
// entity, only the first counts.
func TestAudit_moves(t *testing.T) {
	const gold = `{"entities":[{"name":"Lovelace","type":"Person"}],"relationships":[{"source_name":"Lovelace","relationship_type":"lives_in","target_name":"London"}]}`
	const none, input = `{"entities":[]}`, `{"document_text":"Ada Lovelace lived in London."}`
	full := strings.ReplaceAll(gold, "Lovelace", "Ada Lovelace")
	failed := AuditItem{ID: "c", Input: json.RawMessage(input), Expected: json.RawMessage(gold), Outputs: make([]json.RawMessage, 2)}
	items := []AuditItem{auditItem("a", input, gold, full, full), auditItem("b", input, none, none, none), failed}
	r := damagedData{items: items}.audit(t, 10)
	for _, s := range r.Systems {
		if want := map[string]float64{scoring.EntityF1: 1.0 / 3, scoring.RelationshipF1: 0.5}; len(r.Findings) != 2 || !cmp.Equal(s.Moves, want) {
			t.Errorf("%v, want %v, with %+v", s, want, r.Findings)
		}
	}
	of := func(name string) string { return `{"entities":[{"name":"` + name + `"}]}` }
	items = []AuditItem{auditItem("a", input, of("Lovelace"), of("Ada Lovelace"), of("Ada Lovelace"), of("Lovelace lived"), of("Lovelace lived"))}
	r = damagedData{items: items}.audit(t, 10)
	for i, s := range r.Systems {
		if want := []float64{1, 1, 0, 0}[i]; len(r.Findings) != 2 || s.Moves[scoring.EntityF1] != want {
			t.Errorf("%v, want %v, with %+v", s, want, r.Findings)
		}
	}
}

// TestAudit_says checks what a finding says about each system, and the order, doubt and change of
// findings. At first, of five systems, two have another type, one has that of gold, one a third
// type, and one failed.
func TestAudit_says(t *testing.T) {
	of := func(kind string) string { return `{"entities":[{"name":"London","type":"` + kind + `"}]}` }
	list := auditOne(t, "She lived in London.", of("Person"), of("City"), of("City"), of("Person"), of("Port"), "null")
	if len(list) != 1 || list[0].Reason != "2 of 4 systems have this other type" {
		t.Fatalf("%+v", list)
	}
	want := []SystemOpinion{{"system-1", new(true), ""}, {"system-2", new(true), ""}, {"system-3", new(false), ""}, {"system-4", nil, "London (Port)"}, {"system-5", nil, ""}}
	if d := cmp.Diff(want, list[0].Says); d != "" {
		t.Error(d)
	}
	// Of two other types, the first in the alphabet comes first. A system without the entity is
	// neither for nor against.
	list = auditOne(t, "She lived in London.", of("Person"), of("Port"), of("City"), of("Port"), of("City"), `{"entities":[]}`)
	if len(list) != 2 || list[0].Proposed != "London (City)" || list[1].Proposed != "London (Port)" || list[0].Says[4].For != nil || list[0].Says[0].Has != "London (Port)" {
		t.Errorf("%+v", list)
	}
	// Right is (0 + 9)/(1 + 10) for each, and the odds are (9/2)² times 1/19, or times 1 if the
	// schemas do not know the type of gold.
	for kind, prior := range map[string]float64{"Person": 1. / 19, "Town": 1} {
		odds := prior * 81 / 4
		if list := auditOne(t, "She lived in London.", of(kind), of("City"), of("City")); len(list) != 1 || math.Abs(list[0].Doubt-odds/(1+odds)) > 1e-12 {
			t.Errorf("%s: %+v, want %v", kind, list, odds/(1+odds))
		}
	}
	// What is not in the text, and what contradicts the schemas, is doubtful even if systems have it.
	newton := `{"entities":[{"name":"Isaac Newton","type":"Person"}]}`
	for both, want := range map[string]string{newton: "all 2 systems have it", of("City"): "2 of 2 systems find nothing of the kind",
		`{"entities":[{"name":"Isaac Newton","type":"Port"}]}`: "all 2 systems have it, or something in its place"} {
		list := auditOne(t, "She lived in London.", newton, both, both)
		if i := slices.IndexFunc(list, func(d Doubt) bool { return d.Kind == NotInText }); i < 0 || list[i].Reason != "the text does not have the name; "+want {
			t.Errorf("%+v, want %s", list, want)
		}
	}
	// The same holds for the other direction, if the schema does not take the ends of gold.
	relationOf := func(kind, source, target string) string {
		return `{"entities":[{"name":"Ann","type":"Person"},{"name":"London","type":"City"}],"relationships":[{"source_name":"` + source + `","relationship_type":"` + kind + `","target_name":"` + target + `"}]}`
	}
	for kind, prior := range map[string]float64{"parent_of": 1. / 19, "lives_in": 1} {
		odds := prior * 81 / 4
		list := auditOne(t, "Ann lived in London.", relationOf(kind, "London", "Ann"), relationOf(kind, "Ann", "London"), relationOf(kind, "Ann", "London"))
		if len(list) != 1 || list[0].Kind != Reversed || math.Abs(list[0].Doubt-odds/(1+odds)) > 1e-12 {
			t.Errorf("%s: %+v, want %v", kind, list, odds/(1+odds))
		}
	}
	// Two systems have an entity that gold does not have, one lacks it, and one failed.
	bob := `{"entities":[{"name":"Ann"},{"name":"Bob"}]}`
	list = auditOne(t, "Ann and Bob", `{"entities":[{"name":"Ann"}]}`, bob, bob, `{"entities":[{"name":"Ann"}]}`, "null")
	want = []SystemOpinion{{"system-1", new(true), ""}, {"system-2", new(true), ""}, {"system-3", new(false), ""}, {"system-4", nil, ""}}
	if len(list) != 1 || list[0].Reason != "2 of 3 systems have it, and gold does not" {
		t.Fatalf("%+v", list)
	}
	if d := cmp.Diff(want, list[0].Says); d != "" {
		t.Error(d)
	}
	// An added entity has the most common of its allowed types, or on a tie the first.
	add := func(kind string) string { return `{"entities":[{"name":"Ann"},{"name":"Bob","type":"` + kind + `"}]}` }
	for _, tt := range []struct {
		kinds []string
		want  string
	}{{[]string{"City", "Person", "person"}, "Bob (Person)"}, {[]string{"City", "Person"}, "Bob (City)"}, {[]string{"", "Person", ""}, "Bob (Person)"}, {[]string{"", ""}, "Bob"}, {[]string{"Town", "Person", "Town", "Person"}, "Bob (Person)"}} {
		list := auditOne(t, "Ann and Bob", `{"entities":[{"name":"Ann"}]}`, cli.Each(tt.kinds, add)...)
		if len(list) != 1 || list[0].Proposed != tt.want {
			t.Errorf("%q: %+v, want %s", tt.kinds, list, tt.want)
		}
	}
	// Allowed types narrow those of the schemas.
	for kind, want := range map[string]int{"Person": 1, "City": 0} {
		item := auditItem("i", `{"document_text":"Ann and Bob","object_schemas":{"Person":{},"City":{}},"allowed_types":["person"]}`,
			`{"entities":[{"name":"Ann"}]}`, add(kind), add(kind))
		if r := (damagedData{items: []AuditItem{item}}).audit(t, 10); len(r.Findings) != want {
			t.Errorf("%s: %+v", kind, r.Findings)
		}
	}
	// A relationship has two places; the second is searched near the first.
	list = auditOne(t, "Paris. Ann went to Paris.", `{"entities":[{"name":"Ann"}],"relationships":[{"source_name":"Ann","relationship_type":"lives_in","target_name":"Paris"},{"source_name":"Zed","relationship_type":"lives_in","target_name":"Ann"}]}`,
		`{"entities":[{"name":"Ann"}],"relationships":[]}`, `{"entities":[{"name":"Ann"}],"relationships":[]}`)
	if len(list) != 2 || len(list[0].Places) != 2 || list[0].Places[0].Start != 7 || list[0].Places[1].Start != 0 || len(list[1].Places) != 1 {
		t.Errorf("%+v", list)
	}
	// The prior is even for an entity that a relationship of gold names.
	const gold = `{"entities":[{"name":"Ada"}],"relationships":[{"source_name":"Ada","relationship_type":"lives_in","target_name":"Paris"}]}`
	both := strings.Replace(gold, `{"name":"Ada"}`, `{"name":"Ada"},{"name":"Paris"}`, 1)
	list = auditOne(t, "Ada lived in Paris.", gold, both, both)
	if len(list) != 1 || list[0].Reason != "2 of 2 systems have it, and a relationship of gold names it" || list[0].Doubt < 0.9 {
		t.Errorf("%+v", list)
	}
	for want, judged := range map[string]Judged{"gold is wrong": {Wrong: new(true)}, "gold is right": {Wrong: new(false)}, "no usable answer": {}} {
		if got := judged.Verdict(); got != want {
			t.Errorf("%+v: %q", judged, got)
		}
	}
}

// TestAudit_config checks the rates of a run with unusable items, and which findings AuditConfig
// keeps.
func TestAudit_config(t *testing.T) {
	const input, gold, both, ada = `{"document_text":"Ada met Bob"}`, `{"entities":[{"name":"Ada"}]}`, `{"entities":[{"name":"Ada"},{"name":"Bob"}]}`, `{"entities":[{"name":"Ada"}]}`
	items := []AuditItem{
		auditItem("a", input, gold, both, both), auditItem("b", input, gold, both, both), auditItem("fine", input, gold, ada, ada),
		auditItem("of no gold", input, "null", both, both), auditItem("of broken gold", input, `{"entities":1}`, both, both), auditItem("of none", input, "{}", both, both),
		auditItem("of no text", `{}`, gold, both, both), auditItem("of one system", input, gold, both, ""), auditItem("of a broken output", input, gold, both, "[]"),
	}
	rules, err := scoring.New(scoring.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	broken := fmt.Errorf("the disk is gone")
	run := func(ctx context.Context, cfg AuditConfig, err error) (AuditResult, error) {
		cfg.Systems, cfg.Rules = []string{"x", "y"}, rules
		cfg.Items = func() iter.Seq2[AuditItem, error] { return itemSeq(items, err) }
		return Audit(ctx, cfg)
	}
	r, err := run(t.Context(), AuditConfig{Top: 10, MinDoubt: 1}, nil)
	if err != nil || r.Findings == nil || len(r.Findings) != 0 { // [] in JSON
		t.Errorf("%v, %v", r.Findings, err)
	}
	r, err = run(t.Context(), AuditConfig{Top: 10}, nil)
	if err != nil || r.Items != 3 || r.Skipped != 6 || r.Total != 2 || len(r.Findings) != 2 || len(r.Systems) != 2 || r.Systems[1].Name != "y" || r.Weight.Entities == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	// Found is (3 + 7)/(3 + 10) and Right (3 + 9)/(3 + 10). Beyond gold the system has 2 of 2;
	// 0.05·3 of them are assumed to be true: (1.85 + 0.5)/(1.85 + 10).
	if got := r.Systems[0].Entities; math.Abs(got.Found-10./13) > 1e-12 || math.Abs(got.Right-12./13) > 1e-12 || math.Abs(got.Shared-2.35/11.85) > 1e-12 {
		t.Errorf("%+v", got)
	}
	first, second := r.Findings[0], r.Findings[1]
	if tenth := min(9, int(first.Doubt*10)); first.Item != "a" || second.Item != "b" || first.Key == second.Key || r.Tenths[tenth] != 2 {
		t.Errorf("%+v, %+v, %v", first, second, r.Tenths)
	}
	keep := map[string]bool{second.Key: true}
	for name, tt := range map[string]struct {
		cfg              AuditConfig
		items            string
		total, confirmed int
	}{
		"the first":             {AuditConfig{Top: 1}, "a", 2, 0},
		"one that is asked for": {AuditConfig{Top: 1, Keep: keep}, "a b", 2, 0},
		"of a high doubt":       {AuditConfig{Top: 10, MinDoubt: 0.99}, "", 0, 0},
		"that, or asked for":    {AuditConfig{Top: 10, MinDoubt: 0.99, Keep: keep}, "b", 1, 0},
		"confirmed":             {AuditConfig{Top: 10, Confirmed: func(item, key string) bool { return item == "a" && key == first.Key }}, "b", 1, 1},
		"in brief":              {AuditConfig{Top: 10, Brief: true}, "a b", 2, 0},
	} {
		r, err := run(t.Context(), tt.cfg, nil)
		var got []string
		for _, d := range r.Findings {
			got = append(got, d.Item)
			if (d.Gold == "") != tt.cfg.Brief || (len(d.Places) == 0) != tt.cfg.Brief {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if err != nil || strings.Join(got, " ") != tt.items || r.Total != tt.total || r.Confirmed != tt.confirmed {
			t.Errorf("%s: %q, %d in all, %d confirmed, %v", name, got, r.Total, r.Confirmed, err)
		}
	}
	if _, err := run(t.Context(), AuditConfig{Top: 1}, broken); !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(ctx, AuditConfig{Top: 1}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAudit_manyItems checks that findings of equal doubt are in the order of their items.
func TestAudit_manyItems(t *testing.T) {
	suite.Slow(t, "2,050 items")
	var d damagedData
	const n = 2050
	for i := range n {
		const ada = `{"entities":[{"name":"Ada"}]}`
		d.items = append(d.items, auditItem(fmt.Sprintf("%05d", i), `{"document_text":"Ada"}`, `{"entities":[]}`, ada, ada))
	}
	r := d.audit(t, 10)
	if r.Items != n || r.Total != n || r.Skipped != 0 || len(r.Findings) != 10 || r.Findings[9].Item != "00009" {
		t.Errorf("%d items, %d findings, %d skipped, the last %+v", r.Items, r.Total, r.Skipped, r.Findings[len(r.Findings)-1])
	}
}

// TestAudit_tooFew checks that Audit refuses a single system.
func TestAudit_tooFew(t *testing.T) {
	if _, err := Audit(t.Context(), AuditConfig{Systems: []string{"a"}}); err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "two systems") {
		t.Errorf("%v", err)
	}
}

// TestCorrected checks that Corrected applies several findings at once, refuses two that change the
// same element, and keeps mentions only if the name stays the same.
func TestCorrected(t *testing.T) {
	const gold = `{"entities":[{"name":"Lovelace","type":"City","description":"kept"},{"name":"Newton"},{"name":"Newton"}],
		"relationships":[{"source_name":"Lovelace","relationship_type":"parent_of","target_name":"Babbage"}]}`
	findings := auditOne(t, "Ada Lovelace and Charles Babbage", gold,
		`{"entities":[{"name":"Ada Lovelace","type":"City"},{"name":"Charles Babbage"}],"relationships":[]}`, `{"entities":[{"name":"Ada Lovelace","type":"City"},{"name":"Charles Babbage"}],"relationships":[]}`)
	var chosen []Doubt
	for _, d := range findings {
		if d.Kind != NotFound {
			chosen = append(chosen, d)
		}
	}
	got, err := Corrected(json.RawMessage(gold), chosen)
	const want = `{"entities":[{"name":"Ada Lovelace","type":"City","description":"kept"},{"name":"Charles Babbage"}],` +
		`"relationships":[{"source_name":"Ada Lovelace","target_name":"Babbage","relationship_type":"parent_of"}]}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
	if _, err := Corrected(json.RawMessage(gold), []Doubt{chosen[0], chosen[0]}); err == nil {
		t.Error("two findings about one element were carried out")
	}
	if _, err := Corrected(json.RawMessage("[]"), chosen); err == nil {
		t.Error("gold that cannot be read was corrected")
	}
	// A mention stays if only the type changes.
	const typed = `{"entities":[{"name":"London","type":"Person","mentions":[{"quote":"London","start":0,"end":6}]}]}`
	const city = `{"entities":[{"name":"London","type":"City"}]}`
	got, err = Corrected(json.RawMessage(typed), auditOne(t, "London", typed, city, city))
	if want := strings.Replace(typed, "Person", "City", 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
	// So does the name, for systems that have an alias, and what refers to it. One says the name, one the alias.
	const lived = `{"entities":[{"name":"Ada Lovelace","type":"City","aliases":["Ada"],"mentions":[{"quote":"Ada Lovelace","start":0,"end":12}]}],` +
		`"relationships":[{"source_name":"Ada Lovelace","target_name":"London","relationship_type":"lives_in"}]}`
	alias, full := `{"entities":[{"name":"Ada","type":"Person"}]}`, `{"entities":[{"name":"Ada Lovelace","type":"Person"}]}`
	list := slices.DeleteFunc(auditOne(t, "Ada Lovelace, or Ada, in London", lived, alias, full), func(d Doubt) bool { return d.Kind != OtherType })
	got, err = Corrected(json.RawMessage(lived), list)
	if want := strings.Replace(lived, "City", "Person", 1); err != nil || len(list) != 1 || string(got) != want {
		t.Errorf("%v %+v\n%s\n%s", err, list, got, want)
	}
	// Relationships, and an entity whose mentions do not fit its new name.
	const before = `{"entities":[{"name":"Lovelace","type":"Person","mentions":[{"quote":"Lovelace","start":4,"end":12}]}],"relationships":[
		{"source_name":"A","relationship_type":"parent_of","target_name":"B"},{"source_name":"B","relationship_type":"lives_in","target_name":"C"}]}`
	const both = `{"entities":[{"name":"Ada Lovelace","type":"Person"}],"relationships":[
		{"source_name":"B","relationship_type":"parent_of","target_name":"A"},{"source_name":"C","relationship_type":"parent_of","target_name":"A"}]}`
	got, err = Corrected(json.RawMessage(before), auditOne(t, "Ada Lovelace, A, B and C", before, both, both))
	const after = `{"entities":[{"name":"Ada Lovelace","type":"Person"}],"relationships":[{"source_name":"B","target_name":"A","relationship_type":"parent_of"},` +
		`{"source_name":"C","target_name":"A","relationship_type":"parent_of"}]}`
	if err != nil || string(got) != after {
		t.Errorf("%v\n%s\n%s", err, got, after)
	}
}

// TestLostEnds checks that a relationship whose end is taken out is named, once, unless another entity
// has the name or an end was never listed.
func TestLostEnds(t *testing.T) {
	gold := func(entities string) json.RawMessage {
		return json.RawMessage(`{"entities":[` + entities + `],"relationships":[
			{"source_name":"ada","relationship_type":"knows","target_name":"Babbage"},
			{"source_name":"Ada","relationship_type":"knows","target_name":"Elsewhere"},
			{"source_name":"Babbage","relationship_type":"knows","target_name":"Ada"}]}`)
	}
	const ada, other, babbage = `{"name":"Ada"}`, `{"name":"Lovelace","aliases":["ADA"]}`, `{"name":"Babbage"}`
	earlier := gold(ada + "," + ada + "," + babbage)
	for entities, want := range map[string]string{
		ada + "," + babbage: "", other + "," + babbage: "", ada: "Babbage", babbage: "ada Ada", "": "ada Babbage Ada",
	} {
		if got := strings.Join(LostEnds(earlier, gold(entities)), " "); got != want {
			t.Errorf("%s: %q, want %q", entities, got, want)
		}
	}
}
