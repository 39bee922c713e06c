package html

import (
	"slices"

	"extraction-experiment/report"
)

// citation is what an answer is asked for beside its terms.
const citation = "citation"

// cited gives the answers of one question that cite a page a match for it. What
// explains an answer names the citation only where it is missing, so that one
// which was asked for, and judged, and is not missed is there.
func cited(views []*report.ItemView) []*report.ItemView {
	var asked *report.Miss
	for _, v := range views {
		if m := uncited(v); m != nil {
			asked = m
		}
	}
	if asked == nil {
		return views
	}
	views = slices.Clone(views)
	for i, v := range views {
		if v == nil || uncited(v) != nil || len(v.Outcome.Explanation) == 0 {
			continue
		}
		found := *v
		found.Matches = append(slices.Clip(v.Matches), report.Match{What: citation, Kind: citation, Similarity: 1,
			Expected: asked.Value, Extracted: "a page is cited", ExpectedIndex: asked.Index, ExtractedIndex: asked.Index})
		views[i] = &found
	}
	return views
}

// uncited is the citation that an answer lacks, nil where it lacks none.
func uncited(v *report.ItemView) *report.Miss {
	if v == nil {
		return nil
	}
	if i := slices.IndexFunc(v.Missed, func(m report.Miss) bool { return m.What == citation }); i >= 0 {
		return &v.Missed[i]
	}
	return nil
}
