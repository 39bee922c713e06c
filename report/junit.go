package report

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"extraction-experiment/internal/printable"
)

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
