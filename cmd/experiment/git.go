package main

import (
	"os/exec"
	"strings"

	"extraction-experiment/internal/cli"
)

// gitSHA returns the revision of the folder that the run is started in, with
// "-modified" where files differ from it; that of the program outside a
// repository; "" if neither is known. It is a note on the run, so that a
// missing git is no error.
func gitSHA() string {
	sha, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return cli.Revision()
	}
	text := strings.TrimSpace(string(sha))
	if changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err == nil && len(changes) > 0 {
		text += "-modified"
	}
	return text
}
