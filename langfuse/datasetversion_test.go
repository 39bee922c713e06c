package langfuse

import (
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
