package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/report"
)

// planRefresh keeps what refreshBase needs of the settings of the candidate's run: those that select
// items, and an environment without those that describe the system.
func (k *check) planRefresh(runTable []settings.Setting, runValues settings.Values) {
	for _, flag := range []string{"item", "filter", "limit"} {
		for _, word := range runValues.All(flag) {
			k.itemArgs = append(k.itemArgs, "--"+flag+"="+word)
		}
	}
	k.baseEnv = k.env
	k.baseEnv.Getenv = func(name string) string {
		if slices.ContainsFunc(runTable, func(s settings.Setting) bool {
			return s.Env == name && (s.Category == "Model" || slices.Contains([]string{"config", "description", "output"}, s.Flag))
		}) {
			return ""
		}
		return k.env.Getenv(name)
	}
}

// refreshBase runs the base again over the items of the candidate, if the items of the base
// differ, with its own system and trials. It is an error if the header does not describe the system
// of the base completely, or if the run would cost more than allowed.
func (k *check) refreshBase(ctx context.Context) error {
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
	name, model := GeneratedName(h.Name+"-refreshed"), h.System.Model
	if h.System.Provider != model { // for the baseline extractor they are equal
		model = h.System.Provider + "/" + model
	}
	args := append([]string{"run", "--quiet", "--dataset=" + k.dataset, "--name=" + name, "--model=" + model}, k.systemArgs(h)...)
	var out bytes.Buffer
	var estimate report.Estimate
	if code := k.command(ctx, k.baseEnv, &out, append(slices.Clone(args), "--estimate", "--json")); code != cli.ExitOK {
		return cli.Errorf(code, "--refresh-base: the cost of running %s again is unknown", h.Name)
	}
	if err := json.Unmarshal(out.Bytes(), &estimate); err != nil {
		return err
	}
	switch {
	case !estimate.Asks:
	case estimate.CostUSD == nil:
		return refuse("has an unknown cost, as the model has no price, and %g USD are allowed", *k.refresh)
	case *estimate.CostUSD > *k.refresh:
		return refuse("would cost %.6g USD, and %g USD are allowed", *estimate.CostUSD, *k.refresh)
	case *k.refresh > 0: // else it costs nothing
		args = append(args, fmt.Sprintf("--budget-usd=%v", *k.refresh))
	}
	if code := k.command(ctx, k.baseEnv, io.Discard, args); code != cli.ExitOK {
		return cli.Errorf(code, "--refresh-base: the run %s ended with exit code %d", name, code)
	}
	k.base, err = k.finder().Find(ctx, name)
	system := k.base.Header.System
	otherPrompt := h.System.Prompt.SHA256 != "" && system.Prompt.SHA256 != h.System.Prompt.SHA256 // Langfuse has no hash
	otherServer := h.System.Endpoint != "" && system.Endpoint != h.System.Endpoint
	if err == nil && (otherPrompt || otherServer || system.Pipeline != h.System.Pipeline) {
		return refuse("had other settings, another server of its model, or another prompt than Langfuse has now")
	}
	return err
}

// systemArgs returns the arguments of the base's trials, prompt and parameters, and of the items.
func (k *check) systemArgs(h outcome.Header) []string {
	args := append([]string{fmt.Sprintf("--trials=%d", max(1, h.Trials))}, k.itemArgs...)
	if p := h.System.Prompt; p.Name != "" {
		args = append(args, "--prompt="+p.Name, fmt.Sprintf("--prompt-version=%d", p.Version))
	}
	for _, p := range h.System.Parameters.List() {
		if p.Text() != "" {
			args = append(args, "--"+p.Flag()+"="+p.Text())
		}
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
