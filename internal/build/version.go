// Package build says which build of the program this is.
package build

import (
	"runtime/debug"
	"strings"
)

// release is the version of the program; CHANGELOG.md says what it brought.
const release = "0.1.0"

// Version returns the release with the revision it was built from, such as
// "0.1.0 (3f2a9c1b7d04, modified)"; without version control at build time, as
// under "go run", only the release.
func Version() string {
	revision := Revision()
	if revision == "" {
		return release
	}
	return release + " (" + revision + ")"
}

// Revision returns the revision that the program was built from, shortened, or
// "" where it is not known.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision []string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = append([]string{s.Value[:min(12, len(s.Value))]}, revision...)
		case s.Key == "vcs.modified" && s.Value == "true":
			revision = append(revision, "modified")
		}
	}
	return strings.Join(revision, ", ")
}
