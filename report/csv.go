package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/outcome"
)

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
