package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeHost stores comments as GitHub and GitLab do.
type fakeHost struct {
	mu       sync.Mutex
	comments []comment
	sent     []string
	status   int    // of every answer, if it is not 0
	message  string // of these answers
	after    string // their Retry-After
	raced    bool   // another job deletes each comment just before
	viewer   string // whose the token is, as GraphQL says; "" if that fails
	onPost   func(*fakeHost)
}

func (f *fakeHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, r.Method+" "+r.URL.Path)
	if r.Header.Get("Authorization") != "Bearer sesame" && r.Header.Get("PRIVATE-TOKEN") != "sesame" {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	if !r.Close { // Go's logger prints what comes unasked on a kept connection, such as the token
		http.Error(w, "the connection is kept", http.StatusBadRequest)
		return
	}
	if f.status != 0 {
		w.Header().Set("Retry-After", f.after)
		http.Error(w, "no: sesame "+f.message, f.status)
		return
	}
	var id int64
	fmt.Sscan(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], &id)
	var body struct{ Body string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	index := slices.IndexFunc(f.comments, func(c comment) bool { return c.ID == id })
	switch {
	case strings.HasSuffix(r.URL.Path, "/user") && r.Header.Get("PRIVATE-TOKEN") != "":
		_, _ = w.Write([]byte(`{"username": "github-actions[bot]"}`))
	case strings.HasSuffix(r.URL.Path, "/user"): // as GitHub answers the token of a job
		http.Error(w, "not for a job", http.StatusForbidden)
	case r.URL.Path == "/graphql" && f.viewer == "":
		_, _ = w.Write([]byte(`{"errors": [{"message": "not today"}]}`))
	case r.URL.Path == "/graphql":
		_, _ = fmt.Fprintf(w, `{"data": {"viewer": {"login": %q}}}`, f.viewer)
	case r.Method == http.MethodGet && r.ContentLength != 0:
		http.Error(w, "a body is not part of GET", http.StatusBadRequest)
	case r.Method == http.MethodGet:
		page := 0
		fmt.Sscan(r.URL.Query().Get("page"), &page)
		from := min(100*(page-1), len(f.comments))
		_ = json.NewEncoder(w).Encode(f.comments[from:min(from+100, len(f.comments))])
	case r.Method == http.MethodPost:
		if f.onPost != nil {
			f.onPost(f)
		}
		f.comments = append(f.comments, f.newComment(cmp.Or(f.viewer, "github-actions[bot]"), body.Body))
		w.WriteHeader(http.StatusCreated)
	case index < 0:
		http.NotFound(w, r)
	case r.Method == http.MethodDelete:
		f.comments = slices.Delete(f.comments, index, index+1)
		if f.raced {
			http.NotFound(w, r)
		}
	default:
		f.comments[index].Body = body.Body
	}
}

func (f *fakeHost) newComment(name, body string) (c comment) {
	c.ID, c.Body, c.User.Login, c.Author.Username = int64(len(f.sent)*1000+len(f.comments)), body, name, name
	return c
}

func githubEnv(t *testing.T, f *fakeHost, ref string) map[string]string {
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_API_URL": server.URL, "GITHUB_GRAPHQL_URL": server.URL + "/graphql", "GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "sesame", "GITHUB_REF": ref}
}

const pull = "refs/pull/7/merge"

// postQuickly is Comment with short pauses.
func postQuickly(t *testing.T, env map[string]string, body, marker string) (string, error) {
	t.Helper()
	api, err := newCommentAPI(func(name string) string { return env[name] })
	if err != nil {
		return "", err
	}
	return api.postTries(t.Context(), body, marker, time.Millisecond)
}

func TestComment(t *testing.T) {
	t.Parallel()
	f := &fakeHost{}
	env := githubEnv(t, f, pull)
	for range 150 { // so that the next comment is on the second page
		f.comments = append(f.comments, f.newComment("somebody", "hello"))
	}
	f.comments[3].Body = "mine\n" + commentMarker("a") // another author may quote the marker
	post := func(check, text, want string) {
		t.Helper()
		marker := commentMarker(check)
		got, err := postQuickly(t, env, text+"\n"+marker+"\n", marker)
		if err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	post("a", "first", "created")
	post("b", "other", "created")
	post("a", "second", "updated")
	if n := len(f.comments); n != 152 || !strings.HasPrefix(f.comments[150].Body, "second") || !strings.HasPrefix(f.comments[151].Body, "other") {
		t.Errorf("%d comments, the last: %+v", n, f.comments[150:])
	}
	// If two jobs post at once, one comment remains, even if the other job deletes first.
	f.raced = true
	f.onPost = func(f *fakeHost) {
		f.comments = append(f.comments, f.newComment("github-actions[bot]", "the other job\n"+commentMarker("c")))
	}
	post("c", "ours", "updated, as another job had posted it")
	if n := len(f.comments); n != 153 || !strings.HasPrefix(f.comments[152].Body, "ours") {
		t.Errorf("%d comments, the last: %+v", n, f.comments[152:])
	}
}

func TestComment_gitlab(t *testing.T) {
	t.Parallel()
	f := &fakeHost{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	env := map[string]string{"GITLAB_CI": "true", "CI_API_V4_URL": server.URL + "/api/v4", "CI_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7", "GITLAB_TOKEN": "sesame"}
	for _, want := range []string{"created", "updated"} {
		marker := commentMarker("a")
		got, err := postQuickly(t, env, want+marker, marker)
		if got != want || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if len(f.comments) != 1 || !strings.HasPrefix(f.comments[0].Body, "updated") || !slices.Contains(f.sent, "POST /api/v4/projects/5/merge_requests/7/notes") {
		t.Errorf("%+v, sent %q", f.comments, f.sent)
	}
}

// TestComment_app: the token of a GitHub App may not ask for its user either, and is not that of a job.
func TestComment_app(t *testing.T) {
	t.Parallel()
	f := &fakeHost{viewer: "my-app[bot]"}
	env := githubEnv(t, f, pull)
	for _, want := range []string{"created", "updated"} {
		marker := commentMarker("a")
		got, err := postQuickly(t, env, want+marker, marker)
		if got != want || err != nil || len(f.comments) != 1 {
			t.Errorf("got %q, %v, %d comments, want %q", got, err, len(f.comments), want)
		}
	}
}

// TestComment_again: a host that fails for a moment does not keep the comment of an earlier job, and one
// that posts without an answer gets no second comment.
func TestComment_again(t *testing.T) {
	t.Parallel()
	failures := 2
	f := &fakeHost{}
	env := githubEnv(t, f, pull)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || failures == 0 {
			f.ServeHTTP(w, r)
			return
		}
		if failures--; failures == 0 {
			f.ServeHTTP(httptest.NewRecorder(), r) // and no answer
			panic(http.ErrAbortHandler)
		}
		http.Error(w, "bad gateway", http.StatusBadGateway)
	}))
	t.Cleanup(server.Close)
	env["GITHUB_API_URL"] = server.URL
	action, err := postQuickly(t, env, "x"+commentMarker("a"), commentMarker("a"))
	if err != nil || action != "updated" || len(f.comments) != 1 {
		t.Errorf("%q, %v: %v", action, err, f.comments)
	}
}

// TestComment_limited: a rate limit, which has the status of a refusal, is not called one.
func TestComment_limited(t *testing.T) {
	for _, f := range []*fakeHost{{status: http.StatusForbidden, after: "60"},
		{status: http.StatusForbidden, message: "You have exceeded a secondary rate limit."}} {
		t.Run(f.after, func(t *testing.T) {
			t.Parallel()
			env := githubEnv(t, f, pull)
			_, err := postQuickly(t, env, "x"+commentMarker("a"), commentMarker("a"))
			if err == nil || errors.Is(err, errDenied) || !strings.Contains(err.Error(), "403 Forbidden") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestComment_refused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		ref    string
		env    map[string]string
		want   string
	}{
		"a fork's pull request": {http.StatusForbidden, pull, nil, "the token may not comment, as with a fork's pull request"},
		"an unknown token":      {0, pull, map[string]string{"GITHUB_TOKEN": "open"}, "the token may not comment"},
		"no token":              {0, pull, map[string]string{"GITHUB_TOKEN": ""}, "no token to comment with"},
		"a push":                {0, "refs/heads/main", nil, "the job has no pull request"},
		"the host is ill":       {http.StatusBadGateway, pull, nil, "502 Bad Gateway"},
		"the host is away":      {0, pull, map[string]string{"GITHUB_API_URL": "http://127.0.0.1:1"}, "connection refused"},
		"no job":                {0, pull, map[string]string{"GITHUB_ACTIONS": ""}, "not a job of GitHub or GitLab"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeHost{status: tt.status}
			env := githubEnv(t, f, tt.ref)
			for key, value := range tt.env {
				env[key] = value
			}
			_, err := postQuickly(t, env, "x"+commentMarker("a"), commentMarker("a"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestComment_echoedToken: the token is masked wherever the host writes it, also where Go quotes it in an error.
func TestComment_echoedToken(t *testing.T) {
	for _, answer := range []string{"HTTP/1.1 500 sesame\r\nContent-Length: 0\r\n\r\n", "sesame\r\n\r\n", "HTTP/1.1 sesame x\r\n\r\n"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}))
		env := githubEnv(t, &fakeHost{}, pull)
		env["GITHUB_API_URL"] = server.URL
		if _, err := postQuickly(t, env, "x", "x"); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: %v", answer, err)
		}
		server.Close()
	}
}
