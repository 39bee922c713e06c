package search

import (
	"cmp"
	"math"
	"slices"
)

// The usual parameters of BM25.
const (
	k1 = 1.2
	b  = 0.75
)

// Index is a searchable list of passages. It is safe for concurrent use.
type Index struct {
	passages []Passage
	counts   []map[string]int // of stems, by passage
	lengths  []float64
	average  float64
	in       map[string]int // in how many passages a stem is
}

// New counts the stems of passages. Time and memory are linear in their text.
func New(passages []Passage) *Index {
	x := &Index{passages: passages, in: map[string]int{}}
	for _, p := range passages {
		counts, length := map[string]int{}, 0
		for _, stem := range Stems(p.Text) {
			counts[stem]++
			length++
		}
		for stem := range counts {
			x.in[stem]++
		}
		x.counts = append(x.counts, counts)
		x.lengths = append(x.lengths, float64(length))
		x.average += float64(length)
	}
	x.average = max(1, x.average/float64(max(1, len(passages))))
	return x
}

// Find returns the n best passages that share a stem with the question, the
// best first; of equal ones the earlier first.
//
// The score is Σ idf·f·(k1+1) / (f + k1·(1−b+b·length/average)) over the different
// stems of the question, f being how often the passage has the stem, idf =
// ln(1 + (N−n+½)/(n+½)), with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza
// 2009). Time O(passages · stems).
func (x *Index) Find(question string, n int) []Found {
	stems := Stems(question)
	slices.Sort(stems)
	stems = slices.Compact(stems)
	var found []Found
	for i, p := range x.passages {
		if score := x.score(i, stems); score > 0 {
			found = append(found, Found{p, score})
		}
	}
	slices.SortStableFunc(found, func(a, b Found) int { return cmp.Compare(b.Score, a.Score) })
	return found[:min(len(found), n)]
}

func (x *Index) score(i int, stems []string) float64 {
	sum := 0.0
	for _, stem := range stems {
		f := float64(x.counts[i][stem])
		if f == 0 {
			continue
		}
		n, in := float64(len(x.passages)), float64(x.in[stem])
		idf := math.Log(1 + (n-in+0.5)/(in+0.5))
		sum += idf * f * (k1 + 1) / (f + k1*(1-b+b*x.lengths[i]/x.average))
	}
	return sum
}
