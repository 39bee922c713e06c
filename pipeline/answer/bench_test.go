package answer

import (
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/extraction"
)

// largeAnswer returns an answer of n entities and n relationships.
func largeAnswer(n int) string {
	var entities, relationships []string
	for i := range n {
		entities = append(entities, fmt.Sprintf(`{"name":"Entity %d","type":"Person"}`, i))
		relationships = append(relationships, fmt.Sprintf(`{"source_name":"Entity %d","target_name":"Entity 0","relationship_type":"knows"}`, i))
	}
	return `{"entities":[` + strings.Join(entities, ",") + `],"relationships":[` + strings.Join(relationships, ",") + `]}`
}

func BenchmarkParse(b *testing.B) {
	texts := map[string]string{
		"2,000":            largeAnswer(1000),
		"20,000":           largeAnswer(10_000),
		"200,000 entities": largeAnswer(200_000),
		"brackets":         strings.Repeat("[", 1<<20),
		"objects":          strings.Repeat("{", 1<<20),
		"open comments":    strings.Repeat("[/*", 1<<20/3),
		"open texts":       strings.Repeat(`["`, 1<<20/2),
		"single quotes":    strings.Repeat(`['  `, 1<<20/4),
		"prose":            strings.Repeat("See [1] and {x}. ", 1<<20/17),
		"lists of objects": strings.Repeat(`[{"a":1},`, 1<<20/9),
		"empty objects":    `{"entities":[` + strings.Repeat("{},", 1<<20/3),
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Parse(text)
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	got, err := Parse(largeAnswer(200_000))
	if err != nil {
		b.Fatal(err)
	}
	doc := extraction.Document{
		AllowedTypes:  []string{"Person"},
		Relationships: map[string]extraction.RelationshipSchema{"knows": {SourceTypes: []string{"person"}}},
	}
	for b.Loop() {
		if problems := Validate(Normalise(got.Extraction, doc), doc, Both); problems != nil {
			b.Fatal(problems)
		}
	}
}
