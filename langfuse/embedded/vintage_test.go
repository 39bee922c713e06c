package embedded

import (
	"strings"
	"testing"
)

func TestConfig_before(t *testing.T) {
	cases := []struct {
		mine, theirs string
		before       bool
	}{
		{"3.81.0", "3.150.1", true}, {"3.150.0", "3.150.1", true}, {"3.150.1", "3.150.1", false}, {"3.150.2", "3.150.1", false},
		{"4.0.9", "4.1.0", true}, {"4.16.0", "3.179.0", false}, {"3.179.0-rc1", "3.179.0", false}, {"3", "3.1", true}, {"edge", "3.1.0", false},
	}
	for _, tc := range cases {
		if got := (Config{Version: tc.mine}).before(tc.theirs); got != tc.before {
			t.Errorf("%s before %s: %v", tc.mine, tc.theirs, got)
		}
	}
}

// What older servers lack.
func TestConfig_version(t *testing.T) {
	cases := map[string]struct {
		mode                              Mode
		version                           string
		link, pinned, dated, scoresStatus int
	}{
		"the newest v3": {ModeV3, "", 200, 200, 200, 200},
		"3.100":         {ModeV3, "3.100.0", 200, 400, 400, 404},
		"3.155":         {ModeV3, "3.155.0", 200, 200, 400, 404},
		"3.179":         {ModeV3, "3.179.0", 200, 200, 200, 200},
		"4.0":           {ModeV4, "4.0.2", 404, 404, 404, 200},
		"4.0 dual":      {ModeV4Dual, "4.0.2", 200, 200, 200, 200},
		"4.1":           {ModeV4, "4.1.0", 200, 200, 200, 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Mode: tc.mode, Version: tc.version})
			r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
			r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i", "input": object{}}))
			link := func(key string) answer {
				body := object{"runName": "r", "datasetItemId": "i", "traceId": "t"}
				if key != "" {
					body[key] = at2
				}
				return r.post(api+"/dataset-run-items", body)
			}
			equal(t, "statuses", []int{link("").status, link("datasetVersion").status, link("createdAt").status, r.get(api + "/v3/scores").status},
				[]int{tc.link, tc.pinned, tc.dated, tc.scoresStatus})
			if tc.link == 404 && !strings.Contains(link("").text, "events_only mode") {
				t.Errorf("got %s", link("").text)
			}
		})
	}
}
