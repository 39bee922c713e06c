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
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
)

// The keys of a run's metadata that Langfuse shows as columns. The official action
// langfuse/experiment-action uses the same ones.
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

// gitTimeout bounds a call of git, whose answers are only notes on the run.
const gitTimeout = 2 * time.Second

// git returns the trimmed output of git, or "" after an error.
func git(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Revision is the state of a folder in git; it is empty outside a repository and without
// git.
type Revision struct {
	SHA      string
	Branch   string // "" if none is checked out
	Modified bool   // files differ from the revision
}

// ReadRevision asks git about this folder. It takes up to four seconds.
func ReadRevision() (r Revision) {
	r.SHA, r.Branch, _ = strings.Cut(git("rev-parse", "HEAD", "--abbrev-ref", "HEAD"), "\n")
	if r.Branch = strings.TrimSpace(r.Branch); r.Branch == "HEAD" {
		r.Branch = ""
	}
	r.Modified = r.SHA != "" && git("status", "--porcelain", "--untracked-files=no") != ""
	return r
}

// String returns the revision for a run's header: 12 digits, with "-modified" if files
// differ from it; outside a repository, the revision of the program.
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

// pullRef matches the ref of a pull request on GitHub.
var pullRef = textutil.Pattern(`^refs/pull/([0-9]+)/`)

// Metadata returns the metadata of a run about its CI job: on GitHub those of the official
// action, on GitLab the same keys from GitLab's variables, elsewhere branch and revision
// from git. Unknown values have no key.
func Metadata(getenv func(string) string, git Revision) map[string]string {
	metadata := map[string]string{metaSHA: git.SHA, metaBranch: git.Branch}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		repository := strings.TrimSuffix(getenv("GITHUB_SERVER_URL"), "/") + "/" + getenv("GITHUB_REPOSITORY")
		metadata = map[string]string{
			metaSHA: getenv("GITHUB_SHA"), metaBranch: getenv("GITHUB_REF_NAME"), metaEvent: getenv("GITHUB_EVENT_NAME"),
			metaActor:    cmp.Or(getenv("GITHUB_TRIGGERING_ACTOR"), getenv("GITHUB_ACTOR")),
			metaWorkflow: getenv("GITHUB_WORKFLOW"), metaJob: getenv("GITHUB_JOB"), metaJobAttempt: getenv("GITHUB_RUN_ATTEMPT"),
		}
		if pull := pullRef().FindStringSubmatch(getenv("GITHUB_REF")); pull != nil {
			metadata[metaPR] = repository + "/pull/" + pull[1]
		}
		if run := getenv("GITHUB_RUN_ID"); run != "" {
			metadata[metaJobURL] = repository + "/actions/runs/" + run
		}
	case getenv("GITLAB_CI") == "true":
		metadata = map[string]string{
			metaSHA:    getenv("CI_COMMIT_SHA"),
			metaBranch: cmp.Or(getenv("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"), getenv("CI_COMMIT_REF_NAME")),
			metaEvent:  getenv("CI_PIPELINE_SOURCE"), metaActor: getenv("GITLAB_USER_LOGIN"),
			metaWorkflow: getenv("CI_PIPELINE_NAME"), metaJob: getenv("CI_JOB_NAME"), metaJobURL: getenv("CI_JOB_URL"),
		}
		if pull := getenv("CI_MERGE_REQUEST_IID"); pull != "" {
			project := cmp.Or(getenv("CI_MERGE_REQUEST_PROJECT_URL"), getenv("CI_PROJECT_URL"))
			metadata[metaPR] = project + "/-/merge_requests/" + pull
		}
	}
	maps.DeleteFunc(metadata, func(_, value string) bool { return value == "" })
	return metadata
}

// commit returns the commit of a CI job as its pull request shows it: the head of the branch,
// not the merge that GitHub checks out. Outside CI it is empty. It is only shown, so a file of the
// event that cannot be read is no error.
func commit(ctx context.Context, getenv func(string) string) string {
	var event struct {
		Pull struct{ Head struct{ SHA string } } `json:"pull_request"`
	}
	if raw, err := files.Read(ctx, getenv("GITHUB_EVENT_PATH"), maxResponse); err == nil {
		_ = json.Unmarshal(raw, &event)
	}
	return cmp.Or(event.Pull.Head.SHA, getenv("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"), Metadata(getenv, Revision{})[metaSHA])
}

const (
	// commentLimit is the maximum number of characters of a comment on a host.
	commentLimit = 65_536
	// maxPages bounds the pages of 100 comments that are searched.
	maxPages = 50
	// maxResponse bounds a response of the host, in bytes.
	maxResponse = 32 << 20
	hostTimeout = 20 * time.Second
)

// commentMarker returns the last line of the comment of a check, by which Comment finds it again.
func commentMarker(check string) string {
	return fmt.Sprintf("<!-- experiment-check:%x -->", sha256.Sum256([]byte(check)))
}

// commentAPI is the API for the comments on a pull request of GitHub or GitLab.
type commentAPI struct {
	client              *http.Client
	listURL, commentURL string // addresses of all comments, and of one before its id
	userURL             string // address that tells whose the token is
	graphURL            string // address of GraphQL, which tells it for tokens that userURL refuses; "" for none
	defaultUser         string // whose it is where the host does not say
	updateMethod        string // method
	header, value       string
	token               string
}

// comment is a comment on GitHub, which has a user, or on GitLab, which has an author.
type comment struct {
	ID           int64
	Body         string
	User, Author struct{ Login, Username string }
}

// Comment posts a comment on the pull request of the job, or replaces the one that has the
// marker and the same author. It returns what it did, in words. It is an error if there is
// no pull request or no token, or if the host refuses; no error contains the token. If two
// jobs post at once, one comment remains.
//
// API: GitHub's /repos/{repo}/issues/{n}/comments; GitLab's /projects/{id}/merge_requests/{n}/notes
func Comment(ctx context.Context, getenv func(string) string, body, marker string) (string, error) {
	api, err := newCommentAPI(getenv)
	if err != nil {
		return "", err
	}
	return api.postTries(ctx, body, marker, time.Second)
}

// postTries calls post up to three times, with pauses of which the second is twice the first.
func (a *commentAPI) postTries(ctx context.Context, body, marker string, pause time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*hostTimeout)
	defer cancel()
	for try := 1; ; try++ {
		action, err := a.post(ctx, body, marker)
		if err == nil || errors.Is(err, errDenied) || try == 3 {
			return action, err
		}
		select {
		case <-ctx.Done():
			return action, err
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// post posts a comment, or replaces that of the author with the marker. It can be repeated.
func (a *commentAPI) post(ctx context.Context, body, marker string) (string, error) {
	author, err := a.tokenUser(ctx)
	if err != nil {
		return "", err
	}
	found, err := a.findMarked(ctx, marker, author)
	if err != nil {
		return "", err
	}
	action := "updated"
	content, _ := json.Marshal(map[string]string{"body": body}) // strings cannot fail
	if len(found) == 0 {
		if err := a.call(ctx, http.MethodPost, a.listURL, content, nil); err != nil {
			return "", err
		}
		if found, err = a.findMarked(ctx, marker, author); err != nil || len(found) < 2 {
			return "created", nil // even if the host does not list it
		}
		action = "updated, as another job had posted it"
	}
	err = a.call(ctx, a.updateMethod, a.commentURL+fmt.Sprint(found[0].ID), content, nil)
	for _, other := range found[1:] {
		err = errors.Join(err, a.call(ctx, http.MethodDelete, a.commentURL+fmt.Sprint(other.ID), nil, nil))
	}
	return action, err
}

// newCommentAPI finds the pull request and the token in the environment.
func newCommentAPI(getenv func(string) string) (*commentAPI, error) {
	h := &commentAPI{client: limit.HTTPClient(&http.Client{
		// What comes unasked on a kept connection could be the token, and Go's logger prints it.
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}, Timeout: hostTimeout,
	})}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		pull := pullRef().FindStringSubmatch(getenv("GITHUB_REF"))
		if pull == nil {
			return nil, fmt.Errorf("the job has no pull request to comment on")
		}
		api := strings.TrimSuffix(cmp.Or(getenv("GITHUB_API_URL"), "https://api.github.com"), "/")
		issues := api + "/repos/" + getenv("GITHUB_REPOSITORY") + "/issues/"
		h.listURL, h.commentURL, h.userURL = issues+pull[1]+"/comments", issues+"comments/", api+"/user"
		h.token, h.updateMethod, h.defaultUser = getenv("GITHUB_TOKEN"), http.MethodPatch, "github-actions[bot]"
		h.header, h.value, h.graphURL = "Authorization", "Bearer "+h.token, getenv("GITHUB_GRAPHQL_URL")
	case getenv("GITLAB_CI") == "true":
		number := getenv("CI_MERGE_REQUEST_IID")
		if number == "" {
			return nil, fmt.Errorf("the job has no merge request to comment on")
		}
		api := strings.TrimSuffix(getenv("CI_API_V4_URL"), "/")
		project := url.PathEscape(cmp.Or(getenv("CI_MERGE_REQUEST_PROJECT_ID"), getenv("CI_PROJECT_ID")))
		h.listURL = api + "/projects/" + project + "/merge_requests/" + url.PathEscape(number) + "/notes"
		h.commentURL, h.userURL, h.updateMethod = h.listURL+"/", api+"/user", http.MethodPut
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

// errDenied is the error for a request that the token may not make.
var errDenied = errors.New("the token may not comment, as with a fork's pull request or without pull-requests: write")

// tokenUser returns the user of the token. The tokens of a GitHub job and of a GitHub App may
// ask for their user only in GraphQL; if that fails, it is defaultUser.
func (a *commentAPI) tokenUser(ctx context.Context) (string, error) {
	var user struct {
		Login, Username string
		Data            struct{ Viewer struct{ Login string } } // of GraphQL
	}
	err := a.call(ctx, http.MethodGet, a.userURL, nil, &user)
	if errors.Is(err, errDenied) && a.defaultUser != "" {
		_ = a.call(ctx, http.MethodPost, a.graphURL, []byte(`{"query": "{viewer {login}}"}`), &user)
		return cmp.Or(user.Data.Viewer.Login, a.defaultUser), nil
	}
	return cmp.Or(user.Login, user.Username), err
}

// findMarked returns the comments of the author that have the marker, the oldest first.
func (a *commentAPI) findMarked(ctx context.Context, marker, author string) (found []comment, err error) {
	for page := 1; page <= maxPages; page++ {
		var list []comment
		address := fmt.Sprintf("%s?per_page=100&page=%d", a.listURL, page)
		if a.updateMethod == http.MethodPut { // GitLab, whose default is the newest first
			address += "&sort=asc&order_by=created_at"
		}
		if err := a.call(ctx, http.MethodGet, address, nil, &list); err != nil {
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

// call sends a request and decodes the response into target, unless it is nil. Errors do not
// contain the token, even if the response does.
func (a *commentAPI) call(ctx context.Context, method, address string, body []byte, target any) (err error) {
	defer func() {
		if err != nil {
			err = &textutil.Reworded{Text: strings.ReplaceAll(err.Error(), a.token, "***"), Err: err}
		}
	}()
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set(a.header, a.value)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	text := strings.ReplaceAll(string(answer), a.token, "***")
	switch status := response.StatusCode; {
	case err != nil:
		return err
	case method == http.MethodDelete && status == http.StatusNotFound: // another job has deleted it
	case status >= 300:
		err := fmt.Errorf("%s %s: %s: %.200q", method, address, response.Status, text)
		limited := response.Header.Get("Retry-After") != "" || strings.Contains(strings.ToLower(text), "rate limit")
		if status == http.StatusForbidden && !limited || status == http.StatusUnauthorized || status == http.StatusNotFound {
			return fmt.Errorf("%w: %w", err, errDenied)
		}
		return err
	case target != nil && json.Unmarshal(answer, target) != nil:
		return fmt.Errorf("%s %s: the answer is not JSON as expected: %.200q", method, address, text)
	}
	return nil
}
