package provider

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
)

// typesByName returns the type of each entity by its name.
func typesByName(e extraction.Extraction) map[string]string {
	names := map[string]string{}
	for _, entity := range e.Entities {
		names[entity.Name] = entity.Type
	}
	return names
}

func TestExtract_entities(t *testing.T) {
	tests := map[string]struct {
		text string
		want map[string]string
	}{
		"English: names, connectors, legal forms": {
			"The Bank of Elmford hired Rosa Klein. Procter & Tamble Inc. sued her in Leeds.",
			map[string]string{"Bank of Elmford": "Organization", "Rosa Klein": "Person", "Procter & Tamble Inc.": "Organization", "Leeds": "Location"},
		},
		"English: a beginning is not a name": {
			"Yesterday it rained. However, nothing else happened. Walking helps.",
			map[string]string{},
		},
		"English: titles are not part of a name": {
			"The report was read by Dr. Omar Said and President Lena Brandt.",
			map[string]string{"Omar Said": "Person", "Lena Brandt": "Person"},
		},
		"English: an office cuts a run of capitals": {
			"We met Acme CEO Jane Porter.",
			map[string]string{"Acme": "Organization", "Jane Porter": "Person"},
		},
		"English: a quoted title": {
			"She published the novel \"The Glass Orchard\" there.",
			map[string]string{"The Glass Orchard": "Work"},
		},
		"dates": {
			"It ran from 4 March 2021 to April 5, 2022, then on 2023-01-31, 3.2.2024 and in 1990.",
			map[string]string{"4 March 2021": "Date", "April 5, 2022": "Date", "2023-01-31": "Date", "3.2.2024": "Date", "1990": "Date"},
		},
		"money, shares, quantities": {
			"it cost $25 million, 7 euros, 12% more; 40 km away.",
			map[string]string{"$25 million": "Money", "7 euros": "Money", "12%": "Percentage", "40 km": "Quantity"},
		},
		"German: nouns are not names": {
			"Die Firma Kessler GmbH hat in der Sitzung die Kosten mit Karin Vogt besprochen. Das Ergebnis und die Planung sind der Abteilung nicht bekannt.",
			map[string]string{"Kessler GmbH": "Organization", "Karin Vogt": "Person"},
		},
		"German: dates and money": {
			"Am 3. Oktober 1990 kostete es 16 Milliarden Euro.",
			map[string]string{"3. Oktober 1990": "Date", "16 Milliarden Euro": "Money"},
		},
		"French": {
			"Marie Dupont a vendu la Banque de Nîmes le 3 mai 1980 pour 5 millions d'euros.",
			map[string]string{"Marie Dupont": "Person", "Banque de Nîmes": "Organization", "3 mai 1980": "Date", "5 millions d'euros": "Money"},
		},
		"Russian": {
			"Анна Смирнова окончила Московский университет 5 марта 1970 года и основала ООО «Ромашка».",
			map[string]string{"Анна Смирнова": "Person", "Московский университет": "Organization", "5 марта 1970 года": "Date", "ООО «Ромашка»": "Organization"},
		},
		"Chinese": {
			"2021年3月4日，张伟先生在杭州市宣布投资500万元，埃隆·马斯克和清华大学参加了会议。《红楼梦》",
			map[string]string{"2021年3月4日": "Date", "张伟": "Person", "杭州市": "Location", "500万元": "Money", "埃隆·马斯克": "Person", "清华大学": "Organization", "红楼梦": "Work"},
		},
		"Arabic": {
			"أعلنت شركة النيل أن السيد محمد العلي وصل إلى مدينة القاهرة في 15 مارس 2020.",
			map[string]string{"شركة النيل": "Organization", "محمد العلي": "Person", "القاهرة": "Location", "15 مارس 2020": "Date"},
		},
		"nothing to find": {
			"nothing here is named, and no one is. it rains a lot.",
			map[string]string{},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, typesByName(extract(t, generalDocument(tt.text)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExtract_schemaDecides(t *testing.T) {
	text := "Ana Torres of Lumen Corp visited the Danube River on 3 May 2020 with invoice INV-20311. Mail ana@lumen.example."
	tests := map[string]struct {
		objects map[string]extraction.ObjectSchema
		allowed []string
		want    map[string]string
	}{
		"by the type's name":         {objects("employee", "", "firm", ""), nil, map[string]string{"Ana Torres": "employee", "Lumen Corp": "firm"}},
		"by its description":         {objects("A", "somebody: a human", "B", "a river or lake"), nil, map[string]string{"Ana Torres": "A", "Danube River": "B"}},
		"in another language":        {objects("Лицо", "человек", "Tag", "ein Datum"), nil, map[string]string{"Ana Torres": "Лицо", "3 May 2020": "Tag"}},
		"codes only where asked for": {objects("Reference", "an identifier, code or email"), nil, map[string]string{"INV-20311": "Reference", "ana@lumen.example": "Reference"}},
		"allowed types narrow":       {objects("Person", "", "Organization", ""), []string{"Organization", "Ghost"}, map[string]string{"Ana Torres": "Organization", "Lumen Corp": "Organization"}},
		"allowed types alone":        {nil, []string{"Person"}, map[string]string{"Ana Torres": "Person"}},
		"no types, nothing":          {nil, nil, map[string]string{}},
		"a type that means nothing":  {objects("Q4830453", ""), nil, map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			found := extract(t, extraction.Document{Text: text, Objects: tt.objects, AllowedTypes: tt.allowed})
			if diff := cmp.Diff(tt.want, typesByName(found)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExtract_merges(t *testing.T) {
	found := extract(t, generalDocument("Jane Miller met the International Wind Council (IWC). Miller left Globex Inc. in May 2020; the IWC and Globex did not."))
	aliases := map[string][]string{}
	mentions := map[string]int{}
	for _, e := range found.Entities {
		aliases[e.Name] = e.Aliases
		mentions[e.Name] = len(e.Mentions)
	}
	want := map[string][]string{"Jane Miller": {"Miller"}, "International Wind Council": {"IWC"}, "Globex Inc.": {"Globex"}, "May 2020": nil}
	if diff := cmp.Diff(want, aliases); diff != "" {
		t.Error(diff)
	}
	// "Jane Miller", "Miller"; the council in full, in brackets, and once more.
	if mentions["Jane Miller"] != 2 || mentions["International Wind Council"] != 3 {
		t.Errorf("mentions %v", mentions)
	}
}

func TestExtract_deterministic(t *testing.T) {
	doc := generalDocument(strings.Repeat(prose+"张伟先生在杭州市。 Иван Петров родился в Москве. ", 3))
	var first []byte
	extractor := newExtractor(t)
	for i := range 100 {
		doc.Objects, doc.Relationships = maps.Clone(doc.Objects), maps.Clone(doc.Relationships)
		found, calls, err := extractor.Extract(context.Background(), doc)
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal([]any{found, calls[0].Output})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out
		}
		if !slices.Equal(first, out) {
			t.Fatalf("run %d differs:\n%s\n%s", i, first, out)
		}
	}
	if len(first) < 2000 {
		t.Errorf("only %d bytes were compared", len(first))
	}
}
