package html

import "encoding/json"

// limits say how much of an item is shown.
type limits struct {
	text int // characters of the document, and of each message and answer
	list int // rows of each table, calls, warnings
}

// The most that any item shows, and the least: under it only a notice is left.
var (
	mostShown  = limits{text: 256 << 10, list: 4096}
	leastShown = limits{text: 256, list: 8}
)

// mostDetail bounds the detail of one item in bytes, however few there are.
const mostDetail = 1 << 20

// purse shares the bytes of a page among its items: each may use an equal share
// of what is left, so that what small items leave over is there for later ones.
type purse struct{ bytes, items int }

// fit encodes as much of an item as its share allows, and says whether anything
// was left out.
func (p *purse) fit(row merging) (raw []byte, cut bool) {
	share := min(mostDetail, p.bytes/max(1, p.items))
	p.items--
	l := mostShown
	l.text = min(l.text, max(share, leastShown.text)) // a character has a byte at least
	for ; ; l = (limits{l.text / 2, max(l.list/2, leastShown.list)}) {
		d := newDetail(row, l)
		raw, err := json.Marshal(d)
		if err == nil && len(raw) <= share {
			p.bytes -= len(raw)
			return raw, d.cut()
		}
		if err != nil || l.text < leastShown.text {
			break
		}
	}
	p.bytes -= len(nothing)
	return []byte(nothing), true
}

// nothing is the detail of an item for which there is no room.
const nothing = `{"runs":[]}`
