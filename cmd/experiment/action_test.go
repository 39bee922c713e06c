package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"extraction-experiment/internal/testkit/suite"
)

// actionFile has the fields of a composite action and of a workflow.
type actionFile struct {
	Inputs map[string]struct{ Default string }
	Runs   struct{ Steps []actionStep }
	On     map[string]any
	Perms  map[string]string `yaml:"permissions"`
	Jobs   map[string]struct{ Steps []actionStep }
}

type actionStep struct {
	Name, Shell, Run, Uses string
	Env, With              map[string]string
}

func readYAML[T any](t *testing.T, path string) (file T) {
	t.Helper()
	raw, err := os.ReadFile(checkout + path)
	if err == nil {
		err = yaml.Unmarshal(raw, &file)
	}
	must(t, err)
	return file
}

// TestAction_form: no shell block contains an input, actions of others are pinned by commit, and
// the workflow has few permissions.
func TestAction_form(t *testing.T) {
	t.Parallel()
	action, workflow := readYAML[actionFile](t, "action.yml"), readYAML[actionFile](t, "examples/ci/workflow.yaml")
	pinned := regexp.MustCompile(`^[\w./-]+@([0-9a-f]{40}|COMMIT)$`)
	for _, step := range append(action.Runs.Steps, workflow.Jobs["check"].Steps...) {
		if strings.Contains(step.Run, "${{") {
			t.Errorf("%s: an expression in the shell", step.Name)
		}
		if step.Uses != "" && !pinned.MatchString(step.Uses) {
			t.Errorf("%s is not pinned by commit", step.Uses)
		}
		for input := range step.With {
			if _, ok := action.Inputs[input]; strings.HasPrefix(step.Uses, "OWNER/") && !ok {
				t.Errorf("the workflow gives %s, which the action does not take", input)
			}
		}
	}
	gitlab := readYAML[map[string]struct{ Script []string }](t, "examples/ci/gitlab-ci.yaml")
	if script := strings.Join(gitlab["experiment"].Script, "\n"); !strings.Contains(script, "experiment check --config experiment.yaml") {
		t.Errorf("the job of GitLab: %q", script)
	}
	_, target := workflow.On["pull_request_target"]
	if _, on := workflow.On["pull_request"]; !on || target || fmt.Sprint(workflow.Perms) != "map[contents:read pull-requests:write]" {
		t.Errorf("on %v with %v", workflow.On, workflow.Perms)
	}
}

// TestAction runs the shell blocks of the action against a server that stores comments: with the
// first base, with the same result again, and with a worse one.
func TestAction(t *testing.T) {
	suite.Slow(t, "six checks in a shell")
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	var mu sync.Mutex
	var comments []map[string]any
	forbidden := false
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		switch {
		case forbidden || r.URL.Path == "/user":
			http.Error(w, "Resource not accessible by integration", http.StatusForbidden)
		case r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(comments)
		case r.Method == http.MethodPost:
			comments = append(comments, map[string]any{"id": len(comments), "body": body["body"], "user": map[string]string{"login": "github-actions[bot]"}})
		default:
			var at int
			fmt.Sscan(filepath.Base(r.URL.Path), &at)
			comments[at]["body"] = body["body"]
		}
	}))
	t.Cleanup(host.Close)
	dir, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	must(t, err)
	write := func(path, text string) {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(filepath.Join(dir, "experiment.yaml"), "dataset: extraction-eval\ncheck:\n  gate: [entity_f1 >= base - 0.1]\n")
	for _, program := range []string{"experiment", "oracle"} {
		if err := os.Symlink(self, filepath.Join(bin, program)); err != nil {
			t.Skip(err)
		}
	}
	inputs := regexp.MustCompile(`\$\{\{ inputs\.([\w-]+) \}\}`)
	action := readYAML[actionFile](t, "action.yml")
	// step runs the named step and returns its exit code and output.
	step := func(name string, given map[string]string) (int, string) {
		t.Helper()
		for _, s := range action.Runs.Steps {
			if s.Name != name {
				continue
			}
			command := exec.CommandContext(t.Context(), "bash", "-c", s.Run)
			command.Dir = dir
			command.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "EXPERIMENT_CONCURRENCY=1", "RUNNER_TEMP=" + dir, "GITHUB_ACTIONS=true", "GITHUB_API_URL=" + host.URL, "GITHUB_REPOSITORY=o/r",
				"GITHUB_REF=refs/pull/7/merge", "GITHUB_STEP_SUMMARY=" + filepath.Join(dir, "summary.md"), "GITHUB_PATH=" + filepath.Join(dir, "path.txt"), "GITHUB_REF_NAME=try"}
			for key, value := range s.Env {
				command.Env = append(command.Env, key+"="+inputs.ReplaceAllStringFunc(value, func(word string) string {
					input := inputs.FindStringSubmatch(word)[1]
					if text, ok := given[input]; ok {
						return text
					}
					return action.Inputs[input].Default
				}))
			}
			out, _ := command.CombinedOutput()
			return command.ProcessState.ExitCode(), string(out)
		}
		t.Fatalf("there is no step %s", name)
		return 0, ""
	}
	expect := func(want int, given map[string]string, says string) {
		t.Helper()
		given["token"] = "sesame"
		code, out := step("Check", given)
		if code != want || !strings.Contains(out, says) || strings.Contains(out, "sesame") {
			t.Errorf("exit code %d, want %d, saying %q:\n%.3000s", code, want, says, out)
		}
		token, _, _ := strings.Cut(strings.TrimPrefix(out, "::stop-commands::"), "\n")
		if len(token) != 32 || !strings.HasSuffix(out, "\n::"+token+"::\n") {
			t.Errorf("lines of the program can be commands of GitHub:\n%.100s", out)
		}
	}
	expect(0, map[string]string{"args": "--name=first\n--pipeline=oracle -share 0.8\n"}, "### not compared")
	command := exec.Command(filepath.Join(bin, "experiment"), "baseline", "set", "first")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	expect(0, map[string]string{"args": "--pipeline=oracle -share 0.8"}, "the comment was updated")
	expect(1, map[string]string{"args": "--pipeline=oracle -share 0.3"}, "### worse")
	expect(0, map[string]string{"args": "--check-name=$(touch hacked)`touch hacked`\n--pipeline=oracle -share 0.3", "fail-on": "never"}, "the comment was created")
	if _, err := os.Stat(filepath.Join(dir, "hacked")); err == nil {
		t.Error("an input was carried out")
	}
	if len(comments) != 2 || !strings.HasPrefix(comments[0]["body"].(string), "### worse") {
		t.Errorf("%d comments: %.300v", len(comments), comments)
	}
	forbidden = true
	expect(1, map[string]string{"args": "--pipeline=oracle -share 0.3"}, "warning: the comment was not posted, it is printed above: ")
	if summary, err := os.ReadFile(filepath.Join(dir, "summary.md")); err != nil || strings.Count(string(summary), "### worse") != 3 {
		t.Errorf("the step summary is not of every check: %v", err)
	}

	// The action installs a release only if its checksum is given and right.
	for given, says := range map[string]string{"": "give that of the archive", strings.Repeat("0", 64): "another sha256"} {
		releases := t.TempDir()
		archives := filepath.Join(releases, "v0.2.0")
		script := `mkdir -p x ` + archives + ` && echo hello >x/experiment && for m in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64; do tar -czf ` + archives + `/experiment_0.2.0_$m.tar.gz x; done && sha256sum ` + archives + `/experiment_0.2.0_linux_amd64.tar.gz`
		making := exec.Command("bash", "-c", script)
		making.Dir = releases
		if out, err := making.CombinedOutput(); err != nil {
			t.Skip(string(out))
		}
		if _, err := exec.LookPath("curl"); err != nil {
			t.Skip("no curl")
		}
		if code, out := step("Install", map[string]string{"version": "0.2.0", "sha256": given, "releases": "file://" + releases}); code != 64 || !strings.Contains(out, says) {
			t.Errorf("exit code %d: %s", code, out)
		}
		sum, err := exec.Command("bash", "-c", "sha256sum <"+archives+"/experiment_0.2.0_$(uname -s | tr A-Z a-z)_$(uname -m | sed 's/x86_64/amd64/;s/aarch64/arm64/').tar.gz | cut -c1-64").Output()
		must(t, err)
		if code, out := step("Install", map[string]string{"version": "0.2.0", "sha256": strings.TrimSpace(string(sum)), "releases": "file://" + releases}); code != 0 {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
}
