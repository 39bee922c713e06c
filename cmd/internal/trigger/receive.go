package trigger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report/html"
)

// Limits of the listener.
const (
	maxBody        = 1 << 20  // bytes of a body
	maxHeader      = 16 << 10 // bytes of the headers
	maxConnections = 32       // further ones wait
	maxRefused     = 20       // refused requests on the page
)

// receive serves requests until ctx is done. A request must arrive within 15 s.
func (t *server) receive(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /trigger", t.press)
	slots := make(chan struct{}, maxConnections-1) // one more connection is accepted and waits
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				slots <- struct{}{} // blocks the accept loop
			case http.StateClosed:
				<-slots
			}
		}}
	s.SetKeepAlivesEnabled(false) // presses are rare and connections few
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.listener) }()
	select {
	case err := <-ended:
		return cli.Errorf(cli.ExitUnavailable, "listening for the Run button: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if s.Shutdown(grace) != nil {
		_ = s.Close() // Langfuse sends unfinished requests again, to the next process
	}
	<-ended
	return nil
}

// press handles POST /trigger. It answers 202 with the name of the run once the request is
// recorded, also for a repeated press; 400 for a request that is not allowed, 401 for a wrong or
// old signature, 413 for a large body, and 429 if the trigger file allows no more runs at this
// time.
func (t *server) press(w http.ResponseWriter, r *http.Request) {
	press, status, err := t.readPress(w, r)
	if err != nil {
		t.refuse(w, status, press, err)
		return
	}
	status = http.StatusInternalServerError
	accepted, repeated, err := t.queue.add(press, func(accepted request) error {
		_, err := t.commandLine(r.Context(), accepted)
		if err != nil {
			status = http.StatusBadRequest
		}
		return err
	})
	if limit, isFull := errors.AsType[*fullError](err); isFull {
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(limit.retryAfter.Seconds()))))
	}
	if err != nil {
		t.refuse(w, status, press, err)
		return
	}
	t.log.Info("asked", "run", accepted.Run, "dataset", accepted.Dataset, "settings", settingsText(accepted.Settings), "again", repeated)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, "run %s: %s\n", accepted.Run, accepted.state())
}

// readPress returns the request of a press, or the status for its error. The request has a time of
// signature once the signature is verified.
func (t *server) readPress(w http.ResponseWriter, r *http.Request) (press request, status int, err error) {
	sig, err := readSignature(r.Header.Values(signatureHeader), t.cfg.Now())
	if err != nil {
		return press, http.StatusUnauthorized, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		return press, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody)
	case err != nil:
		return press, http.StatusBadRequest, fmt.Errorf("the body is incomplete: %w", err)
	case !sig.verify(body, t.secrets):
		return press, http.StatusUnauthorized, fmt.Errorf("the signature is not that of a secret of %s", EnvSecret)
	}
	if press, err = readBody(body); err == nil {
		press.Settings, err = checkSettings(t.file, press)
	}
	press.Signed = sig.time
	return press, http.StatusBadRequest, err
}

// refuse logs and answers why there is no run. The page shows requests with a valid signature.
func (t *server) refuse(w http.ResponseWriter, status int, press request, err error) {
	reason := textutil.Cut(strings.ReplaceAll(err.Error(), "\n", "; "), 1500)
	if !press.Signed.IsZero() {
		row := html.RequestedRun{Time: t.cfg.Now(), Dataset: textutil.Cut(press.Dataset, 200), Reason: reason,
			State: fmt.Sprintf("refused (%d)", status), Settings: textutil.Cut(settingsText(press.Settings), 300)}
		t.mu.Lock()
		t.refused = append([]html.RequestedRun{row}, t.refused[:min(len(t.refused), maxRefused-1)]...)
		t.mu.Unlock()
	}
	t.log.Warn("refused", "status", status, "reason", textutil.Line(reason))
	http.Error(w, textutil.Line(reason), status)
}

// requestedRuns returns the requests with their states, newest first.
func (t *server) requestedRuns() []html.RequestedRun {
	t.mu.Lock()
	rows := slices.Clone(t.refused)
	t.mu.Unlock()
	for _, r := range t.queue.all() {
		row := html.RequestedRun{Time: r.Asked, Dataset: r.Dataset, Settings: settingsText(r.Settings), Run: r.Run,
			State: r.state(), Reason: r.Reason}
		if !r.Ended.IsZero() {
			row.State = fmt.Sprintf("exit code %d", r.Code)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b html.RequestedRun) int { return b.Time.Compare(a.Time) })
	return rows
}

// settingsText returns settings on one line.
func settingsText(settings map[string]string) string {
	keys := slices.Sorted(maps.Keys(settings))
	return strings.Join(cli.Each(keys, func(key string) string { return key + "=" + settings[key] }), " ")
}
