package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/output"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/runstore"
)

// benchGate is one gate as a flag.
type benchGate struct {
	name, usage string
	most        float64 // greatest value that makes sense
	rate        *float64
	count       *int
}

// benchGates lists the gates of g, so that flags can be read into it.
func benchGates(g *benches.Gates) []benchGate {
	return []benchGate{
		{"min-success-rate", "gate: cases that come to what is expected", 1, &g.MinSuccessRate, nil},
		{"min-schema-validity-rate", "gate: records of valid shape", 1, &g.MinSchemaValidityRate, nil},
		{"min-quote-invariant-pass-rate", "gate: records that quote the document", 1, &g.MinQuoteInvariantPassRate, nil},
		{"min-coverage-rate", "gate: gold spans that are extracted", 1, &g.MinCoverageRate, nil},
		{"min-stability", "gate: extractions that the trials share, uniqueExtractionStability", 1, &g.MinStability, nil},
		{"max-extraction-count-variance", "gate: variance of the trials' numbers of extractions", math.MaxFloat64, &g.MaxExtractionCountVariance, nil},
		{"max-success-rate-stddev", "gate: standard deviation of the trials' success rates", 1, &g.MaxSuccessRateStdDev, nil},
		{"max-case-outcome-drift-rate", "gate: cases that differ between trials", 1, &g.MaxCaseOutcomeDriftRate, nil},
		{"min-regression-category-count", "gate: categories of regression records", math.MaxInt32, nil, &g.MinRegressionCategoryCount},
		{"min-total-case-count", "gate: cases", math.MaxInt32, nil, &g.MinTotalCaseCount},
	}
}

func gateNames() []string {
	var names []string
	for _, g := range benchGates(&benches.Gates{}) {
		names = append(names, g.name)
	}
	return names
}

func gateFlags() []urfave.Flag {
	defaults := benches.DefaultGates()
	var list []urfave.Flag
	for _, g := range benchGates(&defaults) {
		limit := ""
		if g.rate != nil {
			limit = fmt.Sprintf("%g", *g.rate)
		} else {
			limit = fmt.Sprint(*g.count)
		}
		list = append(list, &urfave.StringFlag{Name: g.name, Value: limit, Usage: "`X` is a " + g.usage})
	}
	return list
}

// readGates reads the flags of the gates, and returns every problem at once.
func readGates(c *urfave.Context) (benches.Gates, error) {
	var gates benches.Gates
	p := &settings.Problems{}
	for _, g := range benchGates(&gates) {
		text := c.String(g.name)
		if g.count != nil {
			*g.count = p.Count(g.name, text, 0, math.MaxInt32)
		} else if v := p.Number(g.name, text, 0, g.most); v != nil {
			*g.rate = *v
		}
	}
	return gates, withCode(p.Err())
}

// scoredBench is what --json prints.
type scoredBench struct {
	benches.Report
	Gates      benches.Gates       `json:"gates"`
	Violations []benches.Violation `json:"violations"`
}

// benchScore judges a run by the gates; without a word the newest one.
func benchScore(c *urfave.Context, env cli.Env, words []string) (err error) {
	gates, err := readGates(c)
	if err != nil {
		return err
	}
	named := ""
	if len(words) > 0 {
		named = words[0]
	} else if named, err = newestBench(c.Context); err != nil {
		return err
	}
	run, err := runs.Open(c.Context, named, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	result, err := benches.Measure(c.Context, run)
	if err != nil {
		return err
	}
	violations := gates.Check(result)
	if c.Bool("json") {
		err = output.JSON(env, scoredBench{result, gates, violations})
	} else {
		err = benchWrite(c, env, result)
		_, said := fmt.Fprintf(env.Stdout, "\n%s\n", benches.VerdictLine(violations))
		err = errors.Join(err, cli.Written(said))
	}
	return errors.Join(err, benches.Verdict(violations))
}

// newestBench finds the run of the bench that was begun last.
func newestBench(ctx context.Context) (string, error) {
	entries, err := runs.List(ctx)
	if err != nil {
		return "", err
	}
	var newest runstore.Entry
	for _, e := range entries {
		if e.Err == nil && e.Header.Harness == benches.Name && e.Header.Started.After(newest.Header.Started) {
			newest = e
		}
	}
	if newest.Path == "" {
		return "", cli.Usage("there is no run of the bench here: experiment bench run makes one")
	}
	return newest.Path, nil
}
