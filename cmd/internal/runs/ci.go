package runs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// The keys of a run's metadata that Langfuse shows as columns, those of the official
// action langfuse/experiment-action.
const (
	metaSHA        = "langfuse.git_sha"
	metaBranch     = "langfuse.branch"
	metaEvent      = "langfuse.event"
	metaActor      = "langfuse.actor"
	metaPR         = "langfuse.pr_url"
	metaWorkflow   = "langfuse.github_workflow_name"
	metaJob        = "langfuse.github_job_name"
	metaJobAttempt = "langfuse.github_job_attempt"
	metaJobURL     = "langfuse.github_job_url"
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

// Revision is what git says of a folder; all is empty outside of a repository and without
// git.
type Revision struct {
	SHA      string
	Branch   string // "" where none is checked out
	Modified bool   // files differ from the revision
}

// ReadRevision asks git about this folder, for up to four seconds.
func ReadRevision() (r Revision) {
	r.SHA, r.Branch, _ = strings.Cut(git("rev-parse", "HEAD", "--abbrev-ref", "HEAD"), "\n")
	if r.Branch = strings.TrimSpace(r.Branch); r.Branch == "HEAD" {
		r.Branch = ""
	}
	r.Modified = r.SHA != "" && git("status", "--porcelain", "--untracked-files=no") != ""
	return r
}

// String is the revision as a run's header has it: 12 digits, with "-modified" where
// files differ from it; that of the program outside of a repository.
func (r Revision) String() string {
	switch short := r.SHA[:min(12, len(r.SHA))]; {
	case r.SHA == "":
		return cli.Revision()
	case r.Modified:
		return short + "-modified"
	default:
		return short
	}
}

// pullRef is the ref of a pull request's merge on GitHub.
var pullRef = textutil.Pattern(`^refs/pull/([0-9]+)/`)

// Metadata returns what the run's metadata say of the job: on GitHub what the official
// action writes, on GitLab the same keys out of its variables, elsewhere branch and
// revision as git said them. What is not known has no key.
func Metadata(getenv func(string) string, git Revision) map[string]string {
	first := func(names ...string) string {
		for _, name := range names {
			if value := getenv(name); value != "" {
				return value
			}
		}
		return ""
	}
	said := map[string]string{metaSHA: git.SHA, metaBranch: git.Branch}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		repository := strings.TrimSuffix(first("GITHUB_SERVER_URL"), "/") + "/" + first("GITHUB_REPOSITORY")
		said = map[string]string{
			metaSHA: first("GITHUB_SHA"), metaBranch: first("GITHUB_REF_NAME"), metaEvent: first("GITHUB_EVENT_NAME"),
			metaActor: first("GITHUB_TRIGGERING_ACTOR", "GITHUB_ACTOR"), metaWorkflow: first("GITHUB_WORKFLOW"),
			metaJob: first("GITHUB_JOB"), metaJobAttempt: first("GITHUB_RUN_ATTEMPT"),
		}
		if pull := pullRef().FindStringSubmatch(first("GITHUB_REF")); pull != nil {
			said[metaPR] = repository + "/pull/" + pull[1]
		}
		if run := first("GITHUB_RUN_ID"); run != "" {
			said[metaJobURL] = repository + "/actions/runs/" + run
		}
	case getenv("GITLAB_CI") == "true":
		said = map[string]string{
			metaSHA: first("CI_COMMIT_SHA"), metaBranch: first("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"),
			metaEvent: first("CI_PIPELINE_SOURCE"), metaActor: first("GITLAB_USER_LOGIN"), metaWorkflow: first("CI_PIPELINE_NAME"),
			metaJob: first("CI_JOB_NAME"), metaJobURL: first("CI_JOB_URL"),
		}
		if pull := first("CI_MERGE_REQUEST_IID"); pull != "" {
			said[metaPR] = first("CI_MERGE_REQUEST_PROJECT_URL", "CI_PROJECT_URL") + "/-/merge_requests/" + pull
		}
	}
	maps.DeleteFunc(said, func(_, value string) bool { return value == "" })
	return said
}

const (
	// commentLimit is how many characters the comment of a host may have.
	commentLimit = 65_536
	// mostPages bounds how many pages of comments are looked through, of 100 each.
	mostPages = 50
	// mostAnswer bounds the answer of the host, in bytes.
	mostAnswer = 32 << 20
	hostTime   = 20 * time.Second
)

// Marker ends the comment of a check, so that it is found again.
func Marker(check string) string {
	return fmt.Sprintf("<!-- experiment-check:%x -->", sha256.Sum256([]byte(check)))
}

// host is the API of a pull request's comments.
type host struct {
	client        *http.Client
	list, one     string // addresses of all comments, and of one before its id
	user          string // address that tells whose the token is
	robot         string // whose it is where the host does not say
	update        string // method
	header, value string
	token         string
}

// comment is one of GitHub's, which has a user, or of GitLab's, which has an author.
type comment struct {
	ID           int64
	Body         string
	User, Author struct{ Login, Username string }
}

// Comment posts the comment on the pull request of the job, or replaces the one that has
// the marker and the same author. It returns what it did, in words. Errors: there is no
// pull request, no token, or the host refuses; none of them names the token. Of two jobs
// that post at once one comment stays.
//
// API: GitHub's /repos/{repo}/issues/{n}/comments; GitLab's /projects/{id}/merge_requests/{n}/notes
func Comment(ctx context.Context, getenv func(string) string, body, marker string) (string, error) {
	h, err := newHost(getenv)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 6*hostTime)
	defer cancel()
	me, err := h.me(ctx)
	if err != nil {
		return "", err
	}
	found, err := h.marked(ctx, marker, me)
	if err != nil {
		return "", err
	}
	done := "updated"
	content, _ := json.Marshal(map[string]string{"body": body}) // texts never fail
	if len(found) == 0 {
		if err := h.call(ctx, http.MethodPost, h.list, content, nil); err != nil {
			return "", err
		}
		if found, err = h.marked(ctx, marker, me); err != nil || len(found) < 2 {
			return "created", nil // it is there, whether or not the host lists it again
		}
		done = "updated, as another job had posted it"
	}
	err = h.call(ctx, h.update, h.one+fmt.Sprint(found[0].ID), content, nil)
	for _, other := range found[1:] {
		err = errors.Join(err, h.call(ctx, http.MethodDelete, h.one+fmt.Sprint(other.ID), nil, nil))
	}
	return done, err
}

// newHost finds the pull request and the token in the environment.
func newHost(getenv func(string) string) (*host, error) {
	h := &host{client: &http.Client{Timeout: hostTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		pull := pullRef().FindStringSubmatch(getenv("GITHUB_REF"))
		if pull == nil {
			return nil, fmt.Errorf("the job has no pull request to comment on")
		}
		api := strings.TrimSuffix(cmp.Or(getenv("GITHUB_API_URL"), "https://api.github.com"), "/")
		issues := api + "/repos/" + getenv("GITHUB_REPOSITORY") + "/issues/"
		h.list, h.one, h.user = issues+pull[1]+"/comments", issues+"comments/", api+"/user"
		h.token, h.update, h.robot = getenv("GITHUB_TOKEN"), http.MethodPatch, "github-actions[bot]"
		h.header, h.value = "Authorization", "Bearer "+h.token
	case getenv("GITLAB_CI") == "true":
		number := getenv("CI_MERGE_REQUEST_IID")
		if number == "" {
			return nil, fmt.Errorf("the job has no merge request to comment on")
		}
		api := strings.TrimSuffix(getenv("CI_API_V4_URL"), "/")
		project := url.PathEscape(cmp.Or(getenv("CI_MERGE_REQUEST_PROJECT_ID"), getenv("CI_PROJECT_ID")))
		h.list = api + "/projects/" + project + "/merge_requests/" + url.PathEscape(number) + "/notes"
		h.one, h.user, h.update = h.list+"/", api+"/user", http.MethodPut
		h.token, h.header = getenv("GITLAB_TOKEN"), "PRIVATE-TOKEN"
		h.value = h.token
	default:
		return nil, fmt.Errorf("this is not a job of GitHub or GitLab: there is nothing to comment on")
	}
	if h.token == "" {
		return nil, fmt.Errorf("no token to comment with: set GITHUB_TOKEN (GitHub) or GITLAB_TOKEN (GitLab)")
	}
	return h, nil
}

// errDenied says that the host lets the token not do something.
var errDenied = errors.New("the token may not comment, as with a fork's pull request or without pull-requests: write")

// me is whose the token is. That of a job of GitHub may not ask.
func (h *host) me(ctx context.Context) (string, error) {
	var user struct{ Login, Username string }
	err := h.call(ctx, http.MethodGet, h.user, nil, &user)
	if errors.Is(err, errDenied) && h.robot != "" {
		return h.robot, nil
	}
	return cmp.Or(user.Login, user.Username), err
}

// marked lists the comments of the check, the oldest first.
func (h *host) marked(ctx context.Context, marker, author string) (found []comment, err error) {
	for page := 1; page <= mostPages; page++ {
		var list []comment
		address := fmt.Sprintf("%s?per_page=100&page=%d", h.list, page)
		if h.update == http.MethodPut { // GitLab gives the newest first
			address += "&sort=asc&order_by=created_at"
		}
		if err := h.call(ctx, http.MethodGet, address, nil, &list); err != nil {
			return nil, err
		}
		for _, c := range list {
			own := slices.Contains([]string{"", c.User.Login, c.Author.Username}, author)
			if own && strings.HasSuffix(strings.TrimSpace(c.Body), marker) {
				found = append(found, c)
			}
		}
		if len(list) < 100 {
			break
		}
	}
	return found, nil
}

// call sends a request and reads its answer. No error names the token, which the host may
// have repeated.
func (h *host) call(ctx context.Context, method, address string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set(h.header, h.value)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := h.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	switch status := response.StatusCode; {
	case err != nil:
		return err
	case status >= 300:
		said := strings.ReplaceAll(string(answer), h.token, "***")
		err := fmt.Errorf("%s %s: %s: %.200q", method, address, response.Status, said)
		if status == http.StatusForbidden || status == http.StatusUnauthorized || status == http.StatusNotFound {
			return fmt.Errorf("%w: %w", err, errDenied)
		}
		return err
	case into != nil:
		return json.Unmarshal(answer, into)
	}
	return nil
}
