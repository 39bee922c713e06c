package runs

import (
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

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
			unreadable = append(unreadable, readError(err))
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
