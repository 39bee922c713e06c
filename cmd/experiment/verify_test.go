package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// TestVerification_write: things sent again are reported apart from repaired ones, and each
// finding is listed once.
func TestVerification_write(t *testing.T) {
	lost := tracking.Finding{Kind: tracking.MissingTrace, Trial: 1, Item: "i", Detail: "none of its 2 spans is there"}
	verdict := func(findings ...tracking.Finding) tracking.Verification {
		v := tracking.Verification{Run: "r", Counts: map[tracking.Kind]int{}, Findings: findings, Checked: tracking.Checked{Shown: map[langfuse.View]int{langfuse.ViewRuns: 1}}}
		for _, f := range findings {
			v.Counts[f.Kind]++
			if f.NeedsDecision {
				v.NeedsDecisionCount++
			}
		}
		return v
	}
	doubled := tracking.Finding{Kind: tracking.DoubledItem, Trial: 1, Item: "j", Detail: "not ours", NeedsDecision: true}
	for name, tc := range map[string]struct {
		before, after tracking.Verification
		want          string
	}{
		"all":     {verdict(lost), verdict(), "sent again  1; repaired: 1; still different: 0\nbefore      1 difference: 1 missing_trace\n"},
		"nothing": {verdict(lost), verdict(lost), "sent again  1; repaired: 0; still different: 1\n1 difference: 1 missing_trace\n"},
		"left":    {verdict(lost, doubled), verdict(doubled), "sent again  1; repaired: 1; still different: 1\n1 difference: 1 doubled_item\n"},
	} {
		var b strings.Builder
		must(t, runs.VerificationText(&b, runs.Verification{OK: tc.after.OK(), Verification: tc.after, Before: &tc.before}, report.Options{Whole: true}))
		got := b.String()
		if !strings.Contains(got, tc.want) || strings.Count(got, "  missing_trace")+strings.Count(got, "  doubled_item") != 1 || !strings.Contains(got, "shown       1 item in") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if text := (&tracking.DifferentError{Verification: verdict(lost)}).Error(); !strings.HasSuffix(text, "in 1 point") {
		t.Error(text)
	}
}

// TestVerification_onItsWay: things that may still arrive are counted, not listed, and do not
// fail the check.
func TestVerification_onItsWay(t *testing.T) {
	v := tracking.Verification{
		Run: "r", Appeared: 283, Pending: true, Counts: map[tracking.Kind]int{tracking.MissingScore: 273},
		Findings: []tracking.Finding{{Kind: tracking.MissingScore, Trial: 1, Item: "i", Score: "f1", Detail: "1 is not there"}},
	}
	var b strings.Builder
	must(t, runs.VerificationText(&b, runs.Verification{Verification: v}, report.Options{Whole: true}))
	want := "came        283 more spans, scores and list entries arrived meanwhile\nstill on its way: 273 missing_score; experiment verify r --timeout TIME waits longer\n"
	if !strings.HasSuffix(b.String(), want) || strings.Contains(b.String(), "1 is not there") || cli.ExitCode(v.Err()) != cli.ExitUnavailable {
		t.Errorf("%v\n%s", v.Err(), b.String())
	}
	v.Pending = false
	b.Reset()
	must(t, runs.VerificationText(&b, runs.Verification{Verification: v}, report.Options{Whole: true}))
	if !strings.Contains(b.String(), "more spans, scores and list entries arrived meanwhile\n273 differences: 273 missing_score\n") || !strings.Contains(b.String(), "1 is not there") || cli.ExitCode(v.Err()) != 1 {
		t.Errorf("%v\n%s", v.Err(), b.String())
	}
}

// TestVerify_still: verify reports every 10 s what it waits for.
func TestVerify_still(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		looked := runs.StillMissing(cli.Env{Stderr: &b})
		for came := range 5 {
			looked(tracking.Verification{Appeared: came, Counts: map[tracking.Kind]int{tracking.MissingScore: 4 - came}})
			time.Sleep(5 * time.Second)
		}
		if got, want := b.String(), "waiting for Langfuse: 2 more arrived; not there yet: 2 missing_score\n"; got != want {
			t.Errorf("said %q", got)
		}
	})
}

// TestVerification_remedy: the remedy of a finding is never cut. It is wrapped at a terminal and
// on one line elsewhere.
func TestVerification_remedy(t *testing.T) {
	remedy := strings.Repeat("words before it; ", 20) + "delete score 0123456789abcdef0123456789abcdef there, then repair again"
	v := tracking.Verification{Run: "r", Counts: map[tracking.Kind]int{tracking.ChangedScore: 1}, Findings: []tracking.Finding{
		{Kind: tracking.ChangedScore, Trial: 2, Item: "i", Score: "f1", Detail: remedy},
	}}
	for _, width := range []int{0, 60, 1000} {
		var b strings.Builder
		must(t, runs.VerificationText(&b, runs.Verification{Verification: v}, report.Options{Width: width, Whole: width == 0}))
		_, listed, _ := strings.Cut(b.String(), "1 difference: 1 changed_score\n")
		listed, advised := strings.CutSuffix(listed, "experiment verify r --repair sends it again\n")
		lines := strings.Split(strings.TrimSpace(listed), "\n")
		if !strings.Contains(strings.Join(strings.Fields(listed), " "), "i #2 f1: "+remedy) || (len(lines) == 1) != (width == 0) || !advised {
			t.Errorf("width %d:\n%s", width, listed)
		}
		for _, line := range lines {
			if width > 0 && len(line) > width {
				t.Errorf("a line of %d in a terminal of %d: %s", len(line), width, line)
			}
		}
	}
	// Nothing is sent again for what a person has to decide.
	v.NeedsDecisionCount = 1
	var b strings.Builder
	must(t, runs.VerificationText(&b, runs.Verification{Verification: v}, report.Options{}))
	if strings.Contains(b.String(), "--repair") {
		t.Error(b.String())
	}
}

// TestVerify_elsewhere: the environment names another server than that of the publication, with
// the same names of project and dataset; then no server.
func TestVerify_elsewhere(t *testing.T) {
	d := newDeployment(t, embedded.ModeV4)
	d.run(cli.ExitOK, "--dataset", configs.SampleName, "--name", "r1", "--limit", "2", "--quiet")
	first := d.env["LANGFUSE_BASE_URL"]
	folder, err := os.Getwd()
	must(t, err)
	other := newDeployment(t, embedded.ModeV4)
	t.Chdir(folder)
	for _, env := range []map[string]string{other.env, {}} {
		d.env = env
		for _, args := range [][]string{{"publish", "r1"}, {"verify", "r1", "--timeout", "0s"}, {"verify", "r1", "--repair", "--timeout", "0s"}} {
			stdout, stderr := d.run(cli.ExitUsage, args...)
			if stdout != "" || !strings.Contains(stderr, "published to "+first) || !strings.Contains(stderr, "set LANGFUSE_BASE_URL to "+first) {
				t.Errorf("%v: %s%s", args, stdout, stderr)
			}
		}
	}
}

// TestVerify_written: verify refuses a run that a process writes.
func TestVerify_written(t *testing.T) {
	d := newDeployment(t, embedded.ModeV4)
	d.run(cli.ExitOK, "--dataset", configs.SampleName, "--name", "r1", "--limit", "2", "--quiet")
	run, err := runstore.Open(runstore.Path(settings.Folder, d.server.Project.ID, configs.SampleName, "r1"))
	must(t, err)
	for _, args := range [][]string{{"verify", "r1"}, {"verify", "r1", "--repair"}} {
		stdout, stderr := d.run(cli.ExitUsage, args...)
		if stdout != "" || !strings.Contains(stderr, fmt.Sprintf("process %d ", os.Getpid())) {
			t.Errorf("%v: %s%s", args, stdout, stderr)
		}
	}
	must(t, run.Close())
	d.run(cli.ExitOK, "verify", "r1")
}

// TestPublish_refused: the program does not advise to send again what Langfuse rejected for
// good.
func TestPublish_refused(t *testing.T) {
	d := newDeployment(t, embedded.ModeV3)
	front := newProxy(t, d.env["LANGFUSE_BASE_URL"], func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/dataset-run-items") {
			return http.StatusNotFound
		}
		return 0
	})
	d.env["LANGFUSE_BASE_URL"] = front
	_, stderr := d.run(cli.ExitUnavailable, "--dataset", configs.SampleName, "--name", "r1", "--limit", "5", "--quiet")
	for _, says := range []string{"5 results are scored and not published: 5 items: cannot be linked any more", "nothing of it was sent", "sending it again has no effect until the cause is fixed"} {
		if !strings.Contains(stderr, says) {
			t.Errorf("the run does not say %q: %s", says, stderr)
		}
	}
	if strings.Contains(stderr, "experiment publish") || strings.Count(stderr, "cannot be linked") != 1 || strings.Contains(stderr, "level=ERROR") {
		t.Errorf("the run says: %s", stderr)
	}
}

// newProxy returns a proxy before a server that responds itself if answer returns a status.
func newProxy(t *testing.T, server string, answer func(*http.Request) int) string {
	t.Helper()
	to, err := url.Parse(server)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := answer(r)
		if status == 0 {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"message":"Dataset item not found","error":"LangfuseNotFoundError"}`))
	}))
	t.Cleanup(hs.Close)
	return hs.URL
}
