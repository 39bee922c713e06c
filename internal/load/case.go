//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/proc"
)

// loadCase is one measured command over generated items.
type loadCase struct {
	name        string
	n           int    // number of items
	kind        string // of the items: trivial, real, pairs or long; empty without items
	latency     time.Duration
	concurrency int
	// serve has the arguments of a Langfuse server in its own process. If it is nil, the
	// command uses the embedded server in the measured process.
	serve []string
	first []string // arguments of a command before the measured one, in the same folder; may be nil
	args  []string
	peer  bool // the official runner can do the same
}

// itemsFile is the file of items in the folder of a case.
const itemsFile = "items.jsonl"

// cases returns the cases of the table in docs/performance.md, in its order.
func cases() []loadCase {
	run := func(name, dataset string) []string {
		return []string{"run", "--model", "openai/load", "--name", name, "--quiet", "--dataset", dataset}
	}
	seed := []string{"seed", "--dataset", "load", "--file", itemsFile, "--quiet"}
	file, dataset, slow := run("load", itemsFile), run("load", "load"), []string{"serve", "--port", "0", "--latency", "100ms"}
	return []loadCase{
		{name: "trivial", n: 2000, kind: "trivial", latency: 50 * time.Millisecond, concurrency: 50, args: file, peer: true},
		{name: "real", n: 2000, kind: "real", latency: 50 * time.Millisecond, concurrency: 50, args: file},
		{name: "fast", n: 20_000, kind: "trivial", latency: time.Millisecond, concurrency: 200, args: file, peer: true},
		{name: "second", n: 20_000, kind: "trivial", latency: time.Millisecond, concurrency: 200, first: run("before", itemsFile), args: file},
		{name: "slow", n: 5000, kind: "trivial", latency: 500 * time.Millisecond, concurrency: 500, args: file, peer: true},
		{name: "langfuse-v4", n: 2000, kind: "trivial", latency: 200 * time.Millisecond, concurrency: 50, serve: slow, first: seed, args: dataset},
		{name: "langfuse-v3", n: 2000, kind: "trivial", latency: 200 * time.Millisecond, concurrency: 50, serve: append(slices.Clip(slow), "--mode", "v3"), first: seed, args: dataset},
		{name: "alone", n: 2000, kind: "trivial", latency: 50 * time.Millisecond, concurrency: 50, serve: slow[:3], args: file},
		{name: "seed", n: 2000, kind: "trivial", serve: slow, args: seed},
		{name: "score", n: 20_000, kind: "pairs", args: []string{"score", itemsFile, "--summary"}},
		{name: "long", n: 1, kind: "long", concurrency: 1, args: file},
		{name: "version", n: 1, args: []string{"--version"}},
		{name: "many", n: 200_000, kind: "trivial", latency: time.Millisecond, concurrency: 200, args: file},
	}
}

// selected reports whether the name of the case begins with a word of a comma-separated list. An
// empty list includes all but the one that takes many minutes.
func (c loadCase) selected(words string) bool {
	if words == "" {
		return c.name != "many"
	}
	begins := func(word string) bool { return strings.HasPrefix(c.name, word) }
	return slices.ContainsFunc(strings.Split(words, ","), begins)
}

func (c loadCase) items(scale float64) int { return max(1, int(float64(c.n)*scale)) }

// result is the measurement of one run.
type result struct {
	wall, cpu      time.Duration
	peak           int64  // bytes of resident memory; 0 if unknown
	runFile, store int64  // bytes
	Allocations    uint64 // 0 if the binary does not report them
}

// run measures the case once, in a new folder. It keeps only the concurrency of the model that
// the run before has learned.
func (c loadCase) run(ctx context.Context, o options, dir string, model *modelServer) (r result, err error) {
	windows, kept := filepath.Join(dir, ".experiment", "cache", "windows.json"), dir+".windows.json"
	_ = os.Rename(windows, kept) // the first run has none
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Dir(windows), 0o700)); err != nil {
		return r, err
	}
	_ = os.Rename(kept, windows)
	if err := c.writeItems(filepath.Join(dir, itemsFile), c.items(o.scale), o.realItems); err != nil {
		return r, err
	}
	// Profiles take time: without -profile only allocations are counted.
	profile, memoryFile := filepath.Join(dir, "memory.json"), filepath.Join(dir, "memory.json")
	if o.profile != "" {
		profile = filepath.Join(o.profile, c.name)
		memoryFile = filepath.Join(profile, "memory.json")
		if err := os.MkdirAll(profile, 0o700); err != nil {
			return r, err
		}
	}
	env := append(os.Environ(), "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY=load", "EXPERIMENT_PROFILE=")
	command := func(args ...string) *exec.Cmd {
		if args[0] == "run" {
			args = append(args, "--concurrency", fmt.Sprint(c.concurrency))
		}
		cmd := exec.CommandContext(ctx, o.binary, args...)
		cmd.Dir, cmd.Env = dir, env
		return cmd
	}
	if c.serve != nil {
		server := command(c.serve...)
		exports, err := startServer(server)
		if err != nil {
			return r, err
		}
		defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
		env = append(env, exports...)
	}
	if c.first != nil {
		if out, err := command(c.first...).CombinedOutput(); err != nil {
			return r, fmt.Errorf("experiment %s: %w\n%s", strings.Join(c.first, " "), err, out)
		}
	}
	runs, store := filepath.Join(dir, ".experiment", "runs"), filepath.Join(dir, ".experiment", "langfuse.db")
	runsBefore, storeBefore := sizeOf(runs), sizeOf(store)
	if o.profile != "" || c.name != "version" {
		env = append(env, "EXPERIMENT_PROFILE="+profile)
	}
	r, err = measureCommand(command(c.args...), o.watch)
	if err != nil {
		return r, err
	}
	r.runFile, r.store = sizeOf(runs)-runsBefore, sizeOf(store)-storeBefore
	if text, readErr := os.ReadFile(memoryFile); readErr == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// runPeer measures the other runner over the same number of items.
func (c loadCase) runPeer(ctx context.Context, o options, model *modelServer) (result, error) {
	n, before := c.items(o.scale), model.calls.Load()
	cmd := exec.CommandContext(ctx, "sh", "-c", o.peer)
	cmd.Env = append(os.Environ(), "BASE="+model.URL, fmt.Sprint("N=", n), fmt.Sprint("C=", c.concurrency))
	r, err := measureCommand(cmd, false)
	if got := model.calls.Load() - before; err == nil && got < int64(n) {
		err = fmt.Errorf("it asked the model %d times, not %d", got, n)
	}
	return r, err
}

// measureCommand measures a command. It is an error if the command fails.
func measureCommand(cmd *exec.Cmd, watch bool) (result, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	ended, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watchMemory(cmd.Process.Pid, started, watch, ended) }()
	err := cmd.Wait()
	close(ended)
	state := cmd.ProcessState
	r := result{wall: time.Since(started), cpu: state.UserTime() + state.SystemTime(), peak: <-peak}
	if err != nil {
		text := out.Bytes()
		return r, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, text[max(0, len(text)-2000):])
	}
	return r, nil
}

// watchMemory returns the peak resident memory of a process, and if verbose prints the current
// one every ten seconds. It reads the memory every 20 ms, since the peak that the system
// reports at the end includes the memory of the parent process at the start. It returns 0 if
// there is no /proc.
func watchMemory(pid int, started time.Time, verbose bool, ended <-chan struct{}) (peak int64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for next := started.Add(10 * time.Second); ; {
		if current, peakNow := proc.Memory(pid); peakNow > 0 {
			if peak = peakNow; verbose && time.Now().After(next) {
				fmt.Printf("%4.0f s %d MB\n", time.Since(started).Seconds(), current>>20)
				next = next.Add(10 * time.Second)
			}
		}
		select {
		case <-ended:
			return peak
		case <-ticker.C:
		}
	}
}

// startServer starts experiment serve and returns the variables that it prints for export.
func startServer(cmd *exec.Cmd) (exports []string, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for len(exports) < 3 && lines.Scan() {
		if pair, ok := strings.CutPrefix(lines.Text(), "export "); ok {
			exports = append(exports, pair)
		}
	}
	if len(exports) < 3 {
		return nil, fmt.Errorf("experiment serve said nothing of its address: %w", errors.Join(lines.Err(), cmd.Wait()))
	}
	return exports, nil
}

// sizeOf returns the size of a file, or of all files in a folder, in bytes.
func sizeOf(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // missing files have no size
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// writeItems generates the items of the case, if it has any.
func (c loadCase) writeItems(path string, n int, from string) error {
	if c.kind == "" {
		return nil
	}
	item, err := c.itemGenerator(from)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	encoder := json.NewEncoder(w)
	for i := range n {
		err = errors.Join(err, encoder.Encode(item(i)))
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// itemGenerator returns a function that returns the i-th item of the case.
func (c loadCase) itemGenerator(from string) (func(i int) any, error) {
	switch c.kind {
	case "real":
		return realItems(from)
	case "pairs":
		return pair, nil
	}
	text := strings.Repeat("Ruth went to Moab. ", 50)
	if c.kind == "long" {
		text = strings.Repeat("Ruth went to Moab. ", 20<<20/19)
	}
	input := object{"document_text": text, "allowed_entity_types": []string{"Person", "Place"}}
	return func(i int) any {
		return object{"id": fmt.Sprintf("t%06d", i), "input": input, "expectedOutput": json.RawMessage(modelAnswer)}
	}, nil
}

// realItems repeats the items of a file, each with a new id and with its number before its
// text.
func realItems(path string) (func(i int) any, error) {
	sample, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var items []object
	for line := range bytes.Lines(sample) {
		var item object
		err = errors.Join(err, json.Unmarshal(line, &item))
		items = append(items, item)
	}
	return func(i int) any {
		item := maps.Clone(items[i%len(items)])
		if input, ok := item["input"].(object); ok {
			input = maps.Clone(input)
			input["document_text"] = fmt.Sprint(i, " ", input["document_text"])
			item["input"] = input
		}
		item["id"] = fmt.Sprintf("r%06d", i)
		return item
	}, err
}

// pair returns a pair of two sides with 20 entities and 10 relationships each, half of which
// are equal on both sides.
func pair(i int) any {
	var sides [2]object
	for side := range sides {
		var entities, relationships []any
		name := func(k int) string {
			if k%2 == 0 {
				return fmt.Sprintf("Person %d of %d", k, i)
			}
			return fmt.Sprintf("%c side's person %d of %d", 'A'+side, k, i)
		}
		for k := range 20 {
			entities = append(entities, object{"name": name(k), "type": "Person"})
		}
		for k := range 10 {
			relationships = append(relationships, object{"source": name(k), "target": name(k + 2), "type": "knows"})
		}
		sides[side] = object{"entities": entities, "relationships": relationships}
	}
	return object{"id": fmt.Sprint(i), "expected": sides[0], "extracted": sides[1]}
}
