package runs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMetadata(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ env, want map[string]string }{
		"nothing": {nil, map[string]string{metaSHA: "1234", metaBranch: "here"}},
		"GitHub, as the official action": {map[string]string{
			"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "o/r", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_RUN_ID": "42",
			"GITHUB_RUN_ATTEMPT": "1", "GITHUB_SHA": "abc123", "GITHUB_REF_NAME": "17/merge",
			"GITHUB_ACTOR": "alice", "GITHUB_TRIGGERING_ACTOR": "bob", "GITHUB_EVENT_NAME": "pull_request",
			"GITHUB_REF": "refs/pull/17/merge", "GITHUB_WORKFLOW": "CI", "GITHUB_JOB": "check",
		}, map[string]string{
			metaSHA: "abc123", metaBranch: "17/merge", metaActor: "bob", metaEvent: "pull_request", metaWorkflow: "CI", metaJob: "check",
			metaJobAttempt: "1", metaPR: "https://github.com/o/r/pull/17", metaJobURL: "https://github.com/o/r/actions/runs/42",
		}},
		"a push has no pull request": {map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_REF": "refs/heads/main", "GITHUB_REF_NAME": "main"},
			map[string]string{metaBranch: "main"}},
		"GitLab fills the same keys": {map[string]string{
			"GITLAB_CI": "true", "CI_COMMIT_SHA": "abc", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "feat", "CI_COMMIT_REF_NAME": "x",
			"CI_PIPELINE_SOURCE": "merge_request_event", "GITLAB_USER_LOGIN": "alice", "CI_JOB_NAME": "check", "CI_JOB_URL": "https://l/j/1",
			"CI_MERGE_REQUEST_IID": "7", "CI_PROJECT_URL": "https://l/o/r",
		}, map[string]string{
			metaSHA: "abc", metaBranch: "feat", metaEvent: "merge_request_event", metaActor: "alice", metaJob: "check",
			metaJobURL: "https://l/j/1", metaPR: "https://l/o/r/-/merge_requests/7",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Metadata(func(name string) string { return tt.env[name] }, Revision{SHA: "1234", Branch: "here"})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCommit: on a pull request it is the head of the branch, not the merge that is checked out.
func TestCommit(t *testing.T) {
	t.Parallel()
	event := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(event, []byte(`{"pull_request": {"head": {"sha": "feed"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string]map[string]string{
		"":     {},
		"abc":  {"GITHUB_ACTIONS": "true", "GITHUB_SHA": "abc"},
		"feed": {"GITHUB_ACTIONS": "true", "GITHUB_SHA": "abc", "GITHUB_EVENT_PATH": event},
		"def":  {"GITLAB_CI": "true", "CI_COMMIT_SHA": "def"},
		"dad":  {"GITLAB_CI": "true", "CI_COMMIT_SHA": "def", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "dad"},
	} {
		if got := commit(t.Context(), func(name string) string { return env[name] }); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRevision(t *testing.T) {
	t.Chdir(t.TempDir())
	if r := ReadRevision(); r != (Revision{}) {
		t.Errorf("outside of a repository: %+v", r)
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	if err := os.WriteFile("a", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"init -q -b trunk", "add a", "-c user.name=a -c user.email=a@example.org commit -q -m a"} {
		if out, err := exec.Command("git", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	if r := ReadRevision(); len(r.SHA) != 40 || r.Branch != "trunk" || r.Modified {
		t.Errorf("got %+v", r)
	}
	if err := os.WriteFile("a", []byte("b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := ReadRevision(); !r.Modified || r.String() != r.SHA[:12]+"-modified" {
		t.Errorf("a changed file is not noticed")
	}
}
