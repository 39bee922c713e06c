// Package search finds the passages of a document that speak of a question, by
// BM25 over word stems. It knows no meaning: a synonym is another word.
//
// The steps: Split cuts pages into passages, none of which crosses the border
// of a page; New counts their stems; Index.Find ranks them.
//
//	index := search.New(search.Split(pages, 900))
//	best := index.Find("Какая выручка за 2023 год?", 5)
package search

// Passage is a part of one page.
type Passage struct {
	Page int    `json:"page"` // from 1
	Text string `json:"text"`
}

// Found is a passage with how well it fits: above 0, without an upper bound.
type Found struct {
	Passage
	Score float64 `json:"score"`
}
