package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// checkTable lists the settings of a check, which the configuration file has under check.
// The settings of its run are not among them.
func checkTable() []settings.Setting {
	return []settings.Setting{
		{Flag: "check-name", Usage: "`NAME` of the check; each check has one comment on a pull request (default: the dataset)"},
		{Flag: "base", Default: Baseline, Usage: "compare with `RUN`: a name, a file, langfuse:NAME, or 'latest branch=main'"},
		{Flag: "base-max-age", Usage: "warn if the base is older than `AGE`, such as 14d or 36h"},
		{Flag: "refresh-base", Usage: "if the base is over another version of the dataset, run it again, for at most `USD`"},
		{Flag: "gate", Many: true, Usage: GateUsage},
		{Flag: "inconclusive", Usage: InconclusiveUsage},
		{Flag: "fail-on", Default: "gate", Usage: "`WHEN` to fail after comparing: gate, worse (a failed gate, or a worse primary score) or never"},
		{Flag: "metric", Usage: "the primary `SCORE`, which decides (default: that of the runs)"},
		{Flag: "cluster-by", Usage: ClusterByUsage},
		{Flag: "comment", Default: "true", Usage: "`true|false`: post or update the comment on the pull request of the job"},
		{Flag: "comment-details", Switch: true, Usage: "also show texts of documents, gold and messages in the comment"},
		{Flag: "junit", Usage: "write the rules as JUnit to `FILE`"},
		{Flag: "html", Usage: "write the comparison to `FILE`, as a web page"},
	}
}

// ownFlags returns the flags of a run that a check sets itself.
func ownFlags() []string {
	return []string{"gate", "inconclusive", "html", "json", "quiet", "estimate"}
}

// CheckCommand returns the command experiment check. runTable lists the settings of a run,
// and run executes a command line of this program and returns its exit code.
func CheckCommand(env cli.Env, runTable []settings.Setting, run func(context.Context, cli.Env) int) *urfave.Command {
	runTable = slices.DeleteFunc(runTable, func(s settings.Setting) bool { return slices.Contains(ownFlags(), s.Flag) })
	return &urfave.Command{
		Name:      "check",
		Usage:     "run a change, compare it with the baseline, and judge it: the command for CI",
		UsageText: "experiment check --config experiment.yaml [flags of run]",
		Description: "Finds the base, runs the candidate, compares them, judges the rules, and writes the comment; it is posted if the job has a\n" +
			"pull request (docs/ci.md). The file has the settings of run, and under check: those below. Without a baseline, only the\n" +
			"rules about the candidate alone are judged.\n" +
			"Exit codes: 0 every rule passed; 1 a rule failed; 2 no such base, or not comparable; 4 more failed items than allowed,\n" +
			"or an evaluator without a score; 6 inconclusive, with --inconclusive 6; 69 Langfuse or the model cannot be reached.",
		Flags:  cli.Each(append(checkTable(), runTable...), settings.Setting.AsFlag),
		Action: settings.NoWords(func(c *urfave.Context) error { return checkAction(c, env, runTable, run) }),
	}
}

// check is the state of one check.
type check struct {
	env                 cli.Env
	baseEnv             cli.Env         // env without the variables that describe the candidate
	values              settings.Values // of checkTable
	runArgs             []string        // the command line of the candidate's run
	resumeArgs          []string        // the command line that resumes the check
	itemArgs, modelArgs []string        // see planRefresh
	run                 func(context.Context, cli.Env) int
	dataset             string
	candidate           string            // name of the candidate's run
	metadata            map[string]string // of the candidate's run
	cfg                 compare.Config
	refresh             *float64
	base                Base
	refused             error // why the candidate was stopped before it cost anything
	judged              bool  // the rules were judged
	report.Check
}

func checkAction(c *urfave.Context, env cli.Env, runTable []settings.Setting, run func(context.Context, cli.Env) int) error {
	k, err := newCheck(c, env, runTable)
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "%w", err)
	}
	k.run = run
	if c.Bool("dry-run") {
		return k.dryRun(c.Context)
	}
	failed, err := k.runCandidate(c.Context)
	if err == nil {
		err = k.judge(c.Context)
	}
	if err != nil && !k.judged {
		firstLine, _, _ := strings.Cut(err.Error(), "\n")
		k.NotJudged = strings.TrimSuffix(firstLine, ":")
		if c.Context.Err() != nil {
			k.NotJudged = "interrupted"
		}
	}
	return errors.Join(failed, err, k.publish(c.Context))
}

// newCheck reads the settings. The error has all mistakes in them.
func newCheck(c *urfave.Context, env cli.Env, runTable []settings.Setting) (*check, error) {
	file, path, err := configs.LoadGiven(c.String("config"), env.Getenv)
	if err != nil {
		return nil, err
	}
	runValues := settings.Resolve(c, runTable, env.Getenv, file.Lookup, path)
	k := &check{env: env, values: settings.Resolve(c, checkTable(), env.Getenv, file.Check.Lookup, path)}
	p := &settings.Problems{Values: k.values}
	k.dataset, k.candidate = runValues.Text("dataset"), runValues.Text("name")
	k.resumeArgs = env.Args
	if from := runValues["name"].From; k.candidate == "" || from == path {
		k.candidate = GeneratedName(cmp.Or(k.candidate, "check"))
		k.resumeArgs = slices.Concat(env.Args, []string{"--name", k.candidate})
		if runValues.On("resume") || !slices.Contains([]string{"", "false"}, runValues.Text("retry-failed")) {
			p.Add(true, "--resume and --retry-failed continue the run of --name: give its name")
		}
	}
	k.Commit = commit(c.Context, env.Getenv)
	k.metadata = Metadata(env.Getenv, ReadRevision())
	maps.Copy(k.metadata, p.Pairs("metadata", runValues.All("metadata")))
	p.Add(k.dataset == "",
		"--dataset is missing: name a dataset in Langfuse or a file of items; extraction-eval is the built-in one")
	p.Add(len(file.Matrix) > 0, "a check runs one candidate, and not a sweep")
	for _, flag := range experiment.SweepFlags() {
		if value := runValues.Text(flag); strings.Contains(value, ",") {
			p.Add(true, "a check runs one candidate, and not a sweep: --%s is %s", flag, value)
		}
	}
	k.Name, k.Details = cmp.Or(k.values.Text("check-name"), k.dataset), p.Switch(k.values, "comment-details")
	p.Switch(k.values, "comment")
	on := k.values.Text("fail-on")
	p.Add(!slices.Contains([]string{"gate", "worse", "never"}, on),
		"--fail-on: %q is not one of gate, worse, never", on)
	_, err = ParseAge("base-max-age", k.values.Text("base-max-age"))
	p.Join(err)
	k.refresh = p.Number("refresh-base", k.values.Text("refresh-base"), 0, 1e6)
	k.cfg = Comparison()
	k.readGate(p, file.Scorers)
	junit, page := k.values.Text("junit"), k.values.Text("html")
	read := append(k.values.All("gate"), k.values.Text("base"), k.dataset, path, runValues.Text("prompt-file"),
		runValues.Text("model"), BaselineFile)
	p.Join(CanWriteFile("--junit", junit, read...))
	p.Join(CanWriteFile("--html", page, read...))
	p.Join(CheckOutputs(runValues.Text("output"), runValues.Text("record"), junit, page))
	k.runArgs = []string{"run", "--name=" + k.candidate}
	for _, s := range runTable {
		if s.Flag != "name" && runValues[s.Flag].From == settings.FromFlag {
			k.runArgs = append(k.runArgs, argsOf(runValues, s.Flag)...)
		}
	}
	k.planRefresh(runTable, runValues)
	return k, p.Err()
}

// readGate reads the rules and the metric, and refuses what the run cannot decide before it costs
// anything.
func (c *check) readGate(p *settings.Problems, scorers []configs.Scorer) {
	gate, metric, err := ReadGate(c.values.All("gate"), c.values.Text("metric"), c.values.Text("inconclusive"))
	p.Join(err)
	c.cfg.Gate, c.cfg.Metric, c.cfg.ClusterBy = gate, metric, c.values.Text("cluster-by")
	c.cfg.Seed, c.cfg.MaxChanged = 1, compare.MaxRegressed
	scores := slices.Concat(ExtractionScores(), []string{outcome.ErrorScore},
		cli.Each(scorers, func(s configs.Scorer) string { return s.Name }))
	p.Join(gate.Check(), CheckMinDelta(gate.MinDelta), gate.CheckScores(scores))
	if m := c.cfg.Metric; m != "" && !slices.Contains(scores, m) {
		p.Add(true, "--metric: there is no score %q; there are: %s", m, textutil.Listed(m, scores))
	}
}

// argsOf returns the values of flags as arguments.
func argsOf(values settings.Values, flags ...string) (args []string) {
	for _, flag := range flags {
		for _, word := range values.All(flag) {
			args = append(args, "--"+flag+"="+word)
		}
	}
	return args
}

// command runs a command line of this program and returns its exit code. The context does
// not stop it: it handles signals itself.
func (c *check) command(ctx context.Context, env cli.Env, out io.Writer, args []string) int {
	env.Args, env.Resume, env.Stdout = args, c.resumeArgs, out
	return c.run(context.WithoutCancel(ctx), env)
}

func (c *check) finder() Finder {
	return Finder{Env: c.env, Dataset: c.dataset, Except: []string{c.candidate}, Own: c.metadata}
}

// dryRun prints what the check would do.
func (c *check) dryRun(ctx context.Context) error {
	base, err := c.findBase(ctx)
	baseText := base.Header.Name + ", " + base.Age(time.Now())
	if c.NotCompared != "" {
		baseText = "none: " + c.NotCompared
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	printRow := func(label, value string) { fmt.Fprintf(&text, "%-17s%s\n", label, textutil.Line(value)) }
	printRow("check", c.Name)
	printRow("candidate", c.candidate)
	printRow("base", baseText)
	for _, rule := range c.rules() {
		printRow("rule", rule.Text)
	}
	for _, s := range checkTable() {
		if value := c.values[s.Flag]; len(value.Words) > 0 && !slices.Contains([]string{"check-name", "base", "gate"}, s.Flag) {
			printRow(s.Flag, strings.Join(value.Words, " ")+" ("+value.From+")")
		}
	}
	text.WriteString("\n")
	var run bytes.Buffer
	if code := c.command(ctx, c.env, &run, c.runArgs); code != cli.ExitOK {
		return cli.Errorf(code, "the run could not be started")
	}
	for line := range strings.Lines(run.String()) {
		flag, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		ofRun := slices.Contains([]string{"gate", "inconclusive"}, flag) && !strings.HasSuffix(rest, settings.NotSet)
		if ofRun || !slices.Contains(append(ownFlags(), "name"), flag) {
			text.WriteString(line)
		}
	}
	return PrintText(c.env, false, nil, text.String())
}

// rules returns the rules of the gate; a limit of it that is no rule has a text only.
func (c *check) rules() []compare.Rule {
	var limits []compare.Rule
	if least := c.cfg.Gate.MinDelta; least != nil {
		limits = append(limits, compare.Rule{Text: fmt.Sprintf("min-delta %v", *least), Relative: true})
	}
	if most := c.cfg.Gate.MaxRegressions; most != nil {
		limits = append(limits, compare.Rule{Text: fmt.Sprintf("max-regressions %d", *most), Relative: true})
	}
	return append(limits, c.cfg.Gate.Rules...)
}

// findBase finds the base. Without one, it sets NotCompared.
func (c *check) findBase(ctx context.Context) (Base, error) {
	base, err := c.finder().Find(ctx, c.values.Text("base"))
	switch {
	case errors.Is(err, errNoBaseline):
		c.NotCompared = "no baseline is configured; experiment baseline set RUN sets one"
		return base, nil
	case errors.Is(err, errFirstRun):
		c.NotCompared = err.Error()
		return base, nil
	case err != nil:
		return base, err
	}
	return base, base.CheckComplete()
}

// runCandidate finds the base, before the run costs anything, and runs the candidate. If the run
// failed but can be judged, failed says why.
func (c *check) runCandidate(ctx context.Context) (failed, err error) {
	if c.base, err = c.findBase(ctx); err != nil {
		return nil, err
	}
	env := c.env
	env.Accepts = func(ctx context.Context, path string) error {
		if c.refused = c.accepts(ctx, path); c.Comparison != nil { // the check lists the reasons, and not the run
			return cli.Errorf(cli.ExitCode(c.refused), "the candidate %s is not run", c.candidate)
		}
		return c.refused
	}
	code := c.command(ctx, env, io.Discard, c.runArgs)
	why := map[int]string{
		cli.ExitFailures:     "more items failed than --max-failures allows, or an evaluator gave no score",
		cli.ExitGate:         "it does not pass its own gate",
		cli.ExitInconclusive: "its own gate is inconclusive",
	}[code]
	switch {
	case code == cli.ExitOK:
		return nil, nil
	case c.Comparison != nil:
		return nil, c.refused
	case c.refused != nil:
		return nil, cli.Errorf(code, "the candidate %s cannot be judged: %w", c.candidate, c.refused)
	case why == "":
		return nil, cli.Errorf(code, "the candidate %s was not judged: its run ended with exit code %d; the log says why",
			c.candidate, code)
	case code != cli.ExitFailures && c.values.Text("fail-on") == "never":
		return nil, nil
	}
	failed = cli.Errorf(code, "the run of the candidate %s ended with exit code %d: %s", c.candidate, code, why)
	c.RunFailed = failed.Error()
	return failed, nil
}

// accepts returns an error if the candidate, whose items are listed, could not be judged.
func (c *check) accepts(ctx context.Context, path string) (err error) {
	names, clustered := []string{path}, c.cfg.ClusterBy != ""
	if base := c.base.Named; clustered && base != "" && !strings.HasPrefix(base, InLangfuse) {
		names = append(names, base)
	}
	sources, done, err := Sources(ctx, c.env, names, "", clustered)
	defer func() { err = errors.Join(err, done()) }()
	if err == nil && clustered {
		err = c.cfg.CheckClusters(ctx, sources...)
	}
	if err != nil || c.base.Named == "" || c.base.latest {
		return err
	}
	return c.checkComparable(ctx, sources[0])
}

// judge compares the candidate with the base and judges every rule.
func (c *check) judge(ctx context.Context) error {
	if c.base.Named == "" {
		return c.judgeCandidate(ctx)
	}
	if c.refresh != nil {
		if err := c.refreshBase(ctx); err != nil {
			return err
		}
	}
	return c.compare(ctx)
}

// judgeCandidate judges only the rules that need no base.
func (c *check) judgeCandidate(ctx context.Context) error {
	run, err := Open(ctx, c.candidate, c.dataset)
	if err != nil {
		return err
	}
	c.Candidate, err = Summarise(ctx, run)
	if err = errors.Join(err, run.Close()); err != nil {
		return err
	}
	gate := compare.Gate{Inconclusive: c.cfg.Gate.Inconclusive}
	for _, rule := range c.rules() {
		if rule.Relative {
			c.LeftOut = append(c.LeftOut, rule.Text)
		} else {
			gate.Rules = append(gate.Rules, rule)
		}
	}
	c.Gate, err = gate.JudgeRun(c.Candidate)
	if c.judged = err == nil; err != nil || c.values.Text("fail-on") == "never" {
		return err
	}
	return c.Gate.Err(c.candidate)
}

// compare compares the candidate with the base and judges every rule.
func (c *check) compare(ctx context.Context) (err error) {
	path, err := Find(ctx, c.candidate, c.dataset)
	if err != nil {
		return err
	}
	sources, done, err := Sources(ctx, c.env, []string{c.base.Named, path}, c.base.Header.Dataset.Name, c.cfg.ClusterBy != "")
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	result, err := c.cfg.Compare(ctx, sources[0], sources[1:]...)
	if err != nil {
		return err
	}
	WarnOfAge(&result, c.values.Text("base-max-age"))
	c.adviseRefresh(result.Candidates[0].Incompatible)
	c.Comparison, c.Candidate, c.Base = &result, result.Candidates[0].Candidate.Summary, c.base.Header.Name+", "+c.base.Age(time.Now())
	c.Gate = result.Candidates[0].Gate
	c.addLinks(ctx)
	err, candidate := result.Err(), result.Candidates[0]
	c.judged = len(candidate.Incompatible) == 0
	switch failOn := c.values.Text("fail-on"); {
	case failOn == "never" && c.judged:
		err = nil
	case failOn == "worse" && err == nil && candidate.Verdict == compare.Worse:
		err = cli.Errorf(cli.ExitGate, "%s is worse than the base", c.candidate)
		c.RunFailed = strings.TrimPrefix(c.RunFailed+"; "+err.Error(), "; ")
	}
	return errors.Join(WriteComparison(ctx, c.values.Text("html"), result, sources), err)
}

// addLinks adds links to the job and to the comparison in Langfuse, if they are known.
func (c *check) addLinks(ctx context.Context) {
	if job := c.metadata[metaJobURL]; job != "" {
		c.Links = append(c.Links, report.Link{Title: "job and report", URL: job})
	}
	lf, err := settings.Connect(ctx, c.env)
	if err != nil {
		return
	}
	defer lf.Close()
	dataset := c.base.Header.Dataset.ID
	if lf.Embedded || dataset == "" {
		return
	}
	var ids []string
	for _, name := range []string{c.base.Header.Name, c.candidate} {
		id, err := lf.Client.RunID(ctx, lf.Server, langfuse.RunRef{DatasetID: dataset, Name: name})
		if err != nil {
			return
		}
		ids = append(ids, id)
	}
	address := langfuse.CompareURL(lf.Client.BaseURL(), lf.Server.Project.ID, dataset, ids...)
	c.Links = append(c.Links, report.Link{Title: "comparison in Langfuse", URL: address})
}

// publish prints the comment, writes it to the step summary, writes the JUnit file, and in a
// CI job posts the comment. If it cannot be posted, publish only prints a warning.
func (c *check) publish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	marker := commentMarker(c.Name)
	body := c.Comment(marker, commentLimit)
	err := errors.Join(PrintText(c.env, false, nil, body), StepSummary(c.env, func(w io.Writer) error {
		_, err := io.WriteString(w, body)
		return err
	}))
	err = errors.Join(err, cli.WriteFile(c.values.Text("junit"), c.JUnit))
	inJob := c.env.Getenv("GITHUB_ACTIONS") == "true" || c.env.Getenv("GITLAB_CI") == "true"
	if !inJob || !c.values.On("comment") {
		return err
	}
	if action, commentErr := Comment(ctx, c.env.Getenv, body, marker); commentErr != nil {
		fmt.Fprintf(c.env.Stderr, "warning: the comment was not posted, it is printed above: %s\n",
			textutil.Line(commentErr.Error()))
	} else {
		fmt.Fprintf(c.env.Stderr, "the comment was %s\n", action)
	}
	return err
}
