package html

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"extraction-experiment/compare"
	"extraction-experiment/report"
)

// drawing is a small picture of numbers.
type drawing struct {
	Class, Label  string
	Width, Height float64
	Rects         []rect
	Lines         []line
	Circles       []circle
}

type rect struct {
	Class               string
	X, Y, Width, Height float64
	Hint                string
}

type line struct {
	Class          string
	X1, Y1, X2, Y2 float64
}

type circle struct {
	Class      string
	X, Y, R    float64
	Text, Hint string
}

// within keeps a number from one to another.
func within(v, least, most float64) float64 { return min(most, max(least, v)) }

// bins is how many bars a distribution has, over [0,1]; a value of 1 is in the
// last.
const bins = 20

func binOf(v float64) int { return int(within(math.Floor(v*bins), 0, bins-1)) }

// binHint says how many items a bar stands for.
func binHint(sign string, i, n int) string {
	return fmt.Sprintf("%s%.2f–%.2f: %s", sign, float64(i)/bins, float64(i+1)/bins, report.FormatCounted(n, "item"))
}

// newDistribution draws how often a score has which value, and its mean and
// interval below.
func newDistribution(score string, mean *float64, ci95 *[2]float64, d *[bins]int) *drawing {
	const width, base, step, below = 300.0, 30.0, 300.0 / bins, 37
	out := &drawing{Class: "figure", Width: width, Height: 44}
	most, values := 1, 0
	for _, n := range d {
		most, values = max(most, n), values+n
	}
	for i, n := range d {
		if n > 0 {
			high := max(1.5, (base-2)*float64(n)/float64(most))
			out.Rects = append(out.Rects, rect{"bin", step*float64(i) + .5, base - high, step - 1, high, binHint("", i, n)})
		}
	}
	x := func(v float64) float64 { return width * within(v, 0, 1) }
	out.Lines = append(out.Lines, line{"axis", 0, base, width, base})
	if ci95 != nil {
		out.Lines = append(out.Lines, line{"interval", x(ci95[0]), below, x(ci95[1]), below})
	}
	if mean != nil {
		out.Circles = append(out.Circles, circle{Class: "mean", X: x(*mean), Y: below, R: 4})
	}
	out.Label = "Distribution of " + score + " over " + report.FormatCounted(values, "value")
	return out
}

// The width of a drawing of an interval, or of differences.
const intervalWidth = 240.0

// newInterval draws a number with its interval; it is nil without one. The drawing
// reaches from one number to another.
func newInterval(at *float64, ci95 *[2]float64, least, most, zero float64, state, label string) *drawing {
	if at == nil {
		return nil
	}
	const height, middle = 22.0, 11.0
	x := func(v float64) float64 { return intervalWidth * within((v-least)/(most-least), 0, 1) }
	out := &drawing{Class: "interval v-" + state, Label: label, Width: intervalWidth, Height: height,
		Lines:   []line{{"axis", 0, middle, intervalWidth, middle}, {"zero", x(zero), 2, x(zero), height}},
		Circles: []circle{{Class: "at", X: x(*at), Y: middle, R: 4}}}
	if ci95 != nil {
		out.Lines = append(out.Lines, line{"range", x(ci95[0]), middle, x(ci95[1]), middle})
	}
	return out
}

// newDifference draws the difference of a score, from −scale to +scale.
func newDifference(s compare.Score, scale float64) *drawing {
	label := "difference " + report.FormatDelta(s.Difference)
	if s.CI95 != nil {
		label += ", 95 % interval " + report.FormatDeltas(s.CI95)
	}
	return newInterval(s.Difference, s.CI95, -scale, scale, 0, string(s.Verdict), label)
}

// scaleOf is how far the drawings of differences reach from 0: as far as the widest
// interval, rounded up to 0.05; at least that, and at most 1.
func scaleOf(scores []compare.Score) float64 {
	most := 0.0
	for _, s := range scores {
		if s.Difference != nil {
			most = max(most, math.Abs(*s.Difference))
		}
		if s.CI95 != nil {
			most = max(most, -s.CI95[0], s.CI95[1])
		}
	}
	return within(math.Ceil(most*bins-1e-9)/bins, 0.05, 1)
}

// scaleTitle is the title over drawings that reach from −scale to +scale.
func scaleTitle(scale float64) []string {
	end := report.FormatScore(&scale, 2)
	return []string{"−" + end, "difference and 95 % interval", "+" + end}
}

// spread counts differences of items: those of 0 apart, the others in bars of
// 0.05.
type spread struct {
	below, above [bins]int
	none         int
}

func (s *spread) add(d float64) {
	switch at := binOf(math.Abs(d)); {
	case math.IsNaN(d) || math.Abs(d) <= compare.Epsilon:
		s.none++
	case d < 0:
		s.below[at]++
	default:
		s.above[at]++
	}
}

// newSpread draws how many items changed by how much; it is nil where none did.
func newSpread(s spread, lowerIsBetter bool) *drawing {
	const height, half, step = 56.0, intervalWidth / 2, intervalWidth / 2 / bins
	most := max(slices.Max(s.below[:]), slices.Max(s.above[:]))
	if most == 0 {
		return nil
	}
	fell, rose := "v-worse", "v-better"
	if lowerIsBetter {
		fell, rose = rose, fell
	}
	out := &drawing{Class: "spread", Label: "Differences of the items", Width: intervalWidth, Height: height,
		Lines: []line{{"axis", 0, height, intervalWidth, height}, {"axis", half, 0, half, height}}}
	bar := func(class, sign string, n, i int, x float64) {
		if n > 0 {
			high := max(2, (height-4)*float64(n)/float64(most))
			out.Rects = append(out.Rects, rect{class, x + .5, height - high, step - 1, high, binHint(sign, i, n)})
		}
	}
	for i := range bins {
		bar(fell, "−", s.below[i], i, half-float64(i+1)*step)
		bar(rose, "+", s.above[i], i, half+float64(i)*step)
	}
	return out
}

// newBar draws a score from 0 to 1.
func newBar(v *float64) *drawing {
	out := &drawing{Width: 60, Height: 8, Rects: []rect{{Class: "track", Width: 60, Height: 8}}}
	if v != nil {
		out.Rects = append(out.Rects, rect{Class: "fill", Width: 60 * within(*v, 0, 1), Height: 8})
	}
	return out
}

// newDifferenceBar draws a difference from −1 to 1.
func newDifferenceBar(d *float64, state string) *drawing {
	out := newBar(nil)
	if d != nil {
		to := 30 * within(*d, -1, 1)
		out.Rects = append(out.Rects, rect{Class: "v-" + state, X: 30 + min(0, to), Width: math.Abs(to), Height: 8})
	}
	out.Lines = []line{{"axis", 30, 0, 30, 8}}
	return out
}

// front is quality against cost: the dearer a run the further to the right, the
// better the higher.
type front struct {
	*drawing
	Cheapest, Dearest, Least, Top string
}

// newFront shows the runs of which both are known; it is nil where they are fewer
// than two, or all cost the same.
func newFront(runs []compare.Ranked) *front {
	const width, height, edge = 520.0, 220.0, 14.0
	drawn := func(r compare.Ranked) bool { return r.Front != nil && r.Mean != nil && r.CostPerItem != nil }
	known := slices.DeleteFunc(slices.Clone(runs), func(r compare.Ranked) bool { return !drawn(r) })
	if len(known) < 2 {
		return nil
	}
	byCost := func(a, b compare.Ranked) int { return cmp.Compare(*a.CostPerItem, *b.CostPerItem) }
	byMean := func(a, b compare.Ranked) int { return cmp.Compare(*a.Mean, *b.Mean) }
	cheapest, dearest := slices.MinFunc(known, byCost), slices.MaxFunc(known, byCost)
	least, top := slices.MinFunc(known, byMean), slices.MaxFunc(known, byMean)
	if *dearest.CostPerItem == *cheapest.CostPerItem {
		return nil
	}
	f := &front{&drawing{Label: "Quality against cost per item", Width: width, Height: height}, report.CostPerItem(cheapest), report.CostPerItem(dearest),
		report.FormatScore(least.Mean, 3), report.FormatScore(top.Mean, 3)}
	for i, r := range runs {
		if !drawn(r) {
			continue
		}
		c := circle{R: 9, Text: strconv.Itoa(i + 1), Class: map[bool]string{true: "front"}[*r.Front],
			X:    edge + (width-2*edge)*between(*r.CostPerItem, *cheapest.CostPerItem, *dearest.CostPerItem),
			Y:    height - edge - (height-2*edge)*between(*r.Mean, *least.Mean, *top.Mean),
			Hint: named(r.Summary.Run.Name) + ": " + report.FormatScore(r.Mean, 3) + ", " + report.CostPerItem(r) + " per item"}
		f.Circles = append(f.Circles, c)
	}
	return f
}

// between is where v lies from lo to hi, 0.5 where they are the same.
func between(v, lo, hi float64) float64 {
	if hi <= lo {
		return 0.5
	}
	return (v - lo) / (hi - lo)
}
