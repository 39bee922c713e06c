package html

import (
	"cmp"
	"slices"
	"strconv"

	"extraction-experiment/compare"
	"extraction-experiment/report"
)

// The drawing of quality against cost.
const (
	frontWidth  = 520.0
	frontHeight = 220.0
	frontEdge   = 14.0
)

// frontFigure shows the runs of which quality and cost are known: the dearer the
// further to the right, the better the higher.
type frontFigure struct {
	Width, Height                 float64
	Points                        []frontPoint
	Cheapest, Dearest, Least, Top string
}

type frontPoint struct {
	X, Y        float64
	State, Hint string
	Place       string
}

// newFrontFigure is nil where there are fewer than two such runs, or all cost the
// same.
func newFrontFigure(l compare.Leaderboard) *frontFigure {
	var runs []compare.Ranked
	var places []int
	for i, r := range l.Runs[:min(len(l.Runs), mostRuns)] {
		if r.Front != nil && r.Mean != nil && r.CostPerItem != nil {
			runs, places = append(runs, r), append(places, i+1)
		}
	}
	if len(runs) < 2 {
		return nil
	}
	byCost := func(a, b compare.Ranked) int { return cmp.Compare(*a.CostPerItem, *b.CostPerItem) }
	byMean := func(a, b compare.Ranked) int { return cmp.Compare(*a.Mean, *b.Mean) }
	cheapest, dearest := slices.MinFunc(runs, byCost), slices.MaxFunc(runs, byCost)
	least, top := slices.MinFunc(runs, byMean), slices.MaxFunc(runs, byMean)
	if *dearest.CostPerItem == *cheapest.CostPerItem {
		return nil
	}
	f := &frontFigure{Width: frontWidth, Height: frontHeight, Cheapest: report.FormatPerItem(cheapest), Dearest: report.FormatPerItem(dearest),
		Least: report.FormatScore(least.Mean, 3), Top: report.FormatScore(top.Mean, 3)}
	for i, r := range runs {
		p := frontPoint{Place: strconv.Itoa(places[i]), Hint: named(r.Summary.Run.Name) + ": " + report.FormatScore(r.Mean, 3) + ", " + report.FormatPerItem(r) + " per item"}
		p.X = frontEdge + (frontWidth-2*frontEdge)*between(*r.CostPerItem, *cheapest.CostPerItem, *dearest.CostPerItem)
		p.Y = frontHeight - frontEdge - (frontHeight-2*frontEdge)*between(*r.Mean, *least.Mean, *top.Mean)
		if *r.Front {
			p.State = "front"
		}
		f.Points = append(f.Points, p)
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
