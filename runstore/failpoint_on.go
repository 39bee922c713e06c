//go:build failpoints

package runstore

import (
	"fmt"
	"os"
	"sync/atomic"
)

// failpointEnv holds where the process ends, as "before 7" or "after 7": without
// a word, right before or after the seventh transaction that it writes. Only a
// program that was built with the tag failpoints, for crash tests, looks at it.
const failpointEnv = "RUNSTORE_FAILPOINT"

// failpointCode is how such a process exits.
const failpointCode = 86

var commits atomic.Int64 // of this process; the tag is for tests alone

// failpoint ends the process where the environment says so.
func failpoint(where string) {
	n := commits.Load()
	if where == "before" {
		n = commits.Add(1)
	}
	if os.Getenv(failpointEnv) == fmt.Sprintf("%s %d", where, n) {
		os.Exit(failpointCode)
	}
}
