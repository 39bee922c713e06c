package embedded

import (
	"strconv"
	"strings"
)

// before says whether the version that is played is older than another one. A
// version that is no row of numbers is the newest.
func (c Config) before(version string) bool {
	mine, theirs := strings.Split(c.Version, "."), strings.Split(version, ".")
	for i, part := range theirs {
		if i >= len(mine) {
			return true
		}
		number, _, _ := strings.Cut(mine[i], "-")
		a, err := strconv.Atoi(number)
		if err != nil {
			return false
		}
		b, err := strconv.Atoi(part)
		if err != nil || a != b {
			return err == nil && a < b
		}
	}
	return false
}

// missing says whether the version that is played is too old for a route.
func (c Config) missing(rt route) bool {
	return rt.pattern == "/api/public/v3/scores" && c.before("3.179.0")
}

// linkText is why POST /dataset-run-items is 404, or nothing: servers of 4.0 in
// events_only mode did not have it.
func (c Config) linkText() string {
	if c.Mode == ModeV4 && c.before("4.1.0") {
		return eventsOnlyText
	}
	return ""
}

// forget lets a strict body refuse the keys that a version does not know yet.
func (c Config) forget(f *form) {
	for key, since := range map[string]string{"datasetVersion": "3.150.1", "createdAt": "3.161.0"} {
		if c.before(since) {
			delete(f.read, key)
		}
	}
}
