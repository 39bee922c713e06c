package chunk

import "unicode/utf8"

// Config says how long chunks are. The zero value keeps a document whole; a
// negative number is taken as 0.
type Config struct {
	// MaxRunes is the most code points of a chunk; 0 does not split.
	MaxRunes int
	// Overlap is the most code points of a chunk that repeat the end of the
	// chunk before it; 0 repeats nothing. More than half of MaxRunes is taken
	// as half of it.
	Overlap int
}

// Chunk is a stretch of a document.
type Chunk struct {
	Text string
	// Start and End say where the text stands in the document, in code points;
	// End is exclusive.
	Start, End int
}

// Split cuts a text into chunks of at most MaxRunes code points that cover it
// from the first code point to the last, in order. An empty text has no chunks.
//
// A chunk ends at the last paragraph border of its later part, else at the last
// sentence end, line break, white space, or border between two user-perceived
// characters there, else at MaxRunes. The later part is the second half, or
// begins later where a large overlap needs it. White space belongs to what
// stands before it, so that a chunk begins with a word.
//
// The next chunk begins at the earliest sentence start within Overlap before
// that end. Without one it begins at the end itself if that is a sentence end,
// for half a sentence may say the opposite of the whole; otherwise at the
// earliest word, else character, within Overlap.
//
// A chunk may hold white space only. A byte that is not UTF-8 counts as one code
// point. Time O(len(text)), memory one byte per byte of text.
func Split(text string, cfg Config) []Chunk {
	if text == "" {
		return nil
	}
	if cfg.MaxRunes <= 0 || len(text) <= cfg.MaxRunes || utf8.RuneCountInString(text) <= cfg.MaxRunes {
		return []Chunk{{Text: text, End: utf8.RuneCountInString(text)}}
	}
	c := newCutter(text, cfg)
	var chunks []Chunk
	var start position
	for {
		end := c.end(start)
		chunks = append(chunks, Chunk{Text: text[start.bytes:end.bytes], Start: start.runes, End: end.runes})
		if end.bytes == len(text) {
			return chunks
		}
		start = c.next(end)
	}
}

// position is a border between two code points.
type position struct{ bytes, runes int }

// cutter chooses among the borders of a text.
type cutter struct {
	borders  []strength
	limit    int // code points of a chunk
	overlap  int
	earliest int // fewest code points of a chunk that is not the last
}

// newCutter settles the sizes such that every chunk ends at least a quarter of
// the limit (and one code point) after the one before: this makes Split linear.
func newCutter(text string, cfg Config) cutter {
	overlap := min(max(cfg.Overlap, 0), cfg.MaxRunes/2)
	step := max(1, cfg.MaxRunes/4)
	return cutter{
		borders:  markBorders(text),
		limit:    cfg.MaxRunes,
		overlap:  overlap,
		earliest: min(max(cfg.MaxRunes/2, overlap+step), cfg.MaxRunes),
	}
}

// end returns where the chunk that begins at start ends.
func (c cutter) end(start position) position {
	best, at := start, start
	for n := 1; n <= c.limit; n++ {
		at = c.forward(at)
		if at.bytes == len(c.borders)-1 {
			return at
		}
		if n >= c.earliest && (best == start || c.borders[at.bytes] >= c.borders[best.bytes]) {
			best = at
		}
	}
	return best
}

// next returns where the chunk after the one that ends at end begins.
func (c cutter) next(end position) position {
	var earliest [paragraph + 1]position // by strength, that strong or stronger
	for i := range earliest {
		earliest[i] = end
	}
	at := end
	for range c.overlap {
		at = c.back(at)
		for s := joined; s <= c.borders[at.bytes]; s++ {
			earliest[s] = at
		}
	}
	if earliest[sentence] != end || c.borders[end.bytes] >= sentence {
		return earliest[sentence]
	}
	for _, s := range []strength{space, character} {
		if earliest[s] != end {
			return earliest[s]
		}
	}
	return earliest[joined]
}

func (c cutter) forward(p position) position {
	p.bytes++
	for c.borders[p.bytes] == inside {
		p.bytes++
	}
	p.runes++
	return p
}

func (c cutter) back(p position) position {
	p.bytes--
	for c.borders[p.bytes] == inside {
		p.bytes--
	}
	p.runes--
	return p
}
