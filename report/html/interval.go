package html

import (
	"math"

	"extraction-experiment/compare"
	"extraction-experiment/report"
)

// The drawing of an interval: 0 stands in the middle, and all intervals of a
// comparison share one scale.
const (
	intervalWidth  = 240.0
	intervalHeight = 22.0
)

// intervalFigure is a difference with its interval.
type intervalFigure struct {
	Width, Height, Zero, Middle float64
	At                          *float64 // x of the difference
	From, To                    float64  // x of the interval
	Interval                    bool
	State, Label                string
}

// scaleOf is how far the drawings reach from 0: as far as the widest interval,
// rounded up to 0.05; at least that, and at most 1.
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
	return min(1, max(0.05, math.Ceil(most*20-1e-9)/20))
}

func newIntervalFigure(s compare.Score, scale float64) *intervalFigure {
	if s.Difference == nil {
		return nil
	}
	half := intervalWidth / 2
	x := func(v float64) float64 { return half + half*min(1, max(-1, v/scale)) }
	f := &intervalFigure{Width: intervalWidth, Height: intervalHeight, Zero: half, Middle: intervalHeight / 2, State: string(s.Verdict)}
	at := x(*s.Difference)
	f.At, f.Label = &at, "difference "+report.FormatDelta(s.Difference)
	if s.CI95 != nil {
		f.Interval, f.From, f.To = true, x(s.CI95[0]), x(s.CI95[1])
		f.Label += ", 95 % interval " + report.FormatDeltas(s.CI95)
	}
	return f
}

// spreadHeight is that of the drawing of the differences of items.
const spreadHeight = 56.0

// spreadFigure shows how many items changed by how much; those that did not
// change are a number.
type spreadFigure struct {
	Width, Height, Zero float64
	Bars                []spreadBar
	Same                string
}

type spreadBar struct {
	figureBar
	State string
}

// newSpreadFigure is nil where nothing changed.
func newSpreadFigure(s spread, primary compare.Score) *spreadFigure {
	most := 0
	for i := range spreadBins {
		most = max(most, s.below[i], s.above[i])
	}
	if most == 0 {
		return nil
	}
	half, step := intervalWidth/2, intervalWidth/2/spreadBins
	f := &spreadFigure{Width: intervalWidth, Height: spreadHeight, Zero: half, Same: report.FormatCounted(s.none, "item")}
	good, bad := string(compare.Better), string(compare.Worse)
	if primary.LowerIsBetter {
		good, bad = bad, good
	}
	draw := func(n, i int, x float64, sign, state string) {
		if n == 0 {
			return
		}
		high := max(2, (spreadHeight-4)*float64(n)/float64(most))
		f.Bars = append(f.Bars, spreadBar{figureBar{x + barGap/2, spreadHeight - high, step - barGap, high, sign + binTitle(i) + ": " + report.FormatCounted(n, "item")}, state})
	}
	for i := range spreadBins {
		draw(s.below[i], i, half-float64(i+1)*step, "−", bad)
		draw(s.above[i], i, half+float64(i)*step, "+", good)
	}
	return f
}
