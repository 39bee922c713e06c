package tracking

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"extraction-experiment/langfuse"
)

// wanted is a score as the run file has it.
type wanted struct {
	name  string
	value float64
}

// comparison is the difference between the scores that should be on a trace, or
// on a run, and those that are.
type comparison struct {
	findings         []Finding
	right            int
	missing, changed []string // ids of wanted scores
	doubled          []string // ids of scores that should not be there
	others           []OtherScore
	newest           time.Time
}

// compareScores compares by id. Scores under other names are other people's. One
// under a wanted name is a double if its id is of our making, which derived
// knows; otherwise it is somebody else's, and only told of if a program set it.
func compareScores(want map[string]wanted, derived func(id string) bool, there []langfuse.Score) comparison {
	var c comparison
	names := map[string]bool{}
	for _, w := range want {
		names[w.name] = true
	}
	byID := map[string]langfuse.Score{}
	slices.SortFunc(there, func(a, b langfuse.Score) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for _, s := range there {
		byID[s.ID] = s
		if _, ours := want[s.ID]; ours || !names[s.Name] || !byProgram(s) {
			continue
		}
		if !derived(s.ID) {
			c.others = append(c.others, OtherScore{Score: s.Name, ID: s.ID, Value: s.Value.String(), Environment: s.Environment})
			continue
		}
		c.doubled = append(c.doubled, s.ID)
		c.findings = append(c.findings, Finding{Kind: DoubledScore, Score: s.Name, Detail: fmt.Sprintf("also there as %s, with the value %s", s.ID, s.Value)})
	}
	ids := slices.SortedFunc(maps.Keys(want), func(a, b string) int { return cmp.Compare(want[a].name, want[b].name) })
	for _, id := range ids {
		w := want[id]
		s, ok := byID[id]
		number, _ := s.Value.Number()
		switch {
		case !ok:
			c.missing = append(c.missing, id)
			c.findings = append(c.findings, Finding{Kind: MissingScore, Score: w.name, Detail: fmt.Sprintf("%v is not there", w.value)})
		case s.Name != w.name || number != w.value || s.Value == (langfuse.ScoreValue{}):
			c.changed = append(c.changed, id)
			if s.Timestamp.After(c.newest) {
				c.newest = s.Timestamp
			}
			detail := fmt.Sprintf("%s instead of %v", s.Value, w.value)
			if s.Name != w.name {
				detail = fmt.Sprintf("it is called %q there", s.Name)
			}
			c.findings = append(c.findings, Finding{Kind: ChangedScore, Score: w.name, ScoreID: id, Detail: detail})
		default:
			c.right++
		}
	}
	return c
}

// later returns the time from which corrected scores count: after everything
// that the server has seen. It is zero where nothing was changed: what is only
// missing is sent unchanged.
func (c comparison) later(server langfuse.Server) time.Time {
	if len(c.changed) == 0 {
		return time.Time{}
	}
	return latest(time.Now().Add(max(0, server.Skew)), c.newest.Add(time.Millisecond)).UTC()
}
