package html

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"extraction-experiment/compare"
	"extraction-experiment/internal/testkit"
	"extraction-experiment/report"
)

const (
	visible   = `Array.from(document.querySelectorAll(".view")).filter(v => !v.hidden).map(v => v.id).join()`
	heading   = `document.querySelector("#item h1") ? document.querySelector("#item h1").textContent : ""`
	firstRow  = `document.querySelector("#list tbody td a").textContent`
	rowCount  = `document.querySelectorAll("#list tbody tr").length`
	found     = `document.getElementById("found").textContent`
	itemPlace = `(document.querySelector("#item .place") || {}).textContent || ""`
)

// TestBrowser opens pages in one headless Chromium and uses them like a person: all tests with
// EXPERIMENT_BROWSER=required, as set by .ci/run, otherwise the main ones.
func TestBrowser(t *testing.T) {
	ctx := testkit.StartBrowser(t)
	main := []string{"walk", "numbers", "hostile text", "comparison", "hostile comparison"}
	for name, test := range map[string]func(*testing.T, context.Context){
		"walk": walk, "numbers": numbers, "keyboard": keyboard, "hostile text": hostileText, "many items": manyItems, "two runs": sideBySide, "telephone": narrowScreen,
		"answers": answerAlone, "answers compared": answersCompared, "citations": citations,
		"comparison": compareWalk, "several candidates": compareSeveral, "hostile comparison": compareHostile,
		"comparison on a telephone": compareNarrowScreen, "still pages": staticPages, "audit": auditKeyboard, "hostile audit": auditHostile,
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(main, name) && os.Getenv("EXPERIMENT_BROWSER") != "required" {
				t.Skip("set EXPERIMENT_BROWSER=required, as .ci/run does")
			}
			t.Parallel()
			test(t, ctx)
		})
	}
}

// numbers checks that lists and item pages show each number as the tables and the terminal do.
func numbers(t *testing.T, chromium context.Context) {
	source, err := os.ReadFile("assets/dom.js")
	if err != nil {
		t.Fatal(err)
	}
	var calls, texts []string
	call := func(function string, v float64, text string) {
		calls, texts = append(calls, fmt.Sprintf("%s(%v)", function, v)), append(texts, text)
	}
	for _, v := range []float64{0, 1. / 16, 5. / 16, 7. / 16, 13. / 16, .0005, .0015, 2. / 3, .99996, 1 - 1e-10, 1, 3.0625} {
		call("ratio", v, report.Score(&v, 3))
	}
	for _, ms := range []float64{.0125, .9994, .9996, 2.25, 9.96, 12.5, 999.4, 1250, 99_949, 99_951, 125_300, 3_600_000, 3_725_499} {
		call("milliseconds", ms, report.Milliseconds(ms))
	}
	for _, v := range []float64{0, .000025, .00125, .0156, .125, .375, .9951, 2.625, 1234.5} {
		call("dollars", v, report.Dollars(v))
	}
	b := open(t, chromium, []report.Run{newRun("numbers", 1, nil)}, Config{})
	want(b, fmt.Sprintf("(() => { %s; return [%s].join() })()", source, strings.Join(calls, ",")), strings.Join(texts, ","))
}

func walk(t *testing.T, chromium context.Context) {
	b := open(t, chromium, []report.Run{newRun("walk", 20, nil)}, Config{})
	want(b, visible, "overview")
	want(b, `document.querySelectorAll(".scores tbody tr").length`, 3)
	want(b, `document.querySelectorAll(".causes tbody tr").length`, 3)

	b.Click(`nav a[data-view="items"]`)
	want(b, visible, "items")
	want(b, rowCount, 20)
	want(b, firstRow, "doc-0000") // the lowest entity_f1 of those that have one
	want(b, `document.querySelectorAll("#list tbody tr")[19].querySelector(".text").textContent`, "timeout: no answer within 30s")

	b.Click(`#list thead th[aria-sort] button`) // reversed: 19 is the last, because 17 = 2·7+3 failed
	want(b, firstRow, "doc-0019")
	want(b, `document.querySelector("#list th[aria-sort]").getAttribute("aria-sort")`, "descending")
	b.Click(`#list thead button[data-key="id"]`)
	b.Click(`#list thead button[data-key="id"]`)
	want(b, firstRow, "doc-0019")

	b.Choose("#state", "failed")
	want(b, found, "3 of 20 items") // 3, 10, 17
	want(b, firstRow, "doc-0017")
	b.Choose("#state", "")
	b.Type("#search", "doc-001")
	want(b, found, "10 of 20 items")
	want(b, firstRow, "doc-0019")

	b.Click(`#list tbody tr:nth-child(2) td a`)
	want(b, heading, "doc-0018")
	want(b, itemPlace, "2 of 10")
	want(b, `Array.from(document.querySelectorAll("#item .document mark")).map(m => m.className + ":" + m.textContent).join("|")`,
		"ok:Ada Lovelace|spurious:London|near:Charles |near:Babbage|near:Babbage|missed:University of |missed spurious:London")
	want(b, `document.querySelector("#item .things.entities tbody tr").textContent`, "Charles Babbage PersonBabbage Personboundaryunder threshold0.47")
	want(b, `document.querySelector("#item .things.relationships .pill").textContent`, "swapped direction")
	b.Click(`#item details.call summary`)
	want(b, `document.querySelector("#item details.call pre").textContent`, "You extract entities.")
	b.Click(`#item .things.entities tbody tr:nth-child(2) button.name`) // a row selects its marks
	want(b, `Array.from(document.querySelectorAll("#item mark.sel")).map(m => m.textContent).join("|")`, "University of |London")

	b.Click(`#item a[data-step="next"]`)
	want(b, heading, "doc-0017")
	want(b, `document.querySelector("#item .notice.bad").textContent`, "timeout\nno answer within 30s")
	b.Click(`#item a[data-step="previous"]`)
	want(b, heading, "doc-0018")
	b.Click(`#item a[data-step="list"]`)
	want(b, found, "10 of 20 items") // as before

	value[string](b, `location.hash = "#/items?state=__proto__"`) // not a state
	want(b, found, "20 items")
	b.WantNoComplaints()
}

func keyboard(t *testing.T, chromium context.Context) {
	b := open(t, chromium, []report.Run{newRun("keys", 20, nil)}, Config{})
	b.Press("/")
	want(b, `document.activeElement.id`, "search")
	b.Press("d", "o", "c", "-", "0", "0", "0")
	want(b, found, "10 of 20 items")
	b.Press(kb.Escape)
	want(b, `document.activeElement.id`, "")
	b.Press("j")
	want(b, `document.activeElement.textContent`, "doc-0000")
	b.Press("j", kb.ArrowDown, "k")
	want(b, `document.activeElement.textContent`, "doc-0001")
	want(b, `getComputedStyle(document.activeElement).outlineStyle`, "solid")
	b.Press(kb.Enter)
	want(b, heading, "doc-0001")
	b.Press("j")
	want(b, heading, "doc-0002")
	b.Press(kb.ArrowRight)
	want(b, heading, "doc-0004") // 3 failed and is last
	b.Press("k", kb.ArrowLeft, "k", "k")
	want(b, heading, "doc-0000") // the first item
	b.Press(kb.Escape)
	want(b, visible, "items")
	want(b, `document.activeElement.textContent`, "doc-0000")
	b.Press(kb.Escape)
	want(b, visible, "overview")
	b.Run(chromedp.KeyEvent("j", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	want(b, visible, "overview") // the browser handles keys with a modifier
	b.WantNoComplaints()
}

func hostileText(t *testing.T, chromium context.Context) {
	run := newRun(hostile, 12, poison)
	run.Summary.Run.URL = "javascript:window.pwned=1"
	run.Summary.Run.Dataset, run.Summary.Run.Model, run.Summary.Warnings = hostile, hostile, []string{hostile}
	b := open(t, chromium, []report.Run{run}, Config{})
	want(b, `document.querySelectorAll('a[href^="javascript"]').length`, 0)
	b.Press("j")
	want(b, rowCount, 12)
	openAll(b, "12 of 12")
	wantUnharmed(b, 1)
	want(b, `document.querySelectorAll("script.details").length`, 1)
	b.WantNoComplaints()

	// The policy also blocks a script that is in the page.
	value[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.pwned = 1"; document.body.append(s); return true; })()`)
	value[bool](b, `(() => { const i = document.createElement("img"); i.src = "http://192.0.2.1/x.png"; document.body.append(i); return true; })()`)
	want(b, `window.pwned === undefined`, true)
	requests, refused, problems := b.Complaints()
	for range 500 { // the browser reports them later
		if len(requests) > 0 && refused > 0 && len(problems) > 1 {
			break
		}
		time.Sleep(20 * time.Millisecond)
		requests, refused, problems = b.Complaints()
	}
	if len(requests) != 1 || refused != 1 {
		t.Errorf("of the requests %q the policy refused %d", requests, refused)
	}
	if len(problems) < 2 || !strings.Contains(strings.Join(problems, "\n"), "Content Security Policy") {
		t.Errorf("the policy refused nothing: %q", problems)
	}
}

// manyItems opens a page of more items than are shown at once.
func manyItems(t *testing.T, chromium context.Context) {
	b := open(t, chromium, []report.Run{newRun("large", 201, nil)}, Config{})
	b.Press("j")
	want(b, found, "201 items")
	want(b, rowCount, 100)
	t.Logf("ready after %.0f ms", value[float64](b, `performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`))
	b.Type("#search", "doc-0200")
	want(b, found, "1 of 201 items")
	b.Press(kb.Enter, kb.Enter)
	want(b, heading, "doc-0200")
	b.Press(kb.Escape)
	value[bool](b, `(() => { document.getElementById("search").value = ""; document.getElementById("search").dispatchEvent(new Event("input")); return true; })()`)
	want(b, found, "201 items")
	b.Click("#pages button:last-child")
	want(b, `document.querySelector("#pages span").textContent`, "101–200 of 201")
	b.WantNoComplaints()
}

// sideBySide shows the items of two runs together, including those that one lacks.
func sideBySide(t *testing.T, chromium context.Context) {
	better := newRun("candidate", 12, func(i int, v *report.ItemView) {
		if !v.Outcome.Failed() {
			value := 0.5
			v.Outcome.Scores[0].Value = &value
		}
	})
	b := open(t, chromium, []report.Run{newRun("base", 10, nil), better}, Config{})
	want(b, `document.querySelectorAll("#overview .run").length`, 2)
	b.Press("j")
	want(b, found, "12 items · entity_f1 by run")
	want(b, firstRow, "doc-0009") // 1 against 0.5 is the largest loss
	want(b, `Array.from(document.querySelectorAll("#list tbody tr:first-child td.num"), td => td.textContent).join()`, "1.000,0.500,-0.500,6")
	b.Press("j", kb.Enter)
	want(b, heading, "doc-0009")
	want(b, `Array.from(document.querySelectorAll("#item .pane"), p => p.querySelector("h2").textContent + " " + p.querySelectorAll("mark:not(.swatch)").length).join()`, "base 7,candidate 7")
	want(b, headingsSkipNoLevel, true)
	value[string](b, `location.hash = "#/item/doc-0011/1"`)
	want(b, heading, "doc-0011")
	want(b, `document.querySelector("#item .pane .notice").textContent`, "This run has no such item.")
	b.WantNoComplaints()
}

// narrowScreen checks that pages on a phone never scroll sideways, even with long names.
func narrowScreen(t *testing.T, chromium context.Context) {
	run := newRun(hostile, 20, poison)
	run.Summary.Run.Dataset, run.Summary.Warnings = strings.Repeat("long", 50), []string{strings.Repeat("long", 100)}
	b := open(t, chromium, []report.Run{run}, Config{})
	b.Run(chromedp.EmulateViewport(400, 800))
	b.Dark()
	for _, route := range []string{"#/", "#/items", "#/item/doc-0002/1", "hostile"} {
		if route == "hostile" {
			value[string](b, `location.hash = "#/item/" + encodeURIComponent(`+string(mustJSON("doc-0011 "+hostile))+`) + "/1"`)
			want(b, heading, "doc-0011 "+hostile)
		} else {
			value[string](b, `location.hash = "`+route+`"`)
			want(b, `location.hash`, route)
		}
		want(b, `document.documentElement.scrollWidth <= 400`, true)
		want(b, headingsSkipNoLevel, true)
	}
	want(b, `getComputedStyle(document.body).backgroundColor`, "rgb(19, 22, 26)") // of the dark scheme
	b.WantNoComplaints()
}

const (
	deltas = `Array.from(document.querySelectorAll("#list tbody tr td:nth-child(4)"), td => td.textContent).join()`
	marks  = `Array.from(document.querySelectorAll("#item .document mark")).map(m => m.className + "(" + (m.dataset.who || "") + "):" + m.textContent).join("|")`
)

func compareWalk(t *testing.T, chromium context.Context) {
	runs := newPair(t, 20, nil)
	b := openPage(t, chromium, comparePage(t, compareRuns(t, runs, compare.Config{}), runs, Config{}))
	want(b, visible, "overview")
	want(b, `document.querySelectorAll("#overview svg.interval").length`, 4) // the verdict and three scores
	b.Click(`.routes a[href*="worse"]`)
	want(b, found, "4 of 20 items · entity_f1, candidate against base")
	want(b, firstRow, "doc-0005")
	want(b, deltas, "-0.263,-0.100,-0.100,-0.100") // doc-0005 had 5/19
	want(b, `document.querySelector("#list .text").textContent`, "candidate: rate_limited: asked too often")

	b.Choose("#state", "better") // 1, 7, 9, 11, 13 and 15; 19 had 1 already
	want(b, found, "6 of 20 items · entity_f1, candidate against base")
	want(b, `document.querySelectorAll("#list tbody .up").length`, 6)
	b.Choose("#state", "same")
	want(b, deltas+`.replace(/(,0\.000)+$/, "")`, "0.000")
	b.Choose("#state", "failed") // 3, 10, 17 in both, 5 in the candidate
	want(b, found, "4 of 20 items · entity_f1, candidate against base")
	b.Choose("#state", "")
	want(b, rowCount, 20)
	want(b, firstRow, "doc-0005") // the largest loss
	b.Click(`#list thead button[data-key="delta"]`)
	want(b, `document.querySelector("#list tbody td:nth-child(4)").textContent`, "+0.200")
	want(b, `document.querySelector("#list th[aria-sort]").getAttribute("aria-sort")`, "descending")
	b.Click(`#list thead button[data-key="id"]`)
	b.Choose("#state", "changed")

	b.Click(`#list tbody tr:nth-child(2) td a`) // 1, 4, 5, 7
	want(b, heading, "doc-0004")
	want(b, marks, "lost(base):Ada Lovelace|spurious(base candidate):London|missed():Charles |missed stray(base candidate):Babbage|missed stray(base candidate):Babbage|missed():University of |missed spurious(base candidate):London")
	b.Click(`#item a[data-step="next"]`)
	want(b, heading, "doc-0005")
	want(b, `document.querySelector("#item .notice.bad").textContent`, "The candidate failed: rate_limited\nasked too often")
	b.Click(`#item a[data-step="next"]`)
	want(b, heading, "doc-0007")
	want(b, `document.querySelector("#item .verdictline").textContent`, "entity_f1 0.368 → 0.568 +0.200") // 7/19
	want(b, marks, "ok(base candidate):Ada Lovelace|gone(base):London|gained(candidate):Charles |gained(base candidate):Babbage|stray(candidate):Analytical Engine|gained(base):Babbage|missed():University of |missed gone(base):London")
	want(b, `Array.from(document.querySelectorAll("#item .entities tbody tr"), tr => tr.querySelector(".pill").textContent).join()`, "newly spurious,gained,spurious no more,missed by both,as before")
	want(b, `document.querySelectorAll("#item .document").length`, 1)
	want(b, `Array.from(document.querySelectorAll("#item .columns h2"), h => h.textContent).join()`, "Base base,Candidate candidate")
	b.Click(`#item .entities tbody tr.gained button.name`) // a row selects its marks
	want(b, `Array.from(document.querySelectorAll("#item mark.sel")).map(m => m.textContent).join("|")`, "Charles |Babbage|Babbage")
	b.Click(`#item .legend input`) // a box hides the marks of its state
	want(b, `document.querySelector("#item .doc").classList.contains("no-stray")`, true)
	b.Click(`#item a[data-step="previous"]`)
	want(b, heading, "doc-0005")
	b.Press("j", "j", kb.Escape)
	want(b, `document.activeElement.textContent`, "doc-0008")
	want(b, `document.getElementById("state").value`, "changed") // as before
	b.WantNoComplaints()
}

func compareSeveral(t *testing.T, chromium context.Context) {
	runs := append(newPair(t, 12, nil), newRun("same", 12, nil))
	b := openPage(t, chromium, comparePage(t, compareRuns(t, runs, compare.Config{}), runs, Config{}))
	want(b, `document.querySelectorAll(".board tbody tr").length`, 2)
	b.Press("j")
	want(b, found, "12 items · entity_f1, candidate against base")
	b.Choose("#against", "2")
	want(b, found, "12 items · entity_f1, same against base")
	b.Choose("#state", "same")
	want(b, found, "12 items · entity_f1, same against base") // failed in both is no difference
	b.Press("j", kb.Enter)
	want(b, `document.querySelector("#item .verdictline b:last-child").textContent`, "no difference")
	value[string](b, `location.hash = "#/item/doc-0001/1"`)
	want(b, `document.querySelector("#item .verdictline b:last-child").textContent`, "+0.200")
	value[string](b, `location.hash = "#/item/doc-0001/1/2"`)
	want(b, `document.querySelector("#item .verdictline b:last-child").textContent`, "no difference")
	b.WantNoComplaints()
}

func compareHostile(t *testing.T, chromium context.Context) {
	runs := newPair(t, 12, poison)
	for i := range runs {
		runs[i].Summary.Run.Name, runs[i].Summary.Run.Dataset = hostile, hostile
	}
	c := compareRuns(t, runs, gateConfig(t))
	c.Candidates[0].Warnings, c.Candidates[0].Gate.Rules[0].Reason = []string{hostile}, hostile
	b := openPage(t, chromium, comparePage(t, c, runs, Config{}))
	b.Press("j")
	want(b, rowCount, 12)
	openAll(b, "12 of 12")
	wantUnharmed(b, 1)
	b.WantNoComplaints()
}

// compareNarrowScreen checks that a comparison on a phone never scrolls sideways.
func compareNarrowScreen(t *testing.T, chromium context.Context) {
	runs := newPair(t, 22, poison)
	long := strings.Repeat("long", 50)
	c := compareRuns(t, runs, gateConfig(t))
	c.Candidates[0].Warnings, c.Candidates[0].Gate.Rules[0].Rule = []string{long}, long
	c.Candidates[0].Changed[0].Gained = []string{long}
	runs[0].Summary.Run.Name = long
	b := openPage(t, chromium, comparePage(t, c, runs, Config{Home: "/"}))
	b.Viewport(400, 800)
	b.Dark()
	for _, route := range []string{"#/", "#/items", "#/item/doc-0007/1"} {
		value[string](b, `location.hash = "`+route+`"`)
		want(b, `location.hash`, route)
		want(b, `document.documentElement.scrollWidth <= 400`, true)
		want(b, headingsSkipNoLevel, true)
		if route == "#/items" { // what counts most is not cut off
			want(b, `document.querySelector("#list th[aria-sort]").getBoundingClientRect().right <= 400`, true)
		}
	}
	value[string](b, `location.hash = "#/item/" + encodeURIComponent(`+string(mustJSON("doc-0011 "+hostile))+`) + "/1"`)
	want(b, heading, "doc-0011 "+hostile)
	want(b, `document.documentElement.scrollWidth <= 400`, true)
	want(b, `getComputedStyle(document.body).backgroundColor`, "rgb(19, 22, 26)") // of the dark scheme
	b.WantNoComplaints()
}

// staticPages checks the list of runs, a trace, and runs that cannot be compared.
func staticPages(t *testing.T, chromium context.Context) {
	runs := []report.Run{newRun(hostile, 4, nil), newRun(hostile, 4, nil)}
	for name, page := range map[string]string{
		"runs": runList(t), "trace": tracePageOf(t),
		"incompatible": comparePage(t, compareRuns(t, runs, compare.Config{}, "0.8", "0.9"), runs, Config{}),
	} {
		b := openPage(t, chromium, page)
		wantUnharmed(b, 0)
		value[[]bool](b, `Array.from(document.querySelectorAll("details"), d => d.open = true)`)
		b.Viewport(400, 800)
		want(b, `document.documentElement.scrollWidth <= 400 ? "" : Array.from(document.querySelectorAll("main *")).filter(e => e.getBoundingClientRect().right > 400 && !e.closest(".scroll")).map(e => e.tagName + "." + e.className).join()`, "")
		wantUnharmed(b, 0)
		if name == "runs" {
			want(b, `new URLSearchParams(new FormData(document.querySelector("form"))).getAll("base").join()`, "b")
			want(b, `document.querySelector("form").getAttribute("action")`, "/compare")
		}
		b.WantNoComplaints()
	}
}

// open opens the page of runs in its own tab.
func open(t *testing.T, chromium context.Context, runs []report.Run, cfg Config) *testkit.Browser {
	t.Helper()
	return openPage(t, chromium, page(t, runs, cfg))
}

// openPage writes a page to a file and opens the file in its own tab.
func openPage(t *testing.T, chromium context.Context, text string) *testkit.Browser {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := testkit.OpenPage(t, chromium, "file://"+file, "file://"+file)
	want(b, `!document.querySelector("script.rows") || "ready" in document.documentElement.dataset`, true)
	return b
}

// openAll opens every item of the list from the first on, and unfolds its details; last is the
// place of the last item, for example "22 of 22".
func openAll(b *testkit.Browser, last string) {
	b.T.Helper()
	b.Press("j", kb.Enter)
	for range 60 { // a busy browser may miss a key
		if value[string](b, itemPlace) == last {
			break
		}
		value[[]bool](b, `Array.from(document.querySelectorAll("#item details"), d => d.open = true)`)
		b.Press("j")
	}
	want(b, itemPlace, last)
}

// headingsSkipNoLevel is whether no heading of the page is more than one level below the one before.
const headingsSkipNoLevel = `Array.from(document.querySelectorAll("main h1, main h2, main h3, main h4"))
	.filter(h => h.offsetParent)
	.every((h, i, all) => h.tagName[1] - (i ? all[i - 1].tagName[1] : 0) <= 1)`

// wantUnharmed checks that no untrusted text was executed or became an element.
func wantUnharmed(b *testkit.Browser, scripts int) {
	b.T.Helper()
	want(b, `window.pwned === undefined`, true)
	want(b, `document.querySelectorAll("img, iframe, object, link, svg[onload]").length`, 0)
	want(b, `document.querySelectorAll("script:not([type])").length`, scripts)
}

func value[T any](b *testkit.Browser, expression string) T {
	b.T.Helper()
	return testkit.PageValue[T](b, expression)
}

func want[T comparable](b *testkit.Browser, expression string, expected T) {
	b.T.Helper()
	testkit.WantOnPage(b, expression, expected)
}
