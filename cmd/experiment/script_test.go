package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/cmd/internal/scripttest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"experiment": func() { os.Exit(Main()) },
		"oracle":     func() { os.Exit(oracle(os.Args[1:])) },
		"answerer":   func() { os.Exit(answerer()) },
	})
}

func TestScripts(t *testing.T) { scripttest.Run(t, "testdata/script") }
