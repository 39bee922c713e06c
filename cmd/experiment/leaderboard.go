package main

import (
	"context"
	"errors"
	"io"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
)

// leaderboard is what a sweep prints.
type leaderboard struct {
	compare.Leaderboard
	URL string `json:"url"` // Langfuse sets the runs side by side there
}

// rank compares the runs of the sweep with each other and prints what comes of
// it.
func (s session) rank(ctx context.Context, sweep *experiment.Sweep, cfg runConfig) (err error) {
	comparer, err := compare.New(runs.Comparison())
	if err != nil {
		return err
	}
	var sources []compare.Source
	var closed []error
	ids := map[string]string{} // that the first trial of a run has in Langfuse, by its file
	defer func() { err = errors.Join(append(closed, err)...) }()
	for _, path := range sweep.Paths() {
		run, err := runstore.Load(path)
		if err != nil {
			return err
		}
		defer func() { closed = append(closed, run.Close()) }()
		sources = append(sources, runs.Source{Run: run})
		first, _, err := run.Experiment(ctx, 1)
		if err != nil {
			return err
		}
		ids[path] = first.ID
	}
	ranked, err := comparer.Rank(ctx, sources...)
	if errors.Is(err, context.Canceled) {
		return cli.Errorf(cli.ExitInterrupted, "stopped before the runs were compared; go on with: %s", resumeCommand(s.env.Args))
	}
	if err != nil {
		return err
	}
	for i, r := range ranked.Runs { // as each run was judged: they share their rules
		if ranked.Runs[i].Gate, err = cfg.gate.JudgeRun(r.Summary); err != nil {
			return err
		}
	}
	board := leaderboard{Leaderboard: ranked, URL: s.compareURL(sweep.DatasetID(), ranked, ids)}
	return errors.Join(s.showBoard(cfg, board), writeBoard(cfg.html, ranked), ranked.Err())
}

// writeBoard writes the page of a leaderboard to a file, if one is named.
func writeBoard(path string, l compare.Leaderboard) error {
	if path == "" {
		return nil
	}
	return cli.WriteFile(path, func(w io.Writer) error { return cli.Written(html.Leaderboard(w, l)) })
}

// compareURL is the page that sets the runs side by side, the best as baseline;
// "" where there is no such page.
func (s session) compareURL(dataset string, l compare.Leaderboard, idOf map[string]string) string {
	var ids []string
	for _, r := range l.Runs {
		if id := idOf[r.Where]; id != "" {
			ids = append(ids, id)
		}
	}
	if s.lf.Embedded || dataset == "" || len(ids) < 2 {
		return ""
	}
	return langfuse.CompareURL(s.lf.Client.BaseURL(), s.lf.Server.Project.ID, dataset, ids...)
}

func (s session) showBoard(cfg runConfig, board leaderboard) error {
	switch {
	case cfg.json:
		return runs.PrintJSON(s.env, board)
	case cfg.quiet:
		return nil
	}
	where := []string{"experiment show " + cli.Quote(board.Runs[0].Summary.Run.Name)}
	if len(board.Runs) > 1 {
		where = append(where, "experiment compare "+cli.Quote(board.Runs[1].Summary.Run.Name)+" "+cli.Quote(board.Runs[0].Summary.Run.Name))
	}
	return cli.Written(report.Leaderboard(s.env.Stdout, board.Leaderboard, runs.TextOptions(s.env, append(where, board.URL))))
}
