package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

const (
	// BaselineFile names the base of comparisons for each dataset: a name, a file,
	// langfuse:NAME, or a rule like "latest branch=main".
	BaselineFile = "baselines.yaml"
	// Baseline stands for the run that BaselineFile names.
	Baseline = "@baseline"
	// latest is the first word of a rule.
	latest = "latest"
	// maxReadRuns bounds the runs in Langfuse that are read to find a complete one.
	maxReadRuns = 20
)

// errNoBaseline is the error for a dataset without a baseline.
var errNoBaseline = errors.New("no baseline is configured")

// ReadBaselines returns the entries of BaselineFile in this folder by dataset. Without the
// file the map is empty. The file may name a dataset file by its path; the key is then
// experiment.DatasetName of it.
func ReadBaselines(ctx context.Context) (map[string]string, error) {
	parsed, baselines := map[string]string{}, map[string]string{}
	text, err := files.Read(ctx, BaselineFile, files.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		return baselines, nil
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, "reading %s: %w", BaselineFile, err)
	}
	if err := textutil.DecodeYAML(text, BaselineFile, &parsed); err != nil {
		return nil, cli.Usage("%w", err)
	}
	for dataset, word := range parsed {
		baselines[experiment.DatasetName(dataset)] = word
	}
	return baselines, nil
}

// SetBaseline reads BaselineFile, sets the baseline of a dataset, or removes it if word is
// "", and writes the file. Of two concurrent calls, one may be lost.
func SetBaseline(ctx context.Context, dataset, word string) error {
	baselines, err := ReadBaselines(ctx)
	if err != nil {
		return err
	}
	if baselines[dataset] = word; word == "" {
		delete(baselines, dataset)
	}
	raw, err := yaml.Marshal(baselines)
	if err != nil {
		return fmt.Errorf("writing %s: %w", BaselineFile, err)
	}
	return cli.WriteFile(BaselineFile, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "# The run that others are compared with, by dataset; experiment baseline writes it.\n%s", raw)
		return cli.WriteError(err)
	})
}

// errFirstRun is the error if no run matches a rule, but the candidate will.
var errFirstRun = errors.New("this is the first such run")

// Base is the run that Finder found for a name or a rule.
type Base struct {
	Named  string // for Sources; empty if there is no run
	Header outcome.Header
	status outcome.Status
	scored bool // the run is complete and has a scored item
	latest bool // found by a rule that the candidate may match too, and be the next base
}

// CheckComplete returns an error of exit code 2 for a run that is not complete.
func (b Base) CheckComplete() error {
	if b.status == outcome.Complete {
		return nil
	}
	return cli.Errorf(cli.ExitIncompatible, "the base %s is not complete (%s): %s, or take another run",
		b.Header.Name, b.status, compare.FinishAdvice(b.status))
}

// Age describes the age of the base at the time now and the version of its dataset.
func (b Base) Age(now time.Time) string {
	text := "no time known"
	if !b.Header.Started.IsZero() {
		text = formatAge(now.Sub(b.Header.Started)) + " old"
	}
	if v := b.Header.Dataset.Version; v != "" {
		text += ", dataset version " + v
	}
	return text
}

// formatAge formats an age in whole days, or below two days in whole hours.
func formatAge(age time.Duration) string {
	if age < 48*time.Hour {
		return textutil.Counted(int(max(0, age).Hours()), "hour")
	}
	return textutil.Counted(int(age.Hours()/24), "day")
}

// ParseAge parses the age that a flag has, like 14d or 36h; "" gives 0. An error has exit code 64.
func ParseAge(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		age = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || age <= 0 {
		return 0, cli.Usage("--%s: %q is not a time such as 14d or 36h", flag, text)
	}
	return age, nil
}

// WarnOfAge adds a warning to every candidate if the base is older than limit, an age that
// ParseAge accepts; "" means no limit.
func WarnOfAge(result *compare.Comparison, limit string) {
	base := result.Base.Summary.Run
	maxAge, _ := ParseAge("", limit)
	if maxAge <= 0 || time.Since(base.Started) <= maxAge || base.Started.IsZero() {
		return
	}
	warning := fmt.Sprintf("the base %s is older than %s: take a newer one", base.Name, limit)
	for i := range result.Candidates {
		result.Candidates[i].Warnings = append(result.Candidates[i].Warnings, warning)
	}
}

// IsRule reports whether word is Baseline or a rule, instead of the name of a run.
func IsRule(word string) bool {
	return word == Baseline || word == latest || strings.HasPrefix(word, latest+" ")
}

// Finder finds the base for runs of a dataset.
type Finder struct {
	Env     cli.Env
	Dataset string            // a name or a file
	Except  []string          // names of runs that a rule does not match
	Own     map[string]string // the metadata of the candidate; nil if it has run already
}

// Find finds the run of a name or a rule in this folder and in Langfuse. Errors are
// errNoBaseline and errFirstRun; the exit code is 2 if the configured run does not exist,
// and 69 if Langfuse cannot be reached.
func (f Finder) Find(ctx context.Context, word string) (Base, error) {
	f.Dataset = experiment.DatasetName(f.Dataset)
	if word == Baseline {
		baselines, err := ReadBaselines(ctx)
		if err != nil {
			return Base{}, err
		}
		if word = baselines[f.Dataset]; word == "" || word == Baseline {
			return Base{}, cli.Usage("%w for dataset %q: experiment baseline set RUN sets one", errNoBaseline, f.Dataset)
		}
	}
	if IsRule(word) {
		return f.latest(ctx, word)
	}
	if name, remote := strings.CutPrefix(word, InLangfuse); remote {
		return f.remote(ctx, name)
	}
	path, err := Find(ctx, word, f.Dataset)
	if err != nil {
		if base, remote := f.remote(ctx, word); remote == nil || cli.ExitCode(remote) != cli.ExitIncompatible {
			return base, remote
		}
		return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: %w, and no run of that name in Langfuse", word, err)
	}
	return Named(ctx, f.Env, path, f.Dataset)
}

// Named returns the run that Sources opens for this name, with its header.
func Named(ctx context.Context, env cli.Env, named, dataset string) (base Base, err error) {
	sources, done, err := Sources(ctx, env, []string{named}, dataset, false)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return Base{}, err
	}
	base.Named = named
	if base.Header, err = sources[0].Header(ctx); err != nil {
		return base, err
	}
	footer, _, err := sources[0].Footer(ctx)
	base.status = cmp.Or(footer.Status, outcome.Unfinished)
	if err != nil || base.status != outcome.Complete {
		return base, err
	}
	for o, err := range sources[0].Outcomes(ctx) {
		if base.scored = err == nil && !o.Failed(); base.scored || err != nil {
			return base, err
		}
	}
	return base, nil
}

// remote finds a run in Langfuse by its name.
func (f Finder) remote(ctx context.Context, name string) (Base, error) {
	base, err := Named(ctx, f.Env, InLangfuse+name, f.Dataset)
	if errors.Is(err, langfuse.ErrNotFound) {
		return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: %w", name, err)
	}
	return base, err
}

// parseLatest returns the metadata that a rule demands.
func parseLatest(rule string) (map[string]string, error) {
	want := map[string]string{}
	for _, condition := range strings.Fields(rule)[1:] {
		key, value, ok := strings.Cut(condition, "=")
		if !ok || key == "" || value == "" {
			return nil, cli.Usage("the base %q: expected %s KEY=VALUE…, such as %s branch=main", rule, latest, latest)
		}
		if key == "branch" {
			key = metaBranch
		}
		want[key] = value
	}
	return want, nil
}

// dated is a run that a rule may select: its name for Sources, and when it started.
type dated struct {
	named   string
	started time.Time
	copied  bool // by rescore
}

// latest finds the newest complete run with a scored item whose metadata match the rule, in this
// folder and in Langfuse. For a run that is in both, the folder counts. Any candidate would be as
// good as a run in which every item failed. A copy that was scored again has old outputs: it is
// taken only without another run.
func (f Finder) latest(ctx context.Context, rule string) (Base, error) {
	want, err := parseLatest(rule)
	if err != nil {
		return Base{}, err
	}
	matches := func(name string, metadata map[string]string) bool {
		for key, value := range want {
			if metadata[key] != value {
				return false
			}
		}
		return !slices.Contains(f.Except, name) && !settings.TrialName().MatchString(name)
	}
	entries, err := List(ctx)
	if err != nil {
		return Base{}, err
	}
	var found []dated
	inFolder := map[string]bool{}
	for _, e := range entries {
		if e.Err != nil || e.Header.Dataset.Name != f.Dataset || e.Footer.Status != outcome.Complete {
			continue
		}
		inFolder[e.Header.Name] = true
		if matches(e.Header.Name, tracking.Metadata(e.Header, 1)) {
			found = append(found, dated{e.Path, e.Header.Started, e.Header.Rescored != nil})
		}
	}
	remote, server, err := f.listRemote(ctx, func(run langfuse.Run) bool {
		return !inFolder[run.Name] && matches(run.Name, langfuse.MetadataTexts(run.Metadata))
	})
	if err != nil {
		return Base{}, err
	}
	mayBeNext := true
	for key, value := range want { // Own has no metadata that every run has
		mayBeNext = mayBeNext && (f.Own[key] == value || slices.Contains(tracking.FixedKeys(), key))
	}
	for _, run := range newestFirst(append(found, remote...)) {
		if base, err := Named(ctx, f.Env, run.named, f.Dataset); err != nil || base.scored {
			base.latest = mayBeNext
			return base, err
		}
	}
	place := "in this folder or in " + server
	if experiment.IsFile(f.Dataset) {
		place = "in this folder (those of a file are found nowhere else)"
	}
	if f.Own != nil && matches("", f.Own) {
		return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: %w %s", rule, errFirstRun, place)
	}
	return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: no complete run with a scored item of dataset %q matches, %s",
		rule, f.Dataset, place)
}

// newestFirst sorts runs in place, and copies after all others.
func newestFirst(list []dated) []dated {
	slices.SortFunc(list, func(a, b dated) int {
		switch {
		case a.copied && !b.copied:
			return 1
		case b.copied && !a.copied:
			return -1
		}
		return cmp.Or(b.started.Compare(a.started), cmp.Compare(a.named, b.named))
	})
	return list
}

// listRemote returns the newest runs of the dataset in Langfuse that match, and names the server.
func (f Finder) listRemote(ctx context.Context, matches func(langfuse.Run) bool) (list []dated, server string, err error) {
	lf, err := settings.Connect(ctx, f.Env)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	if server = "Langfuse"; lf.Embedded {
		server = lf.Describe()
	}
	dataset, err := lf.Client.GetDataset(ctx, f.Dataset)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil, server, nil
	} else if err != nil {
		return nil, server, err
	}
	for _, view := range lf.Server.Views() {
		for run, err := range lf.Client.ListRuns(ctx, view, dataset) {
			if err != nil {
				return nil, server, err
			}
			if matches(run) {
				copied := langfuse.MetadataTexts(run.Metadata)[tracking.RescoredFrom] != ""
				list = append(list, dated{InLangfuse + run.Name, run.Time, copied}) // more than once if several views show it
			}
		}
	}
	return newestFirst(list)[:min(maxReadRuns, len(list))], server, nil
}
