package tracking

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"extraction-experiment/outcome"
)

// TestSpanPeriods: times are milliseconds after the start of the item.
func TestSpanPeriods(t *testing.T) {
	start := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	call := func(kind string, waited, from, to int) outcome.Call {
		return outcome.Call{Kind: kind, Started: at(from), Ended: at(to), Waited: time.Duration(waited) * time.Millisecond}
	}
	today := outcome.Publication{Form: outcome.PublicationForm}
	tests := map[string]struct {
		form    outcome.Publication
		took    int // real duration of the item
		latency int
		calls   []outcome.Call
		root    [2]int
		want    [][2]int
	}{
		"nothing was waited": {today, 75, 75, []outcome.Call{call("generation", 0, 1, 70), call("span", 0, 71, 74)},
			[2]int{0, 75}, [][2]int{{1, 70}, {71, 74}}},
		"for the limiter": {today, 6073, 73, []outcome.Call{call("generation", 6000, 6001, 6070), call("span", 0, 6071, 6072)},
			[2]int{0, 73}, [][2]int{{1, 70}, {71, 72}}},
		"between calls": {today, 500, 200, []outcome.Call{call("generation", 100, 100, 200), call("generation", 200, 400, 500)},
			[2]int{0, 200}, [][2]int{{0, 100}, {100, 200}}},
		"within a step": {today, 500, 200, []outcome.Call{call("span", 0, 0, 500), call("generation", 300, 350, 480)},
			[2]int{0, 200}, [][2]int{{0, 200}, {50, 180}}},
		"calls that overlap": {today, 500, 400, []outcome.Call{call("generation", 100, 100, 300), call("generation", 200, 250, 500)},
			[2]int{0, 400}, [][2]int{{0, 200}, {150, 400}}},
		"a model that judges": {today, 100, 100, []outcome.Call{call("generation", 0, 0, 90), call(outcome.JudgingKind, 50, 160, 2000)},
			[2]int{0, 100}, [][2]int{{0, 90}, {100, 100}}},
		"a clock that was set": {today, 100, 100, []outcome.Call{call("generation", 0, 5000, 5040), call("span", 0, 5040, 5060), call("span", 0, -900, -800)},
			[2]int{0, 100}, [][2]int{{40, 80}, {80, 100}, {0, 100}}},
		"longer than the item": {today, 10, 10, []outcome.Call{call("generation", 0, 0, 90)}, [2]int{0, 10}, [][2]int{{0, 10}}},
		"of a version before": {outcome.Publication{}, 6073, 73, []outcome.Call{call("generation", 6000, 6001, 6070), call(outcome.JudgingKind, 0, 6080, 6090)},
			[2]int{0, 6073}, [][2]int{{6001, 6070}, {6080, 6090}}},
	}
	for name, tt := range tests {
		o := outcome.Outcome{Started: start, Ended: at(tt.took), Latency: time.Duration(tt.latency) * time.Millisecond}
		o.Calls = tt.calls
		root, calls := spanPeriods(outcome.Header{Publication: tt.form}, o)
		ms := func(p period) [2]int {
			return [2]int{int(p.start.Sub(start).Milliseconds()), int(p.end.Sub(start).Milliseconds())}
		}
		var got [][2]int
		for _, c := range calls {
			got = append(got, ms(c))
		}
		if ms(root) != tt.root || fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: root %v, calls %v; want %v, %v", name, ms(root), got, tt.root, tt.want)
		}
	}
}

// TestSpanPeriods_any: for all calls with correct times, the root is as long as the latency, model
// calls keep their length and the time for which two of them overlap, and all lie in the root.
func TestSpanPeriods_any(t *testing.T) {
	start := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		o := outcome.Outcome{Started: start, Ended: start}
		for range rapid.IntRange(0, 6).Draw(t, "calls") {
			begin := start.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "begin")))
			waited := time.Duration(rapid.IntRange(0, 30).Draw(t, "waited"))
			length := time.Duration(rapid.IntRange(0, 30).Draw(t, "length"))
			c := outcome.Call{Kind: "generation", Waited: waited, Started: begin.Add(waited), Ended: begin.Add(waited + length)}
			o.Calls, o.Ended = append(o.Calls, c), latest(o.Ended, c.Ended)
		}
		o.Latency = o.Ended.Sub(o.Started) - outcome.WaitsOf(o.Calls).Sum()
		root, calls := spanPeriods(outcome.Header{Publication: outcome.Publication{Form: outcome.PublicationForm}}, o)
		if root.end.Sub(root.start) != o.Latency || !root.start.Equal(start) {
			t.Fatalf("root %v", root)
		}
		for i, c := range calls {
			call := o.Calls[i]
			if c.start.Before(root.start) || c.end.After(root.end) || c.end.Sub(c.start) != call.Ended.Sub(call.Started) {
				t.Fatalf("call %d: %v to %v, in %v", i, call, c, root)
			}
			for k, d := range calls[:i] {
				want := overlap(period{call.Started, call.Ended}, period{o.Calls[k].Started, o.Calls[k].Ended})
				if overlap(c, d) != want {
					t.Fatalf("calls %d and %d overlap for %s, and did for %s", k, i, overlap(c, d), want)
				}
			}
		}
	})
}

func overlap(a, b period) time.Duration {
	end := a.end
	if b.end.Before(end) {
		end = b.end
	}
	return max(0, end.Sub(latest(a.start, b.start)))
}

// TestBuilder_output: looked-up mentions are sent only if the user asks for them, or by older
// versions.
func TestBuilder_output(t *testing.T) {
	const all = `{"entities":[{"name":"Ann","mentions":[{"quote":"Ann","start":0,"end":3,"looked_up":true}]}],"relationships":[]}`
	const given = `{"entities":[{"name":"Ann"}],"relationships":[]}`
	for name, tt := range map[string]struct {
		publication outcome.Publication
		want        string
	}{
		"today":            {outcome.Publication{Form: outcome.PublicationForm}, given},
		"asked for":        {outcome.Publication{Form: outcome.PublicationForm, Mentions: true}, all},
		"by older version": {outcome.Publication{}, all},
	} {
		b := builder{header: outcome.Header{Publication: tt.publication}}
		if got := b.output(outcome.Outcome{Detail: outcome.Detail{Output: []byte(all)}}); string(got) != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
