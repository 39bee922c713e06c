package langfuse

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is the version of a Langfuse server.
type Version struct{ Major, Minor, Patch int }

// minVersion is the oldest server this client works with: older ones read the
// ids of spans wrongly.
var minVersion = Version{3, 81, 0}

// ParseVersion reads "4.16.0", also with a leading v, without a patch level, or
// with a suffix such as -rc.1.
func ParseVersion(text string) (Version, error) {
	core, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "v"), "-")
	core, _, _ = strings.Cut(core, "+")
	parts := strings.Split(core, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return Version{}, fmt.Errorf("%q is not a version like 4.16.0", cutText(text, 40))
	}
	var numbers [3]int
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return Version{}, fmt.Errorf("%q is not a version like 4.16.0", cutText(text, 40))
		}
		numbers[i] = int(n)
	}
	return Version{numbers[0], numbers[1], numbers[2]}, nil
}

// String returns the version as "4.16.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// AtLeast reports whether v is the given version or a later one.
func (v Version) AtLeast(major, minor, patch int) bool {
	if v.Major != major {
		return v.Major > major
	}
	if v.Minor != minor {
		return v.Minor > minor
	}
	return v.Patch >= patch
}

// VersionError says that a server is too old.
type VersionError struct {
	BaseURL string
	Version Version
}

// Error tells both versions and what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("langfuse: the server at %s is version %s, but %s or later is needed: upgrade it, or set %s to another server",
		e.BaseURL, e.Version, minVersion, EnvBaseURL)
}

// ExitCode returns 69: this server cannot be used.
func (*VersionError) ExitCode() int { return 69 }
