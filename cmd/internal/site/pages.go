package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/compare"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// runsFolder is where the runs of this folder lie; the addresses of pages are
// the paths below it.
func runsFolder() string { return filepath.Join(connect.Folder, "runs") }

// pagePath is the address of a run file below the folder of runs.
func pagePath(file string) string {
	path, err := filepath.Rel(runsFolder(), file)
	if err != nil {
		return ""
	}
	return filepath.ToSlash(path)
}

// openPath opens the run that an address names. It never leads out of the
// folder of runs.
func openPath(path string) (*runstore.Reader, error) {
	if !fs.ValidPath(path) || !filepath.IsLocal(filepath.FromSlash(path)) || filepath.Ext(path) != runstore.Extension {
		return nil, noRun(path)
	}
	root, err := os.OpenRoot(runsFolder())
	if err != nil {
		return nil, noRun(path)
	}
	info, err := root.Stat(filepath.FromSlash(path)) // a link that leads outside is an error
	err = errors.Join(err, root.Close())
	if err != nil || !info.Mode().IsRegular() {
		return nil, noRun(path)
	}
	return runstore.Load(filepath.Join(runsFolder(), filepath.FromSlash(path)))
}

func noRun(path string) error { return notFound(fmt.Sprintf("there is no run %q", path)) }

// listPage writes the list of runs, the newest first.
func listPage(ctx context.Context, w io.Writer) error {
	listed, err := runs.Rows(ctx)
	if err != nil {
		return err
	}
	var problems []string
	var rows []html.RunLink
	for _, l := range listed {
		if l.Err != nil {
			problems = append(problems, l.Err.Error())
			continue
		}
		path := pagePath(l.Path)
		rows = append(rows, html.RunLink{RunRow: *l.Row, Path: path, Address: runAddress(path)})
	}
	folder, err := filepath.Abs(".")
	if err != nil {
		folder = "."
	}
	return html.RunList(w, "Runs in "+folder, rows, problems)
}

// runPage writes the page of one run, the same as experiment report.
func runPage(ctx context.Context, w io.Writer, path string) (err error) {
	run, err := openPath(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	whole, err := runs.Whole(ctx, run, true)
	if err != nil {
		return err
	}
	header, err := run.Header(ctx)
	if err != nil {
		return err
	}
	return html.Write(w, []report.Run{whole}, html.Config{Home: "/", Trace: func(_ int, o outcome.Outcome) string {
		return traceAddress(tracking.TraceID(header, o))
	}})
}

// comparePage writes the comparison of runs as experiment compare makes it
// without flags.
func comparePage(ctx context.Context, w io.Writer, base string, candidates []string) (err error) {
	var sources []compare.Source
	var links []string
	var headers []outcome.Header
	for _, path := range append([]string{base}, candidates...) {
		run, opening := openPath(path)
		if opening != nil {
			return opening
		}
		defer func() { err = errors.Join(err, run.Close()) }()
		header, reading := run.Header(ctx)
		if reading != nil {
			return reading
		}
		sources, links = append(sources, runs.Source{Run: run}), append(links, runAddress(path))
		headers = append(headers, header)
	}
	comparer, err := compare.New(runs.Comparison())
	if err != nil {
		return err
	}
	result, err := comparer.Compare(ctx, sources[0], sources[1:]...)
	if err != nil {
		return err
	}
	return runs.ComparisonPage(ctx, w, result, sources, html.Config{Home: "/", Links: links, Trace: func(run int, o outcome.Outcome) string {
		return traceAddress(tracking.TraceID(headers[run], o))
	}})
}

// findByID returns the path of the run that Langfuse knows by this id.
func findByID(ctx context.Context, id string) (string, error) {
	entries, err := runs.List(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Err != nil {
			continue // the list names it
		}
		found, err := hasID(ctx, e, id)
		if err != nil {
			return "", err
		}
		if found {
			return pagePath(e.Path), nil
		}
	}
	return "", notFound(fmt.Sprintf("no run of this folder has the id %q", id))
}

func hasID(ctx context.Context, e runstore.Entry, id string) (found bool, err error) {
	run, err := runstore.Load(e.Path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	for trial := 1; trial <= max(1, e.Header.Trials); trial++ {
		x, ok, err := run.Experiment(ctx, trial)
		if err != nil {
			return false, err
		}
		if ok && x.ID == id {
			return true, nil
		}
	}
	return false, nil
}
