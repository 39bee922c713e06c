// Package runs finds the runs that a person names, and opens, lists, shows and compares
// them: those of this folder, exports, reports of answers, and runs that are only in
// Langfuse. It also writes what a command says, fit for the terminal, file or pipe that
// it is: results on standard output, the progress of a run on standard error. And it is
// experiment check, what a team's CI calls: where it runs, which run is the baseline, how
// the candidate is run, compared and judged, and the comment on the pull request.
package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// withDenied gives a run that the system does not let us read its exit code.
func withDenied(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	return err
}

// List lists the runs of this folder.
func List(ctx context.Context) ([]runstore.Entry, error) {
	entries, err := runstore.List(ctx, settings.Folder)
	for i, e := range entries {
		entries[i].Err = withDenied(e.Err)
	}
	if err != nil {
		return entries, cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	return entries, nil
}

// Open opens the run that a person named: by its file, by an export, or by
// its name among the runs of this folder.
func Open(ctx context.Context, named, dataset string) (*runstore.Reader, error) {
	path, err := Find(ctx, named, dataset)
	if err != nil {
		return nil, err
	}
	run, err := runstore.OpenAny(ctx, path)
	if err != nil {
		if report, is, _ := openAnswersReport(ctx, path); is {
			return nil, cli.Usage("%s is a report, which compare reads; name the run (%s)", path, report.run.Header.Name)
		}
	}
	return run, err
}

// Find returns the file of a run that was named.
func Find(ctx context.Context, named, dataset string) (string, error) {
	if info, err := os.Stat(named); err == nil && !info.IsDir() {
		return named, nil
	}
	if strings.ContainsRune(named, filepath.Separator) || filepath.Ext(named) == runstore.Extension || filepath.Ext(named) == ".jsonl" {
		return "", cli.Usage("there is no file %s", named)
	}
	entries, err := List(ctx)
	if err != nil {
		return "", err
	}
	var found, names, datasets, elsewhere []string
	for _, e := range entries {
		switch of := e.Header.Dataset.Name; {
		case e.Err != nil && named != e.Header.Name: // experiment runs names it
			if e.Placed(dataset, named) { // opening it says what is wrong with it
				found, datasets = append(found, e.Path), append(datasets, filepath.Base(filepath.Dir(e.Path)))
			}
		case e.Header.Name != named:
			names = append(names, e.Header.Name)
		case dataset == "" || of == dataset:
			found, datasets = append(found, e.Path), append(datasets, of)
		default:
			elsewhere = append(elsewhere, of)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", cli.Usage("there are runs %q of several datasets (%s): add --dataset, or name the file: %s",
			named, strings.Join(datasets, ", "), strings.Join(found, ", "))
	case len(elsewhere) > 0:
		return "", cli.Usage("there is no run %q of dataset %q; there is one of %s", named, dataset, strings.Join(elsewhere, ", "))
	}
	return "", cli.Usage("there is no run %q in this folder%s", named, cmp.Or(textutil.Hint(named, names), "; experiment runs lists those that are"))
}

// Listed is a run file with its row, or with what is wrong with it.
type Listed struct {
	Path string
	Row  report.RunRow
	Err  error
}

// Rows sums up the runs of this folder, the newest first. What was summed up before
// and has not changed is taken from the cache.
func Rows(ctx context.Context) ([]Listed, error) {
	entries, err := runstore.Files(ctx, settings.Folder)
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	cache := readRunCache(ctx)
	var listed []Listed
	for _, e := range entries {
		l := Listed{Path: e.Path, Err: e.Err}
		if e.Err == nil {
			l.Row, l.Err = cache.row(e.Path, func() (report.RunRow, error) { return readRow(ctx, e.Path) })
		}
		l.Err = withDenied(l.Err)
		listed = append(listed, l)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	cache.write()
	slices.SortStableFunc(listed, func(a, b Listed) int { return b.Row.Started.Compare(a.Row.Started) })
	return listed, nil
}

// readRow sums up a run file, which is read as a whole if it is small.
func readRow(ctx context.Context, path string) (row report.RunRow, err error) {
	run, err := runstore.Load(path)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := run.Check(ctx); err != nil {
		return row, err
	}
	s, err := experiment.Glance(ctx, run)
	if err != nil {
		return row, err
	}
	row = report.RunRow{
		Name: s.Run.Name, Dataset: s.Run.Dataset, Model: s.Run.Model, Status: string(s.Status),
		Items: s.Items.Planned / s.Run.Trials, Trials: s.Run.Trials, Failed: s.Items.Failed,
		Primary: s.Run.Primary, Started: s.Run.Started.Local(),
	}
	if s.Published != nil {
		row.Unpublished = s.Published.Waiting
	}
	if s.Answers != nil {
		row.Weighted = s.WeightedScore
	}
	stat, _ := s.Scores.Lookup(row.Primary)
	row.Mean, row.AsZero = stat.Mean, stat.FailuresAsZero
	return row, nil
}

const (
	runCacheFormat  = 1        // another one is made anew
	mostRunCache    = 64 << 20 // bytes
	runCacheSettled = 2 * time.Second
)

// runCache keeps the rows of the list of runs, so that a list opens only the files that
// changed. It is worth nothing without them: what is damaged, of another program, or of
// a file of another size or time is read anew, and without the cache all is.
type runCache struct {
	before, now map[string]cachedRow
	changed     bool
}

// cachedRow is the row of a file as it was.
type cachedRow struct {
	Stamp [4]int64      `json:"stamp"` // sizes and times of change of the file and its log
	Row   report.RunRow `json:"row"`
}

// runCacheFile is the form of the file.
type runCacheFile struct {
	Format  int             `json:"format"`
	Program string          `json:"program"`
	Sum     uint32          `json:"sum"` // CRC-32 of Rows
	Rows    json.RawMessage `json:"rows"`
}

func runCachePath() string { return filepath.Join(settings.Folder, "cache", "runs.json") }

// readRunCache never fails: a cache that cannot be read is empty.
func readRunCache(ctx context.Context) *runCache {
	c := &runCache{now: map[string]cachedRow{}}
	raw, err := files.Read(ctx, runCachePath(), mostRunCache)
	var file runCacheFile
	if err != nil || json.Unmarshal(raw, &file) != nil || file.Format != runCacheFormat ||
		file.Program != cli.Version() || file.Sum != crc32.ChecksumIEEE(file.Rows) || json.Unmarshal(file.Rows, &c.before) != nil {
		c.before = nil
	}
	return c
}

// row returns the row of a file, which read makes if it is not there.
func (c *runCache) row(path string, read func() (report.RunRow, error)) (report.RunRow, error) {
	stamp, settled := stampOf(path, time.Now())
	if known, ok := c.before[path]; ok && settled && known.Stamp == stamp {
		c.now[path] = known
		known.Row.Started = known.Row.Started.Local()
		return known.Row, nil
	}
	row, err := read()
	if err == nil && settled {
		c.now[path], c.changed = cachedRow{stamp, row}, true
	}
	return row, err
}

// stampOf tells one state of a run file from another. One that changed just now is not
// settled: it may change again within the same tick of the clock of its file system.
func stampOf(path string, now time.Time) (stamp [4]int64, settled bool) {
	for i, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		switch {
		case os.IsNotExist(err) && i > 0:
			continue
		case err != nil || now.Sub(info.ModTime()) < runCacheSettled:
			return stamp, false
		}
		stamp[2*i], stamp[2*i+1] = info.Size(), info.ModTime().UnixNano()
	}
	return stamp, true
}

// write keeps what was listed now, and nothing else. One that cannot be written costs
// time only.
func (c *runCache) write() {
	if !c.changed && len(c.now) == len(c.before) {
		return // as it was, or there is nothing to keep
	}
	rows, err := json.Marshal(c.now)
	if err != nil || os.MkdirAll(filepath.Dir(runCachePath()), 0o700) != nil {
		return
	}
	_ = files.Write(runCachePath(), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(runCacheFile{runCacheFormat, cli.Version(), crc32.ChecksumIEEE(rows), rows})
	})
}

// InLangfuse stands before the name of a run that is read from Langfuse.
const InLangfuse = "langfuse:"

// Sources opens the runs that were named, in this order. done closes what was
// opened, also after an error.
func Sources(ctx context.Context, env cli.Env, names []string, dataset string, metadata bool) (sources []compare.Source, done func() error, err error) {
	var closers []func() error
	done = func() error {
		return errors.Join(cli.Each(closers, func(end func() error) error { return end() })...)
	}
	sources = make([]compare.Source, len(names))
	var remote []int
	like := outcome.Header{Harness: harness.Name, Scorer: outcome.Scorer{Primary: harness.Primary}}
	for i, named := range names {
		if strings.HasPrefix(named, InLangfuse) {
			remote = append(remote, i)
			continue
		}
		report, is, err := openAnswersReport(ctx, named)
		if sources[i] = report; err == nil && !is {
			var run *runstore.Reader
			if run, err = Open(ctx, named, dataset); err == nil {
				closers = append(closers, run.Close)
				sources[i] = Source{run, metadata}
			}
		}
		if err == nil && like.Dataset.Name == "" {
			like, err = sources[i].Header(ctx)
		}
		if err != nil {
			return nil, done, err
		}
	}
	dataset = cmp.Or(dataset, like.Dataset.Name)
	if len(remote) == 0 {
		return sources, done, nil
	}
	lf, err := settings.Connect(ctx, env.Getenv)
	if err != nil {
		return nil, done, err
	}
	closers = append(closers, lf.Close)
	for _, i := range remote {
		if sources[i], err = readRemote(ctx, lf, like, dataset, strings.TrimPrefix(names[i], InLangfuse)); err != nil {
			return nil, done, err
		}
	}
	return sources, done, nil
}

// readRemote reads a run from Langfuse. One of an older version does not say there of
// which harness it is: a run with a hash of questions is of answers, another one of
// that of the run beside it, whose fingerprint and scorer version it must have anyway.
func readRemote(ctx context.Context, lf *settings.Langfuse, like outcome.Header, dataset, name string) (compare.Source, error) {
	if dataset == "" {
		return nil, cli.Usage("%s%s: a run in Langfuse is found by its dataset, too: add --dataset", InLangfuse, name)
	}
	if name == "" {
		return nil, cli.Usage("%s needs the name of a run behind it", InLangfuse)
	}
	run, err := tracking.ReadRun(ctx, lf.Site(), dataset, name)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil, cli.Usage("there is no run %q of dataset %q in Langfuse (%s): %w", name, dataset, lf.Client.BaseURL(), err)
	}
	if err != nil {
		return nil, err
	}
	_, asked := run.Header.Metadata[outcome.QuestionsSHA256]
	switch {
	case run.Header.Harness != "":
	case asked:
		run.Header.Harness, run.Header.Scorer.Primary = answers.Name, answers.Primary
	default:
		run.Header.Harness, run.Header.Scorer.Primary = like.Harness, like.Scorer.Primary
	}
	return remoteSource{run}, nil
}

// Source is a run file as package compare reads it.
type Source struct {
	*runstore.Reader
	Metadata bool // the items' metadata is wanted
}

// Where is the path of the file.
func (s Source) Where() string { return s.Path() }

// Outcomes are the newest ones, with what comparing needs.
func (s Source) Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error] {
	return s.Reader.Outcomes(ctx, runstore.Query{Newest: true, Judged: true})
}

// Items reads whole items only for their metadata: documents can be large.
func (s Source) Items(ctx context.Context) iter.Seq2[compare.Item, error] {
	if s.Metadata {
		return mapped(s.Reader.Items(ctx), func(item runstore.Item) (compare.Item, error) {
			return compare.Item{ID: item.ID, Hash: item.Hash, Metadata: item.Metadata}, nil
		})
	}
	return mapped(s.Hashes(ctx), func(h runstore.ItemHash) (compare.Item, error) {
		return compare.Item{ID: h.ID, Hash: h.Hash}, nil
	})
}

// mapped makes something else of what is read, up to the first error.
func mapped[A, B any](list iter.Seq2[A, error], of func(A) (B, error)) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		for a, err := range list {
			var b B
			if err == nil {
				b, err = of(a)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// remoteSource is a run that is only in Langfuse, as package compare reads it.
type remoteSource struct{ run tracking.Remote }

func (s remoteSource) Where() string { return s.run.Where }

func (s remoteSource) Unchecked() []string { return s.run.Unchecked }

func (s remoteSource) Header(context.Context) (outcome.Header, error) { return s.run.Header, nil }

func (s remoteSource) Footer(context.Context) (outcome.Footer, bool, error) {
	return s.run.Footer, true, nil
}

func (s remoteSource) Outcomes(context.Context) iter.Seq2[outcome.Outcome, error] {
	return each(s.run.Outcomes)
}

// Items knows no content: the fingerprint alone vouches for it.
func (s remoteSource) Items(context.Context) iter.Seq2[compare.Item, error] {
	items := cli.Each(s.run.Outcomes, func(o outcome.Outcome) compare.Item { return compare.Item{ID: o.Item} })
	return each(slices.CompactFunc(items, func(a, b compare.Item) bool { return a.ID == b.ID }))
}

// each yields what is in memory already.
func each[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// answersReport is the file of "answers run --out FILE.json": what the run came
// to, with everything that compare needs.
type answersReport struct {
	Summary outcome.Summary `json:"summary"`
	Results []answersResult `json:"results"`
	Run     *outcome.Header `json:"run"`
	Footer  outcome.Footer  `json:"footer"`
}

// answersResult is one question in one trial. A failed one scores 0.
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
	if score := value(answers.Primary); score != nil {
		r.QuestionScore = *score
	}
	var output answers.Answer
	if json.Unmarshal(o.Output, &output) == nil { // a failed question has none
		r.Answer = output.Text
	}
	o.Calls = nil // the run file has them
	r.Outcome = o
	return r
}

// WriteAnswers writes the report of a run, its questions in their order.
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
		// What cannot be read as a question failed, and its outcome says so.
		questions[item.ID], _ = answers.ReadItem(item.Item)
	}
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true}) {
		if err != nil {
			return err
		}
		r.Results = append(r.Results, newAnswersResult(questions[o.Item], o))
	}
	slices.SortStableFunc(r.Results, func(a, b answersResult) int { return cmp.Compare(a.Outcome.Seq, b.Outcome.Seq) })
	return cli.WriteFile(path, func(w io.Writer) error { return report.JSON(w, r, true) })
}

// openAnswersReport reads a report of answers, of a run or of a benchmark, as a
// run. ok is false for any other file.
func openAnswersReport(ctx context.Context, path string) (source remoteSource, ok bool, err error) {
	info, err := os.Stat(path)
	if ext := filepath.Ext(path); err != nil || !info.Mode().IsRegular() || ext == runstore.Extension || ext == ".jsonl" {
		return source, false, nil // a pipe can be read once only
	}
	raw, err := files.Read(ctx, path, maxReport)
	if err != nil {
		return source, false, cli.Errorf(cli.ExitIO, "reading %s: %w", path, err)
	}
	var file struct {
		Run     *outcome.Header
		Footer  outcome.Footer
		Results []struct{ Outcome outcome.Outcome }
		answers.BenchmarkReport
		Summary json.RawMessage // of either form
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		if first, _, _ := bytes.Cut(raw, []byte("\n")); len(raw) == 0 || raw[0] != '{' || json.Valid(first) {
			return source, false, nil // who reads it as a run, or an export, says what is wrong with it
		}
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
	return remoteSource{inOrder(run)}, true, nil
}

// inOrder sorts the outcomes of a run as compare reads them.
func inOrder(run tracking.Remote) tracking.Remote {
	slices.SortFunc(run.Outcomes, func(a, b outcome.Outcome) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
	})
	return run
}

// maxReport bounds a report of answers, in bytes.
const maxReport = 1 << 30

// benchmarkRun is a benchmark as one run: its items are the questions of all
// datasets, its trials the repeated runs. The weight of a question is its share
// of its dataset's, so that the weighted mean is the benchmark's weighted_score.
// A benchmark without a score cannot be compared (exit code 2).
func benchmarkRun(path string, b answers.BenchmarkReport) (tracking.Remote, error) {
	run := tracking.Remote{Where: path, Footer: outcome.Footer{Status: outcome.Complete}}
	var datasets, documents, questions []string
	for _, d := range b.Datasets {
		pdf, asked := d.Hashes()
		datasets = append(datasets, fmt.Sprintf("%s (weight %g)", d.ID, d.Weight))
		documents, questions = append(documents, d.ID+" "+cmp.Or(pdf, "none")), append(questions, d.ID+" "+cmp.Or(asked, "none"))
		run.Header.Trials = max(run.Header.Trials, len(d.Runs))
		if d.WeightedScore == nil && d.Weight > 0 {
			return run, cli.Errorf(cli.ExitIncompatible, "%s cannot be compared: dataset %s has no score: %s", path, d.ID, d.Broken())
		}
		for n, of := range d.Runs {
			total := 0.0
			for _, q := range of.Questions {
				total += q.Weight
			}
			for id, q := range of.Questions {
				share := d.Weight * q.Weight / cmp.Or(total, 1)
				score := outcome.Score{Name: answers.Primary, Value: &q.Score, Weight: &share}
				o := outcome.Outcome{Item: d.ID + "/" + id, Trial: n + 1, Attempt: 1, Scores: []outcome.Score{score}}
				run.Outcomes = append(run.Outcomes, o)
			}
		}
	}
	run.Header.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	run.Header.Harness, run.Header.Scorer = answers.Name, answers.Pin()
	run.Header.Scorer.Version = cmp.Or(b.ScorerVersion, "answers@1") // earlier reports name none
	run.Header.Dataset = outcome.Dataset{Name: b.Name, Fingerprint: identified(datasets)}
	run.Header.Metadata = map[string]string{outcome.PDFSHA256: identified(documents), outcome.QuestionsSHA256: identified(questions)}
	return run, nil
}

// identified names the parts of a benchmark, in whatever order they come.
func identified(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
