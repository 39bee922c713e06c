package gold

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/compare"
	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// Sensitivity repeats a comparison of runs with their outputs scored in other ways.
type Sensitivity struct {
	Config  compare.Config // configuration of the comparison; its gate is ignored
	Sources []compare.Source
	// Doubtful holds the items with doubtful gold; nil if unknown, and then no setting leaves them
	// out.
	Doubtful map[string]bool

	metric  string
	runs    []runs.Source // the base, and the candidates that are comparable with it
	header  outcome.Header
	options scoring.Options // scoring options of the runs
}

// AddTo sets Sensitivity of every comparable candidate of the result, and adds a warning for each
// threshold at which the ranking flips. It returns an error with the code ExitUsage for runs that
// are only in Langfuse, for runs of another harness, and for outcomes without an output.
//
// AddTo scores the outputs against the gold that the runs store, on all processors: some 15 times,
// and in steps of 0.01 between thresholds where the sign changes. Memory: a number for each item,
// trial, run and setting.
func (s Sensitivity) AddTo(ctx context.Context, result *compare.Comparison) error {
	s.metric, s.Config.Gate, s.Config.MaxChanged = result.Metric, compare.Gate{}, -1
	positions := []int{0}
	for i, r := range result.Candidates {
		if len(r.Incompatible) == 0 {
			positions = append(positions, i+1)
		}
	}
	if len(positions) == 1 {
		return nil
	}
	for _, i := range positions {
		run, err := localRun(s.Sources[i])
		if err != nil {
			return err
		}
		s.runs = append(s.runs, run)
	}
	ways, err := s.ways(ctx)
	if err != nil {
		return err
	}
	coarse, err := s.compare(ctx, ways)
	if err != nil {
		return err
	}
	flips := slices.Concat(cli.Each(coarse, compare.Flips)...)
	fine, err := s.compare(ctx, s.between(flips))
	if err != nil {
		return err
	}
	for i, settings := range coarse {
		r := &result.Candidates[positions[i+1]-1]
		for j := range settings { // what is claimed of a secondary score must allow for all of them
			row := &settings[j].Score
			if k := slices.IndexFunc(r.Scores, func(s compare.Score) bool { return s.Name == row.Name && !s.Primary }); k >= 0 {
				row.PHolm, row.Verdict = r.Scores[k].PHolm, r.Scores[k].Verdict
			}
		}
		flips := compare.Flips(append(slices.Clone(settings), fine[i]...))
		r.Sensitivity = &compare.Sensitivity{Settings: settings, Flips: flips, Notes: s.notes(settings)}
		for _, flip := range r.Sensitivity.Flips {
			r.Warnings = append(r.Warnings, flip.Warning(result.Base.Summary.Run.Name, r.Candidate.Summary.Run.Name))
		}
	}
	return nil
}

// way is one way to score and compare.
type way struct {
	compare.Setting
	metric string
	rules  *scoring.Scorer
	skip   map[string]bool // items to leave out
}

// ways returns the settings of the table.
func (s *Sensitivity) ways(ctx context.Context) (list []way, err error) {
	if s.header, err = s.runs[0].Header(ctx); err != nil {
		return nil, err
	}
	known := slices.ContainsFunc(scoring.Catalog(), func(d scoring.Definition) bool { return d.Name == s.metric })
	if s.header.Harness != harness.Name || !known {
		return nil, cli.Usage("--sensitivity scores extractions again: %s of the harness %s is not one of their scores",
			textutil.Line(s.metric), textutil.Line(s.header.Harness))
	}
	if s.options, err = scoring.ParseOptions(s.header.Scorer.Options, scoring.DefaultOptions()); err != nil {
		return nil, fmt.Errorf("the scoring options of %s: %w", s.runs[0].Where(), err)
	}
	list = append(list, s.way(compare.Setting{What: "as the runs are scored", Own: true}, s.options))
	own := list[0].rules
	for percent := 50; percent <= 100; percent += 5 {
		list = append(list, s.threshold(percent))
	}
	exact := s.options
	exact.FuzzyEntities, exact.FuzzyRelationships = false, false
	list = append(list, s.way(compare.Setting{What: "exact names only"}, exact))
	for _, other := range []struct{ metric, what string }{
		{scoring.EntityF1, "entities, without types"}, {scoring.EntityTypedF1, "entities, with types"},
		{scoring.EntityStrictF1, "entities, exact names and types"}, {scoring.RelationshipF1, "relationships"},
	} {
		if other.metric != s.metric {
			list = append(list, way{compare.Setting{What: other.what}, other.metric, own, nil})
		}
	}
	if s.Doubtful != nil {
		list = append(list, way{compare.Setting{What: "without doubtful items"}, s.metric, own, s.Doubtful})
	}
	return list, nil
}

// threshold returns the way of the runs with another threshold. If the runs match all names
// exactly, it matches entities and relationships fuzzily.
func (s *Sensitivity) threshold(percent int) way {
	o := s.options
	o.Threshold = fmt.Sprintf("%d.%02d", percent/100, percent%100)
	if !o.FuzzyEntities && !o.FuzzyRelationships {
		o.FuzzyEntities, o.FuzzyRelationships = true, true
	}
	return s.way(compare.Setting{What: "threshold " + o.Threshold, Threshold: o.Threshold}, o)
}

// way returns a way to score the metric of the comparison.
func (s *Sensitivity) way(setting compare.Setting, options scoring.Options) way {
	rules, err := scoring.New(options)
	if err != nil {
		panic(err) // cannot happen: ParseOptions checked the options of the runs, and the others differ in valid ways
	}
	return way{setting, s.metric, rules, nil}
}

// between returns the ways with thresholds strictly between those of the flips, in steps of 0.01.
func (s *Sensitivity) between(flips []compare.Flip) (list []way) {
	for percent := 51; percent < 100; percent++ {
		w := s.threshold(percent)
		if slices.ContainsFunc(flips, func(flip compare.Flip) bool {
			return w.Threshold > flip.Below.Threshold && w.Threshold < flip.At.Threshold
		}) {
			list = append(list, w)
		}
	}
	return list
}

// notes returns remarks about the settings.
func (s *Sensitivity) notes(settings []compare.Setting) []string {
	notes := []string{}
	if v := s.header.Scorer.Version; v != scoring.Version {
		notes = append(notes, fmt.Sprintf("the runs were scored by version %s of the scorer, these rows by version %s",
			v, scoring.Version))
	}
	if slices.ContainsFunc(settings, func(one compare.Setting) bool { return one.LeftOut > 0 }) {
		notes = append(notes, "leaving doubtful items out favours the compared systems, whose answers decide which items these are: "+
			"it decides nothing, and no gate reads it")
	}
	return notes
}

// compare scores all runs in the given ways and compares them in each. It returns a list of
// settings for each candidate.
func (s *Sensitivity) compare(ctx context.Context, ways []way) ([][]compare.Setting, error) {
	found := make([][]compare.Setting, len(s.runs)-1)
	if len(ways) == 0 {
		return found, nil
	}
	var all []view
	for _, run := range s.runs {
		one, err := rescore(ctx, run, ways)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	items := 0 // number of compared items if none are left out
	for i, w := range ways {
		sources := cli.Each(all, func(one view) compare.Source {
			return subset{view{one.Source, one.outcomes, i, w.metric}, func(item string) bool { return !w.skip[item] }}
		})
		if !slices.ContainsFunc(all[0].outcomes, func(o *rescoredOutcome) bool { return !w.skip[o.Item] && o.values[i] != nil }) {
			continue // the score is not annotated, or no item remains
		}
		cfg := s.Config
		cfg.Metric = w.metric
		result, err := cfg.Compare(ctx, sources[0], sources[1:]...)
		if err != nil {
			return nil, err
		}
		for c, candidate := range result.Candidates {
			setting := w.Setting
			setting.Score = candidate.Primary()
			if w.skip == nil {
				items = candidate.Items
			}
			if setting.LeftOut = items - candidate.Items; w.skip != nil && setting.LeftOut == 0 {
				setting.What += ": there are none"
			}
			if setting.Score.N > 0 {
				found[c] = append(found[c], setting)
			}
		}
	}
	return found, nil
}

// view is a run scored in one way, in the form that package compare reads: outcomes with class,
// hash of the output and one score, sorted by item and trial.
type view struct {
	runs.Source
	outcomes []*rescoredOutcome
	index    int // index of the way in values
	metric   string
}

type rescoredOutcome struct {
	outcome.Outcome            // its Output is a hash of the output
	values          []*float64 // one for each way; nil: no such score; NaN: undefined
}

// rescore scores the outputs of a run in all ways, on all processors. A failed item stays failed.
func rescore(ctx context.Context, run runs.Source, ways []way) (view, error) {
	scored := stats.Parallel(0, run.Outcomes(ctx), func(o outcome.Outcome) (*rescoredOutcome, error) {
		one := &rescoredOutcome{outcome.Outcome{Item: o.Item, Trial: o.Trial, Attempt: 1, Class: o.Class},
			make([]*float64, len(ways))}
		item, err := run.Item(ctx, o.Item)
		if err != nil {
			return nil, err
		}
		if err := one.score(item.Expected, o.Output, ways); err != nil {
			return nil, fmt.Errorf("%s: item %q: %w", run.Where(), o.Item, err)
		}
		return one, nil
	})
	out := view{Source: run}
	for one, err := range scored {
		if err != nil {
			return out, err
		}
		out.outcomes = append(out.outcomes, one)
	}
	return out, nil
}

func (s *rescoredOutcome) score(gold, output json.RawMessage, ways []way) error {
	var expected, extracted extraction.Extraction
	var err error
	delivered := s.Class == outcome.OK
	if !textutil.AbsentJSON(gold) {
		if expected, _, err = extraction.DecodeExtraction(gold); err != nil && delivered {
			return cli.Usage("the expected output cannot be used: %w", err)
		}
	}
	if hash := dataset.GoldHash(output); hash != "" {
		s.Output = strconv.AppendQuote(nil, hash)
	} else if delivered {
		return cli.Usage("has no output, and --sensitivity scores the outputs again: outputs are needed")
	}
	if delivered {
		if extracted, _, err = extraction.DecodeExtraction(output); err != nil {
			return cli.Usage("its output cannot be read: %w", err)
		}
	}
	var scores []outcome.Score
	for i, w := range ways {
		switch {
		case i > 0 && w.rules == ways[i-1].rules: // another score of the same result
		case delivered:
			scores = w.rules.Measure(expected, extracted).Scores
		default:
			scores = w.rules.Undelivered(expected)
		}
		if score, there := outcome.Lookup(scores, w.metric); there {
			// A copy, which does not keep all scores of the item in memory.
			s.values[i] = new(*cmp.Or(score.Value, new(math.NaN())))
		}
	}
	return nil
}

// Outcomes yields the outcomes with the score of the way only.
func (v view) Outcomes(context.Context) iter.Seq2[outcome.Outcome, error] {
	return stats.Map(stats.Values(v.outcomes), func(one *rescoredOutcome) outcome.Outcome {
		o := one.Outcome
		if x := one.values[v.index]; x != nil {
			o.Scores = []outcome.Score{{Name: v.metric, Value: x, Boolean: v.metric == scoring.ItemPerfect}}
			if math.IsNaN(*x) {
				o.Scores[0].Value = nil
			}
		}
		return o
	})
}
