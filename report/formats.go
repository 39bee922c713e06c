package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// write writes a whole report at once.
func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// JSON writes v as one JSON value and a line end, on one line or indented by two spaces. Numbers
// are not rounded. Characters that could control a terminal are escaped, so that the output can
// be displayed; it decodes to the same value.
//
// The error may also be that of the encoder, a bug.
func JSON(w io.Writer, v any, indent bool) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	e.SetIndent("", textIf(indent, "  "))
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if !bytes.ContainsFunc(raw.Bytes(), isControl) {
		_, err := raw.WriteTo(w)
		return err
	}
	var b strings.Builder
	for _, r := range raw.String() { // valid JSON has such characters only inside strings
		if !isControl(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return write(w, b.String())
}

// Indented indents JSON. Text that is not JSON is returned unchanged.
func Indented(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// isControl reports whether r is a format or control character that JSON does not escape.
func isControl(r rune) bool { return r >= 0x7f && textutil.ControlsTerminal(r) }

// JSONL writes one JSON object for each item on a line of its own, as "show --json" does. It
// writes item by item; the errors are those of the run and of w.
func JSONL(w io.Writer, runs []Run) error {
	return eachItemOf(runs, func(_ Run, v *ItemView) error { return JSON(w, v, false) })
}

// eachItemOf calls do for the items of all runs until the first error.
func eachItemOf(runs []Run, do func(Run, *ItemView) error) error {
	for _, r := range runs {
		for v, err := range r.Items {
			if err == nil {
				err = do(r, v)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// CSV writes a header and one row for each item: the item, its result, time, tokens and cost,
// every score (empty if undefined), the weight of the primary score for answers about documents,
// the number of faults of each cause, and warnings. The scores of a failed item, all but error, and
// its numbers of faults are empty. Costs have 12 significant digits, other numbers all.
//
// A spreadsheet must not evaluate untrusted text: text that begins with = + - @ ' a tab or a
// line end gets a leading '. A program that reads the file removes one leading ' to get the
// text.
//
// It writes item by item; the errors are those of the run and of w.
func CSV(w io.Writer, runs []Run) error {
	var scores []string
	var causes [][2]string // each a kind and a name
	for _, r := range runs {
		for _, s := range r.Summary.Scores {
			if !slices.Contains(scores, s.Name) {
				scores = append(scores, s.Name)
			}
		}
		for _, c := range r.Summary.Causes {
			if cause := [2]string{c.What, c.Name}; !slices.Contains(causes, cause) {
				causes = append(causes, cause)
			}
		}
	}
	weighted := slices.ContainsFunc(runs, func(r Run) bool { return r.Summary.Answers != nil })

	titles := []string{"run", "dataset", "item", "trial", "attempt", "class", "message", "started", "latency_ms",
		"input_tokens", "output_tokens", "cost_usd"}
	titles = append(titles, cli.Each(scores, escapeFormula)...)
	if weighted {
		titles = append(titles, "weight")
	}
	titles = append(titles, cli.Each(causes, func(c [2]string) string { return "faults_" + c[0] + "_" + c[1] })...)
	table := csv.NewWriter(w)
	if err := table.Write(append(titles, "warnings")); err != nil {
		return err
	}
	err := eachItemOf(runs, func(r Run, v *ItemView) error {
		row := csvHead(v)
		for _, name := range scores {
			s, _ := outcome.Lookup(v.Outcome.Scores, name)
			row = append(row, plainNumber(s.Value))
		}
		if weighted {
			s, _ := outcome.Lookup(v.Outcome.Scores, r.Summary.Run.Primary)
			row = append(row, plainNumber(s.Weight))
		}
		for _, column := range causes {
			n := int64(0)
			for _, c := range v.Outcome.Causes {
				if c.What == column[0] && c.Name == column[1] {
					n += c.Count
				}
			}
			row = append(row, textIf(!v.Outcome.Failed(), strconv.FormatInt(n, 10)))
		}
		return table.Write(append(row, escapeFormula(strings.Join(v.Outcome.Warnings, "\n"))))
	})
	if err != nil {
		return err
	}
	table.Flush()
	return table.Error()
}

// csvHead returns the columns of item and usage.
func csvHead(v *ItemView) []string {
	o := v.Outcome
	started := textIf(!o.Started.IsZero(), o.Started.UTC().Format(time.RFC3339Nano))
	latency, cost := float64(o.Latency)/float64(time.Millisecond), ""
	if o.CostUSD != nil { // a sum of products: the last digits are those of rounding
		cost = strconv.FormatFloat(*o.CostUSD, 'g', 12, 64)
	}
	input, output := strconv.FormatInt(o.Usage.Input, 10), strconv.FormatInt(o.Usage.Output, 10)
	if o.CostUSD == nil && o.Usage == (outcome.Usage{}) { // nothing is known of the calls
		input, output = "", ""
	}
	return []string{
		escapeFormula(v.Run), escapeFormula(v.Dataset), escapeFormula(o.Item), strconv.Itoa(o.Trial), strconv.Itoa(o.Attempt),
		escapeFormula(string(o.Class)), escapeFormula(v.message()), started, plainNumber(&latency),
		input, output, cost,
	}
}

// plainNumber formats a number with all its digits; empty for nil.
func plainNumber(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// escapeFormula prevents a spreadsheet from evaluating text.
func escapeFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@'\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

// JUnit writes one test suite for each run with one test case for each item. A failed item is a
// failure with its class as type; a low score is not, because gates judge that. Scores are in
// the output of the case, the system in the properties of the suite. Characters that XML cannot
// hold become U+FFFD, or escapes in names. A run with items that have not run has one more
// failure, which says so.
//
// It writes item by item; the errors are those of the runs and of w.
func JUnit(w io.Writer, runs []Run) error {
	tests, failures := 0, 0
	for _, r := range runs {
		runTests, runFailures := junitCounts(r.Summary.Items)
		tests, failures = tests+runTests, failures+runFailures
	}
	return writeJUnit(w, "experiment", tests, failures, func(e *xml.Encoder) error {
		for _, r := range runs {
			err := r.junitSuite().write(e, func() error {
				err := eachItemOf([]Run{r}, func(_ Run, v *ItemView) error { return e.Encode(v.junitCase()) })
				if missing := r.Summary.Items.NotRun(); missing > 0 && err == nil {
					test := element("testcase", "name", "every item has run", "classname", r.Summary.Run.Dataset, "time", "0")
					reason := textutil.Counted(missing, "result") + " missing: experiment run --resume continues the run"
					test.Parts = append(test.Parts, element("failure", "type", string(r.Summary.Status), "message", reason))
					err = e.Encode(test)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// junitCounts returns the number of test cases of a run, and of those that fail.
func junitCounts(items outcome.Items) (tests, failures int) {
	unfinished := min(1, items.NotRun())
	return items.Scored + items.Failed + unfinished, items.Failed + unfinished
}

// writeJUnit writes the suites that suites produces as a complete report.
func writeJUnit(w io.Writer, name string, tests, failures int, suites func(*xml.Encoder) error) error {
	if err := write(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	all := element("testsuites", "name", name, "tests", strconv.Itoa(tests), "failures", strconv.Itoa(failures))
	if err := all.write(e, func() error { return suites(e) }); err != nil {
		return err
	}
	return cmp.Or(e.Close(), write(w, "\n"))
}

// write writes the element with its parts, and calls more to write further content.
func (x xmlElement) write(e *xml.Encoder, more func() error) error {
	start := xml.StartElement{Name: x.XMLName, Attr: x.Attrs}
	if err := cmp.Or(e.EncodeToken(start), e.Encode(x.Parts), more()); err != nil {
		return err
	}
	return e.EncodeToken(start.End())
}

// xmlElement is an XML element with text or parts.
type xmlElement struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Parts   []xmlElement
}

// element returns an element with attributes, given as name and value.
func element(name string, attrs ...string) xmlElement {
	e := xmlElement{XMLName: xml.Name{Local: name}}
	for pair := range slices.Chunk(attrs, 2) {
		e.Attrs = append(e.Attrs, xml.Attr{Name: xml.Name{Local: pair[0]}, Value: textutil.Line(pair[1])})
	}
	return e
}

func junitSuite(name string, tests, failures int, more ...string) xmlElement {
	return element("testsuite", append([]string{"name", name, "tests", strconv.Itoa(tests),
		"failures", strconv.Itoa(failures), "errors", "0", "skipped", "0"}, more...)...)
}

func (r Run) junitSuite() xmlElement {
	s, run := r.Summary, r.Summary.Run
	var times []string
	if l := s.LatencyMS; l != nil {
		times = append(times, "time", fmt.Sprintf("%.6f", l.Mean*float64(l.N)/1000))
	}
	if !run.Started.IsZero() {
		times = append(times, "timestamp", run.Started.UTC().Format("2006-01-02T15:04:05Z"))
	}
	list := []string{"dataset", run.Dataset, "dataset_fingerprint", run.DatasetFingerprint, "model", run.Model,
		"provider", run.Provider, "prompt", run.PromptName, "status", string(s.Status), "url", run.URL}
	if s.Answers != nil {
		list = append(list, "weighted_score", plainNumber(s.WeightedScore))
	}
	for _, stat := range s.Scores {
		list = append(list, "mean_failures_as_zero_"+stat.Name, plainNumber(stat.FailuresAsZero),
			"mean_"+stat.Name, plainNumber(stat.Mean))
	}
	properties := element("properties")
	for pair := range slices.Chunk(list, 2) {
		if pair[1] != "" {
			properties.Parts = append(properties.Parts, element("property", "name", pair[0], "value", pair[1]))
		}
	}
	tests, failures := junitCounts(s.Items)
	suite := junitSuite(run.Name, tests, failures, times...)
	if len(properties.Parts) > 0 {
		suite.Parts = append(suite.Parts, properties)
	}
	return suite
}

func (v *ItemView) junitCase() xmlElement {
	o, message := v.Outcome, v.message()
	c := element("testcase", "name", o.Item, "classname", v.Dataset, "time", fmt.Sprintf("%.6f", o.Latency.Seconds()))
	c.Attrs[0].Value += trialMark(o.Trial)
	if o.Failed() {
		failure := element("failure", "type", string(o.Class), "message", message)
		failure.Text = textutil.Block(message)
		c.Parts = append(c.Parts, failure)
	}
	var lines []string
	for _, s := range o.Scores {
		if s.Value != nil {
			lines = append(lines, textutil.Line(s.Name)+" "+plainNumber(s.Value))
		}
	}
	if out := element("system-out"); len(lines) > 0 {
		out.Text = strings.Join(lines, "\n")
		c.Parts = append(c.Parts, out)
	}
	return c
}

// GitHub writes workflow commands: an error annotation for each failed item, of each run the
// first nine and one that counts the rest (GitHub shows ten), and a notice with the primary
// score. Untrusted text is escaped, so that it cannot begin a command. Use Markdown for the step
// summary.
//
// The messages are those that the summary kept; see outcome.SummaryConfig.Messages.
func GitHub(w io.Writer, runs []Run) error {
	data := []string{"%", "%25", "\r", "%0D", "\n", "%0A"} // the runner decodes these escapes
	inTitle, inMessage := strings.NewReplacer(append(data, ":", "%3A", ",", "%2C")...), strings.NewReplacer(data...)
	var b strings.Builder
	annotate := func(kind, title, message string) {
		fmt.Fprintf(&b, "::%s title=%s::%s\n", kind, inTitle.Replace(title), inMessage.Replace(message))
	}
	for _, r := range runs {
		v, shown := SummaryView{Summary: r.Summary}, 0
		for _, class := range v.Failures {
			for _, item := range class.Items[:min(len(class.Items), 9-shown)] {
				shown++
				annotate("error", label(string(class.Class))+": "+label(item.ID)+trialMark(item.Trial), label(item.Message))
			}
		}
		if more := v.Items.Failed - shown; more > 0 {
			annotate("error", label(v.Run.Name), "and "+textutil.Counted(more, "more failed "+v.Noun()))
		}
		title := nonEmpty(label(v.Run.Name), textutil.Line(v.Run.Dataset), textutil.Line(v.Run.Model))
		annotate("notice", strings.Join(title, " · "), v.inOneLine())
	}
	return write(w, b.String())
}

// inOneLine returns the primary score and the counts of items.
func (v SummaryView) inOneLine() string {
	var parts []string
	if stat, ok := v.Scores.Lookup(v.Run.Primary); ok {
		mean, ci := v.Scores.Lead(stat)
		failed, text := v.Scores.AnyFailed(), textutil.Line(stat.Name)+" "+Score(mean, 3)+" ("+Interval(ci)+")"
		parts = nonEmpty(text+textIf(failed, " with failed items as 0"),
			textIf(failed, Score(stat.Mean, 3)+" of those scored"))
	}
	n := v.Items.NotRun()
	parts = append(parts, v.Planned(), Count(v.Items.Failed)+" failed")
	return strings.Join(append(parts, nonEmpty(textIf(n > 0, Count(n)+" not run"))...), " · ")
}
