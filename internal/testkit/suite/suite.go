// Package suite controls how much of the tests runs, and where their temporary folders are. Fill
// makes values for tests.
package suite

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"
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

// Fill returns a T whose fields, and theirs, all have a value, so that a test notices a field that
// is added and not handled. Lists have one element.
func Fill[T any]() (value T) {
	fill(reflect.ValueOf(&value).Elem())
	return value
}

func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte("1"))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	default: // it panics for a kind that is none of these and no integer
		v.SetInt(1)
	}
}
