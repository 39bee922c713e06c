package scoring

// gain is what one matched pair is worth, or a sum or difference of such:
// three words, each compared only where the ones before are equal. A word may
// hold several counts, each in a field of its own of 21 bits; no count gets
// near the width of its field (see unitLimit), so that comparing words
// compares the counts in order, also where differences make some negative.
type gain [3]int64

// field is the weight of the next field of a word.
const field = 1 << 21

func (g gain) plus(h gain) gain  { return gain{g[0] + h[0], g[1] + h[1], g[2] + h[2]} }
func (g gain) minus(h gain) gain { return gain{g[0] - h[0], g[1] - h[1], g[2] - h[2]} }

func (g gain) less(h gain) bool {
	if g[0] != h[0] {
		return g[0] < h[0]
	}
	if g[1] != h[1] {
		return g[1] < h[1]
	}
	return g[2] < h[2]
}
