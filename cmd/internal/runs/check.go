package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/report"
)

// checkTable lists the settings of a check beside those of its run, which are in the
// file under check.
func checkTable() []settings.Setting {
	return []settings.Setting{
		{Flag: "check-name", Usage: "`NAME` of the check; each check has one comment on a pull request (default: the dataset)"},
		{Flag: "base", Default: Baseline, Usage: "compare with `RUN`: a name, a file, langfuse:NAME, or 'latest branch=main'"},
		{Flag: "base-max-age", Usage: "warn if the base is older than `AGE`, such as 14d or 36h"},
		{Flag: "refresh-base", Usage: "if the base is over another version of the dataset, run it again, for at most `USD`"},
		{Flag: "gate", Many: true, Usage: "judge by `RULE|FILE`, a rule or a YAML file of rules; may be repeated"},
		{Flag: "inconclusive", Usage: "count an inconclusive rule as `fail|pass|6`; 6 is an exit code of its own (default: fail)"},
		{Flag: "fail-on", Default: "gate", Usage: "`WHEN` to fail after comparing: gate, worse (a failed gate, or a worse primary score) or never"},
		{Flag: "metric", Usage: "the primary `SCORE`, which decides (default: that of the runs)"},
		{Flag: "cluster-by", Usage: "treat items with the same value of `KEY` in their metadata as dependent, since they share a source"},
		{Flag: "comment", Default: "true", Usage: "`true|false`: post or update the comment on the pull request of the job"},
		{Flag: "comment-details", Switch: true, Usage: "also show texts of documents, gold and messages in the comment"},
		{Flag: "junit", Usage: "write the rules as JUnit to `FILE`"},
		{Flag: "html", Usage: "write the comparison to `FILE`, as a web page"},
	}
}

// CheckCommand is experiment check. runTable lists the settings of a run, and run carries
// out a command line of the program.
func CheckCommand(env cli.Env, runTable []settings.Setting, run func(context.Context, cli.Env) int) *urfave.Command {
	// The check decides these.
	own := []string{"gate", "inconclusive", "html", "json", "quiet", "estimate"}
	runTable = slices.DeleteFunc(runTable, func(s settings.Setting) bool { return slices.Contains(own, s.Flag) })
	return &urfave.Command{
		Name:      "check",
		Usage:     "run a change, compare it with the baseline, and judge it: the command for CI",
		UsageText: "experiment check --config experiment.yaml [flags of run]",
		Description: "Finds the base, runs the candidate, compares them, judges the rules, and writes the comment; it is posted if the job has a\n" +
			"pull request (docs/ci.md). The file has the settings of run, and under check: those below. Without a baseline, only the\n" +
			"rules about the candidate alone are judged.\n" +
			"Exit codes: 0 every rule passed; 1 a rule failed; 2 no such base, or not comparable; 4 more failed items than allowed;\n" +
			"6 inconclusive, with --inconclusive 6; 69 Langfuse or the model cannot be reached.",
		Flags:  cli.Each(append(checkTable(), runTable...), settings.Setting.AsFlag),
		Action: settings.NoWords(func(c *urfave.Context) error { return checkAction(c, env, runTable, run) }),
	}
}

// check is one check on its way.
type check struct {
	env       cli.Env
	values    settings.Values // of the check
	line      []string        // the command line of the run
	run       func(context.Context, cli.Env) int
	dataset   string
	candidate string            // name of the run
	metadata  map[string]string // of the run
	cfg       compare.Config
	maxAge    time.Duration
	refresh   *float64
	base      Base
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
	judged := k.judge(c.Context)
	switch cli.ExitCode(judged) {
	case cli.ExitOK, cli.ExitGate, cli.ExitInconclusive, cli.ExitFailures, cli.ExitIO:
	default:
		line, _, _ := strings.Cut(judged.Error(), "\n")
		k.NotJudged = strings.TrimSuffix(line, ":")
		if c.Context.Err() != nil {
			k.NotJudged = "interrupted"
		}
	}
	return errors.Join(judged, k.tell(c.Context))
}

// newCheck reads the settings and finds every problem of them at once.
func newCheck(c *urfave.Context, env cli.Env, runTable []settings.Setting) (*check, error) {
	file, path, err := configs.LoadGiven(c.String("config"), env.Getenv)
	if err != nil {
		return nil, err
	}
	runValues := settings.Resolve(c, runTable, env.Getenv, file.Lookup, path)
	k := &check{env: env, values: settings.Resolve(c, checkTable(), env.Getenv, file.Check.Lookup, path)}
	p := &settings.Problems{Values: k.values}
	k.dataset, k.candidate = runValues.Text("dataset"), runValues.Text("name")
	if from := runValues["name"].From; k.candidate == "" || from == path {
		k.candidate = MadeName(cmp.Or(k.candidate, "check"))
		if runValues.On("resume") || !slices.Contains([]string{"", "false"}, runValues.Text("retry-failed")) {
			p.Add("--resume and --retry-failed continue the run of --name: give its name")
		}
	}
	k.metadata = Metadata(env.Getenv, ReadRevision())
	maps.Copy(k.metadata, p.Pairs("metadata", runValues.All("metadata")))
	if k.dataset == "" {
		p.Add("--dataset is missing: name a dataset in Langfuse or a file of items; extraction-eval is the built-in one")
	}
	if strings.Contains(runValues.Text("model"), ",") || len(file.Matrix) > 0 {
		p.Add("a check runs one candidate, and not a sweep")
	}
	k.Name, k.Details = cmp.Or(k.values.Text("check-name"), k.dataset), p.Switch(k.values, "comment-details")
	p.Switch(k.values, "comment")
	if on := k.values.Text("fail-on"); !slices.Contains([]string{"gate", "worse", "never"}, on) {
		p.Add("--fail-on: %q is not one of gate, worse, never", on)
	}
	k.maxAge, err = ParseAge(k.values.Text("base-max-age"))
	p.Join(err)
	k.refresh = p.Number("refresh-base", k.values.Text("refresh-base"), 0, 1e6)
	k.cfg = Comparison()
	gate, metric, err := ReadGate(k.values.All("gate"), k.values.Text("inconclusive"))
	p.Join(err)
	k.cfg.Gate, k.cfg.Metric, k.cfg.ClusterBy = gate, cmp.Or(k.values.Text("metric"), metric), k.values.Text("cluster-by")
	k.cfg.Seed, k.cfg.Changed = 1, compare.MaxRegressed
	p.Join(k.cfg.Gate.Check())
	for _, flag := range []string{"junit", "html"} {
		if out := k.values.Text(flag); out != "" {
			p.Join(cli.CanWrite(out))
		}
	}
	k.line = runLine(c, runTable, k.candidate)
	return k, p.Err()
}

// runLine is the command line of the run: what was given to the check.
func runLine(c *urfave.Context, runTable []settings.Setting, name string) []string {
	line := []string{"run", "--name=" + name}
	for _, s := range runTable {
		switch {
		case !c.IsSet(s.Flag) || s.Flag == "name":
		case s.Many:
			for _, word := range c.StringSlice(s.Flag) {
				line = append(line, "--"+s.Flag+"="+word)
			}
		default:
			line = append(line, "--"+s.Flag+"="+c.String(s.Flag))
		}
	}
	return line
}

// carryOut runs a command line of this program, which stops by itself at a signal.
func (k *check) carryOut(ctx context.Context, out io.Writer, line []string) int {
	env := k.env
	env.Args, env.Stdout = line, out
	return k.run(context.WithoutCancel(ctx), env)
}

func (k *check) finder() Finder {
	return Finder{Env: k.env, Dataset: k.dataset, Except: []string{k.candidate}, Own: k.metadata}
}

// dryRun says what would be done.
func (k *check) dryRun(ctx context.Context) error {
	base, err := k.finder().Find(ctx, k.values.Text("base"))
	found := base.Header.Name + ", " + base.Age(time.Now())
	if errors.Is(err, errNoBaseline) || errors.Is(err, errFirst) {
		found, err = "none: "+err.Error(), nil
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	says := func(what, is string) { fmt.Fprintf(&text, "%-10s%s\n", what, textutil.Line(is)) }
	says("check", k.Name)
	says("candidate", k.candidate)
	says("base", found)
	for _, rule := range k.cfg.Gate.Rules {
		says("rule", rule.Text)
	}
	says("comment", k.values.Text("comment"))
	says("fail-on", k.values.Text("fail-on"))
	if err := PrintText(k.env, false, nil, text.String()); err != nil {
		return err
	}
	if code := k.carryOut(ctx, k.env.Stdout, k.line); code != cli.ExitOK {
		return cli.Errorf(code, "the run could not be started")
	}
	return nil
}

// judge runs the candidate, and compares and judges it. The base is looked for before
// anything is paid for.
func (k *check) judge(ctx context.Context) error {
	base, err := k.finder().Find(ctx, k.values.Text("base"))
	switch {
	case errors.Is(err, errNoBaseline):
		k.NotCompared = "no baseline is configured; experiment baseline set RUN sets one"
	case errors.Is(err, errFirst):
		k.NotCompared = err.Error()
	case err != nil:
		return err
	}
	k.base = base
	var failures error
	switch code := k.carryOut(ctx, io.Discard, k.line); code {
	case cli.ExitOK:
	case cli.ExitFailures, cli.ExitGate:
		failures = cli.Errorf(code, "the run of the candidate %s ended with exit code %d", k.candidate, code)
	default:
		return cli.Errorf(code, "the candidate %s was not judged: its run ended with exit code %d; the log says why",
			k.candidate, code)
	}
	judge := k.compare
	if base.Named == "" {
		judge = k.alone
	} else if k.refresh != nil {
		if err := k.refreshed(ctx); err != nil {
			return errors.Join(failures, err)
		}
	}
	return errors.Join(failures, judge(ctx))
}

// alone judges the rules about the candidate by itself.
func (k *check) alone(ctx context.Context) error {
	run, err := Open(ctx, k.candidate, k.dataset)
	if err != nil {
		return err
	}
	k.Candidate, err = Summarise(ctx, run)
	if err = errors.Join(err, run.Close()); err != nil {
		return err
	}
	gate := compare.Gate{Inconclusive: k.cfg.Gate.Inconclusive}
	for _, rule := range k.cfg.Gate.Rules {
		if rule.Relative {
			k.LeftOut = append(k.LeftOut, rule.Text)
		} else {
			gate.Rules = append(gate.Rules, rule)
		}
	}
	if k.cfg.Gate.MinDelta != nil {
		k.LeftOut = append(k.LeftOut, "min_delta")
	}
	if k.cfg.Gate.MaxRegressions != nil {
		k.LeftOut = append(k.LeftOut, "max_regressions")
	}
	if k.Gate, err = gate.JudgeRun(k.Candidate); err != nil || k.values.Text("fail-on") == "never" {
		return err
	}
	return k.Gate.Err(k.candidate)
}

// compare compares the candidate with the base, and judges every rule.
func (k *check) compare(ctx context.Context) (err error) {
	path, err := Find(ctx, k.candidate, k.dataset)
	if err != nil {
		return err
	}
	sources, done, err := Sources(ctx, k.env, []string{k.base.Named, path}, k.base.Header.Dataset.Name, k.cfg.ClusterBy != "")
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	result, err := k.cfg.Compare(ctx, sources[0], sources[1:]...)
	if err != nil {
		return err
	}
	WarnOfAge(&result, k.maxAge)
	k.Comparison, k.Candidate, k.Base = &result, result.Candidates[0].Candidate.Summary, k.base.Header.Name+", "+k.base.Age(time.Now())
	k.Gate = result.Candidates[0].Gate
	k.link(ctx)
	failed, candidate := result.Err(), result.Candidates[0]
	switch on := k.values.Text("fail-on"); {
	case on == "never" && len(candidate.Incompatible) == 0:
		failed = nil
	case on == "worse" && failed == nil && candidate.Verdict == compare.Worse:
		failed = cli.Errorf(cli.ExitGate, "%s is worse than the base", k.candidate)
	}
	return errors.Join(WriteComparison(ctx, k.values.Text("html"), result, sources), failed)
}

// refreshed runs the base again over the items of the candidate, where those are others,
// if what the base was is known from its header alone and costs no more than allowed.
func (k *check) refreshed(ctx context.Context) error {
	candidate, err := k.finder().Find(ctx, k.candidate)
	h := k.base.Header
	if err != nil || h.Dataset.Fingerprint == candidate.Header.Dataset.Fingerprint {
		return err
	}
	refuse := func(format string, args ...any) error {
		return cli.Errorf(cli.ExitIncompatible, "--refresh-base: the base %s %s", h.Name, fmt.Sprintf(format, args...))
	}
	if h.System.Provider == provider.ExternalName || h.System.Pipeline == provider.Recorded || h.Dataset.Selection != "" {
		return refuse("is of a pipeline, or of a selection of items: check out %s and run it", cmp.Or(h.GitSHA, "its revision"))
	}
	name, model := MadeName(h.Name+"-refreshed"), h.System.Model
	if h.System.Provider != model { // the baseline is both
		model = h.System.Provider + "/" + model
	}
	line := []string{"run", "--quiet", "--dataset=" + k.dataset, "--name=" + name, "--model=" + model}
	if p := h.System.Prompt; p.Name != "" {
		line = append(line, "--prompt="+p.Name, fmt.Sprintf("--prompt-version=%d", p.Version))
	}
	line = slices.Concat(line, given("temperature", h.System.Temperature), given("top-p", h.System.TopP),
		given("max-tokens", h.System.MaxTokens), given("seed", h.System.Seed))
	var out bytes.Buffer
	var e report.Estimate
	if code := k.carryOut(ctx, &out, append(slices.Clone(line), "--estimate", "--json")); code != cli.ExitOK {
		return cli.Errorf(code, "--refresh-base: what running %s again costs is not known", h.Name)
	}
	if err := json.Unmarshal(out.Bytes(), &e); err != nil {
		return err
	}
	switch {
	case !e.Asks:
	case e.CostUSD == nil:
		return refuse("has an unknown cost, as the model has no price, and %g USD are allowed", *k.refresh)
	case *e.CostUSD > *k.refresh:
		return refuse("would cost %.2f USD, and %g USD are allowed", *e.CostUSD, *k.refresh)
	default:
		line = append(line, given("budget-usd", k.refresh)...)
	}
	if code := k.carryOut(ctx, io.Discard, line); code != cli.ExitOK {
		return cli.Errorf(code, "--refresh-base: the run %s ended with exit code %d", name, code)
	}
	k.base, err = k.finder().Find(ctx, name)
	if now := k.base.Header.System; err == nil && (now.Prompt.SHA256 != h.System.Prompt.SHA256 || now.Pipeline != h.System.Pipeline) {
		return refuse("had other settings, or another prompt than Langfuse has now")
	}
	return err
}

// given is a flag with the value that a run had; nothing for none.
func given[T any](flag string, value *T) []string {
	if value == nil {
		return nil
	}
	return []string{fmt.Sprintf("--%s=%v", flag, *value)}
}

// link adds the addresses where more is to be seen. What cannot be found out is left out.
func (k *check) link(ctx context.Context) {
	if job := Metadata(k.env.Getenv, Revision{})[metaJobURL]; job != "" {
		k.Links = append(k.Links, report.Link{Title: "job and report", URL: job})
	}
	lf, err := settings.Connect(ctx, k.env.Getenv)
	if err != nil {
		return
	}
	defer lf.Close()
	dataset, err := lf.Client.GetDataset(ctx, k.dataset)
	if lf.Embedded || err != nil {
		return
	}
	var ids []string
	for _, name := range []string{k.base.Header.Name, k.candidate} {
		id, err := lf.Client.RunID(ctx, lf.Server, langfuse.RunRef{DatasetID: dataset.ID, Name: name})
		if err != nil {
			return
		}
		ids = append(ids, id)
	}
	address := langfuse.CompareURL(lf.Client.BaseURL(), lf.Server.Project.ID, dataset.ID, ids...)
	k.Links = append(k.Links, report.Link{Title: "comparison in Langfuse", URL: address})
}

// WarnOfAge warns of a base that is older than it may be.
func WarnOfAge(result *compare.Comparison, most time.Duration) {
	base := result.Base.Summary.Run
	age := time.Since(base.Started)
	if most <= 0 || age <= most || base.Started.IsZero() {
		return
	}
	old := fmt.Sprintf("the base %s is %s old, more than %s: take a newer one", base.Name, ageWords(age), ageWords(most))
	for i := range result.Candidates {
		result.Candidates[i].Warnings = append(result.Candidates[i].Warnings, old)
	}
}

// tell prints the comment, and puts it where CI shows it. That it cannot be posted is
// a warning: the result stands.
func (k *check) tell(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	marker := Marker(k.Name)
	body := k.Comment(marker, commentLimit)
	problem := errors.Join(PrintText(k.env, false, nil, body), StepSummary(k.env, func(w io.Writer) error {
		_, err := io.WriteString(w, body)
		return err
	}))
	if path := k.values.Text("junit"); path != "" {
		problem = errors.Join(problem, cli.WriteFile(path, func(w io.Writer) error { return cli.Written(k.JUnit(w)) }))
	}
	inJob := k.env.Getenv("GITHUB_ACTIONS") == "true" || k.env.Getenv("GITLAB_CI") == "true"
	if !inJob || !k.values.On("comment") {
		return problem
	}
	if done, err := Comment(ctx, k.env.Getenv, body, marker); err != nil {
		fmt.Fprintf(k.env.Stderr, "warning: the comment was not posted, it is printed above: %s\n", textutil.Line(err.Error()))
	} else {
		fmt.Fprintf(k.env.Stderr, "the comment was %s\n", done)
	}
	return problem
}
