package html

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/report"

	"github.com/google/go-cmp/cmp"
)

var blocks = regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`)

// jsonBlocks decodes all JSON blocks of a page, by id.
func jsonBlocks(t *testing.T, page string) map[string]json.RawMessage {
	t.Helper()
	found := map[string]json.RawMessage{}
	id := regexp.MustCompile(`type="application/json" class="\w+" id="(\w+)"`)
	packed := regexp.MustCompile(`type="text/plain" class="(row|detail)s" data-first="(\d+)"`)
	for _, m := range blocks.FindAllStringSubmatch(page, -1) {
		if name := id.FindStringSubmatch(m[1]); name != nil {
			if !json.Valid([]byte(m[2])) {
				t.Errorf("%s is not JSON", name[1])
			}
			found[name[1]] = json.RawMessage(m[2])
		}
		if of := packed.FindStringSubmatch(m[1]); of != nil {
			first, _ := strconv.Atoi(of[2])
			for i, value := range unpack(t, m[2]) {
				found[of[1]+strconv.Itoa(first+i)] = value
			}
		}
	}
	return found
}

func unpack(t *testing.T, text string) (values []json.RawMessage) {
	t.Helper()
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err == nil {
		err = json.NewDecoder(r).Decode(&values)
	}
	if err != nil {
		t.Error(err)
	}
	return values
}

func TestWrite_policy(t *testing.T) {
	got := page(t, []report.Run{newRun("r", 3, nil)}, Config{})
	var script string
	for _, m := range blocks.FindAllStringSubmatch(got, -1) {
		if m[1] == "" {
			script = m[2]
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(got)[1]
	if w := newWriter(io.Discard, runScripts, Config{}); script != w.script || style != w.style {
		t.Fatal("the page's script and style are not those of the policy")
	}
	want := "default-src &#39;none&#39;; script-src " + strings.NewReplacer("'", "&#39;", "+", "&#43;").Replace(hashOf(script)) + "; style-src "
	wantTexts(t, got, want)
	if strings.Contains(got, " style=") || regexp.MustCompile(`<[^>]+ on\w+=`).MatchString(got[:strings.Index(got, "<script>")]) {
		t.Error("the page has styles or handlers that its policy forbids")
	}
}

// TestWrite_hostile checks that untrusted text never becomes markup.
func TestWrite_hostile(t *testing.T) {
	run := newRun(hostile, 30, poison)
	run.Summary.Run.Dataset, run.Summary.Warnings = hostile, []string{hostile}
	got := page(t, []report.Run{run}, Config{})
	jsonBlocks(t, got)
	for _, forbidden := range []string{"<img", "window.pwned=1</script>", "<svg onload", "\u2028", "<!--<"} {
		if strings.Contains(got, forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	if n := strings.Count(got, "<script"); n != 4 { // rows, details, metadata, and the script
		t.Errorf("%d scripts", n)
	}
}

func TestWrite_bounded(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes, items, n int
	}{"one large": {0, 0, 1}, "many large": {200_000, 0, 60}, "no room": {1000, 0, 60}, "fewer items": {30_000, 10, 60}} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{MaxBytes: tt.bytes, MaxItems: tt.items}
			long := func(i int, v *report.ItemView) {
				if i%3 == 0 {
					v.Text = strings.Repeat("Ada Lovelace <b>\u2028</b> ", 20_000/tt.n) // 480 kB together, and much more when escaped
					v.Outcome.Calls[0].Output = mustJSON(strings.Repeat("é", 600_000/tt.n))
				}
			}
			got := page(t, []report.Run{newRun("r", tt.n, long)}, cfg)
			cfg = newWriter(io.Discard, runScripts, cfg).cfg
			sum, listed := 0, 0
			for id, raw := range jsonBlocks(t, got) {
				if strings.HasPrefix(id, "detail") {
					listed++
					sum += len(raw)
					if len(raw) > maxDetail {
						t.Errorf("%s has %d bytes", id, len(raw))
					}
				}
			}
			if want := min(tt.n, cfg.MaxItems); listed != want {
				t.Errorf("%d items are listed, want %d", listed, want)
			}
			if sum > cfg.MaxBytes+listed*len(noDetail) {
				t.Errorf("details have %d bytes, the bound is %d", sum, cfg.MaxBytes)
			}
			if tt.n > cfg.MaxItems && !strings.Contains(got, "50 more items are not in this file") {
				t.Error("nothing says that items are left out")
			}
			wantTexts(t, got, "item pages are shortened")
		})
	}
}

// TestByteBudget_leftOver checks that large items can use what small items leave.
func TestByteBudget_leftOver(t *testing.T) {
	var out []int
	p := byteBudget{bytes: 400_000, items: 4}
	for i := range 4 {
		v := newView("r", 0, 4)
		if i == 3 {
			v.Text = strings.Repeat("x", 200_000)
		}
		raw, cut := p.fit([]*report.ItemView{&v}, &writer{})
		if cut {
			t.Errorf("item %d was cut", i)
		}
		out = append(out, len(raw))
	}
	if out[0] > 5000 || out[3] < 200_000 {
		t.Errorf("sizes %d", out)
	}
}

// TestByteBudget_lastItem checks that the item before affects only where the search for limits
// starts, not its result.
func TestByteBudget_lastItem(t *testing.T) {
	for _, size := range []int{10, 5_000, 60_000, 400_000} {
		v := newView("r", 0, 4)
		v.Text = strings.Repeat("x", size)
		v.Outcome.Output = []byte(`"` + strings.Repeat("y", size/2) + `"`)
		var first string
		for halved := range maxHalvings + 1 {
			p := byteBudget{bytes: 100_000, items: 2, halvings: halved}
			raw, cut := p.fit([]*report.ItemView{&v}, &writer{})
			if halved == 0 {
				first = string(raw)
			}
			if string(raw) != first || len(raw) > 50_000 || cut != (size > 20_000) {
				t.Errorf("%d characters after %d halvings: %d bytes, cut: %t; after none %d bytes", size, halved, len(raw), cut, len(first))
			}
		}
	}
}

func TestWrite_errors(t *testing.T) {
	gone := errors.New("gone")
	run := newRun("r", 3, nil)
	broken := report.Run{Summary: run.Summary, Items: func(yield func(*report.ItemView, error) bool) {
		if yield(new(newView("r", 0, 3)), nil) {
			yield(nil, gone)
		}
	}}
	if err := Write(io.Discard, []report.Run{run, broken}, Config{}); !errors.Is(err, gone) {
		t.Errorf("a run that breaks off: %v", err)
	}
	if err := Write(fullWriter{}, []report.Run{run}, Config{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
	if err := Write(io.Discard, nil, Config{}); err == nil {
		t.Error("a page of no run")
	}
}

type fullWriter struct{}

var errFull = errors.New("no space left")

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

func TestMergeItems(t *testing.T) {
	runOf := func(ids ...string) report.Run {
		var views []report.ItemView
		for _, id := range ids {
			v := report.ItemView{}
			v.Outcome.Item, v.Outcome.Trial = id, 1
			views = append(views, v)
		}
		return report.Run{Items: each(views)}
	}
	var got []string
	for row, err := range mergeItems([]report.Run{runOf("a", "b", "d"), runOf("b", "c", "d")}) {
		if err != nil {
			t.Fatal(err)
		}
		id, present := "", ""
		for _, v := range row {
			if v == nil {
				present += "-"
			} else {
				id, present = v.Outcome.Item, present+"+"
			}
		}
		got = append(got, id+present)
	}
	if diff := cmp.Diff([]string{"a+-", "b++", "c-+", "d++"}, got); diff != "" {
		t.Error(diff)
	}
	for range mergeItems([]report.Run{runOf("a", "b"), runOf("b")}) {
		break // stopping early must not leave anything behind
	}
}

// TestWrite_trials checks that trials are counted as trials, that their spread is shown, and
// that warnings are folded and come after the scores.
func TestWrite_trials(t *testing.T) {
	header := outcome.Header{Name: "thrice", Trials: 3, Scorer: outcome.Scorer{Primary: "f1"}}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{})
	var views []report.ItemView
	for i := range 12 {
		v := float64(i%3) / 2
		o := outcome.Outcome{Item: fmt.Sprint("doc-", i/3), Trial: 1 + i%3, Scores: []outcome.Score{{Name: "f1", Value: &v}}}
		if i == 11 {
			o.Class, o.Scores = outcome.Timeout, []outcome.Score{{Name: "f1"}}
		}
		sum.Add(o)
		views = append(views, report.ItemView{Run: "thrice", Outcome: o})
	}
	s := sum.Summary()
	s.Warnings = []string{"the first remark", "the second"}
	got := page(t, []report.Run{{Summary: s, Items: each(views)}}, Config{})
	// f1 of the items: 0.5, 0.5, 0.5 and (0 + 0.5 + failed)/3
	wantTexts(t, got, `Outcomes <span class="count">12</span>`, "4 items × 3 trials", `<span class="name">outcomes</span><strong>12 planned</strong><span class="note">11 scored, 1 failed,`,
		`<strong>0.417</strong><span class="note">95 % interval 0.177–0.741, failed as 0; of those scored 0.438</span>`, ">failed as 0</th>", ">mean of scored</th>", "over 12 values", "sd of trials", "the sd of trials times √2", "Flaky by f1: 4 of 4 items",
		"Every trial of an item has a row of its own", "2 warnings")
	if strings.Index(got, "the first remark") < strings.Index(got, "<h2>Scores</h2>") {
		t.Error("remarks stand before the scores")
	}
}

// TestContrast checks that texts stand out from what is behind them by 4.5:1, in both schemes.
func TestContrast(t *testing.T) {
	source, err := os.ReadFile("assets/base.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, _ := strings.Cut(string(source), "prefers-color-scheme: dark")
	for scheme, css := range map[string]string{"light": light, "dark": dark} {
		luminance := func(name string) float64 {
			m := regexp.MustCompile(` --` + name + `: #(\w\w)(\w\w)(\w\w);`).FindStringSubmatch(css)
			sum := 0.0
			for i, weight := range []float64{.2126, .7152, .0722} {
				n, _ := strconv.ParseUint(m[i+1], 16, 8)
				sum += weight * math.Pow((float64(n)/255+.055)/1.055, 2.4)
			}
			return sum + .05
		}
		for text, behind := range map[string]string{"ink": "bg", "dim": "bg hover", "accent": "bg hover", "ok": "bg ok-bg", "missed": "bg missed-bg",
			"spurious": "bg spurious-bg", "type": "type-bg", "near": "near-bg", "warn": "warn-bg"} {
			for _, ground := range strings.Fields(behind) {
				a, b := luminance(text), luminance(ground)
				if contrast := max(a, b) / min(a, b); contrast < 4.5 {
					t.Errorf("%s: %s on %s: %.2f", scheme, text, ground, contrast)
				}
			}
		}
	}
}
