package bench

import (
	"encoding/json"

	"extraction-experiment/dataset"
)

// The kinds of emptiness that a case expects.
const (
	NonEmpty        = "non_empty"
	EmptyByEvidence = "empty_by_evidence" // there is nothing to extract
	EmptyByFailure  = "empty_by_failure"  // the answer cannot be used
)

// Case is one record of a dataset: a smoke case has gold spans, a regression
// record what is expected and where it comes from.
type Case struct {
	CaseID               string          `json:"caseId"`
	Category             string          `json:"category,omitempty"`
	DocumentText         string          `json:"documentText"`
	Instructions         string          `json:"instructions"`
	TargetSchema         json.RawMessage `json:"targetSchema"`
	ProviderResponseText string          `json:"providerResponseText"`
	GoldSpans            []GoldSpan      `json:"goldSpans,omitempty"`
	Expected             *Expected       `json:"expected,omitempty"`
	SourceURL            string          `json:"sourceUrl,omitempty"`
	SourceQuote          string          `json:"sourceQuote,omitempty"`
	PackID               string          `json:"packId,omitempty"`

	// File and Line say where the case was read.
	File string `json:"-"`
	Line int    `json:"-"`
}

// GoldSpan is a stretch of the document that must be extracted. Offsets are
// counted in OffsetMode, UTF-16 code units if it is empty.
type GoldSpan struct {
	Class      string `json:"extractionClass,omitempty"`
	Quote      string `json:"quote"`
	CharStart  int    `json:"charStart"`
	CharEnd    int    `json:"charEnd"`
	OffsetMode string `json:"offsetMode,omitempty"`
}

// Expected is what a regression record must come to.
type Expected struct {
	EmptyResultKind string `json:"emptyResultKind"`
	MinExtractions  int    `json:"minExtractions"`
	MaxExtractions  int    `json:"maxExtractions"`
}

// Regression reports whether the case is a regression record.
func (c Case) Regression() bool { return c.Expected != nil }

// input is what the task is given: no gold.
type input struct {
	DocumentText         string          `json:"documentText"`
	Instructions         string          `json:"instructions"`
	TargetSchema         json.RawMessage `json:"targetSchema"`
	ProviderResponseText string          `json:"providerResponseText"`
}

// gold is what the scorer is given.
type gold struct {
	Category     string     `json:"category,omitempty"`
	DocumentText string     `json:"documentText"`
	GoldSpans    []GoldSpan `json:"goldSpans,omitempty"`
	Expected     *Expected  `json:"expected,omitempty"`
}

// item makes the case an item of the project's runner.
func (c Case) item() (dataset.Item, error) {
	in, err := json.Marshal(input{c.DocumentText, c.Instructions, c.TargetSchema, c.ProviderResponseText})
	if err != nil {
		return dataset.Item{}, err
	}
	want, err := json.Marshal(gold{c.Category, c.DocumentText, c.GoldSpans, c.Expected})
	if err != nil {
		return dataset.Item{}, err
	}
	about, err := json.Marshal(map[string]string{"category": c.Category, "source_url": c.SourceURL, "pack_id": c.PackID})
	return dataset.Item{ID: c.CaseID, Input: in, Expected: want, Metadata: about}, err
}
