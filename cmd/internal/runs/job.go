package runs

import (
	"context"
	"maps"
	"os/exec"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// The keys of a run's metadata that Langfuse shows as columns, those of the official
// action langfuse/experiment-action.
const (
	MetaSHA        = "langfuse.git_sha"
	MetaBranch     = "langfuse.branch"
	metaEvent      = "langfuse.event"
	metaActor      = "langfuse.actor"
	metaPR         = "langfuse.pr_url"
	metaWorkflow   = "langfuse.github_workflow_name"
	metaJob        = "langfuse.github_job_name"
	metaJobAttempt = "langfuse.github_job_attempt"
	MetaJobURL     = "langfuse.github_job_url"
)

// gitTime bounds how long git is waited for: what it says is a note on the run.
const gitTime = 2 * time.Second

func git(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Revision returns what git says of the folder: the revision, its branch, which is ""
// where none is checked out, and whether files differ from it. All are empty outside of
// a repository and without git.
func Revision() (sha, branch string, modified bool) {
	sha, branch, _ = strings.Cut(git("rev-parse", "HEAD", "--abbrev-ref", "HEAD"), "\n")
	if branch = strings.TrimSpace(branch); branch == "HEAD" {
		branch = ""
	}
	return sha, branch, sha != "" && git("status", "--porcelain", "--untracked-files=no") != ""
}

// GitSHA is the revision as a run's header has it: 12 digits, with "-modified" where
// files differ from it; that of the program outside of a repository.
func GitSHA(sha string, modified bool) string {
	if sha == "" {
		return cli.Revision()
	}
	sha = sha[:min(12, len(sha))]
	if modified {
		sha += "-modified"
	}
	return sha
}

// pullRef is the ref of a pull request's merge on GitHub.
var pullRef = textutil.Pattern(`^refs/pull/([0-9]+)/`)

// Metadata returns what the run's metadata say of the job: on GitHub what the official
// action writes, on GitLab the same keys out of its variables, elsewhere branch and
// revision as git said them. What is not known has no key.
func Metadata(getenv func(string) string, sha, branch string) map[string]string {
	first := func(names ...string) string {
		for _, name := range names {
			if value := getenv(name); value != "" {
				return value
			}
		}
		return ""
	}
	said := map[string]string{MetaSHA: sha, MetaBranch: branch}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		repository := strings.TrimSuffix(first("GITHUB_SERVER_URL"), "/") + "/" + first("GITHUB_REPOSITORY")
		said = map[string]string{
			MetaSHA: first("GITHUB_SHA"), MetaBranch: first("GITHUB_REF_NAME"), metaEvent: first("GITHUB_EVENT_NAME"),
			metaActor: first("GITHUB_TRIGGERING_ACTOR", "GITHUB_ACTOR"), metaWorkflow: first("GITHUB_WORKFLOW"),
			metaJob: first("GITHUB_JOB"), metaJobAttempt: first("GITHUB_RUN_ATTEMPT"),
		}
		if pull := pullRef().FindStringSubmatch(first("GITHUB_REF")); pull != nil {
			said[metaPR] = repository + "/pull/" + pull[1]
		}
		if run := first("GITHUB_RUN_ID"); run != "" {
			said[MetaJobURL] = repository + "/actions/runs/" + run
		}
	case getenv("GITLAB_CI") == "true":
		said = map[string]string{
			MetaSHA: first("CI_COMMIT_SHA"), MetaBranch: first("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"),
			metaEvent: first("CI_PIPELINE_SOURCE"), metaActor: first("GITLAB_USER_LOGIN"), metaWorkflow: first("CI_PIPELINE_NAME"),
			metaJob: first("CI_JOB_NAME"), MetaJobURL: first("CI_JOB_URL"),
		}
		if pull := first("CI_MERGE_REQUEST_IID"); pull != "" {
			said[metaPR] = first("CI_MERGE_REQUEST_PROJECT_URL", "CI_PROJECT_URL") + "/-/merge_requests/" + pull
		}
	}
	maps.DeleteFunc(said, func(_, value string) bool { return value == "" })
	return said
}
