package ground

import (
	"bytes"
	"index/suffixarray"
	"slices"
	"sync"
)

const (
	// mostPlaces is how many occurrences of one string are looked at.
	mostPlaces = 1024
	// patience is how many times its length a haystack is read from end to end
	// before it is indexed, and stubbornness how many times in all.
	patience, stubbornness = 16, 256
	// manyPlaces is after how many occurrences of all strings together only
	// fewPlaces of each further string are looked at.
	manyPlaces, fewPlaces = 1 << 22, 64
)

// haystack is a text in which many strings are looked for. The first searches
// read it; when that has become dear it builds a suffix array, after which a
// search costs O(len(needle)·log n + places). So the work for a hostile set of
// needles is bounded, and a single search costs no index. Safe for concurrent
// use.
type haystack struct {
	data  []byte
	mu    sync.Mutex
	read  int // bytes
	seen  int // places
	index *suffixarray.Index
}

// places returns where the needle occurs, in order, overlapping ones too: all
// places if there are at most mostPlaces, and some of them otherwise: those
// around near, as long as finding them is not too dear.
func (h *haystack) places(needle []byte, near int) []int {
	if len(needle) == 0 || len(needle) > len(h.data) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	near = min(max(near, 0), len(h.data))
	if h.index == nil && h.read <= patience*len(h.data) {
		found := h.scan(needle, 0, len(h.data), mostPlaces+1)
		if len(found) > mostPlaces {
			return h.around(needle, near)
		}
		return found
	}
	if h.index == nil {
		h.index = suffixarray.New(h.data)
	}
	most := mostPlaces
	if h.seen > manyPlaces {
		most = fewPlaces
	}
	found := h.index.Lookup(needle, most+1)
	h.seen += len(found)
	if len(found) > mostPlaces && h.read <= stubbornness*len(h.data) {
		return h.around(needle, near)
	}
	slices.Sort(found)
	return found
}

// around returns places before and after near, for needles that are frequent.
func (h *haystack) around(needle []byte, near int) []int {
	var found []int
	for end := min(near+len(needle)-1, len(h.data)); len(found) < mostPlaces/2; {
		i := bytes.LastIndex(h.data[:end], needle)
		if i < 0 {
			h.read += end
			break
		}
		found = append(found, i)
		h.read += end - i
		end = i + len(needle) - 1
	}
	slices.Reverse(found)
	return append(found, h.scan(needle, near, len(h.data), mostPlaces-len(found))...)
}

// scan returns the first places within data[from:to].
func (h *haystack) scan(needle []byte, from, to, most int) []int {
	var found []int
	for len(found) < most {
		i := bytes.Index(h.data[from:to], needle)
		if i < 0 {
			h.read += to - from
			break
		}
		found = append(found, from+i)
		h.read += i + 1
		from += i + 1
	}
	return found
}
