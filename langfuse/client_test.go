package langfuse

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/testkit/suite"
)

const (
	testPublic = "pk-lf-1234567890"
	testSecret = "sk-lf-verysecret42"
)

// recorded is a request that a test server received.
type recorded struct {
	method, uri string
	header      http.Header
	body        []byte
}

// recorder is a handler that keeps the requests and passes them to the next handler.
type recorder struct {
	mu       sync.Mutex
	requests []recorded
	next     http.Handler
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(err)
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	r.requests = append(r.requests, recorded{req.Method, req.RequestURI, req.Header.Clone(), body})
	r.mu.Unlock()
	r.next.ServeHTTP(w, req)
}

func (r *recorder) seen() []recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]recorded(nil), r.requests...)
}

func TestMain(m *testing.M) {
	if err := suite.SetParallel(8); err != nil { // most tests wait for pauses
		panic(err)
	}
	os.Exit(m.Run())
}

// serve starts a server and returns a client for it. The client does not retry requests, unless
// the test changes the configuration.
func serve(t *testing.T, handler http.HandlerFunc, change ...func(*Config)) (*Client, *recorder) {
	t.Helper()
	record := &recorder{next: handler}
	server := httptest.NewServer(record)
	t.Cleanup(server.Close)
	config := Config{
		BaseURL: server.URL, PublicKey: testPublic, SecretKey: NewSecret(testSecret),
		MaxAttempts: 1, Jitter: func() float64 { return 0 },
	}
	for _, f := range change {
		f(&config)
	}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, record
}

// sample returns the content of a file in testdata.
func sample(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// answers returns a handler that responds to every request with one sample.
func answers(t testing.TB, name string) http.HandlerFunc {
	content := sample(t, name)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(content)
	}
}

// testingT is implemented by *testing.T and *rapid.T.
type testingT interface {
	Helper()
	Fatal(args ...any)
}

// collect returns all elements of a list.
func collect[T any](t testingT, list iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for element, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, element)
	}
	return all
}

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return -1
}

func TestNewReportsAllProblemsAtOnce(t *testing.T) {
	_, err := New(Config{BaseURL: "ftp://x"})
	if err == nil || exitCode(err) != 64 {
		t.Fatalf("error %v, exit code %d", err, exitCode(err))
	}
	for _, want := range []string{"base URL", "public key is missing", "secret key is missing"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	good := Config{PublicKey: testPublic, SecretKey: NewSecret(testSecret)}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"a password in the address": {func(c *Config) { c.BaseURL = "https://u:hunter2@h" }, "must not contain a user"},
		"the API":                   {func(c *Config) { c.BaseURL = "https://h/sub/api/public/" }, "leave out /api/public"},
		"a query":                   {func(c *Config) { c.BaseURL = "https://h/?a=b" }, "query"},
		"no host":                   {func(c *Config) { c.BaseURL = "localhost:3000" }, "needs http"},
		"a broken escape":           {func(c *Config) { c.BaseURL = "https://h/%zz" }, "cannot be read"},
		"quoted key":                {func(c *Config) { c.SecretKey = NewSecret(`"` + testSecret + `"`) }, "quotation mark"},
		"swapped keys":              {func(c *Config) { c.PublicKey, c.SecretKey = testSecret, NewSecret(testPublic) }, "swapped"},
		"a colon":                   {func(c *Config) { c.PublicKey = "a:b" }, "colon"},
		"a line break":              {func(c *Config) { c.SecretKey = NewSecret(testSecret + "\n") }, "control character"},
	} {
		config := good
		test.change(&config)
		_, err := New(config)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, secret := range []string{"hunter2", testSecret} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error holds a secret: %v", name, err)
			}
		}
	}
}

func TestBaseURLWithSubPathAndSlashes(t *testing.T) {
	for suffix, want := range map[string]string{
		"": "/api/public/health", "/": "/api/public/health",
		"/tools/langfuse": "/tools/langfuse/api/public/health", "/tools/langfuse//": "/tools/langfuse/api/public/health",
	} {
		client, record := serve(t, answers(t, "health_v4.json"), func(c *Config) { c.BaseURL += suffix })
		health, err := client.GetHealth(t.Context())
		if err != nil || health.Version != "4.16.0" || health.Time.IsZero() {
			t.Fatalf("%q: %+v, %v", suffix, health, err)
		}
		if got := record.seen()[0].uri; got != want {
			t.Errorf("%q: asked %s, want %s", suffix, got, want)
		}
	}
}

func TestDefaultBaseURL(t *testing.T) {
	client, err := New(Config{PublicKey: testPublic, SecretKey: NewSecret(testSecret)})
	if err != nil || client.BaseURL() != "https://cloud.langfuse.com" {
		t.Fatalf("%v, %v", client, err)
	}
}

func TestRequestsCarryKeysAndAgent(t *testing.T) {
	client, record := serve(t, answers(t, "projects.json"), func(c *Config) { c.UserAgent = "tester/1" })
	project, err := client.GetProject(t.Context())
	if err != nil || project.ID != "p1" {
		t.Fatalf("%+v, %v", project, err)
	}
	request := &http.Request{Header: record.seen()[0].header}
	user, password, _ := request.BasicAuth()
	if user != testPublic || password != testSecret || request.UserAgent() != "tester/1" {
		t.Errorf("sent %v", request.Header)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.example/x"+r.URL.Path, http.StatusMovedPermanently)
	})
	_, err := client.UpsertDataset(t.Context(), DatasetUpsert{Name: "d"})
	if err == nil || !strings.Contains(err.Error(), `redirects to "https://elsewhere.example/x"`) || exitCode(err) != 69 {
		t.Errorf("error %v", err)
	}
	if n := len(record.seen()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestAnswersAreCapped(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte(" "), 2000))
	}, func(c *Config) { c.MaxResponseBytes = 1000 })
	_, err := client.GetProject(t.Context())
	if !errors.Is(err, ErrTooLarge) || exitCode(err) != 69 || !strings.Contains(err.Error(), "1000 bytes") {
		t.Errorf("error %v", err)
	}
}

func TestEndlessErrorBodyIsCut(t *testing.T) {
	written := make(chan int, 1)
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		total := 0
		for chunk := bytes.Repeat([]byte("x"), 1<<16); total < 256<<20; total += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		written <- total
	})
	_, err := client.GetProject(t.Context())
	if total := <-written; err == nil || total >= 64<<20 {
		t.Errorf("read %d bytes of an error: %v", total, err)
	}
}
