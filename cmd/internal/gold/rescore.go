package gold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/compare"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
	"extraction-experiment/tracking"
)

// RescoreCommand returns the command "experiment rescore".
func RescoreCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "rescore",
		Usage:     "score the stored results of a run again, with other options or a newer scorer, without the model",
		UsageText: "experiment rescore RUN [--options FILE|JSON] [--config FILE] [--name NEW]\nexperiment rescore --dataset NAME@now RUN… [--gate RULE|FILE]",
		Description: "The results become a new run of the same items; the old one stays. The new run is not in Langfuse until\n" +
			"experiment publish NEW sends it. Scores of external evaluators are copied; with --config, the evaluators\n" +
			"in that file are asked again.\n" +
			"--dataset NAME@now scores against the expected outputs that the dataset has now, with the options of each run, and reports\n" +
			"what that changes: ranks, verdicts against the first run, and gates.",
		Flags: []urfave.Flag{
			settings.DatasetFlag(),
			settings.OptionsFlag(),
			&urfave.StringFlag{Name: "config", Usage: "ask the evaluators under scorers: in the YAML file `FILE` again (nothing else in it is read)"},
			&urfave.StringFlag{Name: "name", Aliases: []string{"n"},
				Usage: "`NAME` of the new run (default: RUN-rescored; with @now, RUN and the beginning of the dataset's fingerprint)"},
			&urfave.StringSliceFlag{Name: "gate", Usage: "with @now: judge `RULE|FILE` before and after; may be repeated"},
			&urfave.BoolFlag{Name: "json", Usage: "print what changed as JSON"},
		},
		Action: func(c *urfave.Context) error { return rescoreAction(c, env) },
	}
}

func rescoreAction(c *urfave.Context, env cli.Env) (err error) {
	options, err := settings.ScoringOptions(c.String("options"))
	if err != nil {
		return err
	}
	ctx := c.Context
	r := &rescorer{c: c, env: env, options: options}
	defer func() { err = errors.Join(err, r.unanswered) }()
	r.evaluators = sync.OnceValues(func() (system.Scorers, error) { return openEvaluators(ctx, env, c.String("config")) })
	if name, isNow := strings.CutSuffix(c.String("dataset"), "@now"); isNow {
		return r.rescoreNow(ctx, name)
	}
	if c.NArg() != 1 {
		return cli.Usage("rescore takes the name or file of one run; experiment runs lists them")
	}
	if c.IsSet("gate") {
		return cli.Usage("--gate goes with --dataset NAME@now; experiment compare OLD NEW --gate RULE judges a run that was scored again")
	}
	from, err := runs.Open(ctx, c.Args().First(), c.String("dataset"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	moves, path, err := r.rescore(ctx, experiment.RescoreConfig{From: from}, "-rescored")
	if err != nil {
		return err
	}
	if err := runs.Print(env, c.Bool("json"), moves, report.MovesText); err != nil || c.Bool("json") {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "\n%s; experiment publish %s sends it to Langfuse\n", path, cli.Arguments(moves.Name))
	return cli.WriteError(err)
}

// rescorer is the state of one call of the command.
type rescorer struct {
	c          *urfave.Context
	env        cli.Env
	options    scoring.Options
	evaluators func() (system.Scorers, error)
	unanswered error // of runs.UnansweredError, at the end
}

// rescore creates the new run and returns what changed, and the path of the new run. The name of
// the new run is that of the old one with the suffix, unless --name is set.
func (r *rescorer) rescore(ctx context.Context, cfg experiment.RescoreConfig, suffix string) (compare.MovesResult, string, error) {
	err := r.configure(ctx, &cfg, suffix)
	if err == nil {
		err = runs.NoteUnfinished(ctx, r.env, cfg.From)
	}
	if err != nil {
		return compare.MovesResult{}, "", err
	}
	moves := compare.NewMoves(cfg.Pin.Primary)
	status, scored := runs.NewStatus(r.env), 0
	cfg.Moved = func(before, after outcome.Outcome) {
		moves.Add(before, after)
		scored++
		status.Say("%s: %s scored again", cfg.Name, report.Count(int64(scored)))
	}
	created, path, err := experiment.Rescore(ctx, cfg)
	status.End()
	_, nameTaken := errors.AsType[*experiment.NameTakenError](err)
	byDefault := cfg.Gold != nil && !r.c.IsSet("name") && !r.c.IsSet("config")
	switch {
	case nameTaken && byDefault && isThere(ctx, path, created, cfg.From):
		fmt.Fprintf(r.env.Stderr, "note: %s is there already (%s): nothing was created\n", textutil.Line(created.Name), path)
		err = addMoves(ctx, moves, cfg.From, path)
	case nameTaken:
		err = cli.Usage("%w: choose another with --name", err)
	case errors.Is(err, experiment.ErrSameGold):
		err = cli.Usage("%s: %w: there is nothing to score again", textutil.Line(created.Rescored.Name), err)
		created.Name = created.Rescored.Name
		return moves.Result(created, nil), cfg.From.Path(), err
	}
	if err == nil && len(cfg.Pin.Custom) > 0 {
		err = r.checkAnswers(ctx, path)
	}
	if err != nil {
		return compare.MovesResult{}, "", err
	}
	return moves.Result(created, runs.ScoreOrder()), path, nil
}

// checkAnswers records in unanswered if an evaluator gave no score in the new run.
func (r *rescorer) checkAnswers(ctx context.Context, path string) error {
	created, err := runstore.OpenAny(ctx, path)
	if err != nil {
		return err
	}
	s, err := runs.Summarise(ctx, created)
	r.unanswered = errors.Join(r.unanswered, runs.UnansweredError(s))
	return errors.Join(err, created.Close())
}

// configure fills in the scorer and the name of the new run.
func (r *rescorer) configure(ctx context.Context, cfg *experiment.RescoreConfig, suffix string) error {
	header, err := cfg.From.Header(ctx)
	if err != nil {
		return err
	}
	cfg.Name = cmp.Or(r.c.String("name"), header.Name+suffix)
	if err := checkRescore(r.c, header, cfg.Name); err != nil {
		return err
	}
	cfg.Describe = func(h *outcome.Header) {
		h.Runner, h.GitSHA = cli.Version(), runs.ReadRevision().String()
		if h.Harness == answers.Name {
			h.Publication.Scores = []string{outcome.AllScores}
		}
	}
	if header.Harness == answers.Name {
		cfg.Pin, cfg.Scorer = answers.ScorerInfo(), answers.ScorerOf(header)
		return nil
	}
	options := r.options
	if cfg.Gold != nil && !r.c.IsSet("options") && len(header.Scorer.Options) > 0 {
		if options, err = scoring.ParseOptions(header.Scorer.Options, scoring.DefaultOptions()); err != nil {
			return err
		}
	}
	rules, err := system.NewRules(options)
	if err != nil {
		return err
	}
	if rules.Custom, err = r.evaluators(); err != nil {
		return err
	}
	cfg.Pin = harness.ScorerInfo(rules.Raw)
	cfg.Pin.Custom = rules.Custom.Described
	cfg.Scorer, err = rules.NewScorer(nil)
	return err
}

// rescoreNow scores runs against the current gold of their dataset.
func (r *rescorer) rescoreNow(ctx context.Context, name string) (err error) {
	names := r.c.Args().Slice()
	switch {
	case name == "" || len(names) == 0:
		return cli.Usage("--dataset NAME@now takes the name of the dataset, and one or more of its runs")
	case len(names) > 1 && r.c.IsSet("name"):
		return cli.Usage("--name is for one run; there are %d", len(names))
	}
	cfg := runs.Comparison()
	cfg.MaxChanged = -1
	cfg.Gate, cfg.Metric, err = runs.ReadGate(r.c.StringSlice("gate"), "", "")
	if err := errors.Join(err, cfg.Gate.Check()); err != nil {
		return cli.Usage("%w", err)
	}
	gold, lf, err := openCurrent(ctx, r.env, name)
	defer func() { err = errors.Join(err, lf.Close()) }()
	if err != nil {
		return err
	}
	before, closeBefore, err := runs.Sources(ctx, r.env, names, name, false)
	defer func() { err = errors.Join(err, closeBefore()) }()
	if err != nil {
		return err
	}
	fingerprint, err := experiment.Fingerprint(ctx, gold.Gold)
	if errors.Is(err, experiment.ErrNoItems) {
		return cli.Usage("the dataset %q has no items any more", name)
	}
	if err != nil {
		return err
	}
	result, paths, err := r.rescoreAll(ctx, gold, before, "-"+fingerprint[:8])
	if err != nil {
		return err
	}
	after, closeAfter, err := runs.Sources(ctx, r.env, paths, "", false)
	defer func() { err = errors.Join(err, closeAfter()) }()
	if err != nil {
		return err
	}
	if err := addShifts(ctx, &result, cfg, before, after); err != nil {
		return err
	}
	return runs.Print(r.env, r.c.Bool("json"), result, report.RegoldText)
}

// rescoreAll scores each run again, and returns what changed and the paths of the new runs. A run
// that was scored with this gold stands for itself; it is an error if all do.
func (r *rescorer) rescoreAll(
	ctx context.Context, gold experiment.RescoreConfig, before []compare.Source, suffix string,
) (result report.Regold, paths []string, err error) {
	var same []error
	var unchanged []string
	for _, source := range before {
		from, err := localRun(source)
		if err != nil {
			return result, nil, err
		}
		header, err := from.Header(ctx)
		if err != nil {
			return result, nil, err
		}
		left := map[string]int{}
		gold.From, gold.Left = from.Reader, func(_, why string) { left[why]++ }
		moves, path, err := r.rescore(ctx, gold, suffix)
		for _, why := range slices.Sorted(maps.Keys(left)) {
			fmt.Fprintf(r.env.Stderr, "note: %s: %s left out: %s\n",
				textutil.Line(header.Name), textutil.Counted(left[why], "item"), why)
		}
		switch {
		case errors.Is(err, experiment.ErrSameGold):
			same, unchanged = append(same, err), append(unchanged, textutil.Line(moves.Name))
		case errors.Is(err, experiment.ErrNoItems):
			return result, nil, cli.Usage("no item of the run %q is in the dataset with the same input", header.Name)
		case err != nil:
			return result, nil, err
		}
		result.Runs, paths = append(result.Runs, moves), append(paths, path)
	}
	if len(same) == len(before) {
		return result, nil, errors.Join(same...)
	}
	for _, name := range unchanged {
		fmt.Fprintf(r.env.Stderr, "note: %s is unchanged: %s\n", name, experiment.ErrSameGold)
	}
	return result, paths, nil
}

// addShifts adds to a result how the new gold changes the ranks of the runs, and the verdicts and
// gates of all runs against the first. before and after are the same runs in the same order.
func addShifts(ctx context.Context, r *report.Regold, cfg compare.Config, before, after []compare.Source) error {
	var err error
	var ranks [2]compare.Leaderboard
	var comparisons [2]compare.Comparison
	before = slices.Clone(before)
	for i := range before {
		if before[i], err = restrict(ctx, before[i], after[i]); err != nil {
			return err
		}
	}
	for i, sources := range [][]compare.Source{before, after} {
		if ranks[i], err = cfg.Rank(ctx, sources...); err != nil {
			return err
		}
		if len(sources) < 2 {
			continue
		}
		if comparisons[i], err = cfg.Compare(ctx, sources[0], sources[1:]...); err != nil {
			return err
		}
	}
	r.Metric = ranks[1].Metric
	for _, moves := range r.Runs {
		old, current := rankOf(ranks[0], moves.From.Name), rankOf(ranks[1], moves.Name)
		r.Ranks = append(r.Ranks, report.RankShift{Run: moves.From.Name, Rescored: moves.Name,
			Before: old.Mean, RankBefore: old.Rank, After: current.Mean, RankAfter: current.Rank})
	}
	for i := range comparisons[1].Candidates {
		old, current := comparisons[0].Candidates[i], comparisons[1].Candidates[i]
		verdict := report.VerdictShift{Base: r.Runs[0].From.Name, Candidate: r.Runs[i+1].From.Name, Before: old.Verdict, After: current.Verdict, Incomparable: len(old.Incompatible) > 0}
		r.Verdicts = append(r.Verdicts, verdict)
		if current.Gate == nil {
			continue
		}
		for k, rule := range current.Gate.Rules {
			shift := report.GateShift{Candidate: verdict.Candidate, Rule: rule.Rule, Before: compare.Inconclusive, After: rule.Answer}
			if old.Gate != nil { // else they could not be compared
				shift.Before = old.Gate.Rules[k].Answer
			}
			r.Gates = append(r.Gates, shift)
		}
	}
	return nil
}

// subset is a run with only the items that keep accepts, by id.
type subset struct {
	compare.Source
	keep func(item string) bool
}

// Items yields the items that are left.
func (r subset) Items(ctx context.Context) iter.Seq2[compare.Item, error] {
	return stats.Filter(r.Source.Items(ctx), func(item compare.Item) bool { return r.keep(item.ID) })
}

// Outcomes yields the outcomes of the items that are left.
func (r subset) Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error] {
	return stats.Filter(r.Source.Outcomes(ctx), func(o outcome.Outcome) bool { return r.keep(o.Item) })
}

// restrict returns a run with the items that another run has, too.
func restrict(ctx context.Context, run, other compare.Source) (compare.Source, error) {
	items := map[string]bool{}
	for item, err := range other.Items(ctx) {
		if err != nil {
			return nil, err
		}
		items[item.ID] = true
	}
	return subset{run, func(item string) bool { return items[item] }}, nil
}

// rankOf returns the entry of a run in a leaderboard, or the zero value.
func rankOf(board compare.Leaderboard, run string) (found compare.Ranked) {
	for _, entry := range board.Runs {
		if entry.Summary.Run.Name == run {
			found = entry
		}
	}
	return found
}

// openCurrent opens the current version of a dataset in Langfuse, or a file. The caller closes lf.
func openCurrent(ctx context.Context, env cli.Env, name string) (cfg experiment.RescoreConfig, lf *settings.Langfuse, err error) {
	lf = &settings.Langfuse{}
	if !experiment.IsFile(name) {
		if lf, err = settings.Connect(ctx, env); err != nil {
			return cfg, nil, err
		}
	}
	cfg.Gold, err = experiment.Open(ctx, &lf.Langfuse, name)
	if pinned, ok := cfg.Gold.(*tracking.Dataset); ok {
		cfg.GoldVersion = pinned.Version()
	}
	return cfg, lf, cli.WithCode(cli.ExitUsage, err)
}

// isThere reports whether the run at path is what scoring from again as the run h would give.
func isThere(ctx context.Context, path string, h outcome.Header, from *runstore.Reader) bool {
	run, err := runstore.OpenAny(ctx, path)
	if err != nil {
		return false
	}
	defer run.Close()
	there, err := run.Header(ctx)
	footer, ended, errFooter := from.Footer(ctx)
	return errors.Join(err, errFooter) == nil && there.Rescored != nil && there.Rescored.RunUID == h.Rescored.RunUID &&
		ended && !there.Started.Before(footer.Ended) && len(compare.CompareScorers(there.Scorer, h.Scorer)) == 0
}

// addMoves adds the outcomes of a run and those of the run at path that was made of it.
func addMoves(ctx context.Context, moves *compare.Moves, from *runstore.Reader, path string) error {
	to, err := runstore.OpenAny(ctx, path)
	if err != nil {
		return err
	}
	defer to.Close() // it was only read
	for before, err := range from.Outcomes(ctx, runstore.Query{Newest: true}) {
		if err != nil {
			return err
		}
		same := runstore.Query{Newest: true, Item: before.Item, Trial: before.Trial}
		for after, err := range to.Outcomes(ctx, same) {
			if err != nil {
				return err
			}
			moves.Add(before, after)
		}
	}
	return nil
}

// checkRescore returns an error if the run, the new name or a flag cannot be used.
func checkRescore(c *urfave.Context, h outcome.Header, name string) error {
	if h.Harness != harness.Name && h.Harness != answers.Name {
		return cli.Usage("the run %q is of the harness %s, which is not scored again here", h.Name, h.Harness)
	}
	p := &settings.Problems{}
	settings.CheckRunName(p, "name", name)
	for _, flag := range []string{"options", "config"} {
		p.Add(h.Harness == answers.Name && c.IsSet(flag), "answers are scored in one way: leave --%s out", flag)
	}
	return cli.WithCode(cli.ExitUsage, p.Err())
}

// openEvaluators opens the evaluators of a configuration file; without a file there are none.
func openEvaluators(ctx context.Context, env cli.Env, path string) (system.Scorers, error) {
	if path == "" {
		return system.Scorers{}, nil
	}
	file, err := configs.Load(path)
	if err != nil {
		return system.Scorers{}, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	if len(file.Scorers) == 0 {
		return system.Scorers{}, cli.Usage("%s names no evaluators under scorers:", path)
	}
	opened, err := system.Opener{Env: env}.OpenScorers(ctx, file, path)
	if err != nil {
		return system.Scorers{}, err
	}
	return opened, opened.Check(ctx)
}
