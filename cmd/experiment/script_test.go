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
	hasten()
	testscript.Main(withResidents{m}, map[string]func(){
		"experiment": program(Main),
		"oracle":     func() { os.Exit(oracle(os.Args[1:])) },
		"answerer":   func() { os.Exit(answerer()) },
	})
}

// usualGOGC is for processes whose memory is measured.
const usualGOGC = "GOGC=100"

// hasten lets the many processes of these tests, which live for a moment, collect
// their garbage less often and use one processor each, puts their folders into memory,
// and runs more tests at once than a small machine has processors: most wait for a
// process. With EXPERIMENT_TEST_FULL they have the disk and all processors, as users
// have. Whoever sets GOGC, GOMAXPROCS, TMPDIR or -parallel decides otherwise.
func hasten() {
	if os.Getenv("GOGC") != "" { // also in the processes that this one starts
		return
	}
	const percent = 1000
	debug.SetGCPercent(percent)
	err := os.Setenv("GOGC", strconv.Itoa(percent))
	err = errors.Join(err, suite.AtOnce(4))
	if !suite.Full() && os.Getenv("GOMAXPROCS") == "" { // this process has all processors already
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
