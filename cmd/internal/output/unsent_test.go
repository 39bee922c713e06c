package output

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/cli"
)

// A run that has ended and waits for Langfuse says so after 10 s, then every 30 s,
// with the reason if there is one since something got there.
func TestProgress_watchSending(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := NewProgress(cli.Env{Stderr: &out, Terminal: func() int { return 0 }}, quiet, "f1", slog.New(slog.DiscardHandler))
			over := make(chan bool)
			var mu sync.Mutex // of the two, which the progress asks for meanwhile
			var reason error
			var until time.Time
			go func() {
				time.Sleep(15 * time.Second) // 10 s: no reason is known
				mu.Lock()
				reason, until = errors.New("429:\nbusy"), time.Now().Add(time.Minute)
				mu.Unlock()
				time.Sleep(45 * time.Second) // 40 s: until 75 s
				p.Published(1)
				time.Sleep(20 * time.Second) // 70 s: 10 s after; the reason is of later
				p.Published(2)               // 80 s
				time.Sleep(30 * time.Second) // 100 s: the reason is of before
				close(over)
			}()
			p.WatchSending("my run", func() (error, time.Time) {
				mu.Lock()
				defer mu.Unlock()
				return reason, until
			})
			<-over
			p.Close()
			synctest.Wait()
			again, rest := until.Format(time.TimeOnly), "; interrupt keeps everything, experiment publish 'my run' sends it later"
			want := strings.Join([]string{
				"nothing more has got to Langfuse for 10 s" + rest,
				"nothing more has got to Langfuse for 40 s: 429: busy, asked again at " + again + rest,
				"nothing more has got to Langfuse for 10 s: 429: busy, asked again at " + again + rest,
				"nothing more has got to Langfuse for 20 s" + rest, "",
			}, "\n")
			if quiet {
				want = ""
			}
			if got := out.String(); got != want {
				t.Errorf("printed\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A run whose results are all sent, and that waits for the scores of replaced
// attempts to go, says that.
func TestProgress_withdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(cli.Env{Stderr: &out, Terminal: func() int { return 0 }}, false, "f1", slog.New(slog.DiscardHandler))
		over := make(chan bool)
		go func() {
			time.Sleep(5 * time.Second)
			p.Withdrawing(3)
			time.Sleep(20 * time.Second)
			p.Withdrawing(0)
			close(over)
		}()
		p.WatchSending("r", func() (error, time.Time) { return nil, time.Time{} })
		<-over
		p.Close()
		synctest.Wait()
		want := "all is sent; for 10 s Langfuse has not shown, or not deleted, the scores of 3 replaced attempts; interrupt keeps everything, experiment publish r sends it later\n"
		if got := out.String(); got != want {
			t.Errorf("printed %q", got)
		}
	})
}
