// Package runs finds the runs that a user names, and opens, lists, shows and compares them:
// runs of this folder, exports, reports of answers, and runs that are only in Langfuse. It
// also formats the output of commands for a terminal, file or pipe: results on standard
// output, the progress of a run on standard error. Finally it has experiment check, the
// command for CI: it finds the baseline, runs the candidate, compares and judges it, and
// comments on the pull request.
package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// List returns the runs of this folder. An entry has the error of reading its file.
func List(ctx context.Context) ([]runstore.Entry, error) {
	entries, err := runstore.List(ctx, settings.Folder)
	for i, e := range entries {
		entries[i].Err = cli.WithCode(cli.ExitIO, e.Err)
	}
	if err != nil {
		return entries, cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	return entries, nil
}

// Open opens a run by its file, by an export, or by its name among the runs of this folder.
func Open(ctx context.Context, named, dataset string) (*runstore.Reader, error) {
	path, err := Find(ctx, named, dataset)
	if err != nil {
		return nil, err
	}
	run, err := runstore.OpenAny(ctx, path)
	if err != nil {
		if report, is, _ := openAnswersReport(ctx, path); is {
			return nil, cli.Usage("%s is a report, which only compare reads; name the run (%s)", path, report.run.Header.Name)
		}
	}
	return run, err
}

// Find returns the file of the run that named names: a run of this folder, or a file. With a
// slash it is a file, and with one of the extensions of runs, exports and reports if there is
// such a file; another file gives way to the run of its name. dataset is empty for any dataset;
// if it is a file, it may be a path.
func Find(ctx context.Context, named, dataset string) (string, error) {
	dataset = experiment.DatasetName(dataset)
	info, err := os.Stat(named)
	isFile, isPath := err == nil && !info.IsDir(), strings.ContainsRune(named, filepath.Separator)
	switch hasExtension := slices.Contains([]string{runstore.Extension, ".jsonl", ".json"}, filepath.Ext(named)); {
	case isFile && (isPath || hasExtension):
		return named, nil
	case isPath:
		return "", cli.Usage("there is no file %s", named)
	}
	placed, err := runstore.Files(ctx, settings.Folder)
	placed = slices.DeleteFunc(placed, func(e runstore.Entry) bool { return e.Err != nil || !e.Placed(dataset, named) })
	if err == nil && len(placed) == 1 { // if its header agrees, no other file need be opened
		e := runstore.ReadEntry(ctx, placed[0].Path)
		if e.Err == nil && e.Header.Name == named && (dataset == "" || e.Header.Dataset.Name == dataset) {
			return e.Path, nil
		}
	}
	entries, err := List(ctx)
	if err != nil {
		return "", err
	}
	var found, names, elsewhere []string
	var hidden error // why runs cannot be listed
	for _, e := range entries {
		if e.Err != nil && filepath.Ext(e.Path) != runstore.Extension {
			hidden = e.Err
		}
		switch of := e.Header.Dataset.Name; {
		case e.Err != nil && named != e.Header.Name: // experiment runs shows the error
			if e.Placed(dataset, named) { // opening the file gives the error
				found = append(found, e.Path)
			}
		case e.Header.Name != named:
			names = append(names, e.Header.Name)
		case dataset == "" || of == dataset:
			found = append(found, e.Path)
		default:
			elsewhere = append(elsewhere, of)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && isFile:
		return named, nil
	case len(found) > 1:
		return "", cli.Usage("there are several runs %q: add --dataset, or name the file: %s",
			named, strings.Join(found, ", "))
	case len(elsewhere) > 0:
		return "", cli.Usage("there is no run %q of dataset %q; there is one of %s", named, dataset, strings.Join(elsewhere, ", "))
	case hidden != nil:
		return "", hidden
	}
	return "", cli.Usage("there is no run %q in this folder%s", named, cmp.Or(textutil.Hint(named, names), "; experiment runs lists those that are"))
}

// NoteUnfinished prints how many outcomes a run has that is not complete.
func NoteUnfinished(ctx context.Context, env cli.Env, run *runstore.Reader) error {
	footer, _, err := run.Footer(ctx)
	if err != nil || footer.Status == outcome.Complete {
		return err
	}
	counts, err := run.Counts(ctx)
	if err != nil {
		return err
	}
	note := textutil.Countf("note: the run is not finished: %d of %s; it is still running, or was stopped",
		counts.Done, textutil.Counted(counts.Planned, "item"))
	_, err = fmt.Fprintln(env.Stderr, note)
	return cli.WriteError(err)
}

// InLangfuse is the prefix of the name of a run that is read from Langfuse.
const InLangfuse = "langfuse:"

// Sources opens the runs of these names, in this order, with the metadata of items if
// metadata is set, which the first run or all others must have. done closes the runs; call it
// also after an error.
func Sources(ctx context.Context, env cli.Env, names []string, dataset string, metadata bool) (sources []compare.Source, done func() error, err error) {
	var closers []func() error
	done = func() error {
		return errors.Join(cli.Each(closers, func(end func() error) error { return end() })...)
	}
	sources = make([]compare.Source, len(names))
	var remote []int
	var local outcome.Header // of the first run that is not in Langfuse
	for i, named := range names {
		if strings.HasPrefix(named, InLangfuse) {
			remote = append(remote, i)
			continue
		}
		path, err := Find(ctx, named, dataset)
		is := false
		if err == nil {
			sources[i], is, err = openAnswersReport(ctx, path)
		}
		if err == nil && !is {
			var run *runstore.Reader
			if run, err = runstore.OpenAny(ctx, path); err == nil {
				closers = append(closers, run.Close)
				sources[i] = Source{experiment.RunFile{Reader: run, Metadata: metadata}, Status{env: env}}
			}
		}
		if err == nil && local.Dataset.Name == "" {
			local, err = sources[i].Header(ctx)
		}
		if err != nil {
			return nil, done, err
		}
	}
	dataset = cmp.Or(dataset, local.Dataset.Name)
	if len(remote) == 0 {
		return sources, done, nil
	}
	if metadata && remote[0] == 0 && len(remote) > 1 {
		return nil, done, cli.Usage("cluster-by: the metadata of items is not read from Langfuse: " +
			"give the base or each candidate as a file")
	}
	lf, err := settings.Connect(ctx, env)
	if err != nil {
		return nil, done, err
	}
	closers = append(closers, lf.Close)
	for _, i := range remote {
		if sources[i], err = readRemote(ctx, lf, dataset, strings.TrimPrefix(names[i], InLangfuse)); err != nil {
			return nil, done, err
		}
	}
	return sources, done, nil
}

// readRemote reads a run from Langfuse.
func readRemote(ctx context.Context, lf *settings.Langfuse, dataset, name string) (compare.Source, error) {
	if dataset == "" {
		return nil, cli.Usage("%s%s: a run in Langfuse is found by its dataset, too: add --dataset", InLangfuse, name)
	}
	if name == "" {
		return nil, cli.Usage("%s needs the name of a run after it", InLangfuse)
	}
	run, err := tracking.ReadRun(ctx, lf.Site, dataset, name)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil, cli.Usage("there is no run %q of dataset %q in Langfuse (%s): %w", name, dataset, lf.Client.BaseURL(), err)
	}
	return remoteSource{run}, err
}

// Source is a run file as a compare.Source that shows the progress of reading it.
type Source struct {
	experiment.RunFile
	status Status
}

// Outcomes returns the newest outcomes with the parts that comparing needs.
func (s Source) Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error] {
	return s.OfTrial(ctx, 0)
}

// OfTrial is Outcomes for one trial; 0 means all trials.
func (s Source) OfTrial(ctx context.Context, trial int) iter.Seq2[outcome.Outcome, error] {
	return Watched(ctx, &s.status, s.Reader, min(1, trial), s.RunFile.OfTrial(ctx, trial))
}

// remoteSource is a run in memory as a compare.Source: one that was read from Langfuse or
// from a report.
type remoteSource struct{ run tracking.Remote }

func (s remoteSource) Where() string { return s.run.Where }

func (s remoteSource) Unchecked() []string { return s.run.Unchecked }

func (s remoteSource) Header(context.Context) (outcome.Header, error) { return s.run.Header, nil }

func (s remoteSource) Footer(context.Context) (outcome.Footer, bool, error) {
	return s.run.Footer, true, nil
}

func (s remoteSource) Outcomes(context.Context) iter.Seq2[outcome.Outcome, error] {
	return stats.Values(s.run.Outcomes)
}

// Items returns only ids. The content of the items is known by the fingerprint alone.
func (s remoteSource) Items(context.Context) iter.Seq2[compare.Item, error] {
	items := cli.Each(s.run.Outcomes, func(o outcome.Outcome) compare.Item { return compare.Item{ID: o.Item} })
	return stats.Values(slices.CompactFunc(items, func(a, b compare.Item) bool { return a.ID == b.ID }))
}

// FileRow is the row of a run file.
type FileRow struct {
	Path string
	report.RunRow
}

// Rows returns the rows of the runs in this folder, the newest first, and the errors of the files
// that cannot be read. The rows of unchanged files come from a cache.
func Rows(ctx context.Context) (rows []FileRow, unreadable []error, err error) {
	entries, err := runstore.Files(ctx, settings.Folder)
	if err != nil {
		return nil, nil, cli.Errorf(cli.ExitIO, "reading the runs: %w", err)
	}
	previous, current := readRunCache(ctx), map[string]cachedRow{}
	for _, e := range entries {
		row, err := report.RunRow{}, e.Err
		if err == nil {
			row, err = cachedRowOf(ctx, e.Path, previous, current)
		}
		if err != nil {
			unreadable = append(unreadable, cli.WithCode(cli.ExitIO, err))
		} else {
			rows = append(rows, FileRow{e.Path, row})
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	if !maps.Equal(previous, current) {
		writeRunCache(current)
	}
	slices.SortStableFunc(rows, func(a, b FileRow) int { return b.Started.Compare(a.Started) })
	return rows, unreadable, nil
}

// readRow reads the row of a run file. It loads a small file as a whole.
func readRow(ctx context.Context, path string) (row report.RunRow, err error) {
	run, err := runstore.Load(path)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := run.Check(ctx); err != nil {
		return row, err
	}
	s, err := experiment.Summarise(ctx, run, nil, runstore.RowOnly)
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
	runCacheFormat = 1        // a cache of another format is discarded
	maxRunCache    = 64 << 20 // bytes
	settleTime     = 2 * time.Second
)

// cachedRow is the row of a run file with the state of the file. The cache has rows by path,
// so that a list opens only the files that changed. Nothing is lost without it: if the cache
// is damaged or of another version of the program, or if size or time of a file differ, the
// file is read again.
type cachedRow struct {
	Stamp [4]int64      `json:"stamp"` // sizes and times of change of the file and its log
	Row   report.RunRow `json:"row"`
}

// runCacheFile is the content of the cache file.
type runCacheFile struct {
	Format  int             `json:"format"`
	Program string          `json:"program"`
	Sum     uint32          `json:"sum"` // CRC-32 of Rows
	Rows    json.RawMessage `json:"rows"`
}

func runCachePath() string { return filepath.Join(settings.Folder, "cache", "runs.json") }

// readRunCache returns the cached rows by path; none if the cache cannot be read.
func readRunCache(ctx context.Context) (rows map[string]cachedRow) {
	raw, err := files.Read(ctx, runCachePath(), maxRunCache)
	var file runCacheFile
	if err != nil || json.Unmarshal(raw, &file) != nil || file.Format != runCacheFormat ||
		file.Program != cli.Version() || file.Sum != crc32.ChecksumIEEE(file.Rows) || json.Unmarshal(file.Rows, &rows) != nil {
		return nil
	}
	return rows
}

// cachedRowOf returns the row of a file from previous, or reads it if the file has changed.
// It stores the row in current, except for files that changed just now.
func cachedRowOf(ctx context.Context, path string, previous, current map[string]cachedRow) (report.RunRow, error) {
	stamp, settled := stampOf(path, time.Now())
	cached, known := previous[path]
	if !known || !settled || cached.Stamp != stamp {
		row, err := readRow(ctx, path)
		if err != nil || !settled {
			return row, err
		}
		cached = cachedRow{stamp, row}
	}
	current[path] = cached
	cached.Row.Started = cached.Row.Started.Local()
	return cached.Row, nil
}

// stampOf returns a stamp of the state of a run file. A file that changed less than
// settleTime ago is not settled: it may change again within the same tick of the file
// system's clock, which would leave the stamp the same.
func stampOf(path string, now time.Time) (stamp [4]int64, settled bool) {
	for i, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		switch {
		case os.IsNotExist(err) && i > 0:
			continue
		case err != nil || now.Sub(info.ModTime()) < settleTime:
			return stamp, false
		}
		stamp[2*i], stamp[2*i+1] = info.Size(), info.ModTime().UnixNano()
	}
	return stamp, true
}

// writeRunCache replaces the cache with these rows. It ignores errors, as a missing cache
// only costs time.
func writeRunCache(list map[string]cachedRow) {
	rows, err := json.Marshal(list)
	if err != nil || os.MkdirAll(filepath.Dir(runCachePath()), 0o700) != nil {
		return
	}
	_ = files.Write(runCachePath(), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(runCacheFile{runCacheFormat, cli.Version(), crc32.ChecksumIEEE(rows), rows})
	})
}
