package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/tracking"
)

const (
	// BaselineFile says by dataset which run is the base of comparisons: a name, a
	// file, langfuse:NAME, or a rule such as latest branch=main.
	BaselineFile = "baselines.yaml"
	// Baseline is the word for the run that the file names.
	Baseline = "@baseline"
	// latest begins a rule.
	latest = "latest"
	// mostLooked bounds how many runs in Langfuse are read until one is complete.
	mostLooked = 20
	// mostDays bounds an age.
	mostDays = 36_500
	// mostBaselines bounds the file, in bytes.
	mostBaselines = 1 << 20
)

// errNoBaseline is returned where nobody has said what the base is.
var errNoBaseline = errors.New("no baseline is configured")

// ReadBaselines reads the file of this folder; none is an empty one. A dataset that is a file
// may be there with its folders.
func ReadBaselines(ctx context.Context) (map[string]string, error) {
	written, known := map[string]string{}, map[string]string{}
	text, err := files.Read(ctx, BaselineFile, mostBaselines)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitIO, "reading %s: %w", BaselineFile, err)
	}
	if err := textutil.DecodeYAML(text, BaselineFile, &written); err != nil {
		return nil, cli.Usage("%w", err)
	}
	for dataset, word := range written {
		known[experiment.DatasetName(dataset)] = word
	}
	return known, nil
}

// SetBaseline writes the baseline of a dataset into the file of this folder as it is by now;
// "" is none.
func SetBaseline(ctx context.Context, dataset, word string) error {
	known, err := ReadBaselines(ctx)
	if err != nil {
		return err
	}
	if known[dataset] = word; word == "" {
		delete(known, dataset)
	}
	raw, err := yaml.Marshal(known)
	if err != nil {
		return fmt.Errorf("writing %s: %w", BaselineFile, err)
	}
	return cli.WriteFile(BaselineFile, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "# The run that others are compared with, by dataset; experiment baseline writes it.\n%s", raw)
		return cli.Written(err)
	})
}

// errFirst is returned where no run is as a rule says, and the candidate will be.
var errFirst = errors.New("this is the first such run")

// Base is the run that was found for a name or a rule.
type Base struct {
	Named  string // as package runs opens it
	Header outcome.Header
}

// Age says how old the base is, and over which version of the dataset.
func (b Base) Age(now time.Time) string {
	text := "no time known"
	if !b.Header.Started.IsZero() {
		text = ageWords(now.Sub(b.Header.Started)) + " old"
	}
	if v := b.Header.Dataset.Version; v != "" {
		text += ", dataset version " + v
	}
	return text
}

// ageWords are the days of an age; below two days its hours.
func ageWords(age time.Duration) string {
	if age < 48*time.Hour {
		return report.Counted(int(max(0, age).Hours()), "hour")
	}
	return report.Counted(int(age.Hours()/24), "day")
}

// ParseAge reads a time such as 14d or 36h; "" is none.
func ParseAge(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		age = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || age <= 0 || age > mostDays*24*time.Hour {
		return 0, cli.Usage("--base-max-age: %q is not a time such as 14d or 36h", text)
	}
	return age, nil
}

// IsRule reports whether a word asks for a run by the file or by a rule.
func IsRule(word string) bool {
	return word == Baseline || word == latest || strings.HasPrefix(word, latest+" ")
}

// Finder finds the base of runs of a dataset, which may be a file. Except are the runs that it
// is not, Own is the metadata of the candidate, nil where that has run.
type Finder struct {
	Env     cli.Env
	Dataset string
	Except  []string
	Own     map[string]string
}

// Find finds the run of a name or a rule in this folder and in Langfuse. Errors:
// errNoBaseline, errFirst; exit code 2 where it is configured and not there, 69 where Langfuse
// cannot be asked.
func (f Finder) Find(ctx context.Context, word string) (Base, error) {
	f.Dataset = experiment.DatasetName(f.Dataset)
	if word == Baseline {
		known, err := ReadBaselines(ctx)
		if err != nil {
			return Base{}, err
		}
		switch word = known[f.Dataset]; word {
		case "":
			return Base{}, cli.Usage("%w for dataset %q: experiment baseline set RUN sets one", errNoBaseline, f.Dataset)
		case Baseline:
			return Base{}, cli.Usage("%s: the baseline of %q is itself", BaselineFile, f.Dataset)
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
		return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: %w, and none in Langfuse", word, err)
	}
	return Named(ctx, f.Env, path, f.Dataset)
}

// Named finds the run that Sources opens.
func Named(ctx context.Context, env cli.Env, named, dataset string) (base Base, err error) {
	sources, done, err := Sources(ctx, env, []string{named}, dataset, false)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return Base{}, err
	}
	header, err := sources[0].Header(ctx)
	return Base{named, header}, err
}

// remote finds a run by its name in Langfuse.
func (f Finder) remote(ctx context.Context, name string) (Base, error) {
	base, err := Named(ctx, f.Env, InLangfuse+name, f.Dataset)
	if errors.Is(err, langfuse.ErrNotFound) {
		return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: %w", name, err)
	}
	return base, err
}

// parseLatest reads the rule: what the metadata must say.
func parseLatest(rule string) (map[string]string, error) {
	want := map[string]string{}
	for _, word := range strings.Fields(rule)[1:] {
		key, value, ok := strings.Cut(word, "=")
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

// latest finds the newest complete run whose metadata are as the rule says, in the
// folder first where a run is there and in Langfuse.
func (f Finder) latest(ctx context.Context, rule string) (Base, error) {
	want, err := parseLatest(rule)
	if err != nil {
		return Base{}, err
	}
	fits := func(name string, said map[string]string) bool {
		for key, value := range want {
			if said[key] != value {
				return false
			}
		}
		return !slices.Contains(f.Except, name) && !settings.TrialName().MatchString(name)
	}
	entries, err := List(ctx)
	if err != nil {
		return Base{}, err
	}
	var here Base              // the newest of this folder
	known := map[string]bool{} // names of this folder
	for _, e := range entries {
		if e.Err != nil || e.Header.Dataset.Name != f.Dataset || e.Footer.Status != outcome.Complete {
			continue
		}
		known[e.Header.Name] = true
		newer := cmp.Or(here.Header.Started.Compare(e.Header.Started), cmp.Compare(e.Header.Name, here.Header.Name)) < 0
		if (newer || here.Named == "") && fits(e.Header.Name, tracking.Metadata(e.Header, 1)) {
			here = Base{e.Path, e.Header}
		}
	}
	base, err := f.latestRemote(ctx, func(run langfuse.Run) bool {
		return run.Time.After(here.Header.Started) && !known[run.Name] && fits(run.Name, langfuse.Texts(run.Metadata))
	})
	where := "in this folder or in Langfuse"
	if experiment.IsFile(f.Dataset) {
		where = "in this folder (those of a file are found nowhere else)"
	}
	switch {
	case err != nil || base.Named != "":
		return base, err
	case here.Named != "":
		return here, nil
	case f.Own != nil && fits("", f.Own):
		return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: %w %s", rule, errFirst, where)
	}
	return Base{}, cli.Errorf(cli.ExitIncompatible, "the base %q: no complete run of dataset %q, %s, matches",
		rule, f.Dataset, where)
}

// latestRemote returns the newest complete run in Langfuse that fits; none is not an error.
func (f Finder) latestRemote(ctx context.Context, fits func(langfuse.Run) bool) (base Base, err error) {
	lf, err := settings.Connect(ctx, f.Env.Getenv)
	if err != nil {
		return Base{}, err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	dataset, err := lf.Client.GetDataset(ctx, f.Dataset)
	if errors.Is(err, langfuse.ErrNotFound) {
		return Base{}, nil
	} else if err != nil {
		return Base{}, err
	}
	found := map[string]langfuse.Run{}
	for _, view := range lf.Server.Views() {
		for run, err := range lf.Client.ListRuns(ctx, view, dataset) {
			if err != nil {
				return Base{}, err
			}
			if fits(run) {
				found[run.Name] = run
			}
		}
	}
	list := slices.SortedFunc(maps.Values(found), func(a, b langfuse.Run) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Name, b.Name)) })
	for _, run := range list[:min(mostLooked, len(list))] {
		read, err := tracking.ReadRun(ctx, lf.Site, f.Dataset, run.Name)
		if err != nil {
			return Base{}, err
		}
		if read.Footer.Status == outcome.Complete {
			return Base{InLangfuse + run.Name, read.Header}, nil
		}
	}
	return Base{}, nil
}
