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
	doubled          []string // ids of scores that should not be there and are to be deleted
	others           []OtherScore
	newest           time.Time
}

// subject is what scores are compared on.
type subject struct {
	id          string // of the root span, or of the run
	environment string
}

// holds reports whether a score is where the run puts its own.
func (s subject) holds(score langfuse.Score) bool {
	return score.Subject.ID == s.id && score.Environment == cmp.Or(s.environment, "default")
}

// compareScores compares by id. Scores under other names are other people's, and
// so are those that people and evaluators of Langfuse set. One that a program set
// under a wanted name is a double if its id is of our making, which derived knows,
// or if it stands on the same subject beside the score that is wanted; otherwise it
// is somebody else's, and told of. A double of our making is to be deleted, and so
// is one of another id that has the wanted value: a copy.
func compareScores(want map[string]wanted, on subject, derived func(id string) bool, there []langfuse.Score) comparison {
	var c comparison
	names := map[string]bool{}
	for _, w := range want {
		names[w.name] = true
	}
	beside := map[string]float64{} // values of wanted scores that are there, by name
	byID := map[string]langfuse.Score{}
	for _, s := range there {
		if w, ours := want[s.ID]; ours {
			beside[w.name] = w.value
		}
	}
	slices.SortFunc(there, func(a, b langfuse.Score) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	for _, s := range there {
		byID[s.ID] = s
		if _, ours := want[s.ID]; ours || !names[s.Name] || !byProgram(s) {
			continue
		}
		value, paired := beside[s.Name]
		number, isNumber := s.Value.Number()
		double := Finding{Kind: DoubledScore, Score: s.Name, ScoreID: s.ID, Detail: fmt.Sprintf("also there as %s, with the value %s", s.ID, brief(s.Value))}
		switch {
		case derived(s.ID), paired && on.holds(s) && isNumber && number == value:
			c.doubled = append(c.doubled, s.ID)
			c.findings = append(c.findings, double)
		case paired && on.holds(s):
			double.Left = true
			double.Detail += fmt.Sprintf(" beside %v, by another program: who wrote it must say which counts; delete score %s in Langfuse, or give it another name", value, s.ID)
			c.findings = append(c.findings, double)
		default:
			c.others = append(c.others, OtherScore{Score: s.Name, ID: s.ID, Value: s.Value.String(), Environment: s.Environment})
		}
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
			detail := fmt.Sprintf("%s instead of %v", brief(s.Value), w.value)
			if s.Name != w.name {
				detail = fmt.Sprintf("it is called %q there", cut(s.Name, maxBrief))
			}
			c.findings = append(c.findings, Finding{Kind: ChangedScore, Score: w.name, ScoreID: id, Detail: detail})
		default:
			c.right++
		}
	}
	return c
}

// maxBrief bounds what a finding quotes of a server, in characters.
const maxBrief = 80

// brief returns a value for a finding; texts can be of any length.
func brief(v langfuse.ScoreValue) string { return cut(v.String(), maxBrief) }

// later returns the time from which corrected scores count: after everything
// that the server has seen. It is zero where nothing was changed: what is only
// missing is sent unchanged.
func (c comparison) later(server langfuse.Server) time.Time {
	if len(c.changed) == 0 {
		return time.Time{}
	}
	return latest(time.Now().Add(max(0, server.Skew)), c.newest.Add(time.Millisecond)).UTC()
}
