// Package gold implements the commands about gold: seed fills and corrects datasets from files and
// traces, agreement and audit measure the quality of gold, and rescore scores runs again. It also
// measures how much a score depends on the way of scoring, for compare --sensitivity.
package gold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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

// AgreementCommand returns the command "experiment agreement".
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
	gold map[string]annotation
}

type annotation struct {
	extraction.Extraction
	input string // hash of the input; "" without one
}

// annotations reads the gold of a file. The error lists everything in it that cannot be used.
// Memory: the gold, and a hash of each input.
func annotations(ctx context.Context, env cli.Env, path string) (annotator, error) {
	out := annotator{name: path, gold: map[string]annotation{}}
	items := dataset.ReadFile(ctx, path)
	if path == "-" {
		out.name = "standard input"
		items = dataset.Read(files.ContextReader(ctx, env.Stdin), dataset.JSONL, out.name)
	}
	var problems dataset.Problems
	for item, err := range items {
		if problems.Add(err); err != nil { // an error that is not about a line is the last one
			continue
		}
		gold := annotation{input: dataset.GoldHash(item.Input)}
		if len(item.Expected) > 0 {
			if gold.Extraction, _, err = extraction.DecodeExtraction(item.Expected); err != nil {
				problems.Add(&dataset.SyntaxError{File: item.File, Line: item.Line, Path: "expected output", Msg: err.Error()})
			}
		}
		out.gold[item.ID] = gold
	}
	return out, problems.Err()
}

// symmetricScores are the scores that do not change if expected and extracted are swapped, provided
// that no side has aliases and either every entity has a type or none has.
var symmetricScores = []string{scoring.EntityF1, scoring.EntityExactF1, scoring.EntityTypedF1, scoring.EntityStrictF1,
	scoring.TypeAccuracy, scoring.RelationshipF1}

// agree compares two annotators over the items that both have. It computes precision, recall and F1
// of one against the other, as means over items with the 95 % interval of
// stats.Moments.ScoreInterval95, and pooled. Entities count in the items in which both annotate
// entities, and relationships likewise; if only one annotates them, the other is not wrong. The
// error has the code ExitIncompatible if no item is in both. Each item is scored twice.
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
	var sums [2]*outcome.Summariser // b against a, then a against b
	for i := range sums {
		sums[i] = outcome.NewSummariser(outcome.Header{Scorer: out.Scorer},
			outcome.SummaryConfig{Order: runs.ScoreOrder(), Worst: -1})
	}
	var otherInput []string
	for _, id := range slices.Sorted(maps.Keys(a.gold)) {
		goldA := a.gold[id]
		goldB, found := b.gold[id]
		if !found {
			continue
		}
		out.Items++
		if goldA.input != "" && goldB.input != "" && goldA.input != goldB.input {
			otherInput = append(otherInput, id)
		}
		oneEntities := (goldA.Entities == nil) != (goldB.Entities == nil)
		if oneEntities { // its aliases hold for the relationships of both
			out.OneEntities++
			list := slices.DeleteFunc(slices.Concat(goldA.Entities, goldB.Entities), // one of them is nil
				func(e extraction.Entity) bool { return strings.TrimSpace(e.Name) == "" })
			goldA.Entities, goldB.Entities = list, list
		}
		if (goldA.Relationships == nil) != (goldB.Relationships == nil) {
			out.OneRelationships++
			goldA.Relationships, goldB.Relationships = nil, nil
		}
		forward := score(sums[0], id, rules.Score(goldA.Extraction, goldB.Extraction), !oneEntities)
		backward := score(sums[1], id, rules.Score(goldB.Extraction, goldA.Extraction), !oneEntities)
		for _, name := range symmetricScores {
			x, _ := outcome.Lookup(forward, name)
			y, _ := outcome.Lookup(backward, name)
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
	summarise(&out, sums)
	return out, nil
}

// score adds the result of an item to a summary, perhaps without that of its entities, and returns the scores.
func score(sum *outcome.Summariser, id string, result scoring.Result, entities bool) []outcome.Score {
	if !entities {
		for i, d := range scoring.Catalog() { // the scores are in its order
			if d.Family == scoring.EntityFamily || d.Family == scoring.ItemFamily && result.Counts.Relationships == nil {
				result.Scores[i] = outcome.Score{Name: d.Name, Boolean: d.Boolean, Reason: scoring.EntitiesNotAnnotated}
			}
		}
		result.Groups = slices.DeleteFunc(result.Groups, func(g outcome.Group) bool { return g.Kind == "entity_type" })
	}
	o := outcome.Outcome{Item: id, Trial: 1, Attempt: 1, Scores: result.Scores}
	o.Groups, o.Warnings = result.Groups, result.Warnings
	sum.Add(o)
	return result.Scores
}

// summarise fills in both directions.
func summarise(out *report.Agreement, sums [2]*outcome.Summariser) {
	for i, direction := range []*report.Direction{&out.BAgainstA, &out.AAgainstB} {
		s := sums[i].Summary()
		*direction = report.Direction{Scores: s.Scores, Groups: s.Groups}
		for _, w := range s.Warnings {
			if !slices.Contains(out.Warnings, w) {
				out.Warnings = append(out.Warnings, w)
			}
		}
	}
	for _, name := range symmetricScores {
		if stat, _ := out.BAgainstA.Scores.Lookup(name); out.Directed[name] == 0 && stat.N > 0 {
			out.SameBothWays = append(out.SameBothWays, name)
		}
	}
}

// without returns the ids of the items that another annotator does not have.
func (a annotator) without(other annotator) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a.gold)), func(id string) bool {
		_, found := other.gold[id]
		return found
	})
}

// firstIDs lists the first ids for a message.
func firstIDs(ids []string) string { return textutil.First(cli.Each(ids, shortID), 5) }

// Ceiling reads the file of --ceiling, the output of experiment agreement --json, or returns nil
// without the flag. For another file it returns an error with the code ExitUsage.
func Ceiling(c *urfave.Context) (*report.Agreement, error) {
	return settings.ReadFile(c.Context, c.String("ceiling"), "--ceiling", func(raw []byte) (*report.Agreement, error) {
		a := &report.Agreement{}
		if err := json.Unmarshal(raw, a); err != nil || a.Items < 1 || len(a.BAgainstA.Scores) == 0 {
			return nil, cli.Usage("it is not the output of experiment agreement A B --json")
		}
		return a, nil
	})
}

// AddCeiling adds the ceiling, if not nil, to the report of a run, and warns if the run was scored in
// another way. It returns an error with the code ExitUsage if the run has none of its scores.
func AddCeiling(ctx context.Context, run *runstore.Reader, ceiling *report.Agreement, whole *report.Run) error {
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
