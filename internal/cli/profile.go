package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// envProfile names a folder for what a process costs: cpu.pprof, allocs.pprof and
// memory.json. It is for those who work on this program, see docs/performance.md.
const envProfile = "EXPERIMENT_PROFILE"

// Profiled runs f and, where the environment names a folder, writes down what it cost.
func Profiled(f func() int) int {
	dir := os.Getenv(envProfile)
	if dir == "" {
		return f()
	}
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err == nil {
		err = pprof.StartCPUProfile(cpu)
	}
	code := f()
	pprof.StopCPUProfile()
	if err = errors.Join(err, cpu.Close(), writeMemory(dir)); err != nil {
		fmt.Fprintf(os.Stderr, "experiment: %s: %v\n", envProfile, err)
	}
	return code
}

// writeMemory writes where memory was allocated, and how much in all.
func writeMemory(dir string) error {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := json.Marshal(map[string]uint64{"allocations": stats.Mallocs, "bytes": stats.TotalAlloc, "collections": uint64(stats.NumGC)})
	if err != nil {
		return err
	}
	allocs, err := os.Create(filepath.Join(dir, "allocs.pprof"))
	if err == nil {
		err = errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close())
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "memory.json"), append(text, '\n'), 0o600))
}
