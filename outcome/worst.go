package outcome

import (
	"cmp"

	"extraction-experiment/internal/shortlist"
	"extraction-experiment/internal/stats"
)

// WorstItem is a scored item with a low primary score.
type WorstItem struct {
	ID      string  `json:"id"`
	Trial   int     `json:"trial,omitempty"`
	Score   float64 `json:"score"`
	Comment string  `json:"comment,omitempty"`
}

func (s *Summariser) addPrimary(o Outcome) {
	score, ok := Lookup(o.Scores, s.header.Scorer.Primary)
	if !ok || score.Value == nil {
		return
	}
	value := *score.Value
	if !(value < 1 && value >= -stats.Limit) {
		return // perfect, or no number
	}
	w := WorstItem{ID: o.Item, Score: value, Comment: cut(score.Comment)}
	if s.trials != nil {
		w.Trial = o.Trial
		s.trials.worse(w)
		return
	}
	s.worst.Offer(w)
}

// worstItems lists the worst items, each by its worst trial.
func (s *Summariser) worstItems() []WorstItem {
	if s.trials == nil {
		return s.worst.Values()
	}
	list := shortlist.New(s.config.Worst, compareWorst)
	for _, item := range s.trials.items {
		if item.worst != nil {
			list.Offer(*item.worst)
		}
	}
	return list.Values()
}

func compareWorst(a, b WorstItem) int {
	return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Comment, b.Comment))
}
