package system

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/configs"
	"extraction-experiment/evaluator"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// constant is an evaluator that always gives the score 1.
type constant struct{ command []string }

func (constant) Evaluate(context.Context, evaluator.Case) (evaluator.Verdict, error) {
	return evaluator.Verdict{Score: 1}, nil
}

func (c constant) Command() []string { return c.command }

// TestCheckCertificate: a certificate counts only for the evaluator that it names, and only
// while that evaluator has not changed.
func TestCheckCertificate(t *testing.T) {
	good := conformance.Report{Evaluator: []string{"sh", "judge.sh"}, Fingerprint: "f1", Compatible: true, Consistent: true, Pass: true, TotalRuns: 4, Runs: 2, TotalFixtures: 2}
	for name, tt := range map[string]struct {
		change      func(*conformance.Report) string // changes the report, or returns another text for the file
		file        string
		uncertified string // "" if the certificate counts
		problem     string
	}{
		"as it was":        {},
		"an absolute path": {file: "/"},
		"none is named":    {file: "-", uncertified: "it has no certificate"},
		"not there":        {file: "gone.json", uncertified: "its certificate gone.json is not there"},
		"another's":        {change: func(r *conformance.Report) string { r.Evaluator[1] = "other.sh"; return "" }, uncertified: "the certificate cert.json is that of sh other.sh"},
		"did not pass":     {change: func(r *conformance.Report) string { r.Pass, r.Consistent = false, false; return "" }, uncertified: "it did not pass (cert.json)"},
		"nothing was run":  {change: func(r *conformance.Report) string { r.TotalRuns = 0; return "" }, uncertified: "it did not pass (cert.json)"},
		"it has changed":   {change: func(r *conformance.Report) string { r.Fingerprint = "f0"; return "" }, uncertified: "it has changed since it was certified (cert.json)"},
		"not JSON":         {change: func(*conformance.Report) string { return "passed" }, problem: "cert.json is not a report of experiment conformance"},
		"not a report":     {change: func(*conformance.Report) string { return "{}" }, problem: "cert.json is not a report of experiment conformance"},
		"a folder instead": {file: ".", problem: "reading the certificate"},
	} {
		report, dir := good, t.TempDir()
		report.Evaluator = append([]string{}, good.Evaluator...)
		text := ""
		if tt.change != nil {
			text = tt.change(&report)
		}
		raw, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cert.json"), []byte(cmp.Or(text, string(raw))), 0o600); err != nil {
			t.Fatal(err)
		}
		entry := configs.Scorer{Certificate: cmp.Or(tt.file, "cert.json")}
		switch tt.file {
		case "-":
			entry.Certificate = ""
		case "/":
			entry.Certificate = filepath.Join(dir, "cert.json")
		}
		var c outcome.CustomScorer
		opened := Evaluator{Evaluator: constant{good.Evaluator}, Fingerprint: "f1"}
		err = checkCertificate(t.Context(), &c, entry, dir, opened)
		switch {
		case tt.problem != "":
			if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%s: %v, want %q", name, err, tt.problem)
			}
		case err != nil || !strings.HasPrefix(c.Uncertified, tt.uncertified) || (c.Uncertified == "") != (tt.uncertified == "") || (c.Certified != "") != (tt.uncertified == ""):
			t.Errorf("%s: %+v, %v; want %q", name, c, err, tt.uncertified)
		}
	}
}
