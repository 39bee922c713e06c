package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/harness/answers/benchmark"
	"extraction-experiment/internal/printable"
)

// benchmarkTable writes a line for each dataset, the sums, and the gates.
func benchmarkTable(w io.Writer, r benchmark.Report) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"dataset", "kind", "weight", "questions", "runs", "failed", "weighted_score", "stddev"})
	for _, d := range r.Datasets {
		failed, questions := 0, 0
		for _, run := range d.Runs {
			failed += run.Failed
			questions = max(questions, len(run.Questions))
		}
		t.AppendRow(table.Row{
			printable.Line(d.ID), printable.Line(d.Kind), fmt.Sprintf("%g", d.Weight), questions, len(d.Runs), failed, score4(d.WeightedScore), score4(d.Stddev),
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", t.Render())
	fmt.Fprintf(&b, "weighted_score %s · question_weighted_score %s · stddev over runs %s\n",
		score4(r.Summary.WeightedScore), score4(r.Summary.QuestionWeightedScore), score4(r.Summary.Stddev))
	for _, g := range r.Gates {
		answer := "pass"
		if !g.Passed {
			answer = "FAIL"
		}
		fmt.Fprintf(&b, "%s  %s: %s\n", answer, g.Name, printable.Line(g.Reason))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func score4(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.4f", *v)
}
