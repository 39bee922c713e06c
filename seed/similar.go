package seed

import (
	"fmt"
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
// than that, else with a standard error of √(J(1−J)/128), 0.035 at 0.8. Two empty
// sketches: 0.
func (s sketch) similarity(other sketch) float64 {
	seen, both, i, k := 0, 0, 0, 0
	for ; seen < sketchSize && (i < len(s) || k < len(other)); seen++ {
		switch {
		case k == len(other) || i < len(s) && s[i] < other[k]:
			i++
		case i == len(s) || s[i] > other[k]:
			k++
		default:
			both, i, k = both+1, i+1, k+1
		}
	}
	return float64(both) / float64(max(1, seen))
}

// similarDocuments remembers what the documents of a dataset look like, by the id
// of the item: some two kilobytes each. Not safe for concurrent use.
type similarDocuments struct {
	sketches map[string]sketch
	having   map[uint32][]string // the ids by each of the first hashes
	inputs   extraction.Decoder
}

func newSimilarDocuments() *similarDocuments {
	return &similarDocuments{sketches: map[string]sketch{}, having: map[uint32][]string{}}
}

// firstHashes is how many of two similar sketches have one in common: of the 128 hashes that
// are compared less than a fifth are in one only, and so are all before the first common one.
const firstHashes = sketchSize/5 + 1

func (s sketch) firsts() sketch { return s[:min(firstHashes, len(s))] }

// put remembers a document, in place of what its item had before.
func (d *similarDocuments) put(id string, s sketch) {
	d.sketches[id] = s
	for _, hash := range s.firsts() {
		d.having[hash] = append(d.having[hash], id)
	}
}

// nearest returns the other item whose document is most similar, and how
// similar; of several the first by id. "" where none is similar enough.
// Time: a microsecond for each item that has one of its 26 smallest hashes.
func (d *similarDocuments) nearest(id string, s sketch) (name string, best float64) {
	seen := map[string]bool{id: true}
	for _, hash := range s.firsts() {
		for _, other := range d.having[hash] {
			if seen[other] {
				continue
			}
			seen[other] = true
			similar := s.similarity(d.sketches[other])
			if similar >= leastSimilar && (similar > best || similar == best && other < name) {
				best, name = similar, other
			}
		}
	}
	return name, best
}

// sketchOf is the sketch of an item's document; nothing where its input
// cannot be read as one.
func (d *similarDocuments) sketchOf(item dataset.Item) sketch {
	document, _, err := d.inputs.Document(item.Input)
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
	id, sketch := s.cfg.IDPrefix+located.ID, s.similar.sketchOf(located.Item)
	if other, similarity := s.similar.nearest(id, sketch); other != "" {
		s.warn(located, Similar, "input.document_text", fmt.Sprintf("is %.0f%% similar to the document of the item %s", 100*similarity, other))
	}
	s.similar.put(id, sketch)
}
