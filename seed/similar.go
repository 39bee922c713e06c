package seed

import (
	"fmt"
	"math"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// The measures of near-duplicates.
const (
	shingleLength = 8   // code points of a shingle
	sketchSize    = 128 // hashes kept of a document
)

// leastSimilar is the similarity from which two documents are near-duplicates.
const leastSimilar = 0.8

// sketch stands for a document: the smallest hashes of its shingles, sorted,
// each once. Half a kilobyte at most.
type sketch []uint32

// newSketch hashes every run of 8 code points of the folded text (case,
// compatibility and white space aside) and keeps the 128 smallest hashes:
// bottom-k MinHash. A shorter text is one shingle; an empty one has none. Time
// O(n log n), memory O(n).
func newSketch(text string) sketch {
	letters := []rune(textutil.FoldName(text))
	var all sketch
	for end := min(shingleLength, len(letters)); end > 0 && end <= len(letters); end++ {
		all = append(all, hashOf(letters[max(0, end-shingleLength):end]))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.Clone(all[:min(sketchSize, len(all))])
}

// hashOf is FNV-1a over code points with the finalizer of MurmurHash3, whose low
// bits depend on all of them.
func hashOf(letters []rune) uint32 {
	h := uint32(2166136261)
	for _, r := range letters {
		h = (h ^ uint32(r)) * 16777619
	}
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// similarity estimates the Jaccard similarity of the two sets of shingles,
// |A∩B| / |A∪B|, in [0,1]: of the 128 smallest hashes of the union, the share
// that both have. Exact (hashes that collide aside) where the union has no more
// than that, else with a standard error of √(J(1−J)/128), 0.035 at 0.8. It
// stops early, with 0, once least cannot be reached. Two empty sketches: 0.
func (s sketch) similarity(other sketch, least float64) float64 {
	seen, both, i, k := 0, 0, 0, 0
	mayMiss := int(math.Ceil((1 - least) * sketchSize))
	for seen < sketchSize && (i < len(s) || k < len(other)) {
		switch {
		case k == len(other) || i < len(s) && s[i] < other[k]:
			i++
		case i == len(s) || s[i] > other[k]:
			k++
		default:
			both, i, k = both+1, i+1, k+1
		}
		if seen++; seen-both > mayMiss {
			return 0
		}
	}
	if seen == 0 {
		return 0
	}
	return float64(both) / float64(seen)
}

// similarDocuments remembers what the documents of a dataset look like, by the id
// of the item: half a kilobyte each. Not safe for concurrent use.
type similarDocuments map[string]sketch

// add remembers an item, or what it has become. An input without a text has no
// likeness.
func (d similarDocuments) add(id string, s sketch) {
	if len(s) > 0 {
		d[id] = s
	}
}

// nearest returns the other item whose document is most similar, and how
// similar; of several the first by id. "" where none is similar enough.
// Time O(items), about half a microsecond each where they differ.
func (d similarDocuments) nearest(id string, s sketch) (name string, best float64) {
	for other, its := range d {
		similar := s.similarity(its, max(leastSimilar, best))
		if other != id && similar >= leastSimilar && (similar > best || similar == best && other < name) {
			best, name = similar, other
		}
	}
	return name, best
}

// documentSketch is the sketch of an item's document; nothing where its input
// cannot be read as one.
func documentSketch(item dataset.Item) sketch {
	document, _, err := extraction.DecodeDocument(item.Input)
	if err != nil {
		return nil
	}
	return newSketch(document.Text)
}

// nameSimilar names an item whose document is almost that of another.
func (s *seeder) nameSimilar(located dataset.Located) {
	if s.similar == nil {
		return
	}
	id, sketch := s.cfg.IDPrefix+located.ID, documentSketch(located.Item)
	if other, similarity := s.similar.nearest(id, sketch); other != "" {
		s.warn(located, Similar, "input.document_text", fmt.Sprintf("is %.0f%% similar to the document of the item %s", 100*similarity, other))
	}
	s.similar.add(id, sketch)
}
