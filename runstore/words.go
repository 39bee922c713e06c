package runstore

import (
	"context"
	"database/sql"
	"errors"
)

// Names and reasons of scores repeat in every row, so that the rows refer to a
// list in the meta table. What does not fit stands in the row itself.
const (
	maxWords      = 512
	maxWordLength = 200
)

// words is that list. Words are only ever appended.
type words struct {
	list  []string
	index map[string]int // word to position, from 1
	grown bool           // since it was last saved
}

// refer returns the position of the word, from 1, or 0 if it has none.
func (w *words) refer(word string) int {
	if n, ok := w.index[word]; ok {
		return n
	}
	if len(w.list) >= maxWords || len(word) > maxWordLength {
		return 0
	}
	w.list = append(w.list, word)
	w.index[word] = len(w.list)
	w.grown = true
	return len(w.list)
}

func readWords(ctx context.Context, path string, q querier) (*words, error) {
	w := &words{index: map[string]int{}}
	if err := readMeta(ctx, path, q, keyWords, &w.list); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	for i, word := range w.list {
		w.index[word] = i + 1
	}
	return w, nil
}
