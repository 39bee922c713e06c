package main

import (
	"os"
	"strings"
	"testing"
)

// TestBenchAdd_keepsTheFile: the dataset stays the file that it is, whatever
// leads to it, also when its last line has no end.
func TestBenchAdd_keepsTheFile(t *testing.T) {
	b := newBench(t)
	record := func(n string) string {
		return `{"caseId":"mine--pack--` + n + `--1a2b3c4d","category":"c","documentText":"x` + n + `","instructions":"i","targetSchema":{},"providerResponseText":"",` +
			`"expected":{"emptyResultKind":"empty_by_failure","minExtractions":0,"maxExtractions":0},"sourceUrl":"https://example.org","packId":"2026-02-15--mine--1a2b3c4d"}`
	}
	must(t, os.WriteFile("real.jsonl", []byte(record("1")), 0o600))
	must(t, os.Chmod("real.jsonl", 0o640))
	must(t, os.Symlink("real.jsonl", "link.jsonl"))
	must(t, os.WriteFile("pack.jsonl", []byte(record("2")+"\n"+record("3")), 0o600))
	if code, stdout, stderr := b.experiment("bench", "add", "pack.jsonl", "--dataset", "link.jsonl"); code != 0 || stdout != "added 2 records to link.jsonl\n" {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	link, err := os.Lstat("link.jsonl")
	must(t, err)
	file, err := os.Stat("real.jsonl")
	must(t, err)
	text, err := os.ReadFile("real.jsonl")
	must(t, err)
	if link.Mode()&os.ModeSymlink == 0 || file.Mode().Perm() != 0o640 || strings.Count(string(text), "\n") != 3 || !strings.HasPrefix(string(text), record("1")+"\n{") {
		t.Errorf("%v, %v:\n%s", link.Mode(), file.Mode(), text)
	}
}
