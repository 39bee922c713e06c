package html

import (
	"fmt"
	"math"

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
	Class   string
	X, Y, R float64
}

// within keeps a number from one to another.
func within(v, least, most float64) float64 { return min(most, max(least, v)) }

// bins is how many bars a distribution has, over [0,1]; a value of 1 is in the
// last.
const bins = 20

func binOf(v float64) int { return int(within(math.Floor(v*bins), 0, bins-1)) }

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
			out.Rects = append(out.Rects, rect{"bin", step*float64(i) + .5, base - high, step - 1, high,
				fmt.Sprintf("%.2f–%.2f: %s", float64(i)/bins, float64(i+1)/bins, report.FormatCounted(n, "item"))})
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

// newInterval draws a number with its interval; it is nil without one. The drawing
// reaches from one number to another.
func newInterval(at *float64, ci95 *[2]float64, least, most, zero float64, state, label string) *drawing {
	if at == nil {
		return nil
	}
	const width, height, middle = 240.0, 22.0, 11.0
	x := func(v float64) float64 { return width * within((v-least)/(most-least), 0, 1) }
	out := &drawing{Class: "interval v-" + state, Label: label, Width: width, Height: height,
		Lines:   []line{{"axis", 0, middle, width, middle}, {"zero", x(zero), 2, x(zero), height}},
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
