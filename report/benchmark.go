package report

import (
	"fmt"
	"io"
	"strconv"

	"extraction-experiment/harness/answers/benchmark"
	"extraction-experiment/internal/printable"
)

// Benchmark writes a line for each dataset of a benchmark, the sums, and the
// gates. Lines fit Options.Width: what does not is left out, and named.
//
// It writes once; the error is that of the writer.
func Benchmark(w io.Writer, r benchmark.Report, opt Options) error {
	p := newPage(opt)
	g := &grid{columns: []column{{title: "dataset", flex: true}, {title: "kind", flex: true}, {title: "weight", right: true},
		{title: "questions", right: true}, {title: "runs", right: true}, {title: "failed", right: true},
		{title: "weighted_score", right: true, paint: p.bold}, {title: "stddev", right: true}}}
	for _, d := range r.Datasets {
		failed, questions := 0, 0
		for _, run := range d.Runs {
			failed += run.Failed
			questions = max(questions, len(run.Questions))
		}
		g.add(label(d.ID), printable.Line(d.Kind), fmt.Sprintf("%g", d.Weight), count(questions), strconv.Itoa(len(d.Runs)), count(failed),
			score(d.WeightedScore, 4), score(d.Stddev, 4))
	}
	p.narrow(g, "kind", "runs", "stddev", "questions", "weight", "failed")
	p.line("")
	p.parts("", "weighted_score "+score(r.Summary.WeightedScore, 4), "question_weighted_score "+score(r.Summary.QuestionWeightedScore, 4),
		"stddev over runs "+score(r.Summary.Stddev, 4))
	for _, gate := range r.Gates {
		p.wrapped(fmt.Sprintf("%-4s  %s: %s", gate.Word(), gate.Name, printable.Line(gate.Reason)), 0, 0, nil)
	}
	return p.writeTo(w)
}
