package scoring

import "extraction-experiment/outcome"

// Result is the result of scoring one extraction.
type Result struct {
	Counts Counts
	Scores []outcome.Score
	Explanation
	// Groups are the counts by type. An extracted entity that is matched with an expected one
	// without a type counts in the group without a type, a matched relationship in that of the
	// expected type.
	Groups []outcome.Group
	// Warnings describe oddities of the input and limits that were reached.
	Warnings []string
}

// Explanation lists what was matched, and what was not matched and why.
type Explanation struct {
	// Entities and Relationships are the matched pairs in the order of the expected list.
	Entities      []EntityMatch       `json:"entities"`
	Relationships []RelationshipMatch `json:"relationships"`
	// Missed things were expected and not matched, spurious ones were extracted and not matched;
	// both are in the order of their lists.
	MissedEntities        []EntityMiss       `json:"missed_entities,omitempty"`
	SpuriousEntities      []EntityMiss       `json:"spurious_entities,omitempty"`
	MissedRelationships   []RelationshipMiss `json:"missed_relationships,omitempty"`
	SpuriousRelationships []RelationshipMiss `json:"spurious_relationships,omitempty"`
	Duplicates            Duplicates         `json:"duplicates,omitzero"`
	// Faults are the result of Classify. Score does not fill them in.
	Faults []Fault `json:"faults,omitempty"`
}

// EntityMatchKind is the reason why two entities match.
type EntityMatchKind string

// Kinds of entity match.
const (
	// ExactName: the normalised names are equal.
	ExactName EntityMatchKind = "exact"
	// AliasName: the extracted name equals an alias of the expected entity; counts as exact.
	AliasName EntityMatchKind = "alias"
	// FuzzyName: the names are similar enough.
	FuzzyName EntityMatchKind = "fuzzy"
	// InitialsName: the names agree by their initials, see Options.Initials.
	InitialsName EntityMatchKind = "initials"
)

// TypeVerdict is whether the types of a matched pair agree.
type TypeVerdict string

// Verdicts on types.
const (
	TypeCorrect  TypeVerdict = "correct"
	TypeWrong    TypeVerdict = "wrong"
	TypeUnjudged TypeVerdict = "unjudged" // the expected entity has no type
)

// EntityMatch is a pair of matched entities. Names and types are as given, indices are of the
// given lists.
type EntityMatch struct {
	Expected       string          `json:"expected"`
	Extracted      string          `json:"extracted"`
	ExpectedIndex  int             `json:"expected_index"`
	ExtractedIndex int             `json:"extracted_index"`
	Kind           EntityMatchKind `json:"kind"`
	// Similarity is Ratio as a number: the similarity of the normalised names, or of the best
	// alias; 1 for exact and alias.
	Similarity    float64       `json:"similarity"`
	Ratio         outcome.Ratio `json:"ratio"`
	Type          TypeVerdict   `json:"type"`
	ExpectedType  string        `json:"expected_type,omitempty"`
	ExtractedType string        `json:"extracted_type,omitempty"`
}

// Statement is a relationship as given.
type Statement struct {
	Source string `json:"source"`
	Type   string `json:"type"`
	Target string `json:"target"`
}

// RelationshipMatch is a pair of matched relationships; indices are of the given lists.
type RelationshipMatch struct {
	Expected       Statement `json:"expected"`
	Extracted      Statement `json:"extracted"`
	ExpectedIndex  int       `json:"expected_index"`
	ExtractedIndex int       `json:"extracted_index"`
	MatchType      MatchType `json:"matchType"`
	// SourceSimilarity and TargetSimilarity compare the ends of the expected statement with the
	// ends that they were matched with, which may be swapped. The ratios are the same numbers.
	SourceSimilarity float64       `json:"source_similarity"`
	TargetSimilarity float64       `json:"target_similarity"`
	SourceRatio      outcome.Ratio `json:"source_ratio"`
	TargetRatio      outcome.Ratio `json:"target_ratio"`
}

// MatchType is the way in which two relationships match.
type MatchType string

// Ways in which relationships match, the preferred first.
const (
	// ExactMatch: the same type and equal ends; for a symmetric type, the ends may be swapped.
	ExactMatch MatchType = "exact"
	// InverseMatch: inverse types, and equal ends that are swapped.
	InverseMatch MatchType = "inverse"
	// FuzzyMatch: as ExactMatch, but at least one end is similar instead of equal.
	FuzzyMatch MatchType = "fuzzy"
	// InverseFuzzyMatch: as InverseMatch, but at least one end is similar instead of equal.
	InverseFuzzyMatch MatchType = "inverse-fuzzy"
)

// matchTypes has the match types by rank.
var matchTypes = [...]MatchType{ExactMatch, InverseMatch, FuzzyMatch, InverseFuzzyMatch}

// Reason is why something was not matched.
type Reason string

// Reasons why entities and relationships were not matched.
const (
	ReasonEmptyName      Reason = "empty_name"      // the name is empty
	ReasonNothingSimilar Reason = "nothing_similar" // no counterpart is near
	ReasonUnderThreshold Reason = "under_threshold" // the names are not similar enough
	ReasonTaken          Reason = "taken"           // the counterpart has a better or equal partner
	ReasonDuplicate      Reason = "duplicate"       // the counterpart is matched with a repetition of this one
	ReasonFuzzyOff       Reason = "fuzzy_off"       // similar enough, but only equal names may match
	ReasonDigitsDiffer   Reason = "digits_differ"   // similar enough, but the digits differ
	ReasonNotSearched    Reason = "not_searched"    // the search for the nearest reached its limit

	ReasonDangling       Reason = "dangling"        // an end refers to no entity
	ReasonEmptyEnd       Reason = "empty_end"       // an end has no name
	ReasonEmptyType      Reason = "empty_type"      // the relationship has no type
	ReasonWrongType      Reason = "wrong_type"      // the ends agree, but not the types
	ReasonWrongDirection Reason = "wrong_direction" // the ends are swapped
	ReasonWrongEnd       Reason = "wrong_end"       // the type and one of the ends agree
)

// EntityMiss is an entity that was not matched. Nearest is nil if no name of the other side is
// near.
type EntityMiss struct {
	Index   int            `json:"index"`
	Name    string         `json:"name"`
	Type    string         `json:"type,omitempty"`
	Reason  Reason         `json:"reason"`
	Nearest *NearestEntity `json:"nearest,omitempty"`
}

// NearestEntity is the most similar entity of the other side.
type NearestEntity struct {
	Index      int           `json:"index"`
	Name       string        `json:"name"`
	Type       string        `json:"type,omitempty"`
	Similarity float64       `json:"similarity"`
	Ratio      outcome.Ratio `json:"ratio"`
	// TakenBy is the index of the entity that it is matched with, on the side of the miss; or nil.
	TakenBy *int `json:"taken_by,omitempty"`
}

// RelationshipMiss is a relationship that was not matched. Nearest is nil if no statement is
// near.
type RelationshipMiss struct {
	Index int `json:"index"`
	Statement
	Reason  Reason               `json:"reason"`
	Nearest *NearestRelationship `json:"nearest,omitempty"`
}

// NearestRelationship is the nearest relationship of the other side.
type NearestRelationship struct {
	Index int `json:"index"`
	Statement
	// Similarities of the ends of the miss to the ends that they were compared with.
	SourceSimilarity float64 `json:"source_similarity"`
	TargetSimilarity float64 `json:"target_similarity"`
	// TakenBy is the index of the relationship that it is matched with, on the side of the miss; or
	// nil.
	TakenBy *int `json:"taken_by,omitempty"`
}
