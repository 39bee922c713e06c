package provider

import (
	"context"
	"testing"

	"extraction-experiment/extraction"
)

// prose uses most of the English rules of the baseline.
const prose = `Nordwind Energy AG, based in Hamburg, acquired Solaris Ltd for $25 million on 4 March 2021.
Jane Miller, the CEO of Nordwind Energy, was born in Leeds in 1970. She studied at the University of Cambridge.
The International Wind Council (IWC) said 40% of its members work for Nordwind. In 2019 Miller joined the IWC.

`

// generalDocument returns a document with the usual types of entity and relationship.
func generalDocument(text string) extraction.Document {
	return extraction.Document{
		Text: text,
		Objects: objects(
			"Person", "A human being", "Organization", "A company, agency or other institution", "Location", "A city, country or other place",
			"Date", "A date or year", "Money", "An amount of money", "Percentage", "A share in percent", "Quantity", "A number with its unit",
			"Work", "A book, film or other work", "Event", "A named event",
		),
		Relationships: map[string]extraction.RelationshipSchema{
			"works_for":    {Name: "works_for", SourceTypes: []string{"Person"}, TargetTypes: []string{"Organization"}},
			"ceo_of":       {Name: "ceo_of", SourceTypes: []string{"Person"}, TargetTypes: []string{"Organization"}},
			"founded":      {Name: "founded", SourceTypes: []string{"Person", "Organization"}, TargetTypes: []string{"Organization"}},
			"acquired":     {Name: "acquired", SourceTypes: []string{"Organization"}, TargetTypes: []string{"Organization"}},
			"born_in":      {Name: "born_in", SourceTypes: []string{"Person"}, TargetTypes: []string{"Location"}},
			"located_in":   {Name: "located_in", SourceTypes: []string{"Organization", "Location"}, TargetTypes: []string{"Location"}},
			"married_to":   {Name: "married_to", SourceTypes: []string{"Person"}, TargetTypes: []string{"Person"}},
			"parent_of":    {Name: "parent_of", SourceTypes: []string{"Person"}, TargetTypes: []string{"Person"}},
			"partner_with": {Name: "partner_with", Description: "Organization collaborates with organization", SourceTypes: []string{"Organization"}, TargetTypes: []string{"Organization"}},
			"educated_at":  {Name: "educated_at", SourceTypes: []string{"Person"}, TargetTypes: []string{"Organization"}},
		},
	}
}

// objects makes object schemas from pairs of name and description.
func objects(pairs ...string) map[string]extraction.ObjectSchema {
	schemas := map[string]extraction.ObjectSchema{}
	for i := 0; i+1 < len(pairs); i += 2 {
		schemas[pairs[i]] = extraction.ObjectSchema{Name: pairs[i], Description: pairs[i+1]}
	}
	return schemas
}

func newExtractor(tb testing.TB) *baseline {
	tb.Helper()
	return &baseline{newLexicon()}
}

// testBaseline is shared by all tests, because an extractor keeps no state between documents.
var testBaseline = &baseline{newLexicon()}

func extract(tb testing.TB, doc extraction.Document) extraction.Extraction {
	tb.Helper()
	found, _, err := testBaseline.Extract(context.Background(), doc)
	if err != nil {
		tb.Fatal(err)
	}
	return found
}
