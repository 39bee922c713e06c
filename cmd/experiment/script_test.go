package main

import (
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/internal/testkit"
	"extraction-experiment/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	speedUp()
	testscript.Main(withResidents{m}, map[string]func(){
		"experiment": program(Main),
		"oracle":     func() { os.Exit(oracle(os.Args[1:])) },
		"answerer":   func() { os.Exit(answerer()) },
	})
}

// usualGOGC is the GOGC of processes whose memory is measured.
const usualGOGC = "GOGC=100"

// speedUp makes the many short processes of these tests faster: they collect garbage less often,
// use one processor each, and have their folders in memory. It also runs more tests at once than
// a small machine has processors, because most tests wait for a process. With
// EXPERIMENT_TEST_FULL the processes use the disk and all processors. GOGC, GOMAXPROCS, TMPDIR
// and -parallel, if set, win.
func speedUp() {
	if os.Getenv("GOGC") != "" { // also in processes that this one starts
		return
	}
	const percent = 1000
	debug.SetGCPercent(percent)
	err := os.Setenv("GOGC", strconv.Itoa(percent))
	err = errors.Join(err, suite.SetParallel(6))
	if !suite.Full() && os.Getenv("GOMAXPROCS") == "" { // this process uses all processors already
		err = errors.Join(err, os.Setenv("GOMAXPROCS", "1"))
	}
	suite.InMemory()
	if err != nil {
		panic(err)
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testkit.RunScripts(t, "testdata/script", scriptParams)
}
