package runs

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// answersReport is the file of "answers run --out FILE.json": the results of the run and
// everything that compare needs.
type answersReport struct {
	Summary outcome.Summary `json:"summary"`
	Results []answersResult `json:"results"`
	Run     *outcome.Header `json:"run"`
	Footer  outcome.Footer  `json:"footer"`
}

// answersResult is one question in one trial. A failed question has the score 0.
type answersResult struct {
	ID              string          `json:"id"`
	Question        string          `json:"question"`
	Answer          string          `json:"answer"`
	Weight          float64         `json:"weight"`
	QuestionScore   float64         `json:"question_score"`
	IncludeRate     *float64        `json:"include_rate"`
	SafeOK          *float64        `json:"safe_ok"`
	BaseScore       *float64        `json:"base_score"`
	CitationPenalty *float64        `json:"citation_penalty"`
	Outcome         outcome.Outcome `json:"outcome"`
}

func newAnswersResult(question answers.Question, o outcome.Outcome) answersResult {
	value := func(name string) *float64 {
		s, _ := outcome.Lookup(o.Scores, name)
		return s.Value
	}
	r := answersResult{
		ID: o.Item, Question: question.Question, Weight: question.Importance(), IncludeRate: value(answers.IncludeRate),
		SafeOK: value(answers.SafeOK), BaseScore: value(answers.BaseScore), CitationPenalty: value(answers.CitationPenalty),
	}
	r.QuestionScore = *cmp.Or(value(answers.Primary), new(0.0))
	var output answers.Answer
	if json.Unmarshal(o.Output, &output) == nil { // a failed question has no output
		r.Answer = output.Text
	}
	o.Calls = nil // only the run file has them
	r.Outcome = o
	return r
}

// WriteAnswers writes the report of a run to a file, with the questions in their order.
func WriteAnswers(ctx context.Context, run *runstore.Reader, summary outcome.Summary, path string) error {
	header, err := run.Header(ctx)
	if err != nil {
		return err
	}
	r := answersReport{Summary: summary, Results: []answersResult{}, Run: &header}
	if r.Footer, _, err = run.Footer(ctx); err != nil {
		return err
	}
	questions := map[string]answers.Question{}
	for item, err := range run.Items(ctx) {
		if err != nil {
			return err
		}
		// An item that is not a question has failed, as its outcome says.
		questions[item.ID], _ = answers.ReadItem(item.Item)
	}
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Depth: runstore.Full}) {
		if err != nil {
			return err
		}
		r.Results = append(r.Results, newAnswersResult(questions[o.Item], o))
	}
	slices.SortStableFunc(r.Results, func(a, b answersResult) int { return cmp.Compare(a.Outcome.Seq, b.Outcome.Seq) })
	return cli.WriteFile(path, func(w io.Writer) error { return report.JSON(w, r, true) })
}

// openAnswersReport reads a report of answers, of a run or of a benchmark, as a run. ok is
// false for any other file and for files that do not exist.
func openAnswersReport(ctx context.Context, path string) (source remoteSource, ok bool, err error) {
	info, err := os.Stat(path)
	if ext := filepath.Ext(path); err != nil || !info.Mode().IsRegular() || ext == runstore.Extension || ext == ".jsonl" {
		return source, false, nil // not for a pipe, which can be read only once
	}
	f, err := files.Open(ctx, path)
	if err != nil {
		return source, false, cli.Errorf(cli.ExitIO, "reading %s: %w", path, err)
	}
	defer f.Close()
	in := bufio.NewReader(io.LimitReader(files.Text(f), maxReportSize))
	if first, _ := in.Peek(1); string(first) != "{" {
		return source, false, nil // reading it as a run gives a better error
	}
	var file struct {
		Run     *outcome.Header
		Footer  outcome.Footer
		Results []struct{ Outcome outcome.Outcome }
		answers.BenchmarkReport
		Summary json.RawMessage // its form differs between runs and benchmarks
	}
	err = json.NewDecoder(in).Decode(&file) // reads only the first line of an export
	if _, isOtherType := errors.AsType[*json.UnmarshalTypeError](err); isOtherType {
		return source, false, nil
	}
	if err != nil {
		return source, false, cli.Usage("reading %s: it is neither a run nor a whole report of answers: %w", path, err)
	}
	run := tracking.Remote{Where: path, Footer: file.Footer}
	switch {
	case file.Run != nil:
		run.Header = *file.Run
		for _, r := range file.Results {
			run.Outcomes = append(run.Outcomes, r.Outcome)
		}
	case len(file.Datasets) > 0:
		if run, err = benchmarkRun(path, file.BenchmarkReport); err != nil {
			return source, false, err
		}
	default:
		return source, false, nil
	}
	slices.SortFunc(run.Outcomes, byItem)
	return remoteSource{run}, true, nil
}

// byItem orders outcomes by item and trial, as compare needs them.
func byItem(a, b outcome.Outcome) int {
	return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
}

// maxReportSize bounds a report of answers, in bytes.
const maxReportSize = 1 << 30

// benchmarkRun converts a benchmark to one run: its items are the questions of all datasets,
// its trials the repeated runs. The weight of a question is its share of the weight of its
// dataset, so that the weighted mean of the run is the weighted_score of the benchmark. A
// dataset without a score is an error with exit code 2.
func benchmarkRun(path string, b answers.BenchmarkReport) (tracking.Remote, error) {
	run := tracking.Remote{Where: path, Footer: outcome.Footer{Status: outcome.Complete}}
	var datasets, documents, questions []string
	for _, d := range b.Datasets {
		pdfHash, questionsHash := d.Hashes()
		datasets = append(datasets, fmt.Sprintf("%s (weight %g)", d.ID, d.Weight))
		documents, questions = append(documents, d.ID+" "+cmp.Or(pdfHash, "none")), append(questions, d.ID+" "+cmp.Or(questionsHash, "none"))
		run.Header.Trials = max(run.Header.Trials, len(d.Runs))
		if d.WeightedScore == nil && d.Weight > 0 {
			return run, cli.Errorf(cli.ExitIncompatible, "%s cannot be compared: dataset %s has no score: %s", path, d.ID,
				d.FailureReason())
		}
		for n, repeat := range d.Runs {
			total := 0.0
			for _, q := range repeat.Questions {
				total += q.Weight
			}
			for id, q := range repeat.Questions {
				share := d.Weight * q.Weight / cmp.Or(total, 1)
				score := outcome.Score{Name: answers.Primary, Value: &q.Score, Weight: &share}
				o := outcome.Outcome{Item: d.ID + "/" + id, Trial: n + 1, Attempt: 1, Scores: []outcome.Score{score}}
				run.Outcomes = append(run.Outcomes, o)
			}
		}
	}
	run.Header.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	run.Header.Harness, run.Header.Scorer = answers.Name, answers.ScorerInfo()
	run.Header.Scorer.Version = cmp.Or(b.ScorerVersion, "answers@1") // earlier reports name none
	run.Header.Dataset = outcome.Dataset{Name: b.Name, Fingerprint: joinSorted(datasets)}
	run.Header.Metadata = map[string]string{outcome.PDFSHA256: joinSorted(documents),
		outcome.QuestionsSHA256: joinSorted(questions)}
	return run, nil
}

// joinSorted returns the same text for the same parts in any order. It sorts parts in place.
func joinSorted(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
