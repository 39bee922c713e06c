package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestLimitMemory: the memory limit follows the heap in use, up and down.
func TestLimitMemory(t *testing.T) {
	const least, used = 1 << 20, 64 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1)) // ends it
	limitMemory(least)
	reaches := func(what string, holds func(limit int64) bool) {
		t.Helper()
		for began := time.Now(); !holds(debug.SetMemoryLimit(-1)); runtime.GC() {
			if time.Since(began) > time.Minute {
				t.Fatalf("the limit is %d bytes, not %s", debug.SetMemoryLimit(-1), what)
			}
		}
	}
	kept := make([]byte, used)
	reaches("twice the heap in use", func(limit int64) bool { return limit >= 2*used })
	runtime.KeepAlive(kept)
	kept = nil
	reaches("less after most was freed", func(limit int64) bool { return limit < 2*used })
}
