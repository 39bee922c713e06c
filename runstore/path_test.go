package runstore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPath(t *testing.T) {
	for name, want := range map[string]string{
		"baseline-v1": "baseline-v1.run",
		"2026.11_x":   "2026.11_x.run",
		"":            "_.run",
		"_":           "-~d2e2adf7177b7a8a.run", // printf _ | sha256sum
		"Baseline v1": "baseline-v1~",
		"../../etc":   "------etc~",
		"a/b":         "a-b~",
		".hidden":     "-hidden~",
		"con":         "con~",
		"com1.x":      "com1-x~",
		"ends.":       "ends-~",
		"合同 x#2":      "合同-x-2~",
		"bad\xffutf":  "bad-utf~",
		"nul\x00l":    "nul-l~",
		"command":     "command.run",
		"com10":       "com10.run",
	} {
		path := Path("dir", "proj", "ds", name)
		base := filepath.Base(path)
		if filepath.Dir(path) != filepath.Join("dir", "runs", "proj", "ds") || !strings.HasPrefix(base, want) {
			t.Errorf("Path of %q is %s, want %s…", name, path, want)
		}
	}
}

func TestPath_isSafeAndDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		pa, pb := safeName(a), safeName(b)
		if a != b && strings.EqualFold(pa, pb) {
			t.Fatalf("%q and %q are both %q", a, b, pa)
		}
		if !filepath.IsLocal(pa) || strings.ContainsAny(pa, `/\:*?"<>|`) || len(pa) > 100 {
			t.Fatalf("%q becomes %q", a, pa)
		}
	})
}

func TestPath_caseMakesADifference(t *testing.T) {
	if a, b := safeName("Run"), safeName("RUN"); strings.EqualFold(a, b) || strings.EqualFold(a, safeName("run")) {
		t.Errorf("%s and %s are one file where case does not count", a, b)
	}
}

func TestCreate_keepsRunsOutOfGit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".experiment")
	run, err := Create(Path(dir, "", "d", "n"), testHeader())
	noError(t, err)
	noError(t, run.Close())
	text, err := os.ReadFile(filepath.Join(dir, ".gitignore"))
	noError(t, err)
	if string(text) != "*\n" {
		t.Errorf(".gitignore holds %q", text)
	}
	info, err := os.Stat(filepath.Join(dir, "runs"))
	noError(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v", info.Mode())
	}
}
