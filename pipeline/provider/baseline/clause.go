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

// left returns the nearest fitting place that ends before token i.
func (c *clause) left(i int, allowed []bool) int {
	skipped := 0
	for j := len(c.places) - 1; j >= 0 && skipped <= maxSkip; j-- {
		if c.places[j].last > i || c.places[j].last == i && c.page.toks[i].kind != han {
			continue
		}
		if i-c.places[j].last > maxReach {
			return -1
		}
		if c.fits(j, allowed) {
			return j
		}
		skipped++
	}
	return -1
}

// right returns the nearest fitting place that begins behind token i.
func (c *clause) right(i int, allowed []bool, reach int) int {
	skipped := 0
	for j := 0; j < len(c.places) && skipped <= maxSkip; j++ {
		if c.places[j].first < i || c.places[j].first == i && c.page.toks[i].kind != han {
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
