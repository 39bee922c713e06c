package report

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// JSONL writes one JSON object per item on a line of its own, that of "show
// --json". It writes item by item; the errors are those of the run and of the
// writer.
func JSONL(w io.Writer, runs []Run) error {
	for _, r := range runs {
		for item, err := range r.Items {
			if err != nil {
				return err
			}
			if err := JSON(w, item, false); err != nil {
				return err
			}
		}
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
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if _, err := io.WriteString(w, quiet(b.String())); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// quiet escapes format and control characters outside of ASCII in JSON; they
// can only stand inside strings there.
func quiet(raw string) string {
	if !strings.ContainsFunc(raw, unsettling) {
		return raw
	}
	var b strings.Builder
	for _, r := range raw {
		switch {
		case !unsettling(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func unsettling(r rune) bool { return r >= 0x7f && printable.Steers(r) }

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
	scores, causes := csvColumns(runs)
	weighted := slices.ContainsFunc(runs, func(r Run) bool { return r.Summary.Answers != nil })
	table := csv.NewWriter(w)
	titles := []string{"run", "dataset", "item", "trial", "attempt", "class", "message", "started", "latency_ms",
		"input_tokens", "output_tokens", "cost_usd"}
	for _, s := range scores {
		titles = append(titles, inert(s))
	}
	if weighted {
		titles = append(titles, "weight")
	}
	for _, c := range causes {
		titles = append(titles, "faults_"+c.what+"_"+c.name)
	}
	if err := table.Write(append(titles, "warnings")); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	for _, r := range runs {
		for item, err := range r.Items {
			if err != nil {
				return err
			}
			row := csvScores(csvHead(item), item.Outcome, scores)
			if weighted {
				row = append(row, weightOf(item.Outcome, r.Summary.Run.Primary))
			}
			if err := table.Write(csvCauses(row, item.Outcome, causes)); err != nil {
				return fmt.Errorf("writing the report: %w", err)
			}
		}
	}
	table.Flush()
	if err := table.Error(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

type causeColumn struct{ what, name string }

// csvColumns are the scores and causes of any of the runs.
func csvColumns(runs []Run) (scores []string, causes []causeColumn) {
	for _, r := range runs {
		for _, s := range r.Summary.Scores {
			if !slices.Contains(scores, s.Name) {
				scores = append(scores, s.Name)
			}
		}
		for _, c := range r.Summary.Causes {
			if column := (causeColumn{c.What, c.Name}); !slices.Contains(causes, column) {
				causes = append(causes, column)
			}
		}
	}
	return scores, causes
}

// csvHead is what an item is and took.
func csvHead(v ItemView) []string {
	o := v.Outcome
	started, cost := "", ""
	if !o.Started.IsZero() {
		started = o.Started.UTC().Format(time.RFC3339Nano)
	}
	if o.CostUSD != nil {
		cost = plainNumber(*o.CostUSD)
	}
	return []string{
		inert(v.Run), inert(v.Dataset), inert(o.Item), strconv.Itoa(o.Trial), strconv.Itoa(o.Attempt),
		inert(string(o.Class)), inert(v.message()), started,
		plainNumber(float64(o.Latency) / float64(time.Millisecond)),
		strconv.FormatInt(o.Usage.Input, 10), strconv.FormatInt(o.Usage.Output, 10), cost,
	}
}

func csvScores(row []string, o outcome.Outcome, scores []string) []string {
	for _, name := range scores {
		cell := ""
		if s, ok := outcome.Lookup(o.Scores, name); ok && s.Value != nil {
			cell = plainNumber(*s.Value)
		}
		row = append(row, cell)
	}
	return row
}

// weightOf is the weight of an item; "" where it has none.
func weightOf(o outcome.Outcome, primary string) string {
	if s, ok := outcome.Lookup(o.Scores, primary); ok && s.Weight != nil {
		return plainNumber(*s.Weight)
	}
	return ""
}

// csvCauses ends a row with its faults and warnings.
func csvCauses(row []string, o outcome.Outcome, causes []causeColumn) []string {
	for _, column := range causes {
		n := int64(0)
		for _, c := range o.Causes {
			if c.What == column.what && c.Name == column.name {
				n += c.Count
			}
		}
		row = append(row, strconv.FormatInt(n, 10))
	}
	return append(row, inert(strings.Join(o.Warnings, "\n")))
}

// plainNumber writes a number with all its digits.
func plainNumber(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// inert keeps a spreadsheet from calculating with a text.
func inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@'\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
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

type junitProperty struct {
	XMLName xml.Name `xml:"property"`
	Name    string   `xml:"name,attr"`
	Value   string   `xml:"value,attr"`
}

// JUnit writes one test suite per run with one test case per item, in the form
// that CI servers read. An item that failed is a failure with its class as type
// and its message; a low score is none: that is for gates to judge. The scores
// stand in the case's output, what was run in the suite's properties. Characters
// that XML cannot hold become U+FFFD, or escapes in names.
//
// It writes item by item; the errors are those of the run and of the writer.
func JUnit(w io.Writer, runs []Run) error {
	b := bufio.NewWriter(w)
	x := xml.NewEncoder(b)
	x.Indent("", "  ")
	tests, failures := 0, 0
	for _, r := range runs {
		tests += r.Summary.Items.Scored + r.Summary.Items.Failed
		failures += r.Summary.Items.Failed
	}
	suites := element("testsuites", "name", "experiment", "tests", fmt.Sprint(tests), "failures", fmt.Sprint(failures))
	_, err := b.WriteString(xml.Header)
	if err == nil {
		err = x.EncodeToken(suites)
	}
	for _, r := range runs {
		if err == nil {
			err = r.junit(x)
		}
	}
	var unread runError
	if errors.As(err, &unread) {
		return unread.error
	}
	if err == nil {
		err = x.EncodeToken(suites.End())
	}
	if err == nil {
		err = x.Close()
	}
	if err == nil {
		_, err = b.WriteString("\n")
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (r Run) junit(x *xml.Encoder) error {
	s := r.Summary
	name := printable.Line(s.Run.Name)
	suite := element("testsuite", "name", name, "tests", fmt.Sprint(s.Items.Scored+s.Items.Failed),
		"failures", fmt.Sprint(s.Items.Failed), "errors", "0", "skipped", "0")
	if l := s.LatencyMS; l != nil {
		suite.Attr = append(suite.Attr, xml.Attr{Name: xml.Name{Local: "time"}, Value: seconds(time.Duration(l.Mean * float64(l.N) * float64(time.Millisecond)))})
	}
	if !s.Run.Started.IsZero() {
		suite.Attr = append(suite.Attr, xml.Attr{Name: xml.Name{Local: "timestamp"}, Value: s.Run.Started.UTC().Format("2006-01-02T15:04:05Z")})
	}
	if err := x.EncodeToken(suite); err != nil {
		return err
	}
	if err := r.junitProperties(x); err != nil {
		return err
	}
	for item, err := range r.Items {
		if err != nil {
			return runError{err}
		}
		if err := x.Encode(newJUnitCase(item)); err != nil {
			return err
		}
	}
	return x.EncodeToken(suite.End())
}

// runError is an error of reading a run, not of writing the report.
type runError struct{ error }

func (r Run) junitProperties(x *xml.Encoder) error {
	open := element("properties")
	if err := x.EncodeToken(open); err != nil {
		return err
	}
	run := r.Summary.Run
	list := [][2]string{{"dataset", run.Dataset}, {"dataset_fingerprint", run.DatasetFingerprint}, {"model", run.Model},
		{"provider", run.Provider}, {"prompt", run.PromptName}, {"status", string(r.Summary.Status)}, {"url", run.URL}}
	if a := r.Summary.Answers; a != nil && a.WeightedScore != nil {
		list = append(list, [2]string{"weighted_score", plainNumber(*a.WeightedScore)})
	}
	for _, s := range r.Summary.Scores {
		for _, mean := range []struct {
			name string
			of   *float64
		}{{"mean_failures_as_zero_", s.FailuresAsZero}, {"mean_", s.Mean}} {
			if mean.of != nil {
				list = append(list, [2]string{mean.name + s.Name, plainNumber(*mean.of)})
			}
		}
	}
	for _, p := range list {
		if p[1] == "" {
			continue
		}
		if err := x.Encode(junitProperty{Name: printable.Line(p[0]), Value: printable.Line(p[1])}); err != nil {
			return err
		}
	}
	return x.EncodeToken(open.End())
}

func newJUnitCase(v ItemView) junitCase {
	o := v.Outcome
	name := printable.Line(o.Item)
	if o.Trial > 1 {
		name += fmt.Sprintf(" #%d", o.Trial)
	}
	c := junitCase{Name: name, ClassName: printable.Line(v.Dataset), Time: seconds(o.Latency)}
	if o.Failed() {
		c.Failure = &junitFailure{Type: printable.Line(string(o.Class)), Message: printable.Line(v.message()), Text: printable.Block(v.message())}
	}
	var lines []string
	for _, s := range o.Scores {
		if s.Value != nil {
			lines = append(lines, printable.Line(s.Name)+" "+plainNumber(*s.Value))
		}
	}
	c.Output = strings.Join(lines, "\n")
	return c
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }

// element opens an element with attributes in name-value pairs.
func element(name string, attributes ...string) xml.StartElement {
	e := xml.StartElement{Name: xml.Name{Local: name}}
	for i := 0; i+1 < len(attributes); i += 2 {
		e.Attr = append(e.Attr, xml.Attr{Name: xml.Name{Local: attributes[i]}, Value: attributes[i+1]})
	}
	return e
}

// mostAnnotations is how many annotations of a kind GitHub shows of a step.
const mostAnnotations = 10

// GitHub writes workflow commands: an error annotation per failed item, of each
// run the first nine and one that counts the rest (GitHub shows ten), and a
// notice with the run's primary score. Text of strangers is escaped, so that it
// begins no command of its own. The step summary is Markdown's.
//
// The messages are those that the summary keeps of each class; the caller
// decides with outcome.SummaryConfig.Messages how many. It writes once; the
// error is that of the writer.
func GitHub(w io.Writer, runs []Run) error {
	var b strings.Builder
	for _, r := range runs {
		shown := 0
		for _, class := range r.Summary.Failures {
			for _, item := range class.Items {
				if shown == mostAnnotations-1 {
					break
				}
				shown++
				annotate(&b, "error", label(string(class.Class))+": "+label(item.ID), label(item.Message))
			}
		}
		if more := r.Summary.Items.Failed - shown; more > 0 {
			annotate(&b, "error", label(r.Summary.Run.Name), "and "+counted(more, "more failed "+SummaryView{r.Summary}.Noun()))
		}
		annotate(&b, "notice", r.title(), r.inOneLine())
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// inOneLine is the primary score with the counts of items.
func (r Run) inOneLine() string {
	s := r.Summary
	parts := []string{}
	if stat, ok := s.Scores.Lookup(s.Run.Primary); ok {
		mean, ci := s.Scores.Lead(stat)
		text := printable.Line(stat.Name) + " " + score(mean, 3) + " (" + interval(ci, nil, false) + ")"
		if s.Scores.AnyFailed() {
			parts = append(parts, text+" with failed items as 0", score(stat.Mean, 3)+" of those scored")
		} else {
			parts = append(parts, text)
		}
	}
	parts = append(parts, SummaryView{s}.Planned(), count(s.Items.Failed)+" failed")
	if n := s.Items.NotRun(); n > 0 {
		parts = append(parts, count(n)+" not run")
	}
	return strings.Join(parts, " · ")
}

// annotate writes a command with the escapes that GitHub's runner undoes.
func annotate(b *strings.Builder, kind, title, message string) {
	data := []string{"%", "%25", "\r", "%0D", "\n", "%0A"}
	property := append([]string{":", "%3A", ",", "%2C"}, data...)
	fmt.Fprintf(b, "::%s title=%s::%s\n", kind, strings.NewReplacer(property...).Replace(title), strings.NewReplacer(data...).Replace(message))
}
