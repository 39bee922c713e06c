package baseline

// at returns the place that token i belongs to, -1 for none.
func (c *clause) at(i int) int {
	if i < 0 || i >= len(c.owner) {
		return -1
	}
	return c.owner[i]
}

// fits reports that a place's type may stand at an end.
func (c *clause) fits(i int, allowed []bool) bool {
	return i >= 0 && i < len(c.places) && (allowed == nil || allowed[c.places[i].typed])
}

// covered reports that a byte of the document lies inside a mention.
func (c *clause) covered(offset int) bool {
	for _, s := range c.places {
		if s.offset <= offset && offset < s.end {
			return true
		}
	}
	return false
}

// left returns the nearest fitting place that ends before the cue at token i,
// byte offset.
func (c *clause) left(i, offset int, allowed []bool) int {
	skipped := 0
	for j := len(c.places) - 1; j >= 0 && skipped <= maxSkip; j-- {
		if c.places[j].end > offset {
			continue
		}
		if i-c.places[j].last > maxReach {
			return -1
		}
		if c.fits(j, allowed) {
			return c.main(i, j, allowed)
		}
		skipped++
	}
	return -1
}

// main returns the subject of "Ann, daughter of Eve, joined …" instead of the
// name inside the commas that stands nearest to the cue.
func (c *clause) main(i, j int, allowed []bool) int {
	after := c.places[j].last + 1
	if after >= len(c.page.toks) || !c.page.toks[after].is(",") || i > after+1 {
		return j
	}
	for k := j - 1; k >= 0 && k >= j-maxSkip; k-- {
		next := c.places[k].last + 1
		if c.page.toks[next].is(",") && c.fits(k, allowed) && c.places[k].typed == c.places[j].typed && !c.listed(k, k+1) {
			return k
		}
	}
	return j
}

// right returns the nearest fitting place that begins behind the cue that ends
// in token i, at byte end.
func (c *clause) right(i, end int, allowed []bool, reach int) int {
	skipped := 0
	for j := 0; j < len(c.places) && skipped <= maxSkip; j++ {
		if c.places[j].offset < end {
			continue
		}
		if c.places[j].first-i > reach || c.stopped(i+1, c.places[j].first) {
			return -1
		}
		if c.fits(j, allowed) {
			return j
		}
		skipped++
	}
	return -1
}

// stopped reports a semicolon between two tokens: another statement begins.
func (c *clause) stopped(from, to int) bool {
	for i := from; i < to; i++ {
		if c.page.toks[i].is(";") {
			return true
		}
	}
	return false
}

// listed reports that only commas and words for "and" stand between two places.
func (c *clause) listed(i, j int) bool {
	if c.places[j].first-c.places[i].last > 4 {
		return false
	}
	for k := c.places[i].last + 1; k < c.places[j].first; k++ {
		switch c.page.toks[k].lower {
		case ",", "and", "&", "und", "et", "y", "e", "и", "、", "和", "و", "，", "the", "as", "well", "sowie":
		default:
			return false
		}
	}
	return c.places[j].first-c.places[i].last > 1
}

// listRight returns the entries of a place and of the places that a list joins to it.
func (c *clause) listRight(i int, allowed []bool) []int {
	ends := []int{c.places[i].entry}
	for j := i + 1; j < len(c.places) && len(ends) < maxList; j++ {
		if !c.fits(j, allowed) || c.places[j].typed != c.places[i].typed || !c.listed(j-1, j) || c.placesPair(j-1, j) {
			break
		}
		ends = append(ends, c.places[j].entry)
	}
	return ends
}

// listLeft is listRight in the other direction.
func (c *clause) listLeft(i int, allowed []bool) []int {
	if i < 0 {
		return nil
	}
	ends := []int{c.places[i].entry}
	for j := i - 1; j >= 0 && len(ends) < maxList; j-- {
		if !c.fits(j, allowed) || c.places[j].typed != c.places[i].typed || !c.listed(j, j+1) || c.placesPair(j, j+1) {
			break
		}
		ends = append(ends, c.places[j].entry)
	}
	return ends
}

// placesPair reports "Cardiff, Wales": two places with a bare comma between,
// which is no list but one place inside the other.
func (c *clause) placesPair(i, j int) bool {
	a, b := c.places[i], c.places[j]
	return b.first == a.last+2 && c.page.toks[a.last+1].is(",") && geographic(a.kind) && geographic(b.kind)
}

func geographic(k kind) bool { return k == place || k == country }
