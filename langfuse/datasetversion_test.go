package langfuse

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestServerNow(t *testing.T) {
	at := func(ms int) time.Time {
		return time.Date(2026, 11, 21, 9, 0, 10, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	tests := map[string]struct {
		server, before, after time.Time
		now                   time.Time
		wait                  time.Duration
	}{
		"in the same second":         {at(0), at(300), at(320), at(320), 0},
		"over the border of seconds": {at(1000), at(990), at(1010), at(1010), 0},
		"before the border":          {at(0), at(990), at(1010), at(1010), 0},
		"the server is ahead":        {at(5000), at(300), at(320), at(6000), time.Second},
		"the server is behind":       {at(-3000), at(300), at(320), at(-2000), time.Second},
		"no clock":                   {time.Time{}, at(300), at(320), at(320), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now, wait := serverNow(tt.server, tt.before, tt.after)
			if !now.Equal(tt.now) || wait != tt.wait {
				t.Errorf("got %s and %s, want %s and %s", now, wait, tt.now, tt.wait)
			}
		})
	}
}

// TestCurrentDatasetVersion_clockBehind checks that the version contains an item that is decades newer than
// the clocks of client and server.
func TestCurrentDatasetVersion_clockBehind(t *testing.T) {
	created := time.Now().AddDate(50, 0, 0).UTC().Truncate(time.Millisecond)
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch version, err := time.Parse(time.RFC3339, r.URL.Query().Get("version")); {
		case strings.HasSuffix(r.URL.Path, "/health"):
			fmt.Fprint(w, `{"status":"OK","version":"3.180.0"}`)
		case err != nil || version.Before(created):
			fmt.Fprint(w, `{"data":[],"meta":{"totalItems":0}}`)
		default:
			fmt.Fprintf(w, `{"data":[{"id":"i","createdAt":%q}],"meta":{"totalItems":1}}`, FormatTime(created))
		}
	})
	found, err := client.CurrentDatasetVersion(t.Context(), "docs")
	if err != nil || !found.At.Equal(created) || found.Items != 1 {
		t.Errorf("%+v, %v; want version %s", found, err, created)
	}
}
