package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/report"
)

// planRefresh keeps what refreshBase needs of the settings of the candidate's run: those that select
// items, its limits (itemArgs), those of a model and its cache (modelArgs), and an environment without those
// that describe the system.
func (c *check) planRefresh(runTable []settings.Setting, runValues settings.Values) {
	c.itemArgs = argsOf(runValues, "item", "filter", "limit", "max-failures", "timeout", "concurrency")
	c.modelArgs = argsOf(runValues, "rpm", "tpm", "cache")
	c.baseEnv = c.env
	c.baseEnv.Getenv = func(name string) string {
		if slices.ContainsFunc(runTable, func(s settings.Setting) bool {
			return s.Env == name && (s.Category == "Model" || slices.Contains([]string{"config", "description", "output"}, s.Flag))
		}) {
			return ""
		}
		return c.env.Getenv(name)
	}
}

// refreshBase runs the base again over the items of the candidate, if the items of the base
// differ, with its own system and trials. It is an error if the header does not describe the system
// of the base completely, or if the run would cost more than allowed.
func (c *check) refreshBase(ctx context.Context) error {
	candidate, err := c.finder().Find(ctx, c.candidate)
	h, refuse := c.base.Header, c.refuseRefresh
	if err = cmp.Or(err, c.checkRefresh(candidate.Header)); err != nil || !c.isOutdated(candidate.Header) {
		return err
	}
	c.baseEnv.DatasetVersion = candidate.Header.Dataset.Version // whatever was changed since the candidate began
	name, model := GeneratedName(h.Name+"-refreshed"), h.System.Model
	if h.System.Provider != model { // for the baseline extractor they are equal
		model = h.System.Provider + "/" + model
	}
	args := append([]string{"run", "--quiet", "--dataset=" + c.dataset, "--name=" + name, "--model=" + model}, c.systemArgs(h)...)
	if h.System.Provider != h.System.Model { // the baseline refuses them
		args = append(args, c.modelArgs...)
	}
	var out bytes.Buffer
	var estimate report.Estimate
	if code := c.command(ctx, c.baseEnv, &out, append(slices.Clone(args), "--estimate", "--json")); code != cli.ExitOK {
		return cli.Errorf(code, "--refresh-base: the cost of running %s again is unknown", h.Name)
	}
	if err := json.Unmarshal(out.Bytes(), &estimate); err != nil {
		return err
	}
	switch {
	case !estimate.Asks:
	case estimate.CostUSD == nil:
		return refuse("has an unknown cost, as the model has no price, and %g USD are allowed", *c.refresh)
	case *estimate.CostUSD > *c.refresh:
		return refuse("would cost %.6g USD, and %g USD are allowed", *estimate.CostUSD, *c.refresh)
	case *c.refresh > 0: // else it costs nothing
		args = append(args, fmt.Sprintf("--budget-usd=%v", *c.refresh))
	}
	if code := c.command(ctx, c.baseEnv, io.Discard, args); code != cli.ExitOK {
		return cli.Errorf(code, "--refresh-base: the run %s ended with exit code %d", name, code)
	}
	c.base, err = c.finder().Find(ctx, name)
	system := c.base.Header.System
	otherPrompt := h.System.Prompt.SHA256 != "" && system.Prompt.SHA256 != h.System.Prompt.SHA256 // Langfuse has no hash
	otherServer := h.System.Endpoint != "" && system.Endpoint != h.System.Endpoint
	if err == nil && (otherPrompt || otherServer || system.Pipeline != h.System.Pipeline) {
		return refuse("had other settings, another server of its model, or another prompt than Langfuse has now")
	}
	return err
}

// isOutdated reports whether the base is over other items than the candidate.
func (c *check) isOutdated(candidate outcome.Header) bool {
	return c.base.Header.Dataset.Fingerprint != candidate.Dataset.Fingerprint
}

// checkComparable returns an error if the base cannot be compared with the candidate, whose items are listed,
// or not be run again over them if it has to. It reads the items of the base only to name those that differ.
func (c *check) checkComparable(ctx context.Context, candidate compare.Source) (err error) {
	header, err := candidate.Header(ctx)
	if err != nil || c.refresh != nil && c.isOutdated(header) {
		return cmp.Or(err, c.checkRefresh(header))
	}
	base := c.base.Header
	if cmp.Or(c.cfg.Metric, base.Scorer.Primary) != "" && len(compare.CompareHeaders(base, header)) == 0 {
		return nil
	}
	sources, done, err := Sources(ctx, c.env, []string{c.base.Named}, base.Dataset.Name, false)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	result, err := c.cfg.ComparePlanned(ctx, sources[0], candidate)
	if err != nil {
		return err
	}
	c.adviseRefresh(result.Candidates[0].Incompatible)
	c.Comparison = &result
	both := []compare.Source{sources[0], candidate}
	return errors.Join(WriteComparison(ctx, c.values.Text("html"), result, both), result.Err())
}

// adviseRefresh adds to the mismatch of the datasets what makes the base comparable.
func (c *check) adviseRefresh(mismatches []compare.Mismatch) {
	i := slices.IndexFunc(mismatches, func(m compare.Mismatch) bool { return m.What == compare.OtherItems })
	if i < 0 || c.refresh != nil {
		return
	}
	mismatches[i].Advice = "--refresh-base USD (refresh_base in the file) runs the base again over the items of the candidate"
	if err := c.checkRefresh(outcome.Header{}); err != nil {
		mismatches[i].Advice = err.Error()
	}
}

// checkRefresh returns an error if the base would have to be run again, and cannot be.
func (c *check) checkRefresh(candidate outcome.Header) error {
	h := c.base.Header
	fixed := h.System.Provider == provider.ExternalName || h.System.Pipeline == provider.Recorded || h.Dataset.Selection != ""
	if !fixed || !c.isOutdated(candidate) {
		return nil
	}
	return c.refuseRefresh("is of a pipeline, or of a selection of items: check out %s and run it",
		cmp.Or(h.GitSHA, "its revision"))
}

func (c *check) refuseRefresh(format string, args ...any) error {
	why := fmt.Sprintf(format, args...)
	return cli.Errorf(cli.ExitIncompatible, "--refresh-base: the base %s %s", c.base.Header.Name, why)
}

// systemArgs returns the arguments of the base's trials, prompt and parameters, and of the items.
func (c *check) systemArgs(h outcome.Header) []string {
	args := append([]string{fmt.Sprintf("--trials=%d", max(1, h.Trials))}, c.itemArgs...)
	if p := h.System.Prompt; p.Name != "" {
		args = append(args, "--prompt="+p.Name, fmt.Sprintf("--prompt-version=%d", p.Version))
	}
	for _, p := range h.System.Parameters.List() { // an empty one is not taken from the config of the prompt
		args = append(args, "--"+p.Flag()+"="+p.Text())
	}
	for word := range strings.FieldsSeq(h.System.Pipeline) {
		if word == "two-stages" {
			args = append(args, "--two-stages")
		} else if spec, is := strings.CutPrefix(word, "var:"); is {
			args = append(args, "--var="+spec)
		}
	}
	return args
}
