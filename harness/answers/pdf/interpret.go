package pdf

import (
	"cmp"
	"math"
	"slices"
)

// Limits of one page.
const (
	maxGlyphs     = 400_000
	maxForms      = 12  // nesting of forms
	maxStack      = 256 // nesting of q
	freeTextBytes = 8   // bytes; the text of a glyph is charged only if it is longer
)

// glyph is a piece of text at its place. In its coordinates, after a turn of the page by
// direction, text runs along x.
type glyph struct {
	text      string
	x, y      float64 // of the origin
	width     float64
	size      float64
	direction int // quarter turns, counter-clockwise
}

// state is the graphics state that q saves.
type state struct {
	ctm                       matrix
	font                      *font
	size, charSpace           float64
	wordSpace, scale, leading float64
	rise                      float64
}

// interpreter executes the operators of a page.
type interpreter struct {
	file          *File
	fonts         map[Ref]*font
	glyphs        []glyph
	imageArea     float64 // covered by pictures, in points²
	tooManyGlyphs bool    // the page has more than maxGlyphs
	err           error   // the first form that cannot be decoded
	state
	stack                  []state
	textMatrix, lineMatrix matrix
	formDepth              int
	resources              Dict
	marked                 markedContent
}

// run executes a content stream, with its own resources or, if they are nil, the current ones.
func (in *interpreter) run(content []byte, resources Dict) {
	saved := in.resources
	defer func() { in.resources = saved }()
	if resources != nil {
		in.resources = resources
	}
	l := &Lexer{data: content}
	for word, args := range l.operations() {
		if in.tooManyGlyphs || in.file.budgetErr != nil {
			return
		}
		if word == "ID" {
			l.SkipImage()
			in.imageArea += in.ctm.area()
			continue
		}
		in.execute(string(word), args)
	}
}

// area returns the area of the unit square, which a picture fills.
func (m matrix) area() float64 { return math.Hypot(m[0], m[1]) * math.Hypot(m[2], m[3]) }

func (in *interpreter) execute(op string, args []Object) {
	operand := func(i int) Object { // i counts from 1 at the end
		if i > len(args) {
			return nil
		}
		return args[len(args)-i]
	}
	arg := func(i int) float64 {
		v, _ := in.file.Number(operand(i))
		return max(-1e8, min(v, 1e8))
	}
	switch op {
	case "q":
		if len(in.stack) < maxStack {
			in.stack = append(in.stack, in.state)
		}
	case "Q":
		if top := len(in.stack) - 1; top >= 0 {
			in.state, in.stack = in.stack[top], in.stack[:top]
		}
	case "cm":
		in.ctm = matrix{arg(6), arg(5), arg(4), arg(3), arg(2), arg(1)}.multiply(in.ctm)
	case "BT":
		in.textMatrix, in.lineMatrix = identity, identity
	case "Tc":
		in.charSpace = arg(1)
	case "Tw":
		in.wordSpace = arg(1)
	case "Tz":
		in.scale = arg(1) / 100
	case "TL":
		in.leading = arg(1)
	case "Ts":
		in.rise = arg(1)
	case "Tf":
		in.setFont(operand(2), arg(1))
	case "TD":
		in.leading = -arg(1)
		fallthrough
	case "Td":
		in.startLine(translation(arg(2), arg(1)).multiply(in.lineMatrix))
	case "T*":
		in.nextLine()
	case "Tm":
		in.startLine(matrix{arg(6), arg(5), arg(4), arg(3), arg(2), arg(1)})
	case "\"":
		in.wordSpace, in.charSpace = arg(3), arg(2)
		fallthrough
	case "'":
		in.nextLine()
		fallthrough
	case "Tj", "TJ":
		in.showText(operand(1))
	case "BMC": // with a tag only
		in.beginMarked(nil)
	case "BDC":
		in.beginMarked(operand(1))
	case "EMC":
		in.endMarked()
	case "Do":
		in.draw(operand(1))
	}
}

func (in *interpreter) startLine(m matrix) { in.textMatrix, in.lineMatrix = m, m }

func (in *interpreter) nextLine() { in.startLine(translation(0, -in.leading).multiply(in.lineMatrix)) }

func (in *interpreter) setFont(operand Object, size float64) {
	in.size = size
	if operand == nil {
		return
	}
	name, _ := operand.(Name)
	entry := in.file.Dict(in.resources["Font"])[name]
	ref, shared := entry.(Ref)
	d := in.file.Dict(entry)
	if in.font = in.fonts[ref]; in.font == nil && (shared || d != nil) {
		in.font = openFont(in.file, d)
	}
	if shared {
		in.fonts[ref] = in.font
	}
}

// showText shows a string, or an array of strings with moves between them.
func (in *interpreter) showText(text Object) {
	first := len(in.glyphs)
	defer func() { in.widenLetters(in.glyphs[first:]) }()
	switch o := text.(type) {
	case String:
		in.showString(o)
	case Array:
		for _, item := range o {
			if s, ok := item.(String); ok {
				in.showString(s)
			} else if v, ok := in.file.Number(item); ok {
				in.advance(-v / 1000 * in.size * in.scale)
			}
		}
	}
}

func (in *interpreter) advance(x float64) { in.textMatrix = translation(x, 0).multiply(in.textMatrix) }

// showString adds the glyphs of a string code by code, because a string may be as long as its
// stream.
func (in *interpreter) showString(s String) {
	if in.font == nil {
		in.font = &font{scale: 0.001}
	}
	for size := 1; len(s) > 0; s = s[size:] {
		if len(in.glyphs) >= maxGlyphs {
			in.tooManyGlyphs = true
			return
		}
		if in.font.composite {
			size = min(2, len(s))
		}
		code := codeOf(s[:size])
		text := in.font.text(in.file, code)
		width := in.font.width(in.file, code, text) * in.font.scale * in.size
		in.addGlyph(text, width)
		step := width + in.charSpace
		if size == 1 && code == ' ' {
			step += in.wordSpace
		}
		in.advance(step * in.scale)
	}
}

// addGlyph appends a glyph in the coordinates of its direction.
func (in *interpreter) addGlyph(text string, width float64) {
	m := in.textMatrix.multiply(in.ctm)
	g := glyph{
		text: text, size: math.Hypot(m[2], m[3]) * math.Abs(in.size),
		width: math.Hypot(m[0], m[1]) * math.Abs(width*in.scale),
		x:     m[2]*in.rise + m[4], y: m[3]*in.rise + m[5],
	}
	quarters := math.Atan2(m[1]*in.size, m[0]*in.size) / (math.Pi / 2)
	g.direction = int(math.RoundToEven(quarters)) & 3
	for range g.direction {
		g.x, g.y = g.y, -g.x
	}
	if n := len(g.text); n > freeTextBytes && !in.file.Spend(int64(n)) {
		return
	}
	if math.Abs(g.x) < 1e8 && math.Abs(g.y) < 1e8 && g.size > 0.1 && g.size < 1e5 {
		in.glyphs = append(in.glyphs, g)
	}
}

// draw counts the area of an image, or executes a form.
func (in *interpreter) draw(operand Object) {
	name, _ := operand.(Name)
	o := in.file.Dict(in.resources["XObject"])[name]
	d := in.file.Dict(o)
	kind := in.file.Name(d["Subtype"])
	if kind == "Image" {
		in.imageArea += in.ctm.area()
	}
	if o == nil || d != nil && kind != "Form" || in.formDepth >= maxForms || !in.file.Spend(4096) {
		return
	}
	content, err := in.file.Decode(in.file.Stream(o)) // use what was decoded before an error
	in.err = cmp.Or(in.err, err)
	saved, depth, marked := in.state, len(in.stack), in.marked
	in.marked = markedContent{}
	if list := in.file.numbers(d["Matrix"], 6); list != nil {
		in.ctm = matrix(list).multiply(in.ctm)
	}
	in.formDepth++
	in.run(content, in.file.Dict(d["Resources"]))
	in.formDepth--
	in.state, in.stack, in.marked = saved, in.stack[:min(depth, len(in.stack))], marked
}

// matrix is an affine map: x' = a·x + c·y + e, y' = b·x + d·y + f.
type matrix [6]float64

var identity = translation(0, 0)

func translation(x, y float64) matrix { return matrix{1, 0, 0, 1, x, y} }

// multiply returns the map that applies first m and then n, or n alone if m has hostile numbers,
// so that nothing overflows.
func (m matrix) multiply(n matrix) matrix {
	product := matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
	if slices.ContainsFunc(product[:], func(v float64) bool { return !(math.Abs(v) < 1e9) }) {
		return n
	}
	return product
}

// pageMatrix returns the map to the page as it is viewed: with its corner at the origin, turned
// clockwise by 0, 90, 180 or 270 degrees.
func pageMatrix(box [4]float64, degrees int) matrix {
	m := translation(-box[0], -box[1])
	width, height := box[2]-box[0], box[3]-box[1]
	for range degrees / 90 {
		m = m.multiply(matrix{0, -1, 1, 0, 0, width})
		width, height = height, width
	}
	return m
}
