package configs

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestREADME_countsAreTrue compares the tables and totals of the README with the data.
func TestREADME_countsAreTrue(t *testing.T) {
	raw, err := os.ReadFile("sample/README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(raw)
	type tally struct{ items, entities, relationships int }
	rows := map[string]*tally{}
	var all tally
	for _, it := range loadSample(t) {
		for _, key := range []string{"(" + it.Metadata.Language + ")", it.Metadata.Category} {
			if rows[key] == nil {
				rows[key] = new(tally)
			}
			rows[key].items++
			rows[key].entities += len(it.Expected.Entities)
			rows[key].relationships += len(it.Expected.Relationships)
		}
		all.items++
		all.entities += len(it.Expected.Entities)
		all.relationships += len(it.Expected.Relationships)
		if none := len(it.Expected.Relationships) == 0; none && !strings.Contains(readme, "`"+it.ID+"`") {
			t.Errorf("%s has no relationships, and the README does not say why", it.ID)
		}
	}
	for key, n := range rows {
		row := fmt.Sprintf("%s | %d | %d | %d |\n", key, n.items, n.entities, n.relationships)
		if !strings.Contains(readme, row) {
			t.Errorf("the README has no row that ends %q", row)
		}
	}
	total := fmt.Sprintf("%d entities, %d relationships", all.entities, all.relationships)
	if !strings.HasPrefix(readme, fmt.Sprintf("# %s\n\n%d invented documents", SampleName, all.items)) || !strings.Contains(readme, total) {
		t.Errorf("the README does not begin with %d documents and %s", all.items, total)
	}
}
