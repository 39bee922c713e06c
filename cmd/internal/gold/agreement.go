// Package gold is what commands do with gold: seed fills datasets from files and from
// production traces, agreement and audit ask how good it is, corrections and rescore put it
// right, and sensitivity says what a score over it is worth.
package gold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// AgreementCommand is "experiment agreement".
func AgreementCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "agreement",
		Usage:     "measure how far two annotators of the same items agree: the ceiling for any system",
		UsageText: "experiment agreement A.jsonl B.jsonl [--options FILE|JSON] [--json]",
		Description: "Both are files of items as for experiment seed; only id and expected output are used. - reads one of them from\n" +
			"standard input, as JSONL. The output of --json is the file for experiment report RUN --ceiling FILE.\n" +
			"Exit codes: 0 compared; 2 the files have no item in common; 64 a file, or a line in it, cannot be used.",
		Flags:  []urfave.Flag{settings.OptionsFlag(), settings.JSONFlag()},
		Action: func(c *urfave.Context) error { return agreementAction(c, env) },
	}
}

func agreementAction(c *urfave.Context, env cli.Env) error {
	if c.NArg() != 2 || c.Args().Get(0) == "-" && c.Args().Get(1) == "-" {
		return cli.Usage("agreement takes two files of items, one of each annotator; one of them may be -, standard input")
	}
	options, errOptions := settings.ScoringOptions(c.String("options"))
	a, errA := annotations(c.Context, env, c.Args().Get(0))
	b, errB := annotations(c.Context, env, c.Args().Get(1))
	if err := errors.Join(errOptions, errA, errB); err != nil {
		return err
	}
	agreement, err := agree(a, b, options)
	if err != nil {
		return err
	}
	return runs.Print(env, c.Bool("json"), agreement, report.AgreementText)
}

// annotator is the gold of one file.
type annotator struct {
	name string
	gold map[string]annotated
}

type annotated struct {
	extraction.Extraction
	input string // hash; "" without one
}

// annotations reads the gold of a file, and lists everything of it that cannot be used.
// Memory: the gold, and a hash of each input.
func annotations(ctx context.Context, env cli.Env, path string) (annotator, error) {
	out := annotator{name: path, gold: map[string]annotated{}}
	items := dataset.ReadFile(ctx, path)
	if path == "-" {
		out.name = "standard input"
		items = dataset.Read(files.ContextReader(ctx, env.Stdin), dataset.JSONL, out.name)
	}
	var problems dataset.Problems
	for item, err := range items {
		if problems.Add(err); err != nil { // of another kind than a line's it is the last
			continue
		}
		one := annotated{}
		if len(item.Input) > 0 {
			if one.input, err = dataset.Hash(dataset.Item{Input: item.Input}); err != nil {
				problems.Add(&dataset.SyntaxError{File: item.File, Line: item.Line, Path: "input", Msg: err.Error()})
			}
		}
		if len(item.Expected) > 0 {
			if one.Extraction, _, err = extraction.DecodeExtraction(item.Expected); err != nil {
				problems.Add(&dataset.SyntaxError{File: item.File, Line: item.Line, Path: "expected output", Msg: err.Error()})
			}
		}
		out.gold[item.ID] = one
	}
	return out, problems.Err()
}

// symmetric are the scores that swapping expected and extracted leaves as they are,
// where no side has aliases and every entity has a type or none has.
var symmetric = []string{scoring.EntityF1, scoring.EntityExactF1, scoring.EntityTypedF1, scoring.EntityStrictF1,
	scoring.TypeAccuracy, scoring.RelationshipF1}

// agree compares two annotators over the items that both have: precision, recall and F1
// of one against the other, means over items with the 95 % interval of
// stats.Moments.ScoreInterval95, and pooled. Entities, and relationships, count in the
// items where both annotate them; where one alone does the other is not wrong. It is an
// error of ExitIncompatible if no item is in both. Each item is scored twice.
func agree(a, b annotator, options scoring.Options) (report.Agreement, error) {
	out := report.Agreement{A: a.name, B: b.name, OnlyA: a.without(b), OnlyB: b.without(a), SameBothWays: []string{},
		Directed: map[string]int{}, Warnings: []string{}}
	rules, err := scoring.New(options)
	if err != nil {
		return out, err
	}
	if out.Scorer.Options, err = json.Marshal(options); err != nil {
		return out, err
	}
	out.Scorer.Version, out.Scorer.Primary = scoring.Version, harness.Primary
	var sums [2]*outcome.Summariser // of b against a, and the other way round
	for i := range sums {
		sums[i] = outcome.NewSummariser(outcome.Header{Scorer: out.Scorer},
			outcome.SummaryConfig{Order: runs.ScoreOrder(), Worst: -1})
	}
	var otherInput []string
	for _, id := range slices.Sorted(maps.Keys(a.gold)) {
		one := a.gold[id]
		other, both := b.gold[id]
		if !both {
			continue
		}
		out.Items++
		if one.input != "" && other.input != "" && one.input != other.input {
			otherInput = append(otherInput, id)
		}
		if (one.Entities == nil) != (other.Entities == nil) {
			out.OneEntities++
			one.Entities, other.Entities = nil, nil
		}
		if (one.Relationships == nil) != (other.Relationships == nil) {
			out.OneRelationships++
			one.Relationships, other.Relationships = nil, nil
		}
		there := score(sums[0], id, rules.Score(one.Extraction, other.Extraction))
		back := score(sums[1], id, rules.Score(other.Extraction, one.Extraction))
		for _, name := range symmetric {
			x, _ := outcome.Lookup(there, name)
			y, _ := outcome.Lookup(back, name)
			if !reflect.DeepEqual(x.Value, y.Value) {
				out.Directed[name]++
			}
		}
	}
	if out.Items == 0 {
		return out, cli.Errorf(cli.ExitIncompatible,
			"%s and %s have no item in common: their ids pair them (%s has %s, %s has %s)",
			a.name, b.name, a.name, firstIDs(out.OnlyA), b.name, firstIDs(out.OnlyB))
	}
	if len(otherInput) > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("items with the same id have different inputs in %s: %s",
			textutil.Counted(len(otherInput), "item"), firstIDs(otherInput)))
	}
	sumUp(&out, sums)
	return out, nil
}

// score adds the result of an item and returns its scores.
func score(sum *outcome.Summariser, id string, result scoring.Result) []outcome.Score {
	o := outcome.Outcome{Item: id, Trial: 1, Attempt: 1, Scores: result.Scores}
	o.Groups, o.Warnings = result.Groups, result.Warnings
	sum.Add(o)
	return result.Scores
}

// sumUp fills in both directions.
func sumUp(out *report.Agreement, sums [2]*outcome.Summariser) {
	for i, to := range []*report.Direction{&out.BAgainstA, &out.AAgainstB} {
		s := sums[i].Summary()
		*to = report.Direction{Scores: s.Scores, Groups: s.Groups}
		for _, w := range s.Warnings {
			if !slices.Contains(out.Warnings, w) {
				out.Warnings = append(out.Warnings, w)
			}
		}
	}
	for _, name := range symmetric {
		if stat, _ := out.BAgainstA.Scores.Lookup(name); out.Directed[name] == 0 && stat.N > 0 {
			out.SameBothWays = append(out.SameBothWays, name)
		}
	}
}

// without lists the items that another annotator has not.
func (a annotator) without(other annotator) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.gold)), func(id string) bool {
		_, both := other.gold[id]
		return both
	})
}

// firstIDs names the first of some items.
func firstIDs(ids []string) string { return textutil.First(cli.Each(ids, named), 5) }

// Ceiling reads the file of --ceiling, which is what experiment agreement --json printed;
// nil without the flag. Another file is an error of ExitUsage.
func Ceiling(c *urfave.Context) (*report.Agreement, error) {
	return readNamed(c, "ceiling", "--ceiling", func(raw []byte) (*report.Agreement, error) {
		a := &report.Agreement{}
		if err := json.Unmarshal(raw, a); err != nil || a.Items < 1 || len(a.BAgainstA.Scores) == 0 {
			return nil, cli.Usage("it is not what experiment agreement A B --json prints")
		}
		return a, nil
	})
}

// Beside puts the ceiling, if there is one, beside the scores of a run, and warns of
// what was scored otherwise. A run without any of its scores is an error of ExitUsage.
func Beside(ctx context.Context, run *runstore.Reader, ceiling *report.Agreement, whole *report.Run) error {
	if ceiling == nil {
		return nil
	}
	header, err := run.Header(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(whole.Summary.Scores, func(s outcome.Stat) bool { return ceiling.Stat(s.Name).Mean != nil }) {
		return cli.Usage("--ceiling: the run %s has none of the scores by which people were compared",
			textutil.Line(header.Name))
	}
	whole.Ceiling = ceiling
	for _, m := range compare.CompareScorers(ceiling.Scorer, header.Scorer) {
		whole.Summary.Warnings = append(whole.Summary.Warnings,
			fmt.Sprintf("the human agreement was scored in another way: %s is %s there, and %s in the run",
				m.What, m.Base, m.Candidate))
	}
	return nil
}
