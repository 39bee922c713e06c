package compare

import (
	"context"
	"encoding/json"
	"iter"

	"extraction-experiment/outcome"
)

// Source is one run, wherever it lies. It is read from the start several times
// when there are several candidates. After an error a sequence ends.
type Source interface {
	// Where says where the run is from, for the report: a file's path, or
	// that the run was read from Langfuse.
	Where() string
	Header(ctx context.Context) (outcome.Header, error)
	// Footer returns ok == false while the run is not finished.
	Footer(ctx context.Context) (f outcome.Footer, ok bool, err error)
	// Items returns every item of the run once, in any order.
	Items(ctx context.Context) iter.Seq2[Item, error]
	// Outcomes returns the newest attempt of every item and trial, ordered by
	// the bytes of the item id, then by trial. Groups, comments of scores and
	// explanations may be missing, and so are then the breakdown by type and
	// what was matched.
	Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error]
}

// Cautious is a Source that knows what cannot be checked of it; a comparison
// with it says so.
type Cautious interface {
	Unchecked() []string
}

// Item is what is compared of an item before its outcome is.
type Item struct {
	ID string
	// Hash is that of input and expected output; "" is unknown, and then only
	// the fingerprint of the dataset vouches for the content.
	Hash string
	// Metadata is looked at only with Config.ClusterBy.
	Metadata json.RawMessage
}
