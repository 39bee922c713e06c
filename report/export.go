package report

import (
	"bytes"
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

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// written says of an error that it is of writing a report.
func written(err error) error {
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// JSON writes v as one JSON value and a line end: on one line, or indented by
// two spaces. Numbers are not rounded. Letters stay as they are, but what
// could steer a terminal is escaped, so that the output can be looked at; it
// decodes to the same value.
//
// It writes once; the error is that of the encoder (a bug) or of the writer.
func JSON(w io.Writer, v any, indent bool) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	var b strings.Builder
	for _, r := range raw.String() { // what steers can only stand inside strings there
		if !unsettling(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(w, b.String())
	return written(err)
}

// Indented spreads JSON over lines; a text, and what is no JSON, stays as it is.
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

// unsettling are format and control characters that JSON lets stand.
func unsettling(r rune) bool { return r >= 0x7f && textutil.Steers(r) }

// JSONL writes one JSON object per item on a line of its own, that of "show
// --json". It writes item by item; the errors are those of the run and of the
// writer.
func JSONL(w io.Writer, runs []Run) error {
	return eachItemOf(runs, func(_ Run, v ItemView) error { return JSON(w, v, false) })
}

// eachItemOf goes through the items of all runs, up to the first error.
func eachItemOf(runs []Run, do func(Run, ItemView) error) error {
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

// CSV writes one row per item, after a row of titles: what the item is, how it
// ended, time, tokens and cost, every score of the runs (empty where it is
// undefined), the weight of the primary score where runs are of answers, the
// number of faults of each cause, and the warnings. Numbers are
// not rounded.
//
// A spreadsheet must not take the text of strangers for a formula: a text that
// begins with = + - @ ' a tab or a line end gets a ' in front. Whoever reads the
// file with a program takes one leading ' away and has every text as it was.
//
// It writes item by item; the errors are those of the run and of the writer.
func CSV(w io.Writer, runs []Run) error {
	var scores []string
	var causes [][2]string // what and name
	for _, r := range runs {
		for _, s := range r.Summary.Scores {
			scores = append(scores, s.Name)
		}
		for _, c := range r.Summary.Causes {
			causes = append(causes, [2]string{c.What, c.Name})
		}
	}
	scores, causes = distinct(scores), distinct(causes)
	weighted := slices.ContainsFunc(runs, func(r Run) bool { return r.Summary.Answers != nil })

	titles := []string{"run", "dataset", "item", "trial", "attempt", "class", "message", "started", "latency_ms",
		"input_tokens", "output_tokens", "cost_usd"}
	for _, name := range scores {
		titles = append(titles, inert(name))
	}
	if weighted {
		titles = append(titles, "weight")
	}
	for _, c := range causes {
		titles = append(titles, "faults_"+c[0]+"_"+c[1])
	}
	table := csv.NewWriter(w)
	if err := table.Write(append(titles, "warnings")); err != nil {
		return written(err)
	}
	err := eachItemOf(runs, func(r Run, v ItemView) error {
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
			row = append(row, strconv.FormatInt(n, 10))
		}
		return written(table.Write(append(row, inert(strings.Join(v.Outcome.Warnings, "\n")))))
	})
	if err != nil {
		return err
	}
	table.Flush()
	return written(table.Error())
}

// distinct keeps the first of those that are equal.
func distinct[T comparable](list []T) (out []T) {
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// csvHead is what an item is and took.
func csvHead(v ItemView) []string {
	o, started := v.Outcome, ""
	if !o.Started.IsZero() {
		started = o.Started.UTC().Format(time.RFC3339Nano)
	}
	latency := float64(o.Latency) / float64(time.Millisecond)
	return []string{
		inert(v.Run), inert(v.Dataset), inert(o.Item), strconv.Itoa(o.Trial), strconv.Itoa(o.Attempt),
		inert(string(o.Class)), inert(v.message()), started, plainNumber(&latency),
		strconv.FormatInt(o.Usage.Input, 10), strconv.FormatInt(o.Usage.Output, 10), plainNumber(o.CostUSD),
	}
}

// plainNumber writes a number with all its digits; "" for none.
func plainNumber(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// inert keeps a spreadsheet from calculating with a text.
func inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@'\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

// JUnit writes one test suite per run with one test case per item, in the form
// that CI servers read. An item that failed is a failure with its class as type
// and its message; a low score is none: that is for gates to judge. The scores
// stand in the case's output, what was run in the suite's properties. Characters
// that XML cannot hold become U+FFFD, or escapes in names.
//
// It writes once; the errors are those of the runs and of the writer.
func JUnit(w io.Writer, runs []Run) error {
	all := junitSuites{Name: "experiment"}
	for _, r := range runs {
		suite := r.junitSuite()
		all.Tests, all.Failures = all.Tests+suite.Tests, all.Failures+suite.Failures
		err := eachItemOf([]Run{r}, func(_ Run, v ItemView) error {
			suite.Cases = append(suite.Cases, newJUnitCase(v))
			return nil
		})
		if err != nil {
			return err
		}
		all.Suites = append(all.Suites, suite)
	}
	return all.write(w)
}

func (s junitSuites) write(w io.Writer) error {
	raw, err := xml.MarshalIndent(s, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, raw)
	}
	return written(err)
}

type junitSuites struct {
	XMLName  xml.Name `xml:"testsuites"`
	Name     string   `xml:"name,attr"`
	Tests    int      `xml:"tests,attr"`
	Failures int      `xml:"failures,attr"`
	Suites   []junitSuite
}

type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr,omitempty"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

func (r Run) junitSuite() junitSuite {
	s, run := r.Summary, r.Summary.Run
	suite := junitSuite{Name: textutil.Line(run.Name), Tests: s.Items.Scored + s.Items.Failed, Failures: s.Items.Failed}
	if l := s.LatencyMS; l != nil {
		suite.Time = fmt.Sprintf("%.6f", l.Mean*float64(l.N)/1000)
	}
	if !run.Started.IsZero() {
		suite.Timestamp = run.Started.UTC().Format("2006-01-02T15:04:05Z")
	}
	add := func(name, value string) {
		if value != "" {
			suite.Properties = append(suite.Properties, junitProperty{textutil.Line(name), textutil.Line(value)})
		}
	}
	add("dataset", run.Dataset)
	add("dataset_fingerprint", run.DatasetFingerprint)
	add("model", run.Model)
	add("provider", run.Provider)
	add("prompt", run.PromptName)
	add("status", string(s.Status))
	add("url", run.URL)
	if s.Answers != nil {
		add("weighted_score", plainNumber(s.WeightedScore))
	}
	for _, stat := range s.Scores {
		add("mean_failures_as_zero_"+stat.Name, plainNumber(stat.FailuresAsZero))
		add("mean_"+stat.Name, plainNumber(stat.Mean))
	}
	return suite
}

type junitCase struct {
	XMLName   xml.Name      `xml:"testcase"`
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitFailure `xml:"failure,omitempty"`
	Output    string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func newJUnitCase(v ItemView) junitCase {
	o, message := v.Outcome, v.message()
	c := junitCase{Name: textutil.Line(o.Item), ClassName: textutil.Line(v.Dataset), Time: fmt.Sprintf("%.6f", o.Latency.Seconds())}
	if o.Trial > 1 {
		c.Name += fmt.Sprintf(" #%d", o.Trial)
	}
	if o.Failed() {
		c.Failure = &junitFailure{textutil.Line(string(o.Class)), textutil.Line(message), textutil.Block(message)}
	}
	var lines []string
	for _, s := range o.Scores {
		if s.Value != nil {
			lines = append(lines, textutil.Line(s.Name)+" "+plainNumber(s.Value))
		}
	}
	c.Output = strings.Join(lines, "\n")
	return c
}

// GitHub writes workflow commands: an error annotation per failed item, of each
// run the first nine and one that counts the rest (GitHub shows ten), and a
// notice with the run's primary score. Text of strangers is escaped, so that it
// begins no command of its own. The step summary is Markdown's.
//
// The messages are those that the summary keeps of each class; the caller
// decides with outcome.SummaryConfig.Messages how many. It writes once; the
// error is that of the writer.
func GitHub(w io.Writer, runs []Run) error {
	data := []string{"%", "%25", "\r", "%0D", "\n", "%0A"} // the runner undoes these escapes
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
				annotate("error", label(string(class.Class))+": "+label(item.ID), label(item.Message))
			}
		}
		if more := v.Items.Failed - shown; more > 0 {
			annotate("error", label(v.Run.Name), "and "+Counted(more, "more failed "+v.Noun()))
		}
		title := label(v.Run.Name)
		for _, part := range []string{v.Run.Dataset, v.Run.Model} {
			if part != "" {
				title += " · " + label(part)
			}
		}
		annotate("notice", title, v.inOneLine())
	}
	_, err := io.WriteString(w, b.String())
	return written(err)
}

// inOneLine is the primary score with the counts of items.
func (v SummaryView) inOneLine() string {
	parts := []string{}
	if stat, ok := v.Scores.Lookup(v.Run.Primary); ok {
		mean, ci := v.Scores.Lead(stat)
		parts = append(parts, textutil.Line(stat.Name)+" "+Score(mean, 3)+" ("+Interval(ci)+")")
		if v.Scores.AnyFailed() {
			parts[0] += " with failed items as 0"
			parts = append(parts, Score(stat.Mean, 3)+" of those scored")
		}
	}
	parts = append(parts, v.Planned(), Count(v.Items.Failed)+" failed")
	if n := v.Items.NotRun(); n > 0 {
		parts = append(parts, Count(n)+" not run")
	}
	return strings.Join(parts, " · ")
}
