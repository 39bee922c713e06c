package seedcmd

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"seed": func() { os.Exit(Main()) }})
}

func TestScripts(t *testing.T) { testkit.RunScripts(t, "testdata/script") }
