package runstore

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
)

func TestImport_errors(t *testing.T) {
	lines := strings.SplitAfter(smallRun(t), "\n")[:8]
	with := func(n int, line string) string { // replaces the n-th line, from 1
		changed := append([]string(nil), lines...)
		changed[n-1] = line
		return strings.Join(changed, "")
	}
	tests := map[string]struct {
		text, want string
	}{
		"empty":             {"", "line 1: the export ends without its footer"},
		"no JSON":           {with(4, "{\n"), "line 4: it is not a JSON object"},
		"blank line":        {with(4, "\n"), "line 4"},
		"unknown kind":      {with(4, `{"kind":"x"}`+"\n"), `line 4: its kind is "x"`},
		"unknown key":       {with(4, strings.Replace(lines[3], `"seq"`, `"sequence"`, 1)), "line 4: it is not in the form of an export"},
		"item twice":        {with(4, lines[2]), `line 4: item "item-000000": is in the run already`},
		"outcome twice":     {with(7, lines[5]), "line 7: outcome of item"},
		"unknown item":      {with(7, strings.Replace(lines[6], "item-000001", "item-9", 1)), "line 7: outcome of item \"item-9\""},
		"header later":      {with(2, lines[0]), `line 2: its kind is "header"`},
		"no header":         {strings.Join(lines[1:], ""), "line 1: its kind is"},
		"item after":        {with(6, lines[3]), ""},
		"after the footer":  {strings.Join(lines, "") + lines[7], "line 9"},
		"a line is missing": {with(7, ""), "line 7: the footer counts 3 items and 2 outcomes"},
		"later format":      {with(1, strings.Replace(lines[0], `"format":1`, `"format":9,"news":1`, 1)), "line 1: the export has a newer format"},
		"no uid":            {with(1, `{"kind":"header","format":1}`+"\n"), "line 1: the header"},
		"cut between lines": {strings.Join(lines[:7], ""), "line 8: the export ends without its footer"},
		"many trials":       {with(1, strings.Replace(lines[0], `"trials":1`, `"trials":1000000000`, 1)), "line 1: the header has 1000000000 trials"},
		"no such trial":     {with(6, strings.Replace(lines[5], `"trial":1`, `"trial":2`, 1)), "line 6: outcome of item"},
		"negative latency":  {with(6, strings.Replace(lines[5], `"latency_ns":`, `"latency_ns":-`, 1)), "its latency is negative"},
		"negative tokens":   {with(6, strings.Replace(lines[5], `"input":`, `"input":-`, 1)), "a number of tokens is negative"},
		"negative cost":     {with(6, strings.Replace(lines[5], `"scores":[`, `"cost_usd":-1,"scores":[`, 1)), "a cost is negative"},
		"score below 0":     {with(6, strings.Replace(lines[5], `"scores":[`, `"scores":[{"name":"x","value":-5,"ratio":{"num":5,"den":-1}},`, 1)), "score x is -5, and a share is from 0 to 1"},
		"score of nothing":  {with(6, strings.Replace(lines[5], `"scores":[`, `"scores":[{"name":"x","value":null,"ratio":{"num":5,"den":-1}},`, 1)), "score x is made of 5 and -1"},
		"cut in a line":     {strings.Join(lines[:6], "") + lines[6][:50], "line 7: it is not a JSON object"},
	}
	for name, test := range tests {
		folder := t.TempDir()
		err := Import(t.Context(), strings.NewReader(test.text), "", filepath.Join(folder, "x.run"))
		if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if left := fileNames(t, folder); len(left) != 0 {
			t.Errorf("%s: left behind: %q", name, left)
		}
	}
}

func TestOpenAny(t *testing.T) {
	// The first score is that of a custom scorer, and not a share.
	text := strings.Replace(smallRun(t), `"scores":[`, `"scores":[{"name":"distance","value":-2.5},`, 1)
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	jsonl := filepath.Join(t.TempDir(), "run.jsonl")
	noError(t, os.WriteFile(jsonl, []byte(text), 0o600))
	path := filepath.Join(t.TempDir(), "x.run")
	noError(t, Import(t.Context(), strings.NewReader(text), "", path))
	if err := Import(t.Context(), strings.NewReader(text), "", path); !errors.Is(err, ErrExists) {
		t.Errorf("import over a run: %v", err)
	}
	marked := filepath.Join(t.TempDir(), "marked.jsonl")
	noError(t, os.WriteFile(marked, []byte("\ufeff"+text), 0o600))
	wide := filepath.Join(t.TempDir(), "utf-16.jsonl")
	encoded := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(text)) {
		encoded = binary.LittleEndian.AppendUint16(encoded, unit)
	}
	noError(t, os.WriteFile(wide, encoded, 0o600))
	for _, name := range []string{jsonl, path, marked, wide} {
		r, err := OpenAny(t.Context(), name)
		noError(t, err)
		if diff := cmp.Diff(text, export(t, r)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		noError(t, r.Close())
	}
	if left := fileNames(t, folder); len(left) != 0 {
		t.Errorf("temporary files left: %q", left)
	}
	noError(t, os.WriteFile(jsonl, []byte(text[:len(text)/2]), 0o600))
	if _, err := OpenAny(t.Context(), jsonl); err == nil || !strings.Contains(err.Error(), jsonl+": line ") {
		t.Errorf("cut off: %v", err)
	}
	noError(t, os.WriteFile(jsonl, []byte("text"), 0o600))
	if _, err := OpenAny(t.Context(), jsonl); !errors.Is(err, ErrNotRun) {
		t.Errorf("text: %v", err)
	}
}

// TestImport_readError: an error of reading is that of reading, and not of the line that it cut.
func TestImport_readError(t *testing.T) {
	text := smallRun(t)
	broken := io.MultiReader(strings.NewReader(text[:len(text)-20]), iotest.ErrReader(context.Canceled))
	err := Import(t.Context(), broken, "x.jsonl", filepath.Join(t.TempDir(), "x.run"))
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "JSON") {
		t.Error(err)
	}
}

// Each run needs several syncs of the disk, so the test uses large examples with fixed seeds
// instead of the hundred cases of rapid.Check.
func TestImport_ofExportIsIdentity(t *testing.T) {
	runs := rapid.Custom(drawItems)
	for seed := range suite.SampleOr(4, 12) {
		run := newRun(t, 0)
		ctx := t.Context()
		noError(t, run.ChangeHeader(ctx, func(h *outcome.Header) { h.Trials = 2 }))
		for _, item := range runs.Example(seed) {
			noError(t, run.AddItems(ctx, []dataset.Item{item.Item}))
			for _, o := range item.outcomes {
				noError(t, run.Commit(ctx, o))
			}
		}
		text := export(t, run.Reader)
		second := filepath.Join(t.TempDir(), "second.run")
		noError(t, Import(ctx, strings.NewReader(text), "", second))
		imported := mustLoad(t, second)
		if diff := cmp.Diff(text, export(t, imported)); diff != "" {
			t.Errorf("seed %d: %s", seed, diff)
		}
		same := cmp.Diff(collect(t, run.Reader, Query{Newest: true, Depth: Full}), collect(t, imported, Query{Newest: true, Depth: Full}))
		if same != "" {
			t.Errorf("seed %d, newest: %s", seed, same)
		}
		noError(t, imported.Close())
	}
}
