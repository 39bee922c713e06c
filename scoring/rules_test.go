package scoring

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
)

// TestSimilarity_exactValues checks the number of edits and the longer length of pairs of names,
// and whether they match at more than 0.85.
func TestSimilarity_exactValues(t *testing.T) {
	tests := []struct {
		expected, extracted string
		edits, longer       int64
		match               bool
	}{
		{"John D. Smith", "John Smith", 3, 13, false},
		{"J. Smith", "John Smith", 3, 10, false},
		{"John D Smith", "John Smith", 2, 12, false},
		{"Jon Smith", "John Smith", 1, 10, true},
		{"John Smyth", "John Smith", 1, 10, true},
		{"Jane Smith", "John Smith", 3, 10, false},
		{"Apollo 11", "Apollo 12", 1, 9, true},
		{"Boeing 737", "Boeing 747", 1, 10, true},
		{"2023-01-01", "2023-01-02", 1, 10, true},
		{"Louis XIV", "Louis XV", 1, 9, true},
		{"Müller", "Muller", 1, 6, false},
		{"北京大学", "北京大學", 1, 4, false},
		{"O’Brien", "O'Brien", 1, 7, true},
		{"Microsoft", "Microsoft Corporation", 12, 21, false},
		{"abcdefghijklmnopqrst", "abcdefghijklmnopqxyz", 3, 20, false},
	}
	for _, tt := range tests {
		for _, o := range []Options{DefaultOptions(), with(func(o *Options) { o.Threshold = "0" })} {
			r := scoreEntities(t, o, ents(tt.expected, ""), ents(tt.extracted, ""))
			kind := FuzzyName
			if o.Threshold != "0" && !tt.match {
				kind = ""
			}
			t.Run(tt.expected+"/"+tt.extracted, func(t *testing.T) { wantMatch(t, r, kind, tt.longer-tt.edits, tt.longer) })
		}
	}
	// 17 of 20: exactly 0.85, which only an inclusive threshold takes.
	inclusive := with(func(o *Options) { o.ThresholdInclusive = true })
	wantMatch(t, scoreEntities(t, inclusive, ents("abcdefghijklmnopqrst", ""), ents("abcdefghijklmnopqxyz", "")), FuzzyName, 17, 20)
}

func TestScore_emptySides(t *testing.T) {
	one, none := ents("Ada", "person"), ents()
	tests := map[string]struct {
		expected, extracted []extraction.Entity
		p, r, f1            float64
		vacuous             bool
	}{
		"both empty":        {none, none, 1, 1, 1, true},
		"nothing extracted": {one, none, 0, 0, 0, false},
		"extracted nil":     {one, nil, 0, 0, 0, false},
		"nothing expected":  {none, one, 0, 0, 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := scoreEntities(t, DefaultOptions(), tt.expected, tt.extracted)
			for score, want := range map[string]float64{EntityPrecision: tt.p, EntityRecall: tt.r, EntityF1: tt.f1, EntityExactF1: tt.f1, EntityTypedF1: tt.f1, EntityStrictF1: tt.f1, ItemPerfect: tt.f1} {
				s, _ := outcome.Lookup(r.Scores, score)
				if s.Value == nil || *s.Value != want || s.Vacuous != tt.vacuous {
					t.Errorf("%+v, want %v, vacuous %v", s, want, tt.vacuous)
				}
			}
			wantUndefined(t, r, TypeAccuracy, NothingMatched)
			wantUndefined(t, r, RelationshipF1, RelationshipsNotAnnotated)
		})
	}
	r := scoreRelationships(t, DefaultOptions(), rels(), rels("A", "owns", "B"))
	wantScore(t, r, RelationshipAccuracy, 0, 1, 0)
	wantScore(t, r, RelationshipRecall, 0, 0, 0)
	r = mustNew(t, DefaultOptions()).Score(extraction.Extraction{}, extraction.Extraction{Entities: one})
	wantUndefined(t, r, EntityF1, EntitiesNotAnnotated)
	wantUndefined(t, r, ItemPerfect, NothingAnnotated)
}

func TestScore_types(t *testing.T) {
	wantUndefined(t, scoreEntities(t, DefaultOptions(), ents("Ada", ""), ents("Ada", "person")), TypeAccuracy, NoExpectedTypes)
	// Spelling does not matter; a missing extracted type is wrong.
	r := scoreEntities(t, DefaultOptions(),
		ents("Ada", "Legal Person", "Bob", "LEGAL-PERSON", "Cid", "legal__person", "Dan", "PER", "Eva", "legal person"),
		ents("Ada", "legal_person", "Bob", " legal - person ", "Cid", "ＬＥＧＡＬ person", "Dan", "person", "Eva", ""))
	wantScore(t, r, TypeAccuracy, 3, 5, 0.6)
	o := with(func(o *Options) { o.TypeAliases = map[string]string{"PER": "Human", "human": "Person"} })
	wantScore(t, scoreEntities(t, o, ents("Dan", "PER"), ents("Dan", "person")), TypeAccuracy, 1, 1, 1)
	wantMatchType(t, scoreRelationships(t, with(func(o *Options) { o.TypeAliases = map[string]string{"has boss": "managed_by"} }),
		rels("A", "manages", "B"), rels("B", "Has-Boss", "A")), InverseMatch)
	// An item with a wrong type is not perfect, one without types may be.
	wantScore(t, scoreEntities(t, DefaultOptions(), ents("Ada", "x"), ents("Ada", "y")), ItemPerfect, 0, 1, 0)
	wantScore(t, scoreEntities(t, DefaultOptions(), ents("Ada", ""), ents("Ada", "y")), ItemPerfect, 1, 1, 1)
	// An item without relationships that has an entity is not vacuous.
	r = mustNew(t, DefaultOptions()).Score(extraction.Extraction{Entities: ents("Ada", ""), Relationships: rels()},
		extraction.Extraction{Entities: ents("Ada", "")})
	if perfect, _ := outcome.Lookup(r.Scores, ItemPerfect); perfect.Vacuous {
		t.Errorf("%+v", perfect)
	}
}

// TestScore_oddities has cases that other systems get wrong.
func TestScore_oddities(t *testing.T) {
	t.Run("the best assignment, not the first", func(t *testing.T) {
		// In list order "anna bergh" would take "anna berg", and leave
		// nothing for "anna bers".
		expected, extracted := ents("anna bergh", "", "anna bers", ""), ents("anna berg", "", "anna berghs", "")
		for _, list := range [][]extraction.Entity{extracted, {extracted[1], extracted[0]}} {
			wantScore(t, scoreEntities(t, DefaultOptions(), expected, list), EntityF1, 4, 4, 1)
		}
	})
	t.Run("invented ends lower the accuracy", func(t *testing.T) {
		extracted := append(rels("A", "owns", "B"), extraction.Relationship{Source: "A", TargetRef: "e9", Type: "owns"})
		r := scoreRelationships(t, DefaultOptions(), rels("A", "owns", "B"), extracted)
		wantScore(t, r, RelationshipAccuracy, 1, 2, 0.5)
		if len(r.SpuriousRelationships) != 1 || r.SpuriousRelationships[0].Reason != ReasonDangling || r.SpuriousRelationships[0].Target != "e9" {
			t.Errorf("spurious: %+v", r.SpuriousRelationships)
		}
		want := []string{"extracted: 1 relationship with an end that refers to no entity, which counts and never matches"}
		if diff := cmp.Diff(want, r.Warnings); diff != "" {
			t.Error(diff)
		}
		// Names beside a dangling reference do not count.
		for _, odd := range []extraction.Relationship{{Source: "A", SourceRef: "e9", Target: "B", Type: "owns"}, {Source: "A", Target: "B", TargetRef: "e9", Type: "owns"}} {
			r := scoreRelationships(t, DefaultOptions(), rels("A", "owns", "B"), []extraction.Relationship{odd})
			wantScore(t, r, RelationshipAccuracy, 0, 1, 0)
		}
	})
	t.Run("a warning is only of what counts", func(t *testing.T) {
		dangling := extraction.Relationship{SourceRef: "e9"}
		odd := extraction.Extraction{
			Entities: ents("", "", " ", ""), Relationships: []extraction.Relationship{dangling, dangling},
		}
		given := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
		collapsed := with(func(o *Options) { o.Dedupe = CollapseExact })
		for _, tt := range []struct {
			options  Options
			expected extraction.Extraction
			want     []string
		}{
			{DefaultOptions(), extraction.Extraction{}, nil}, // nothing is annotated
			{DefaultOptions(), given, []string{"2 entities", "2 relationships"}},
			{collapsed, given, []string{"1 entity", "1 relationship"}},
		} {
			got := mustNew(t, tt.options).Score(tt.expected, odd).Warnings
			says := func(warning, want string) bool { return strings.HasPrefix(warning, "extracted: "+want+" with") }
			if !slices.EqualFunc(got, tt.want, says) {
				t.Errorf("%q, want those of %q", got, tt.want)
			}
		}
	})
	t.Run("names may hold anything that looks like syntax", func(t *testing.T) {
		r := scoreRelationships(t, DefaultOptions(), rels("a --b--> c", "owns", "d"), rels("a", "b--> c --owns", "d"))
		wantMatchType(t, r, "")
		wantMatchType(t, scoreRelationships(t, DefaultOptions(), rels("a --b--> c", "owns", "d"), rels("A --b--> c", "owns", "d")), ExactMatch)
	})
	t.Run("a duplicate of a matched name is listed as spurious", func(t *testing.T) {
		r := scoreEntities(t, DefaultOptions(), ents("Ada", ""), ents("Ada", "", "ADA", ""))
		wantScore(t, r, EntityPrecision, 1, 2, 0.5)
		if len(r.SpuriousEntities) != 1 || r.SpuriousEntities[0].Reason != ReasonDuplicate {
			t.Errorf("spurious: %+v", r.SpuriousEntities)
		}
		if diff := cmp.Diff(Duplicates{ExtractedEntities: []Duplicate{{Index: 1, Of: 0}}}, r.Duplicates); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("lengths are taken after folding", func(t *testing.T) {
		wantMatch(t, scoreEntities(t, DefaultOptions(), ents("Große Straße", ""), ents("GROSSE STRASSE", "")), ExactName, 1, 1)
		// İ folds to i and a combining dot: istanbul / i̇stanbul, 1 edit in 9.
		wantMatch(t, scoreEntities(t, DefaultOptions(), ents("İstanbul", ""), ents("istanbul", "")), FuzzyName, 8, 9)
		wantMatch(t, scoreEntities(t, DefaultOptions(), ents("ΣΑΣ", ""), ents("σας", "")), ExactName, 1, 1)
		wantMatch(t, scoreEntities(t, DefaultOptions(), ents("Café\u00a0 Noir", ""), ents("Cafe\u0301 Noir", "")), ExactName, 1, 1)
	})
}

func TestScore_names(t *testing.T) {
	aliased := []extraction.Entity{{Name: "International Business Machines", Aliases: []string{"IBM", "", "Big Blue Inc"}}}
	wantMatch(t, scoreEntities(t, DefaultOptions(), aliased, ents("ibm", "")), AliasName, 1, 1)
	wantMatch(t, scoreEntities(t, DefaultOptions(), aliased, ents("Big Blue Inc.", "")), FuzzyName, 12, 13)
	wantScore(t, scoreEntities(t, DefaultOptions(), aliased, ents("ibm", "")), EntityExactF1, 2, 2, 1)
	// Aliases of extracted entities do not count.
	wantMatch(t, scoreEntities(t, DefaultOptions(), ents("ibm", ""), aliased), "", 0, 0)
	// Ends stand for all names of an entity, whichever they spell.
	r := mustNew(t, DefaultOptions()).Score(
		extraction.Extraction{Entities: aliased, Relationships: rels("IBM", "owns", "Lotus")},
		extraction.Extraction{Relationships: rels("Lotus", "owned by", "International Business Machines")})
	wantMatchType(t, r, InverseMatch)
	// Empty names count and never match, aliases or not.
	r = scoreEntities(t, DefaultOptions(), []extraction.Entity{{Name: " ", Aliases: []string{"x"}}}, ents("", "", "x", ""))
	wantScore(t, r, EntityRecall, 0, 1, 0)
	if r.MissedEntities[0].Reason != ReasonEmptyName || len(r.Warnings) != 2 {
		t.Errorf("missed %+v, warnings %q", r.MissedEntities, r.Warnings)
	}
	// Empty ends and types never match.
	for _, odd := range [][]extraction.Relationship{rels("", "owns", "B"), rels("A", "owns", ""), rels("A", " - ", "B")} {
		wantMatchType(t, scoreRelationships(t, DefaultOptions(), odd, odd), "")
	}
}

func TestScore_relationshipRules(t *testing.T) {
	tests := map[string]struct {
		options             Options
		expected, extracted []extraction.Relationship
		want                RelationshipCounts
	}{
		"one fact, stated twice": {DefaultOptions(), rels("A", "owns", "B"), rels("A", "owns", "B", "B", "owned_by", "A"),
			RelationshipCounts{Expected: 1, Extracted: 2, Correct: 1, Exact: 1}},
		"collapsed": {with(func(o *Options) { o.Dedupe = CollapseExact }), rels("A", "owns", "B"), rels("B", "owned_by", "A", "A", "owns", "B"),
			RelationshipCounts{Expected: 1, Extracted: 1, Correct: 1, Exact: 1}},
		"symmetric and its own inverse": {with(func(o *Options) { o.Inverse = [][2]string{{"friend_of", "friend_of"}} }),
			rels("A", "friend_of", "B"), rels("B", "friend_of", "A"), RelationshipCounts{Expected: 1, Extracted: 1, Correct: 1, Exact: 1}},
		"its own inverse": {with(func(o *Options) { o.Inverse = [][2]string{{"mirrors", "mirrors"}} }),
			rels("A", "mirrors", "B"), rels("B", "mirrors", "A"), RelationshipCounts{Expected: 1, Extracted: 1, Correct: 1, Inverse: 1}},
		"several inverses": {with(func(o *Options) { o.Inverse = [][2]string{{"owns", "owned_by"}, {"held_by", "owns"}} }),
			rels("A", "owns", "B", "C", "owns", "D"), rels("B", "owned_by", "A", "D", "held_by", "C"), RelationshipCounts{Expected: 2, Extracted: 2, Correct: 2, Inverse: 2}},
		"to itself": {DefaultOptions(), rels("A", "owns", "A"), rels("A", "owned_by", "A"), RelationshipCounts{Expected: 1, Extracted: 1, Correct: 1, Inverse: 1}},
		"unknown types are directed": {DefaultOptions(), rels("A", "zaps", "B", "C", "zaps", "D"), rels("B", "zaps", "A", "C", "zaps", "D"),
			RelationshipCounts{Expected: 2, Extracted: 2, Correct: 1, Exact: 1}},
		"the extended table": {with(func(o *Options) {
			o.Inverse, o.Symmetric = ExtendedVocabulary().Inverse, ExtendedVocabulary().Symmetric
		}),
			rels("A", "causes", "B", "C", "similar_to", "D"), rels("B", "caused_by", "A", "D", "similar_to", "C"), RelationshipCounts{Expected: 2, Extracted: 2, Correct: 2, Inverse: 1, Exact: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := scoreRelationships(t, tt.options, tt.expected, tt.extracted)
			if diff := cmp.Diff(tt.want, *r.Counts.Relationships); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOptions_change checks that each option changes a result.
func TestOptions_change(t *testing.T) {
	tests := map[string]struct {
		change              func(*Options)
		expected, extracted string
		before, after       EntityMatchKind
	}{
		"threshold":           {func(o *Options) { o.Threshold = "0.7" }, "John Smith", "John D. Smith", "", FuzzyName},
		"threshold_inclusive": {func(o *Options) { o.ThresholdInclusive = true }, "aaaaaaaaaaaaaaaaabbb", "aaaaaaaaaaaaaaaaaccc", "", FuzzyName},
		"normalise lower":     {func(o *Options) { o.Normalise = Lower }, "Weiß", "WEISS", ExactName, ""},
		"normalise none":      {func(o *Options) { o.Normalise = NoNormalisation }, "Rome", "rome", ExactName, ""},
		"fold_diacritics":     {func(o *Options) { o.FoldDiacritics = true }, "Müller", "Muller", "", ExactName},
		"fuzzy_entities":      {func(o *Options) { o.FuzzyEntities = false }, "Jon Smith", "John Smith", FuzzyName, ""},
		"initials":            {func(o *Options) { o.Initials = true }, "J. Smith", "John Smith", "", InitialsName},
		"digits_equal":        {func(o *Options) { o.DigitsEqual = true }, "Apollo 11", "Apollo 12", FuzzyName, ""},
	}
	kindOf := func(r Result) EntityMatchKind {
		if len(r.Entities) == 0 {
			return ""
		}
		return r.Entities[0].Kind
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			expected, extracted := ents(tt.expected, ""), ents(tt.extracted, "")
			if got := kindOf(scoreEntities(t, DefaultOptions(), expected, extracted)); got != tt.before {
				t.Errorf("by default %q, want %q", got, tt.before)
			}
			if got := kindOf(scoreEntities(t, with(tt.change), expected, extracted)); got != tt.after {
				t.Errorf("changed %q, want %q", got, tt.after)
			}
		})
	}
	duplicated := ents("Ada", "x", "ADA", "X")
	r := scoreEntities(t, with(func(o *Options) { o.Dedupe = CollapseExact }), duplicated, ents("Ada", "x"))
	wantScore(t, r, EntityF1, 2, 2, 1)
	if !r.Duplicates.ExpectedEntities[0].Collapsed {
		t.Errorf("duplicates %+v", r.Duplicates)
	}
	wantScore(t, scoreEntities(t, DefaultOptions(), duplicated, ents("Ada", "x")), EntityF1, 2, 3, 2.0/3)
	none := with(func(o *Options) { o.Inverse, o.Symmetric = nil, nil })
	wantMatchType(t, scoreRelationships(t, none, rels("A", "owns", "B"), rels("B", "owned_by", "A")), "")
	wantMatchType(t, scoreRelationships(t, none, rels("A", "married_to", "B"), rels("B", "married_to", "A")), "")
}

func TestSameByInitials(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"J. Smith", "John Smith", true},
		{"John D. Smith", "John Smith", true},
		{"John David Smith", "John Smith", false}, // David is not a single letter
		{"J. D. Smith", "John David Smith", true},
		{"J D Smith", "John Smith", true},
		{"J. Smith", "Jane Smyth", false},
		{"Smith", "J. Smith", false}, // one word
		{"K. Smith", "John Smith", false},
		{"J. R. R. Tolkien", "John Ronald Reuel Tolkien", true},
		{"J. R. Tolkien", "John Ronald Reuel Tolkien", false},
		{"A. B Smith", "A. B. Bea Smith", true}, // B agrees with Bea, and B. is left over
		{"JR Smith", "John Smith", false},       // JR is not a single letter
		{"1 Smith", "1st Smith", false},         // nor is a digit a letter
	}
	for _, tt := range tests {
		for _, p := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			n := &names{dictionary: newDictionary(DefaultOptions().normalise)}
			n.add(p[0])
			n.add(p[1])
			n.close()
			if got := sameByInitials(n.tokensOf(n.id(p[0])), n.tokensOf(n.id(p[1]))); got != tt.want {
				t.Errorf("%q and %q: %v, want %v", p[0], p[1], got, tt.want)
			}
		}
	}
	o := with(func(o *Options) { o.Initials = true })
	r := scoreEntities(t, o, ents("J. Smith", ""), ents("John Smith", ""))
	wantMatch(t, r, InitialsName, 9, 10)
	wantScore(t, r, EntityExactF1, 0, 2, 0)
	// Plain similarity wins where it is higher: 20/21 over 0.9.
	wantMatch(t, scoreEntities(t, o, ents("John Smithsonianbergs", ""), ents("Jhn Smithsonianbergs", "")), FuzzyName, 20, 21)
	wantMatchType(t, scoreRelationships(t, o, rels("J. Smith", "owns", "X"), rels("John Smith", "owns", "X")), FuzzyMatch)
}

func TestScore_misses(t *testing.T) {
	first := func(list []EntityMiss) EntityMiss { return list[0] }
	r := scoreEntities(t, DefaultOptions(), ents("John Smith", ""), ents("John D. Smith", "", "Rome", ""))
	miss := first(r.MissedEntities)
	if miss.Reason != ReasonUnderThreshold || miss.Nearest == nil || miss.Nearest.Name != "John D. Smith" || miss.Nearest.Ratio != (outcome.Ratio{Num: 10, Den: 13}) {
		t.Errorf("missed %+v, nearest %+v", miss, miss.Nearest)
	}
	if got := r.SpuriousEntities[1]; got.Reason != ReasonNothingSimilar || got.Nearest != nil {
		t.Errorf("spurious %+v", got)
	}
	r = scoreEntities(t, DefaultOptions(), ents("John Smith", "", "John Smiths", ""), ents("John Smith", ""))
	if miss := first(r.MissedEntities); miss.Reason != ReasonTaken || miss.Nearest == nil || *miss.Nearest.TakenBy != 0 {
		t.Errorf("missed %+v", miss)
	}
	off := with(func(o *Options) { o.FuzzyEntities = false })
	if miss := first(scoreEntities(t, off, ents("John Smith", ""), ents("Jon Smith", "")).MissedEntities); miss.Reason != ReasonFuzzyOff {
		t.Errorf("missed %+v", miss)
	}
	digits := with(func(o *Options) { o.DigitsEqual = true })
	if miss := first(scoreEntities(t, digits, ents("Apollo 11", ""), ents("Apollo 12", "")).MissedEntities); miss.Reason != ReasonDigitsDiffer {
		t.Errorf("missed %+v", miss)
	}
}

func TestScore_relationshipMisses(t *testing.T) {
	tests := []struct {
		reason              Reason
		expected, extracted []extraction.Relationship
	}{
		{ReasonWrongDirection, rels("A", "owns", "B"), rels("B", "owns", "A")},
		{ReasonWrongType, rels("A", "owns", "B"), rels("A", "leads", "B")},
		{ReasonWrongEnd, rels("A", "owns", "B"), rels("A", "owns", "C")},
		{ReasonNothingSimilar, rels("A", "owns", "B"), rels("C", "leads", "D")},
		{ReasonEmptyType, rels("A", "", "B"), rels("A", "owns", "B")},
		{ReasonEmptyEnd, rels("A", "owns", ""), rels("A", "owns", "B")},
		{ReasonDuplicate, rels("A", "owns", "B", "a", "owns", "b"), rels("A", "owns", "B")},
		{ReasonTaken, rels("B", "owned_by", "A", "A", "owns", "B"), rels("A", "owns", "B")},
		{ReasonTaken, rels("Ada Lovelaces", "owns", "B", "Ada Lovelace", "owns", "B"), rels("Ada Lovelace", "owns", "B")},
	}
	for _, tt := range tests {
		r := scoreRelationships(t, DefaultOptions(), tt.expected, tt.extracted)
		if len(r.MissedRelationships) != 1 || r.MissedRelationships[0].Reason != tt.reason {
			t.Errorf("missed %+v, want %s", r.MissedRelationships, tt.reason)
		}
	}
}

func TestScore_groups(t *testing.T) {
	r := mustNew(t, DefaultOptions()).Score(
		extraction.Extraction{Entities: ents("Ada", "Person", "Rome", "Place", "Bob", ""), Relationships: rels("A", "owns", "B", "C", "owns", "D")},
		extraction.Extraction{Entities: ents("Ada", "person", "Rome", "Person"), Relationships: rels("B", "owned_by", "A", "X", "leads", "Y")})
	want := []outcome.Group{
		{Kind: "entity_type", Name: "(no type)", Expected: 1},
		{Kind: "entity_type", Name: "person", Expected: 1, Extracted: 2, Matched: 1},
		{Kind: "entity_type", Name: "place", Expected: 1},
		{Kind: "relationship_type", Name: "leads", Extracted: 1},
		{Kind: "relationship_type", Name: "owns", Expected: 2, Extracted: 1, Matched: 1},
	}
	if diff := cmp.Diff(want, r.Groups); diff != "" {
		t.Error(diff)
	}
}

// TestScore_groups_untyped checks that an entity that is matched with one of no expected type
// counts in the group without a type, and not as an error of another type.
func TestScore_groups_untyped(t *testing.T) {
	r := scoreEntities(t, DefaultOptions(), ents("Ada", "", "Bob", "", "Cy", "person"), ents("Ada", "person", "Bob", "-", "Cy", "person", "Dee", "person"))
	want := []outcome.Group{
		{Kind: "entity_type", Name: "(no type)", Expected: 2, Extracted: 2, Matched: 2},
		{Kind: "entity_type", Name: "person", Expected: 1, Extracted: 2, Matched: 1},
	}
	if diff := cmp.Diff(want, r.Groups); diff != "" {
		t.Error(diff)
	}
}

// TestScore_explained checks the comments of scores and the counts that are recorded with them.
func TestScore_explained(t *testing.T) {
	s := mustNew(t, DefaultOptions())
	r := s.Score(
		extraction.Extraction{Entities: ents("Ada", "Person", "Rome", "Place", "Bob", ""), Relationships: rels("A", "owns", "B", "C", "owns", "D")},
		extraction.Extraction{Entities: ents("ada", "person", "Rome", "Person"), Relationships: rels("B", "owned_by", "A", "X", "leads", "Y")})
	nothing := s.Score(extraction.Extraction{Entities: ents()}, extraction.Extraction{})
	tests := map[string]struct {
		result          Result
		score           string
		comment, counts string
	}{
		"a ratio":                   {r, EntityPrecision, "2/2 extracted entities matched", `{"matched_entities":2,"extracted_entities":2}`},
		"of both sides":             {r, EntityF1, "2 matched of 3 expected and 2 extracted", `{"matched_entities":2,"expected_entities":3,"extracted_entities":2}`},
		"with what was matched":     {r, TypeAccuracy, "1/2 judged types correct", `{"type_correct":1,"type_judged":2,"matched_entities":2}`},
		"with the ways to match":    {r, RelationshipAccuracy, "1/2 extracted relationships correct", `{"correct_relationships":1,"extracted_relationships":2,"rel_exact":0,"rel_inverse":1,"rel_fuzzy":0,"rel_inverse_fuzzy":0}`},
		"nothing to find, or found": {nothing, EntityRecall, "nothing expected, nothing extracted", `{"matched_entities":0,"expected_entities":0}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, _ := outcome.Lookup(tt.result.Scores, tt.score)
			var want map[string]int64
			if err := json.Unmarshal([]byte(tt.counts), &want); err != nil {
				t.Fatal(err)
			}
			counts := map[string]int64{}
			for _, c := range got.Counts {
				counts[c.Name] = c.N
			}
			if diff := cmp.Diff(want, counts); diff != "" || got.Comment != tt.comment {
				t.Errorf("%q, counts %s", got.Comment, diff)
			}
		})
	}
}

// TestScore_repeatedGold checks the warning about gold that repeats itself, and that there is
// none if repetitions are collapsed.
func TestScore_repeatedGold(t *testing.T) {
	gold := extraction.Extraction{Entities: ents("Ada", "Person", "ada", "Person"), Relationships: rels("A", "owns", "B", "B", "owned_by", "A")}
	for dedupe, want := range map[Dedupe][]string{
		KeepAll:       {"expected: 2 repetitions; only one of those alike can match each extracted one"},
		CollapseExact: nil,
	} {
		r := mustNew(t, with(func(o *Options) { o.Dedupe = dedupe })).Score(gold, extraction.Extraction{})
		if diff := cmp.Diff(want, r.Warnings); diff != "" {
			t.Errorf("%s: %s", dedupe, diff)
		}
	}
}

func TestCounts_JSON(t *testing.T) {
	r := scoreEntities(t, DefaultOptions(), ents("Ada", "person"), ents("ada", "person", "Bob", ""))
	raw, err := json.Marshal(r.Counts)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"expected_entities":1,"extracted_entities":2,"matched_entities":1,"exact_entities":1,"type_judged":1,"type_correct":1,"strict_entities":1,` +
		`"expected_relationships":null,"extracted_relationships":null,"correct_relationships":null,"rel_exact":null,"rel_inverse":null,"rel_fuzzy":null,"rel_inverse_fuzzy":null}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func TestScore_untyped(t *testing.T) {
	f1 := func(v float64) *float64 { return &v }
	tests := map[string]struct {
		expected, extracted []extraction.Entity
		want                *float64
	}{
		"no expected entity has a type":         {ents("Ada", "", "Bob", "-"), ents("Ada", "person"), nil},
		"the only type is of an entity unnamed": {ents("Ada", "", "", "person"), ents("Ada", "person"), nil},
		"one of two has a type":                 {ents("Ada", "person", "Bob", ""), ents("Ada", "person", "Bob", "person"), f1(0.5)}, // 2·1/(2+2)
		"nothing expected, something extracted": {ents(), ents("Ada", "person"), f1(0)},
		"nothing expected, nothing extracted":   {ents(), ents(), f1(1)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := scoreEntities(t, DefaultOptions(), tt.expected, tt.extracted)
			for _, score := range []string{EntityTypedF1, EntityStrictF1} {
				s, _ := outcome.Lookup(r.Scores, score)
				if diff := cmp.Diff(tt.want, s.Value); diff != "" {
					t.Errorf("%s: %s", score, diff)
				}
				if tt.want == nil && s.Reason != NoTypedEntity {
					t.Errorf("%s has no value because %q", score, s.Reason)
				}
			}
		})
	}
}

func TestUndelivered(t *testing.T) {
	tests := map[string]struct {
		expected extraction.Extraction
		want     string
	}{
		"nothing annotated": {extraction.Extraction{}, ""},
		"untyped":           {extraction.Extraction{Entities: ents("Ada", "-")}, "entity_precision entity_recall entity_f1 entity_exact_f1 item_perfect"},
		"none expected":     {extraction.Extraction{Entities: ents()}, "entity_precision entity_recall entity_f1 entity_exact_f1 entity_typed_f1 entity_strict_f1 item_perfect"},
		"typed":             {extraction.Extraction{Entities: ents("Ada", "x")}, "entity_precision entity_recall entity_f1 type_accuracy entity_exact_f1 entity_typed_f1 entity_strict_f1 item_perfect"},
		"relationships":     {extraction.Extraction{Relationships: rels()}, "relationship_accuracy relationship_recall relationship_f1 item_perfect"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, s := range mustNew(t, DefaultOptions()).Undelivered(tt.expected) {
				names = append(names, s.Name)
				if s.Value != nil || s.Reason != ItemFailed {
					t.Errorf("%+v", s)
				}
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
	// If everything matches, the scores of a delivered item are those that a failed one lacks.
	gold := extraction.Extraction{Entities: ents("Ada", "x"), Relationships: rels("A", "owns", "B")}
	s := mustNew(t, DefaultOptions())
	if got, want := len(s.Undelivered(gold)), len(s.Score(gold, gold).Scores); got != want || slices.ContainsFunc(s.Score(gold, gold).Scores, func(s outcome.Score) bool { return s.Value == nil }) {
		t.Errorf("%d scores undelivered, %d delivered", got, want)
	}
}
