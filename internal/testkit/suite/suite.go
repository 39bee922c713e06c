// Package suite controls how much of the tests runs, and where their temporary folders are.
package suite

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Full reports whether all tests run completely, because EXPERIMENT_TEST_FULL is set, as by
// .ci/run.
func Full() bool { return os.Getenv("EXPERIMENT_TEST_FULL") != "" }

// Slow skips a test that takes a second of processor time or more, unless Full. why names the
// cause.
func Slow(t testing.TB, why string) {
	t.Helper()
	if !Full() {
		t.Skipf("%s: set EXPERIMENT_TEST_FULL=1", why)
	}
}

// SampleOr returns whole if Full, otherwise sample.
func SampleOr[T any](sample, whole T) T {
	if Full() {
		return whole
	}
	return sample
}

// SetParallel allows n parallel tests even if the machine has fewer processors, for tests that
// mostly wait. The flag -parallel, which is parsed later, overrides it.
func SetParallel(n int) error {
	if runtime.GOMAXPROCS(0) >= n {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(n))
}
