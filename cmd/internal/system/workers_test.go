package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	o := Opener{Getenv: func(string) string { return "" }}
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
