package html

import (
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/testkit"
	"extraction-experiment/report"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	visible  = `Array.from(document.querySelectorAll(".view")).filter(v => !v.hidden).map(v => v.id).join()`
	heading  = `document.querySelector("#item h1") ? document.querySelector("#item h1").textContent : ""`
	firstRow = `document.querySelector("#list tbody td a").textContent`
	rowCount = `document.querySelectorAll("#list tbody tr").length`
	found    = `document.getElementById("found").textContent`
	place_   = `(document.querySelector("#item .place") || {}).textContent || ""`
)

// TestBrowser opens pages in one headless Chromium and uses them as a person does.
func TestBrowser(t *testing.T) {
	ctx := testkit.StartBrowser(t)
	for name, test := range map[string]func(*testing.T, *testkit.Chromium){
		"walk": walk, "keyboard": keyboard, "hostile text": hostileText, "many items": large, "two runs": sideBySide, "telephone": fits,
		"answers": answerAlone, "answers compared": answersCompared, "citations": citations,
		"comparison": compareWalk, "several candidates": compareSeveral, "hostile comparison": compareHostile,
		"comparison on a telephone": compareFits, "still pages": stillPages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, ctx)
		})
	}
}

func walk(t *testing.T, chromium *testkit.Chromium) {
	b := open(t, chromium, []report.Run{built("walk", 20, nil)}, Config{})
	want(b, visible, "overview")
	want(b, `document.querySelectorAll(".scores tbody tr").length`, 3)
	want(b, `document.querySelectorAll(".causes tbody tr").length`, 3)

	b.Click(`nav a[data-view="items"]`)
	want(b, visible, "items")
	want(b, rowCount, 20)
	want(b, firstRow, "doc-0000") // the lowest entity_f1 of those that have one
	want(b, `document.querySelectorAll("#list tbody tr")[19].querySelector(".text").textContent`, "timeout: no answer within 30s")

	b.Click(`#list thead th[aria-sort] button`) // the other way round: 19, but 17 = 2·7+3 failed
	want(b, firstRow, "doc-0019")
	want(b, `document.querySelector("#list th[aria-sort]").getAttribute("aria-sort")`, "descending")
	b.Click(`#list thead button[data-key="id"]`)
	b.Click(`#list thead button[data-key="id"]`)
	want(b, firstRow, "doc-0019")

	b.Choose("#state", "failed")
	want(b, found, "3 of 20 items") // 3, 10, 17
	want(b, firstRow, "doc-0017")
	b.Choose("#state", "")
	b.Write("#search", "doc-001")
	want(b, found, "10 of 20 items")
	want(b, firstRow, "doc-0019")

	b.Click(`#list tbody tr:nth-child(2) td a`)
	want(b, heading, "doc-0018")
	want(b, place_, "2 of 10")
	want(b, `Array.from(document.querySelectorAll("#item .document mark")).map(m => m.className + ":" + m.textContent).join("|")`,
		"ok:Ada Lovelace|spurious:London|near:Charles |near:Babbage|near:Babbage|missed:University of |missed spurious:London")
	want(b, `document.querySelector("#item .things.entities tbody tr").textContent`, "Charles Babbage PersonBabbage Personboundaryunder threshold0.47")
	want(b, `document.querySelector("#item .things.relationships .pill").textContent`, "swapped direction")
	b.Click(`#item details.call summary`)
	want(b, `document.querySelector("#item details.call pre").textContent`, "You extract entities.")
	b.Click(`#item .things.entities tbody tr:nth-child(2) button.name`) // a row marks its places
	want(b, `Array.from(document.querySelectorAll("#item mark.sel")).map(m => m.textContent).join("|")`, "University of |London")

	b.Click(`#item a[data-step="next"]`)
	want(b, heading, "doc-0017")
	want(b, `document.querySelector("#item .notice.bad").textContent`, "timeout\nno answer within 30s")
	b.Click(`#item a[data-step="previous"]`)
	want(b, heading, "doc-0018")
	b.Click(`#item a[data-step="list"]`)
	want(b, found, "10 of 20 items") // as it was left
	b.Quiet()
}

func keyboard(t *testing.T, chromium *testkit.Chromium) {
	b := open(t, chromium, []report.Run{built("keys", 20, nil)}, Config{})
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
	want(b, heading, "doc-0004") // 3 failed and stands last
	b.Press("k", kb.ArrowLeft, "k", "k")
	want(b, heading, "doc-0000") // and no further
	b.Press(kb.Escape)
	want(b, visible, "items")
	want(b, `document.activeElement.textContent`, "doc-0000")
	b.Press(kb.Escape)
	want(b, visible, "overview")
	b.Run(chromedp.KeyEvent("j", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	want(b, visible, "overview") // keys with a modifier are the browser's
	b.Quiet()
}

func hostileText(t *testing.T, chromium *testkit.Chromium) {
	run := built(hostile, 22, poison)
	run.Summary.Run.URL = "javascript:window.pwned=1"
	run.Summary.Run.Dataset, run.Summary.Run.Model, run.Summary.Warnings = hostile, hostile, []string{hostile}
	b := open(t, chromium, []report.Run{run}, Config{})
	want(b, `document.querySelectorAll('a[href^="javascript"]').length`, 0)
	b.Press("j")
	want(b, rowCount, 22)
	through(b, "22 of 22")
	unharmed(b, 1)
	want(b, `document.querySelector("script.detail") ? JSON.parse(document.getElementById("detail1").textContent).runs.length : 0`, 1)
	b.Quiet()

	// The policy holds even against a script that stands in the page.
	value[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.pwned = 1"; document.body.append(s); return true; })()`)
	value[bool](b, `(() => { const i = document.createElement("img"); i.src = "http://192.0.2.1/x.png"; document.body.append(i); return true; })()`)
	want(b, `window.pwned === undefined`, true)
	requests, refused, problems := b.Complaints()
	for range 500 { // the browser tells of them when it comes to it
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

// large opens a page of more items than are shown at once.
func large(t *testing.T, chromium *testkit.Chromium) {
	b := open(t, chromium, []report.Run{built("large", 201, nil)}, Config{})
	b.Press("j")
	want(b, found, "201 items")
	want(b, rowCount, 100)
	t.Logf("ready after %.0f ms", value[float64](b, `performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`))
	b.Write("#search", "doc-0200")
	want(b, found, "1 of 201 items")
	b.Press(kb.Enter, kb.Enter)
	want(b, heading, "doc-0200")
	b.Press(kb.Escape)
	value[bool](b, `(() => { document.getElementById("search").value = ""; document.getElementById("search").dispatchEvent(new Event("input")); return true; })()`)
	want(b, found, "201 items")
	b.Click("#pages button:last-child")
	want(b, `document.querySelector("#pages span").textContent`, "101–200 of 201")
	b.Quiet()
}

// sideBySide shows the items of two runs together, those that one lacks too.
func sideBySide(t *testing.T, chromium *testkit.Chromium) {
	better := built("candidate", 12, func(i int, v *report.ItemView) {
		if !v.Outcome.Failed() {
			value := 0.5
			v.Outcome.Scores[0].Value = &value
		}
	})
	b := open(t, chromium, []report.Run{built("base", 10, nil), better}, Config{})
	want(b, `document.querySelectorAll("#overview .run").length`, 2)
	b.Press("j")
	want(b, found, "12 items · entity_f1 by run")
	want(b, firstRow, "doc-0009") // 1 against 0.5 is the largest loss
	want(b, `Array.from(document.querySelectorAll("#list tbody tr:first-child td.num"), td => td.textContent).join()`, "1.000,0.500,−0.500,6")
	b.Press("j", kb.Enter)
	want(b, heading, "doc-0009")
	want(b, `Array.from(document.querySelectorAll("#item .pane"), p => p.querySelector("h2").textContent + " " + p.querySelectorAll("mark:not(.swatch)").length).join()`, "base 7,candidate 7")
	value[string](b, `location.hash = "#/item/doc-0011/1"`)
	want(b, heading, "doc-0011")
	want(b, `document.querySelector("#item .pane .notice").textContent`, "This run has no such item.")
	b.Quiet()
}

// fits: nothing makes a telephone's page scroll sideways, however
// long names are.
func fits(t *testing.T, chromium *testkit.Chromium) {
	run := built(hostile, 20, poison)
	run.Summary.Run.Dataset, run.Summary.Warnings = strings.Repeat("long", 50), []string{strings.Repeat("long", 100)}
	b := open(t, chromium, []report.Run{run}, Config{})
	b.Run(chromedp.EmulateViewport(400, 800))
	b.Dark()
	for _, route := range []string{"#/", "#/items", "#/item/doc-0002/1", "hostile"} {
		if route == "hostile" {
			value[string](b, `location.hash = "#/item/" + encodeURIComponent(JSON.parse(document.getElementById("row11").textContent).id) + "/1"`)
			want(b, heading, "doc-0011 "+hostile)
		} else {
			value[string](b, `location.hash = "`+route+`"`)
			want(b, `location.hash`, route)
		}
		want(b, `document.documentElement.scrollWidth <= 400`, true)
	}
	want(b, `getComputedStyle(document.body).backgroundColor`, "rgb(19, 22, 26)") // the dark one
	b.Quiet()
}
