package scoring

import "extraction-experiment/outcome"

// Result is everything that scoring one extraction yields.
type Result struct {
	Counts Counts
	Scores []outcome.Score
	Explanation
	// Groups are the counts by type, for breakdowns. What was matched is where its
	// expected partner does if that has no type.
	Groups []outcome.Group
	// Warnings are oddities of the input, and limits that were reached.
	Warnings []string
}

// Explanation is how the numbers came about: what was matched with what, and what was
// not and why.
type Explanation struct {
	// Entities and Relationships are the matched pairs, in the order of the
	// expected list.
	Entities      []EntityMatch       `json:"entities"`
	Relationships []RelationshipMatch `json:"relationships"`
	// Missed were expected and not matched; spurious were extracted and not
	// matched. In the order of their lists.
	MissedEntities        []EntityMiss       `json:"missed_entities,omitempty"`
	SpuriousEntities      []EntityMiss       `json:"spurious_entities,omitempty"`
	MissedRelationships   []RelationshipMiss `json:"missed_relationships,omitempty"`
	SpuriousRelationships []RelationshipMiss `json:"spurious_relationships,omitempty"`
	Duplicates            Duplicates         `json:"duplicates,omitzero"`
	// Faults give everything that is wrong a cause; whoever asked Classify fills them in.
	Faults []Fault `json:"faults,omitempty"`
}

// EntityMatchKind says why two entities match.
type EntityMatchKind string

// The kinds of entity match.
const (
	// ExactName: the normalised names are equal.
	ExactName EntityMatchKind = "exact"
	// AliasName: the extracted name equals an alias; counts as exact.
	AliasName EntityMatchKind = "alias"
	// FuzzyName: the names are similar enough.
	FuzzyName EntityMatchKind = "fuzzy"
	// InitialsName: one name abbreviates words of the other.
	InitialsName EntityMatchKind = "initials"
)

// TypeVerdict says whether the types of a matched pair agree.
type TypeVerdict string

// The verdicts on types.
const (
	TypeCorrect  TypeVerdict = "correct"
	TypeWrong    TypeVerdict = "wrong"
	TypeUnjudged TypeVerdict = "unjudged" // the expected entity has no type
)

// EntityMatch is a pair of matched entities. Names and types are as given,
// indices are those of the given lists.
type EntityMatch struct {
	Expected       string          `json:"expected"`
	Extracted      string          `json:"extracted"`
	ExpectedIndex  int             `json:"expected_index"`
	ExtractedIndex int             `json:"extracted_index"`
	Kind           EntityMatchKind `json:"kind"`
	// Similarity of the normalised names, or of the best alias: Ratio.Num /
	// Ratio.Den; 1 for exact and alias.
	Similarity    float64       `json:"similarity"`
	Ratio         outcome.Ratio `json:"ratio"`
	Type          TypeVerdict   `json:"type"`
	ExpectedType  string        `json:"expected_type,omitempty"`
	ExtractedType string        `json:"extracted_type,omitempty"`
}

// Statement is a relationship as it was given.
type Statement struct {
	Source string `json:"source"`
	Type   string `json:"type"`
	Target string `json:"target"`
}

// RelationshipMatch is a pair of matched relationships.
type RelationshipMatch struct {
	Expected       Statement `json:"expected"`
	Extracted      Statement `json:"extracted"`
	ExpectedIndex  int       `json:"expected_index"`
	ExtractedIndex int       `json:"extracted_index"`
	MatchType      MatchType `json:"matchType"`
	// Similarity of the ends of the expected statement to the ends that they
	// were matched with, whichever way round these stand.
	SourceSimilarity float64       `json:"source_similarity"`
	TargetSimilarity float64       `json:"target_similarity"`
	SourceRatio      outcome.Ratio `json:"source_ratio"`
	TargetRatio      outcome.Ratio `json:"target_ratio"`
}

// Reason classifies why something was not matched.
type Reason string

// The reasons, of entities and of relationships.
const (
	ReasonEmptyName      Reason = "empty_name"      // the name is empty
	ReasonNothingSimilar Reason = "nothing_similar" // no counterpart comes near
	ReasonUnderThreshold Reason = "under_threshold" // the names are not similar enough
	ReasonTaken          Reason = "taken"           // the counterpart has a better or equal partner
	ReasonDuplicate      Reason = "duplicate"       // its partner is matched with a repetition of this one
	ReasonFuzzyOff       Reason = "fuzzy_off"       // similar enough, but only equal names may match
	ReasonDigitsDiffer   Reason = "digits_differ"   // similar enough, but the digits differ
	ReasonNotSearched    Reason = "not_searched"    // too many misses to look for the nearest of each

	ReasonDangling       Reason = "dangling"        // an end refers to no entity
	ReasonEmptyEnd       Reason = "empty_end"       // an end has no name
	ReasonEmptyType      Reason = "empty_type"      // the relationship has no type
	ReasonWrongType      Reason = "wrong_type"      // the ends agree, the types do not
	ReasonWrongDirection Reason = "wrong_direction" // the ends are the wrong way round
	ReasonWrongEnd       Reason = "wrong_end"       // the type agrees, and one of the ends
)

// EntityMiss is an entity that was not matched, and why.
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
	// TakenBy is the entity that it was matched with, if any: an index of the
	// side of the miss.
	TakenBy *int `json:"taken_by,omitempty"`
}

// RelationshipMiss is a relationship that was not matched, and why.
type RelationshipMiss struct {
	Index int `json:"index"`
	Statement
	Reason  Reason               `json:"reason"`
	Nearest *NearestRelationship `json:"nearest,omitempty"`
}

// NearestRelationship is the relationship of the other side that comes
// nearest.
type NearestRelationship struct {
	Index int `json:"index"`
	Statement
	// The similarity of each end of the miss to the end compared with it.
	SourceSimilarity float64 `json:"source_similarity"`
	TargetSimilarity float64 `json:"target_similarity"`
	// TakenBy is the relationship that it was matched with, if any: an index
	// of the side of the miss.
	TakenBy *int `json:"taken_by,omitempty"`
}
