package seed

import (
	"encoding/json"
	"fmt"
	"time"

	"extraction-experiment/dataset"
)

// DoubtScore is the name of the score that experiment audit puts on a trace whose gold is
// doubtful, beside the item in a queue: a number from 0 to 1 with a Doubt as metadata.
const DoubtScore = "gold_doubt"

// Doubt is the metadata of a DoubtScore: what is doubtful, and in which gold.
type Doubt struct {
	Dataset  string   `json:"dataset"`
	Item     string   `json:"item"`
	Run      string   `json:"run"`
	Gold     string   `json:"gold"`     // dataset.GoldHash
	Findings []string `json:"findings"` // their keys
}

// What a person said of gold.
const (
	Corrected = "corrected"
	Confirmed = "confirmed"
)

// Review is what a person said of the gold of an item: an element of the list review of
// the item's metadata.
type Review struct {
	Verdict  string    `json:"verdict"` // Corrected or Confirmed
	Gold     string    `json:"gold"`    // dataset.GoldHash of the gold that was looked at
	Findings []string  `json:"findings,omitempty"`
	At       time.Time `json:"at"`
	By       string    `json:"by,omitempty"` // the person, where known
	Trace    string    `json:"trace,omitempty"`
	Run      string    `json:"run,omitempty"`
	Queue    string    `json:"queue,omitempty"`
}

// Reviews reads the reviews of an item's metadata; what is none is passed over.
func Reviews(metadata json.RawMessage) []Review {
	var m struct {
		Review []json.RawMessage `json:"review"`
	}
	if json.Unmarshal(metadata, &m) != nil {
		return nil
	}
	var list []Review
	for _, raw := range m.Review {
		var r Review
		if json.Unmarshal(raw, &r) == nil && (r.Verdict == Corrected || r.Verdict == Confirmed) {
			list = append(list, r)
		}
	}
	return list
}

// WithReview adds a review to an item's metadata, behind those that are there. Metadata
// that are no object, or have another review, are refused.
func WithReview(metadata json.RawMessage, review Review) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if !isNothing(metadata) {
		if err := json.Unmarshal(metadata, &fields); err != nil {
			return nil, fmt.Errorf("the metadata are no object, to which a review could be added: %w", err)
		}
	}
	var list []json.RawMessage
	if !isNothing(fields["review"]) {
		if err := json.Unmarshal(fields["review"], &list); err != nil {
			return nil, fmt.Errorf("metadata.review is no list, to which a review could be added: %w", err)
		}
	}
	raw, err := dataset.Marshal(review)
	if err != nil {
		return nil, err
	}
	if fields["review"], err = json.Marshal(append(list, raw)); err != nil {
		return nil, err
	}
	return dataset.Marshal(fields)
}
