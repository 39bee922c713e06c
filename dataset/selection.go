package dataset

import "slices"

// Selection applies a Filter to items as they come, from whatever source. It
// counts, and remembers which of the ids that were asked for have come. Not
// safe for concurrent use.
type Selection struct {
	filter Filter
	taken  int
	found  map[string]bool
}

// Start begins a selection.
func (f Filter) Start() *Selection {
	return &Selection{filter: f, found: map[string]bool{}}
}

// Take reports whether the next item belongs to the selection.
func (s *Selection) Take(item Item) bool {
	if s.Full() || !s.filter.Match(item) {
		return false
	}
	if len(s.filter.ids) > 0 {
		s.found[item.ID] = true
	}
	s.taken++
	return true
}

// Full reports whether nothing more will be taken: the limit is reached, or
// every id that was asked for has come.
func (s *Selection) Full() bool {
	if s.filter.Limit > 0 && s.taken >= s.filter.Limit {
		return true
	}
	return len(s.filter.ids) > 0 && len(s.found) == len(s.filter.ids)
}

// Missing returns the ids that were asked for and were not taken, sorted. With
// a limit, or other conditions, they may exist all the same.
func (s *Selection) Missing() []string {
	return slices.DeleteFunc(slices.Clone(s.filter.ids), func(id string) bool { return s.found[id] })
}
