package html

import "extraction-experiment/report"

// The drawing of a score is as wide as its scale from 0 to 1 and high enough
// for the bars, with the mean and its interval below them.
const (
	figureWidth  = 300.0
	figureHeight = 44.0
	barsHeight   = 30.0
	barGap       = 1.0
)

// figure is the distribution of a score with its mean and interval.
type figure struct {
	Width, Height, Base float64
	Bars                []figureBar
	Mean                *float64 // x
	From, To            float64  // x of the interval
	Interval            bool
	Label               string
}

type figureBar struct {
	X, Y, Width, Height float64
	Hint                string
}

func newFigure(score string, mean *float64, ci95 *[2]float64, d *[bins]int) figure {
	f := figure{Width: figureWidth, Height: figureHeight, Base: barsHeight}
	most, values := 1, 0
	for _, n := range d {
		most = max(most, n)
		values += n
	}
	step := figureWidth / bins
	for i, n := range d {
		if n == 0 {
			continue
		}
		high := max(1.5, (barsHeight-2)*float64(n)/float64(most))
		f.Bars = append(f.Bars, figureBar{
			X: step*float64(i) + barGap/2, Y: barsHeight - high, Width: step - barGap, Height: high,
			Hint: binTitle(i) + ": " + report.FormatCounted(n, "item"),
		})
	}
	if mean != nil {
		f.Mean = new(place(*mean))
	}
	if ci95 != nil {
		f.From, f.To, f.Interval = place(ci95[0]), place(ci95[1]), true
	}
	f.Label = "Distribution of " + score + " over " + report.FormatCounted(values, "value")
	return f
}

func place(v float64) float64 { return figureWidth * min(1, max(0, v)) }
