package floors

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the output of the README's commands into it")

// fence finds the blocks of the README with their language.
var fence = regexp.MustCompile("(?ms)^```(console|go|text)\n(.*?)^```$")

// TestReadme executes every command block of the README, in order and in one
// folder, and compares what is printed. Times and addresses are replaced before
// the comparison; everything else must be equal.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the programs")
	}
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	fresh := ""
	for range 3 { // a time of many digits makes a column wider: then once more
		r := newReader(t)
		fresh = fence.ReplaceAllStringFunc(string(page), func(block string) string {
			m := fence.FindStringSubmatch(block)
			return "```" + m[1] + "\n" + r.execute(m[1], m[2]) + "```"
		})
		if fresh == string(page) || *update {
			break
		}
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(fresh), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if fresh != string(page) {
		t.Errorf("the README is not what its commands print; look at the difference, then run go test . -update\n%s", firstDifference(string(page), fresh))
	}
}

// reader is a person who follows the README in a folder of their own.
type reader struct {
	t      *testing.T
	root   string // the checkout
	folder string
	env    []string
	output string // of the last Go block
}

func newReader(t *testing.T) *reader {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+string(filepath.Separator), "./cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	env := []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "NO_COLOR=1"}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if name != "PATH" && !strings.HasPrefix(name, "LANGFUSE_") && !strings.HasPrefix(name, "EXPERIMENT_") {
			env = append(env, pair)
		}
	}
	return &reader{t: t, root: root, folder: t.TempDir(), env: env}
}

// execute returns the block as it should read.
func (r *reader) execute(language, body string) string {
	switch language {
	case "go":
		r.goBlock(body)
		return body
	case "text":
		return r.output
	}
	var out strings.Builder
	for _, command := range commandsOf(body) {
		for i, line := range strings.Split(command, "\n") {
			if i == 0 {
				line = "$ " + line
			}
			out.WriteString(line + "\n")
		}
		out.WriteString(r.run(command))
	}
	return out.String()
}

// commandsOf takes the commands of a block: each begins with "$ "; a here
// document goes on to its END.
func commandsOf(body string) []string {
	var commands []string
	here := false
	for _, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		switch {
		case here:
			commands[len(commands)-1] += "\n" + line
			here = line != "END"
		case strings.HasPrefix(line, "$ "):
			commands = append(commands, strings.TrimPrefix(line, "$ "))
			here = strings.Contains(line, "<<'END'")
		}
	}
	return commands
}

// run executes one command line and returns what a person would see. Commands
// about the checkout itself are not run here: installing is the build above,
// and the tests are running.
func (r *reader) run(command string) string {
	switch command {
	case "go test ./...", "go install ./cmd/...":
		return ""
	}
	program := regexp.MustCompile(`go run \./cmd/(\w+)`).ReplaceAllString(command, "$1")
	cmd := exec.Command("bash", "-c", program)
	cmd.Dir, cmd.Env = r.folder, r.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		r.t.Errorf("$ %s\n%s%v", command, out.String(), err)
	}
	return steady(out.String())
}

// goBlock runs a program of the README inside the module.
func (r *reader) goBlock(body string) {
	path := filepath.Join(r.t.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command("go", "run", path)
	cmd.Dir = r.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Errorf("the program of the README: %v\n%s", err, out)
	}
	r.output = string(out)
}

// steady replaces what differs from run to run.
func steady(out string) string {
	for _, replace := range [][2]string{
		{`(?m)^latency .*$`, "latency   …"},
		{`(?m)[0-9.]+ (ms|µs|s)( +1)$`, "   … ms$2"},
		{`20\d\d-\d\d-\d\d \d\d:\d\d`, "2026-11-21 09:00"},
		{`(?m)^   \d+\.\d+\.\d+.*$`, "   0.1.0"},
		{`(?m) +$`, ""},
	} {
		out = regexp.MustCompile(replace[0]).ReplaceAllString(out, replace[1])
	}
	return out
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "README: " + a[i] + "\nnow:    " + b[i]
		}
	}
	return "one is longer than the other"
}
