package html

import (
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/internal/testkit"
	"extraction-experiment/report"

	"github.com/chromedp/chromedp/kb"
)

const (
	deltas = `Array.from(document.querySelectorAll("#list tbody tr td:nth-child(4)"), td => td.textContent).join()`
	marks  = `Array.from(document.querySelectorAll("#item .document mark")).map(m => m.className + "(" + (m.dataset.who || "") + "):" + m.textContent).join("|")`
)

func compareWalk(t *testing.T, chromium *testkit.Chromium) {
	runs := pairOf(t, 20, nil)
	b := openPage(t, chromium, comparePage(t, compared(t, runs, compare.Config{}), runs, Config{}))
	want(b, visible, "overview")
	want(b, `document.querySelectorAll("#overview svg.interval").length`, 4) // the verdict and three scores
	b.Click(`.routes a[href*="worse"]`)
	want(b, found, "4 of 20 items · entity_f1, base against candidate")
	want(b, firstRow, "doc-0005")
	want(b, deltas, "−0.263,−0.100,−0.100,−0.100") // doc-0005 had 5/19
	want(b, `document.querySelector("#list .text").textContent`, "rate_limited: asked too often")

	b.Choose("#state", "better") // 1, 7, 9, 11, 13, 15 and 19 by less: it had 1
	want(b, found, "6 of 20 items · entity_f1, base against candidate")
	want(b, `document.querySelectorAll("#list tbody .up").length`, 6)
	b.Choose("#state", "failed") // 3, 10, 17 in both, 5 in the candidate
	want(b, found, "4 of 20 items · entity_f1, base against candidate")
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
	b.Click(`#item .entities tbody tr.gained button.name`) // a row marks its places
	want(b, `Array.from(document.querySelectorAll("#item mark.sel")).map(m => m.textContent).join("|")`, "Charles |Babbage|Babbage")
	b.Click(`#item .legend input`) // and a box hides those of its kind
	want(b, `document.querySelector("#item .doc").classList.contains("no-stray")`, true)
	b.Click(`#item a[data-step="previous"]`)
	want(b, heading, "doc-0005")
	b.Press("j", "j", kb.Escape)
	want(b, `document.activeElement.textContent`, "doc-0008")
	want(b, `document.getElementById("state").value`, "changed") // as it was left
	b.Quiet()
}

func compareSeveral(t *testing.T, chromium *testkit.Chromium) {
	runs := append(pairOf(t, 12, nil), built("same", 12, nil))
	b := openPage(t, chromium, comparePage(t, compared(t, runs, compare.Config{}), runs, Config{}))
	want(b, `document.querySelectorAll(".board tbody tr").length`, 2)
	b.Press("j")
	want(b, found, "12 items · entity_f1, base against candidate")
	b.Choose("#against", "2")
	want(b, found, "12 items · entity_f1, base against same")
	b.Choose("#state", "same")
	want(b, found, "12 items · entity_f1, base against same") // failed in both is no difference
	b.Press("j", kb.Enter)
	want(b, `document.querySelector("#item .verdictline b:last-child").textContent`, "no difference")
	value[string](b, `location.hash = "#/item/doc-0001/1"`)
	want(b, `document.querySelector("#item .verdictline b:last-child").textContent`, "+0.200")
	value[string](b, `location.hash = "#/item/doc-0001/1/2"`)
	want(b, `document.querySelector("#item .verdictline b:last-child").textContent`, "no difference")
	b.Quiet()
}

func compareHostile(t *testing.T, chromium *testkit.Chromium) {
	runs := pairOf(t, 22, poison)
	for i := range runs {
		runs[i].Summary.Run.Name, runs[i].Summary.Run.Dataset = hostile, hostile
	}
	c := compared(t, runs, ruled(t))
	c.Candidates[0].Warnings, c.Candidates[0].Gate.Rules[0].Reason = []string{hostile}, hostile
	b := openPage(t, chromium, comparePage(t, c, runs, Config{}))
	b.Press("j")
	want(b, rowCount, 22)
	through(b, "22 of 22")
	unharmed(b, 1)
	b.Quiet()
}

// compareFits: nothing makes a telephone's page scroll sideways.
func compareFits(t *testing.T, chromium *testkit.Chromium) {
	runs := pairOf(t, 22, poison)
	long := strings.Repeat("long", 50)
	c := compared(t, runs, ruled(t))
	c.Candidates[0].Warnings, c.Candidates[0].Gate.Rules[0].Rule = []string{long}, long
	c.Candidates[0].Changed[0].Gained = []string{long}
	b := openPage(t, chromium, comparePage(t, c, runs, Config{Home: "/"}))
	b.Viewport(400, 800)
	b.Dark()
	for _, route := range []string{"#/", "#/items", "#/item/doc-0007/1"} {
		value[string](b, `location.hash = "`+route+`"`)
		want(b, `location.hash`, route)
		want(b, `document.documentElement.scrollWidth <= 400`, true)
	}
	value[string](b, `location.hash = "#/item/" + encodeURIComponent(JSON.parse(document.getElementById("row11").textContent).id) + "/1"`)
	want(b, heading, "doc-0011 "+hostile)
	want(b, `document.documentElement.scrollWidth <= 400`, true)
	want(b, `getComputedStyle(document.body).backgroundColor`, "rgb(19, 22, 26)") // the dark one
	b.Quiet()
}

// stillPages are the list of runs, a trace, and runs that cannot be compared.
func stillPages(t *testing.T, chromium *testkit.Chromium) {
	runs := []report.Run{built(hostile, 4, nil), built(hostile, 4, nil)}
	for name, page := range map[string]string{
		"runs": runList(t), "trace": tracePageOf(t),
		"incompatible": comparePage(t, compared(t, runs, compare.Config{}, "0.8", "0.9"), runs, Config{}),
	} {
		b := openPage(t, chromium, page)
		unharmed(b, 0)
		value[[]bool](b, `Array.from(document.querySelectorAll("details"), d => d.open = true)`)
		b.Viewport(400, 800)
		want(b, `document.documentElement.scrollWidth <= 400 ? "" : Array.from(document.querySelectorAll("main *")).filter(e => e.getBoundingClientRect().right > 400 && !e.closest(".scroll")).map(e => e.tagName + "." + e.className).join()`, "")
		unharmed(b, 0)
		if name == "runs" {
			want(b, `new URLSearchParams(new FormData(document.querySelector("form"))).getAll("base").join()`, "b")
			want(b, `document.querySelector("form").getAttribute("action")`, "/compare")
		}
		b.Quiet()
	}
}
