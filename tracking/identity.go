package tracking

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"extraction-experiment/outcome"
)

// identity derives every id of one outcome from the run, so that whatever is
// sent again is the same thing again.
type identity struct {
	runUID  string
	item    string
	trial   int
	attempt int
}

func identify(h outcome.Header, o outcome.Outcome) identity {
	return identity{h.RunUID, o.Item, o.Trial, o.Attempt}
}

// trace returns the id of the outcome's trace: 32 hexadecimal digits.
func (id identity) trace() string { return id.derive(16, "trace") }

// span returns the id of a span of the trace: position 0 is the root, call i
// has position i+1. 16 hexadecimal digits.
func (id identity) span(position int) string { return id.derive(8, "span", strconv.Itoa(position)) }

// score returns the id of the score of that name: 32 hexadecimal digits.
func (id identity) score(name string) string { return id.derive(16, "score", name) }

func (id identity) derive(bytes int, what ...string) string {
	parts := append([]string{id.runUID, strconv.Itoa(id.trial), id.item, strconv.Itoa(id.attempt)}, what...)
	return digest(bytes, parts...)
}

// digest hashes parts so that no two lists of parts meet, whatever they contain.
func digest(bytes int, parts ...string) string {
	text, err := json.Marshal(parts)
	if err != nil { // a list of strings always encodes
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:bytes])
}

// maxAttempts bounds for how many attempts ids are computed anew.
const maxAttempts = 1000

// scoreOfAny returns a function that reports whether an id is that of a score
// of the outcome's item, in any attempt up to this one. It computes when asked:
// almost nobody asks.
func scoreOfAny(h outcome.Header, o outcome.Outcome) func(id string) bool {
	var known map[string]bool
	return func(id string) bool {
		if known == nil {
			known = map[string]bool{}
			for attempt := 1; attempt <= min(o.Attempt, maxAttempts); attempt++ {
				of := identity{h.RunUID, o.Item, o.Trial, attempt}
				for _, s := range o.Scores {
					known[of.score(s.Name)] = true
				}
			}
		}
		return known[id]
	}
}

// TraceID returns the id of the trace that an outcome of a run is recorded as.
func TraceID(h outcome.Header, o outcome.Outcome) string { return identify(h, o).trace() }

// RunName returns the name that a trial has in Langfuse: the run's name for
// the first, "name#2" and so on for the others, because Langfuse keeps one row
// per item and run.
func RunName(h outcome.Header, trial int) string {
	if trial <= 1 {
		return h.Name
	}
	return h.Name + "#" + strconv.Itoa(trial)
}
