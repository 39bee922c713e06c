//go:build failpoints

package runstore

import (
	"fmt"
	"os"
	"sync/atomic"
)

// failpointEnv is the environment variable that says where the process exits: "before 7" or
// "after 7" means directly before or after the commit of its seventh transaction. Only a
// program that is built with the tag failpoints, for crash tests, reads it.
const failpointEnv = "RUNSTORE_FAILPOINT"

// failpointCode is the exit code of such a process.
const failpointCode = 86

var commits atomic.Int64 // in this process

// failpoint exits the process if failpointEnv names this place.
func failpoint(where string) {
	n := commits.Load()
	if where == "before" {
		n = commits.Add(1)
	}
	if os.Getenv(failpointEnv) == fmt.Sprintf("%s %d", where, n) {
		os.Exit(failpointCode)
	}
}
