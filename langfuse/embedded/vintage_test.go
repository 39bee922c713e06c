package embedded

import "testing"

// What a version is older than decides whether it has v3/scores.
func TestConfig_version(t *testing.T) {
	for version, status := range map[string]int{"": 200, "3.100.0": 404, "3.178.9": 404, "3.179.0-rc1": 200, "4.0.2": 200, "3": 404, "edge": 200} {
		r := newRig(t, Config{Mode: ModeV3, Version: version})
		equal(t, version, r.get(api+"/v3/scores").status, status)
	}
}
