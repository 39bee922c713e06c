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
	before, now := readRunCache(ctx), map[string]cachedRow{}
	var listed []Listed
	for _, e := range entries {
		l := Listed{Path: e.Path, Err: e.Err}
		if e.Err == nil {
			l.Row, l.Err = rowOf(ctx, e.Path, before, now)
		}
		l.Err = withDenied(l.Err)
		listed = append(listed, l)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if !maps.Equal(before, now) {
		writeRunCache(now)
	}
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
	runCacheFormat  = 1        // another one is made again
	mostRunCache    = 64 << 20 // bytes
	runCacheSettled = 2 * time.Second
)

// cachedRow is the row of a file as it was. Rows are kept by path, so that a list opens only the
// files that changed. They are worth nothing without them: what is damaged, of another program,
// or of a file of another size or time is read again, and without the cache all is.
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
func readRunCache(ctx context.Context) (rows map[string]cachedRow) {
	raw, err := files.Read(ctx, runCachePath(), mostRunCache)
	var file runCacheFile
	if err != nil || json.Unmarshal(raw, &file) != nil || file.Format != runCacheFormat ||
		file.Program != cli.Version() || file.Sum != crc32.ChecksumIEEE(file.Rows) || json.Unmarshal(file.Rows, &rows) != nil {
		return nil
	}
	return rows
}

// rowOf returns the row of a file as it was before, or else reads it, and keeps it for now.
func rowOf(ctx context.Context, path string, before, now map[string]cachedRow) (report.RunRow, error) {
	stamp, settled := stampOf(path, time.Now())
	kept, known := before[path]
	if !known || !settled || kept.Stamp != stamp {
		row, err := readRow(ctx, path)
		if err != nil || !settled {
			return row, err
		}
		kept = cachedRow{stamp, row}
	}
	now[path] = kept
	kept.Row.Started = kept.Row.Started.Local()
	return kept.Row, nil
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

// writeRunCache keeps these rows, and nothing else. A cache that cannot be written costs time only.
func writeRunCache(list map[string]cachedRow) {
	rows, err := json.Marshal(list)
	if err != nil || os.MkdirAll(filepath.Dir(runCachePath()), 0o700) != nil {
		return
	}
	_ = files.Write(runCachePath(), func(w io.Writer) error {
		return json.NewEncoder(w).Encode(runCacheFile{runCacheFormat, cli.Version(), crc32.ChecksumIEEE(rows), rows})
	})
}
