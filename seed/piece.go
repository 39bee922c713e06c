package seed

import "slices"

// piece is a stretch of a text and what it became; bytes.
type piece struct {
	from, to       int // in the old text
	newFrom, newTo int // in the new one
	replaced       bool
}

// moved returns where a place of the old text is in the new one. A place inside
// a replacement moves to its beginning, or with atEnd to its end.
func moved(pieces []piece, place int, atEnd bool) int {
	i, _ := slices.BinarySearchFunc(pieces, place, func(p piece, place int) int {
		if p.to < place || p.to == place && !atEnd {
			return -1
		}
		return 1
	})
	switch {
	case i == len(pieces):
		if i == 0 {
			return place
		}
		last := pieces[i-1]
		return place - last.to + last.newTo
	case place <= pieces[i].from && i == 0:
		return place
	case !pieces[i].replaced:
		return place - pieces[i].from + pieces[i].newFrom
	case atEnd:
		return pieces[i].newTo
	}
	return pieces[i].newFrom
}
