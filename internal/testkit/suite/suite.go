// Package suite says how much of the tests runs, and where their temporary folders are.
package suite

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Full reports whether every test runs, and each whole: EXPERIMENT_TEST_FULL is set, as .ci/run
// sets it.
func Full() bool { return os.Getenv("EXPERIMENT_TEST_FULL") != "" }

// Slow skips a test that takes a second of a processor or more, unless all run. Why says
// what takes it.
func Slow(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: set EXPERIMENT_TEST_FULL=1", why)
	}
}

// Of returns the whole where every test runs, else the sample of it.
func Of[T any](sample, whole T) T {
	if Full() {
		return whole
	}
	return sample
}

// AtOnce lets n tests run at once that call Parallel, for those of which most wait, where the
// machine has fewer processors. The command line (-parallel) decides otherwise: it is read
// later.
func AtOnce(n int) error {
	if runtime.GOMAXPROCS(0) >= n {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(n))
}
