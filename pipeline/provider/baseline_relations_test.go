package provider

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
)

// relationTexts returns relationships as "source -type-> target", sorted.
func relationTexts(e extraction.Extraction) []string {
	out := []string{}
	for _, r := range e.Relationships {
		out = append(out, r.Source+" -"+r.Type+"-> "+r.Target)
	}
	slices.Sort(out)
	return out
}

// oneRelation returns a document with one relationship type, between these source and target types.
func oneRelation(text, name, description string, source, target []string) extraction.Document {
	doc := generalDocument(text)
	doc.Relationships = map[string]extraction.RelationshipSchema{
		name: {Name: name, Description: description, SourceTypes: source, TargetTypes: target},
	}
	return doc
}

func TestExtract_direction(t *testing.T) {
	company, human, where := []string{"Organization"}, []string{"Person"}, []string{"Location"}
	tests := map[string]struct {
		text, relation, description string
		source, target              []string
		want                        string
	}{
		"active":                        {"Acme Corp acquired Globex Ltd.", "acquired", "", company, company, "Acme Corp -acquired-> Globex Ltd."},
		"passive":                       {"Acme Corp was acquired by Globex Ltd today.", "acquired", "", company, company, "Globex Ltd -acquired-> Acme Corp"},
		"inverse schema, active":        {"Acme Corp acquired Globex Ltd today.", "acquired_by", "", company, company, "Globex Ltd -acquired_by-> Acme Corp"},
		"inverse schema, passive":       {"Acme Corp was acquired by Globex Ltd today.", "acquired_by", "", company, company, "Acme Corp -acquired_by-> Globex Ltd"},
		"noun with of":                  {"Rosa Klein is the daughter of Otto Klein.", "child_of", "", human, human, "Rosa Klein -child_of-> Otto Klein"},
		"noun with of, inverse schema":  {"Rosa Klein is the daughter of Otto Klein.", "parent_of", "", human, human, "Otto Klein -parent_of-> Rosa Klein"},
		"apposition behind":             {"The founder of Globex Ltd, Rosa Klein, spoke.", "founded", "", human, company, "Rosa Klein -founded-> Globex Ltd"},
		"a word of the schema alone":    {"Acme Corp audits Globex Ltd today.", "audits", "", company, company, "Acme Corp -audits-> Globex Ltd"},
		"such a word in the passive":    {"Acme Corp was audited by Globex Ltd today.", "audited_by", "", company, company, "Acme Corp -audited_by-> Globex Ltd"},
		"by the description":            {"Rosa Klein works as an engineer for Globex Ltd.", "rel7", "person works for company", human, company, "Rosa Klein -rel7-> Globex Ltd."},
		"types decide between two ways": {"Globex Ltd was founded in Leeds by Rosa Klein.", "founder", "", company, human, "Globex Ltd -founder-> Rosa Klein"},
		"a pronoun":                     {"Rosa Klein wrote a lot. She was born in Leeds.", "born_in", "", human, where, "Rosa Klein -born_in-> Leeds"},
		"symmetric, once":               {"Rosa Klein married Otto Braun. Otto Braun is the husband of Rosa Klein.", "married_to", "", human, human, "Rosa Klein -married_to-> Otto Braun"},
		"German, verb last":             {"Anna Vogt wurde in Hamburg geboren und die Stadt ist der Ort von dem sie nicht mehr spricht.", "born_in", "", human, where, "Anna Vogt -born_in-> Hamburg"},
		"German, passive":               {"Die Kessler GmbH wurde von Hans Kessler gegründet und ist nicht mit der anderen zu verwechseln, die er auch hat.", "founded", "", human, company, "Hans Kessler -founded-> Kessler GmbH"},
		"French":                        {"Marie Dupont travaille chez Renault SA.", "works_for", "", human, company, "Marie Dupont -works_for-> Renault SA"},
		"Russian":                       {"ПАО Газпром приобрела ООО «Ромашка».", "acquired", "", company, company, "ПАО Газпром -acquired-> ООО «Ромашка»"},
		"Arabic":                        {"تعمل الدكتورة سلمى في شركة النيل.", "works_for", "", human, company, "سلمى -works_for-> شركة النيل"},
		"Chinese":                       {"李娜毕业于清华大学。", "educated_at", "", human, company, "李娜 -educated_at-> 清华大学"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			found := extract(t, oneRelation(tt.text, tt.relation, tt.description, tt.source, tt.target))
			if diff := cmp.Diff([]string{tt.want}, relationTexts(found)); diff != "" {
				t.Errorf("%s\nentities %v", diff, typesByName(found))
			}
		})
	}
}

func TestExtract_lists(t *testing.T) {
	found := extract(t, oneRelation("Rosa Klein and Otto Braun founded Globex Ltd.", "founded", "", []string{"Person"}, []string{"Organization"}))
	want := []string{"Otto Braun -founded-> Globex Ltd.", "Rosa Klein -founded-> Globex Ltd."}
	if diff := cmp.Diff(want, relationTexts(found)); diff != "" {
		t.Error(diff)
	}
}

func TestExtract_typesOfEnds(t *testing.T) {
	// The sentence states it, but the schema allows no organisation as source.
	found := extract(t, oneRelation("Acme Corp acquired Globex Ltd.", "acquired", "", []string{"Person"}, []string{"Organization"}))
	if len(found.Relationships) != 0 {
		t.Errorf("got %v", relationTexts(found))
	}
}
