package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"extraction-experiment/internal/testkit"
	"extraction-experiment/internal/testkit/suite"
)

var update = flag.Bool("update", false, "write the output of the commands into the pages; TestPictures: write the pictures")

// consoleBlock matches the blocks of commands of a page.
var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// checkout is the root of the repository.
const checkout = "../../"

// anyLines as the last line of an output stands for all lines that follow.
const anyLines = "…"

// TestReadme runs every command of the README and of the pages with more commands, in order and
// in one folder for each page, and compares the output. It replaces times and addresses before
// the comparison; everything else must be equal.
func TestReadme(t *testing.T) {
	t.Parallel()
	env := readersEnvironment()
	for _, name := range []string{"README.md", "docs/tour.md", "docs/commands.md"} {
		t.Run(name, func(t *testing.T) {
			if name != "README.md" && !*update {
				suite.Slow(t, "many commands")
			}
			t.Parallel()
			page, err := os.ReadFile(checkout + name)
			must(t, err)
			fresh := ""
			for range 3 { // retries because long durations widen the columns
				r := reader{t: t, folder: t.TempDir(), env: env}
				fresh = consoleBlock.ReplaceAllStringFunc(string(page), func(block string) string {
					return "```console\n" + r.execute(consoleBlock.FindStringSubmatch(block)[1]) + "```"
				})
				if fresh == string(page) || *update {
					break
				}
			}
			if *update {
				err = os.WriteFile(checkout+name, []byte(fresh), 0o644)
			} else if fresh != string(page) {
				t.Errorf("%s is not what its commands print; look at the difference, then run go test ./cmd/experiment -run TestReadme -update\n%s",
					name, firstDifference(string(page), fresh))
			}
			must(t, err)
		})
	}
}

// TestPictures checks the size of the pictures in the README. With -update it makes them in a
// browser: the page of a run, and the page of a comparison with it.
func TestPictures(t *testing.T) {
	if *update {
		chromium := testkit.StartBrowser(t)
		r := reader{t: t, folder: t.TempDir(), env: readersEnvironment()}
		for _, command := range []string{
			"mkdir -p docs/examples && cp '" + absolute(t, checkout+"docs/examples/extract.py") + "' docs/examples/",
			"experiment --dataset extraction-eval --name capitals-v1 --quiet --pipeline 'python3 docs/examples/extract.py'",
			"experiment --dataset extraction-eval --name baseline-v1 --quiet",
			"experiment report baseline-v1 --format html --output run.html",
			"experiment compare capitals-v1 baseline-v1 --html comparison.html",
		} {
			r.run(command)
		}
		for _, name := range []string{"run", "comparison"} {
			address := "file://" + filepath.Join(r.folder, name+".html")
			b := testkit.OpenPage(t, chromium, address, address)
			b.Viewport(1200, 864)
			picture, err := chromedp.Run(b, chromedp.CaptureScreenshot())
			must(t, err)
			must(t, os.WriteFile(checkout+"docs/images/"+name+".png", picture, 0o644))
		}
	}
	page, err := os.ReadFile(checkout + "README.md")
	must(t, err)
	for _, name := range []string{"docs/images/run.png", "docs/images/comparison.png"} {
		file, err := os.Stat(checkout + name)
		must(t, err)
		if file.Size() > 200_000 {
			t.Errorf("%s has %d bytes", name, file.Size())
		}
		if !bytes.Contains(page, []byte(name)) {
			t.Errorf("the README does not show %s", name)
		}
	}
}

// readersEnvironment returns an environment without settings that finds the test's program.
func readersEnvironment() []string {
	env := []string{"NO_COLOR=1"}
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "LANGFUSE_") && !strings.HasPrefix(pair, "EXPERIMENT_") {
			env = append(env, pair)
		}
	}
	return env
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	must(t, err)
	return path
}

// reader executes the commands of a page in a folder of its own.
type reader struct {
	t      *testing.T
	folder string
	env    []string
}

// execute returns the block with the actual output.
func (r *reader) execute(block string) string {
	var out strings.Builder
	for _, c := range commandsOf(block) {
		out.WriteString("$ " + c.line + "\n")
		printed := r.run(c.line)
		if last := len(c.output) - 1; last >= 0 && c.output[last] == anyLines {
			if lines := slices.Collect(strings.Lines(printed)); len(lines) > last {
				printed = strings.Join(lines[:last], "") + anyLines + "\n"
			}
		}
		out.WriteString(printed)
	}
	return out.String()
}

// command is a command of a block and its expected output.
type command struct {
	line   string
	output []string
}

// commandsOf returns the commands of a block. Each begins with "$ "; a here-document ends with
// END.
func commandsOf(block string) []command {
	var commands []command
	here := false
	for _, line := range strings.Split(strings.TrimSuffix(block, "\n"), "\n") {
		switch last := len(commands) - 1; {
		case here:
			commands[last].line += "\n" + line
			here = line != "END"
		case strings.HasPrefix(line, "$ "):
			commands = append(commands, command{line: strings.TrimPrefix(line, "$ ")})
			here = strings.Contains(line, "<<'END'")
		default:
			commands[last].output = append(commands[last].output, line)
		}
	}
	return commands
}

// run runs one command line and returns its output. It skips commands about the repository
// itself: there is nothing to install, and the tests are running.
func (r *reader) run(line string) string {
	switch line {
	case "go test ./...", "go install ./cmd/...":
		return ""
	}
	program := regexp.MustCompile(`go run \./cmd/(\w+)`).ReplaceAllString(line, "$1")
	cmd := exec.Command("bash", "-c", program)
	cmd.Dir, cmd.Env = r.folder, r.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		r.t.Errorf("$ %s\n%s%v", line, out.String(), err)
	}
	return normalize(out.String())
}

// normalize replaces text that differs between runs.
func normalize(out string) string {
	for _, replace := range [][2]string{
		{`(?m)^latency .*$`, "latency   …"},
		{`(?m)[0-9.]+ (ms|µs|s)( +1)$`, "   … ms$2"},
		{`20\d\d-\d\d-\d\d \d\d:\d\d`, "2026-11-21 09:00"},
		{`(?m)^(   \d+\.\d+\.\d+) \(.*$`, "$1"}, // the revision
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
			return "page: " + a[i] + "\nnow:  " + b[i]
		}
	}
	return "one is longer than the other"
}
