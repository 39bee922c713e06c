package outcome

import (
	"cmp"
	"slices"

	"extraction-experiment/internal/printable"
	"extraction-experiment/internal/shortlist"
)

// messageLimit cuts messages and comments that a Summary keeps, in bytes.
const messageLimit = 1000

type failureTally struct {
	count int
	first *shortlist.List[failedAt]
}

type failedAt struct {
	FailedItem
	seq   int64
	trial int
}

func (s *Summariser) addFailure(o Outcome) {
	t := s.failures[o.Class]
	if t == nil {
		t = &failureTally{first: shortlist.New(s.config.Messages, compareFailed)}
		s.failures[o.Class] = t
	}
	t.count++
	message := ""
	if o.Failure != nil {
		message = o.Failure.Message
	} else if score, ok := Lookup(o.Scores, ErrorScore); ok {
		message = score.Comment
	}
	item := FailedItem{ID: o.Item, Message: cut(message)}
	if s.trials != nil {
		item.Trial = o.Trial
	}
	t.first.Offer(failedAt{item, o.Seq, o.Trial})
}

func (s *Summariser) failureCounts() []FailureCount {
	list := make([]FailureCount, 0, len(s.failures))
	for class, t := range s.failures {
		items := []FailedItem{}
		for _, f := range t.first.Values() {
			items = append(items, f.FailedItem)
		}
		list = append(list, FailureCount{class, t.count, items})
	}
	known := Classes()
	rank := func(c Class) int {
		if i := slices.Index(known, c); i >= 0 {
			return i
		}
		return len(known)
	}
	slices.SortFunc(list, func(a, b FailureCount) int {
		return cmp.Or(cmp.Compare(rank(a.Class), rank(b.Class)), cmp.Compare(a.Class, b.Class))
	})
	return list
}

func compareFailed(a, b failedAt) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.ID, b.ID), cmp.Compare(a.trial, b.trial), cmp.Compare(a.Message, b.Message))
}

// cut shortens what a Summary keeps of a stranger's text.
func cut(message string) string { return printable.Cut(message, messageLimit) }
