package system

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
)

// TestIdentify: a program in another folder has the same identity, another version of it has
// not, and no name contains a secret, folder or host.
func TestIdentify(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	write := func(folder, name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second := write(a, "ocr.sh", "#!/bin/sh\n1\n"), write(b, "ocr.sh", "#!/bin/sh\n1\n")
	other := write(t.TempDir(), "ocr.sh", "#!/bin/sh\n2\n")
	o := Opener{Env: cli.Env{Getenv: func(string) string { return "" }}}
	identify := func(cfg Config) Identity {
		t.Helper()
		id, err := o.Identify(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	pipe := func(target string) Identity { return identify(Config{Pipeline: target}) }
	if x, y := pipe(first+" --fast --key one"), pipe(second+" --fast --key two"); x != y || x.Name != "pipeline ocr.sh --fast --key ***" {
		t.Errorf("one program in two folders: %v, %v", x, y)
	}
	if x, y := pipe(first), pipe(other); x.Name != y.Name || x.Hash == y.Hash {
		t.Errorf("two versions of a program: %v, %v", x, y)
	}
	if x, y := pipe("sh "+first), pipe("sh "+other); x.Hash == y.Hash {
		t.Errorf("two versions of a script: %v, %v", x, y)
	}
	if x, y := pipe("sh run.sh --step="+first), pipe("sh run.sh --step="+other); x.Name != y.Name || x.Hash == y.Hash {
		t.Errorf("two versions of a file in an option: %v, %v", x, y)
	}
	if x, y := pipe("http://gpu1:9000/extract?key=1"), pipe("http://gpu2:8000/extract"); x != y || x.Name != "pipeline /extract" {
		t.Errorf("one service on two hosts: %v, %v", x, y)
	}
	if x := identify(Config{Model: "baseline"}); x.Name != "baseline" || len(x.Hash) != 16 {
		t.Errorf("the baseline: %v", x)
	}
	_, err := o.OpenDefinition(Definition{Measured: pipe(first)}, []Config{{Model: "baseline"}, {Pipeline: other}}, nil)
	if err == nil || !strings.Contains(err.Error(), "this worker runs baseline (") || !strings.Contains(err.Error(), ", pipeline ocr.sh (") {
		t.Errorf("a worker of another program: %v", err)
	}
}

// TestWorkerCommand_missingPipeline: a program that does not exist is refused before anything is sent.
func TestWorkerCommand_missingPipeline(t *testing.T) {
	env := cli.Env{Getenv: func(string) string { return "" }, Stderr: t.Output()}
	forever := func(ctx context.Context) (context.Context, <-chan struct{}, func()) { return ctx, nil, func() {} }
	app := &urfave.App{Commands: []*urfave.Command{WorkerCommand(env, forever)}, ExitErrHandler: func(*urfave.Context, error) {}}
	err := app.Run([]string{"experiment", "worker", "--pipeline", "./missing --fast", "nats://127.0.0.1:1"})
	if cli.ExitCode(err) != cli.ExitUnavailable || !strings.Contains(err.Error(), "opening the pipeline: starting ./missing: ") {
		t.Errorf("exit code %d, %v", cli.ExitCode(err), err)
	}
}

// TestIdentify_noKey: the coordinator of a run over workers identifies a model without its key.
func TestIdentify_noKey(t *testing.T) {
	without := Opener{Env: cli.Env{Getenv: func(string) string { return "" }}}
	keys := map[string]string{"OPENAI_API_KEY": "a", "GEMINI_API_KEY": "b"}
	with := Opener{Env: cli.Env{Getenv: func(name string) string { return keys[name] }}}
	for _, model := range []string{"openai/gpt-4o", "gemini/gemini-2.5-flash"} {
		want, err := with.Identify(Config{Model: model})
		got, failed := without.Identify(Config{Model: model, NoKey: true})
		if got != want || want.Name != model || errors.Join(err, failed) != nil {
			t.Errorf("%v, want %v, %v", got, want, errors.Join(err, failed))
		}
		if _, err := without.Identify(Config{Model: model}); err == nil || !strings.Contains(err.Error(), "the key is missing") {
			t.Errorf("a worker without a key: %v", err)
		}
	}
}
