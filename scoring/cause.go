package scoring

// Cause says what kind of fault stands between an extraction and what was
// expected. Every missed, spurious or wrongly typed thing has exactly one; see
// Classify.
type Cause string

// The causes, of entities and of relationships.
const (
	// CauseMissed: expected, and nothing extracted answers to it.
	CauseMissed Cause = "missed"
	// CauseSpurious: extracted, named in the document, and not expected.
	CauseSpurious Cause = "spurious"
	// CauseBoundary: extracted with a name that is similar and not similar
	// enough, "Microsoft" for "Microsoft Corporation".
	CauseBoundary Cause = "boundary"
	// CauseWrongType: an entity matched, with another type than expected.
	CauseWrongType Cause = "wrong_type"
	// CauseSwapped: a relationship whose ends are the wrong way round.
	CauseSwapped Cause = "swapped_direction"
	// CauseWrongRelationshipType: a relationship between the right ends, of
	// another type.
	CauseWrongRelationshipType Cause = "wrong_relationship_type"
	// CauseDangling: a relationship with an end that names no entity.
	CauseDangling Cause = "dangling_end"
	// CauseDuplicate: a repetition of something that is matched, or listed,
	// already.
	CauseDuplicate Cause = "duplicate"
	// CauseInvented: extracted with a name that the document does not contain.
	CauseInvented Cause = "invented"
)

// CauseMeaning is a cause with one sentence for people.
type CauseMeaning struct {
	Cause   Cause
	Meaning string
}

// Causes lists every cause in the order of the documentation.
func Causes() []CauseMeaning {
	return []CauseMeaning{
		{CauseMissed, "Expected, and nothing extracted answers to it."},
		{CauseSpurious, "Extracted, named in the document, and not expected."},
		{CauseBoundary, "The name is similar to the expected one, and not similar enough."},
		{CauseWrongType, "The entity was found, with another type than expected."},
		{CauseSwapped, "The ends of the relationship are the wrong way round."},
		{CauseWrongRelationshipType, "The relationship joins the right ends with another type."},
		{CauseDangling, "An end of the relationship names no entity."},
		{CauseDuplicate, "A repetition of something that is listed already."},
		{CauseInvented, "Extracted with a name that the document does not contain."},
	}
}

// Fault is one thing that is wrong with an extraction.
type Fault struct {
	Cause Cause `json:"cause"`
	// What is "entity" or "relationship".
	What string `json:"what"`
	// Expected and Extracted are indices of the given lists; nil where that
	// side has no part in the fault.
	Expected  *int `json:"expected,omitempty"`
	Extracted *int `json:"extracted,omitempty"`
}

// What a Fault is about.
const (
	AnEntity      = "entity"
	ARelationship = "relationship"
)
