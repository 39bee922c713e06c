package outcome

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// MaxMessage is the maximum length of the message of a failure in bytes, so that the error page
// of a server does not take a megabyte for each item.
const MaxMessage = 4 << 10

// Failure is the reason why an item failed.
type Failure struct {
	Class   Class  `json:"class"`
	Message string `json:"message"`
}

// Error returns class and message, for example "timeout: no answer within 30s". A Failure is an
// error so that code that knows the class can return it.
func (f *Failure) Error() string { return string(f.Class) + ": " + f.Message }

// FailureOf returns the class and message of an error that failed an item.
//
// The first rule that applies decides: a *Failure in the chain has its own class;
// context.DeadlineExceeded is a timeout; everything else has the class stage. A *Failure
// without a class is ignored, since a failed item must never look like a success.
//
// The message is the text of the whole chain, but without the class before the message of the
// *Failure. It is valid UTF-8 (invalid bytes become U+FFFD) of at most MaxMessage bytes, cut
// between characters. For nil, FailureOf returns the zero Failure.
func FailureOf(err error, stage Class) Failure {
	if err == nil {
		return Failure{}
	}
	class, message := stage, err.Error()
	var failure *Failure
	switch {
	case errors.As(err, &failure) && failure != nil && failure.Class != OK:
		class = failure.Class
		message = strings.Replace(message, failure.Error(), failure.Message, 1)
	case errors.Is(err, context.DeadlineExceeded):
		class = Timeout
	}
	if message = strings.ToValidUTF8(message, string(utf8.RuneError)); len(message) > MaxMessage {
		message = textutil.Cut(message, MaxMessage-len("…"))
	}
	return Failure{Class: class, Message: message}
}

// messageLimit is the maximum length of messages and comments in a Summary, in bytes.
const messageLimit = 1000

type failureTally struct {
	count    int
	first    *stats.Shortlist[failedAt]
	byWorker map[string]int
}

type failedAt struct {
	FailedItem
	seq int64
}

func (s *Summariser) addFailure(o Outcome) {
	t := getOrCreate(s.failures, o.Class, func() *failureTally {
		return &failureTally{first: stats.NewShortlist(s.config.Messages, compareFailed), byWorker: map[string]int{}}
	})
	t.count++
	t.byWorker[o.Worker]++
	message := ""
	if o.Failure != nil {
		message = o.Failure.Message
	} else if score, ok := Lookup(o.Scores, ErrorScore); ok {
		message = score.Comment
	}
	item := FailedItem{ID: o.Item, Message: shorten(message)}
	if s.trials != nil {
		item.Trial = o.Trial
	}
	t.first.Offer(failedAt{item, o.Seq})
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
	rank := func(c Class) int { return slices.Index(append(Classes(), c), c) } // unknown classes come last
	slices.SortFunc(list, func(a, b FailureCount) int {
		return cmp.Or(cmp.Compare(rank(a.Class), rank(b.Class)), cmp.Compare(a.Class, b.Class))
	})
	return list
}

// workerWarnings names the workers whose items fail more often than those of all others together:
// the 99 % intervals of both rates do not overlap.
func (s *Summariser) workerWarnings() (list []string) {
	all := s.items.Scored + s.items.Failed
	for _, class := range slices.Sorted(maps.Keys(s.failures)) {
		t := s.failures[class]
		for _, worker := range slices.Sorted(maps.Keys(t.byWorker)) {
			failed, done := t.byWorker[worker], s.byWorker[worker]
			rate, _, _ := stats.BinomialInterval(failed, done, 0.99)
			_, others, ok := stats.BinomialInterval(t.count-failed, all-done, 0.99)
			if worker != "" && ok && rate > others {
				list = append(list, textutil.Countf("of %d failures of class %s, %d come from worker %s, which did %d of %d outcomes: "+
					"its machine may be the reason", t.count, class, failed, worker, done, all))
			}
		}
	}
	return list
}

func compareFailed(a, b failedAt) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Message, b.Message))
}

// shorten limits text from outside to messageLimit.
func shorten(message string) string { return textutil.Cut(message, messageLimit) }
