package seed

import (
	"fmt"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// Parameters of the search for near-duplicates.
const (
	shingleLength = 8   // code points of a shingle
	sketchSize    = 128 // hashes kept for a document
)

// minSimilarity is the lowest similarity of near-duplicates.
const minSimilarity = 0.8

// sketch represents a document: the smallest hashes of its shingles, sorted, without duplicates. It
// takes at most half a kilobyte.
type sketch []uint32

// newSketch hashes every run of 8 code points of the folded text (case, compatibility and white
// space aside) and keeps the 128 smallest hashes: bottom-k MinHash. A shorter text is one shingle;
// an empty text has none. Time O(n log n), memory O(n).
func newSketch(text string) sketch {
	runes := []rune(textutil.FoldName(text))
	var all sketch
	for end := min(shingleLength, len(runes)); end > 0 && end <= len(runes); end++ {
		all = append(all, hashOf(runes[max(0, end-shingleLength):end]))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.Clone(all[:min(sketchSize, len(all))])
}

// hashOf returns FNV-1a over code points with the finalizer of MurmurHash3, which mixes all bits
// into the low ones.
func hashOf(runes []rune) uint32 {
	h := uint32(2166136261)
	for _, r := range runes {
		h = (h ^ uint32(r)) * 16777619
	}
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// similarity estimates the Jaccard similarity of the two sets of shingles, |A∩B| / |A∪B|, in [0,1],
// as the share of the 128 smallest hashes of the union that both sketches have. It is exact, apart
// from hash collisions, if the union has at most 128 hashes; else its standard error is
// √(J(1−J)/128), 0.035 at 0.8. It is 0 for two empty sketches.
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

// similarDocuments holds the sketches of a dataset's documents by item id. It is not safe for
// concurrent use.
type similarDocuments struct {
	sketches map[string]sketch
	inputs   extraction.Decoder
}

// nearest returns the other item with the most similar document, and the similarity; of several the
// first by id. It returns "" if no document is similar enough. Time: half a microsecond for each
// item.
func (d *similarDocuments) nearest(id string, s sketch) (name string, best float64) {
	for other, sketch := range d.sketches {
		similar := s.similarity(sketch)
		if other != id && similar >= minSimilarity && (similar > best || similar == best && other < name) {
			best, name = similar, other
		}
	}
	return name, best
}

// sketchOf returns the sketch of an item's document, or nil if its input cannot be decoded.
func (d *similarDocuments) sketchOf(item dataset.Item) sketch {
	document, _, err := d.inputs.Document(item.Input)
	if err != nil {
		return nil
	}
	return newSketch(document.Text)
}

// warnSimilar warns if the document of an item is almost that of another item.
func (s *seeder) warnSimilar(located dataset.Located) {
	if s.similar == nil {
		return
	}
	id, sketch := s.cfg.IDPrefix+located.ID, s.similar.sketchOf(located.Item)
	if other, similarity := s.similar.nearest(id, sketch); other != "" {
		s.warn(located, Similar, "input.document_text", fmt.Sprintf("is %.0f%% similar to the document of the item %s", 100*similarity, other))
	}
	s.similar.sketches[id] = sketch
}
