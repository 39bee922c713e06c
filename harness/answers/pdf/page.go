package pdf

import (
	"fmt"
)

// pageNode is a page with what it inherits.
type pageNode struct {
	Number    int // from 1
	Resources Dict
	Box       [4]float64 // what is shown: left, bottom, right, top
	Rotate    int        // 0, 90, 180 or 270 degrees clockwise
	dict      Dict
}

// Pages returns the pages in order. Branches that cannot be read are left out;
// nodes that are met twice are followed once.
func (f *File) Pages() ([]pageNode, error) {
	w := &walk{f: f, seen: map[int]bool{}}
	root := f.Dict(f.trailer["Root"])
	w.node(root["Pages"], pageNode{Box: [4]float64{0, 0, 612, 792}}, 0)
	if w.tooMany {
		return nil, fmt.Errorf("%w: it has more than %d pages", ErrBudget, maxPages)
	}
	if f.spent != nil {
		return nil, f.spent
	}
	if len(w.pages) == 0 {
		return nil, ErrDamaged
	}
	return w.pages, nil
}

// Declared is how many pages the file says that it has: of one that is cut off
// there are fewer. 0 where it does not say.
func (f *File) Declared() int {
	root := f.Dict(f.trailer["Root"])
	return max(0, f.Int(f.Dict(root["Pages"])["Count"]))
}

type walk struct {
	f       *File
	seen    map[int]bool
	pages   []pageNode
	tooMany bool
}

func (w *walk) node(o Object, inherited pageNode, depth int) {
	if ref, ok := o.(Ref); ok {
		if w.seen[ref.Num] {
			return
		}
		w.seen[ref.Num] = true
	}
	d, ok := w.f.Resolve(o).(Dict)
	if !ok || depth > maxDepth || w.tooMany || !w.f.Spend(128) {
		return
	}
	page := w.inherit(inherited, d)
	kids := w.f.Array(d["Kids"])
	if kids == nil || w.f.Name(d["Type"]) == "Page" {
		if len(w.pages) >= maxPages {
			w.tooMany = true
			return
		}
		page.Number, page.dict = len(w.pages)+1, d
		w.pages = append(w.pages, page)
		return
	}
	for _, kid := range kids {
		w.node(kid, page, depth+1)
	}
}

func (w *walk) inherit(page pageNode, d Dict) pageNode {
	if r := w.f.Dict(d["Resources"]); r != nil {
		page.Resources = r
	}
	for _, key := range []Name{"MediaBox", "CropBox"} {
		list := w.f.Array(d[key])
		if len(list) != 4 {
			continue
		}
		var box [4]float64
		for i := range list {
			box[i], _ = w.f.Number(list[i])
		}
		box[0], box[2] = min(box[0], box[2]), max(box[0], box[2])
		box[1], box[3] = min(box[1], box[3]), max(box[1], box[3])
		if box[2]-box[0] > 1 && box[3]-box[1] > 1 {
			page.Box = box
		}
	}
	if v, ok := w.f.Number(d["Rotate"]); ok {
		page.Rotate = ((clampInt(v)/90*90)%360 + 360) % 360
	}
	return page
}

// Content returns the operators of a page. With an error comes what could be
// decoded.
func (f *File) Content(p pageNode) ([]byte, error) {
	var all []byte
	var first error
	add := func(o Object) {
		s := f.Stream(o)
		if s == nil {
			return
		}
		data, err := f.Decode(s)
		if err != nil && first == nil {
			first = err
		}
		all = append(append(all, data...), '\n')
	}
	if list := f.Array(p.dict["Contents"]); list != nil {
		for _, o := range list {
			if f.spent == nil {
				add(o)
			}
		}
	} else {
		add(p.dict["Contents"])
	}
	if f.spent != nil {
		return nil, f.spent
	}
	return all, first
}
