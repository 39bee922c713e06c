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
	sig, err := readSignature(r.Header.Values(signatureHeader), t.cfg.Now())
	if err != nil {
		t.refuse(w, http.StatusUnauthorized, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		t.refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody))
		return
	case err != nil:
		t.refuse(w, http.StatusBadRequest, fmt.Errorf("the body is incomplete: %w", err))
		return
	case !sig.verify(body, t.secrets):
		t.refuse(w, http.StatusUnauthorized, fmt.Errorf("the signature is not that of a secret of %s", EnvSecret))
		return
	}
	press, err := readBody(body)
	var settings map[string]string
	if err == nil {
		settings, err = checkSettings(t.file, press)
	}
	if err != nil {
		t.refuseSigned(w, http.StatusBadRequest, press, err)
		return
	}
	press.Settings, press.Signed = settings, sig.time
	status := http.StatusInternalServerError
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
		t.refuseSigned(w, status, press, err)
		return
	}
	t.log.Info("asked", "run", accepted.Run, "dataset", accepted.Dataset, "settings", settingsText(accepted.Settings), "again", repeated)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, "run %s: %s\n", accepted.Run, accepted.state())
}

// refuse logs and answers why there is no run.
func (t *server) refuse(w http.ResponseWriter, status int, err error) {
	reason := textutil.Line(reasonOf(err))
	t.log.Warn("refused", "status", status, "reason", reason)
	http.Error(w, reason, status)
}

// refuseSigned is refuse for a request with a valid signature, which the page shows as well.
func (t *server) refuseSigned(w http.ResponseWriter, status int, press request, err error) {
	t.mu.Lock()
	row := html.RequestedRun{Time: t.cfg.Now(), Dataset: textutil.Cut(press.Dataset, 200),
		State: fmt.Sprintf("refused (%d)", status), Settings: textutil.Cut(settingsText(press.Settings), 300),
		Reason: reasonOf(err)}
	t.refused = append([]html.RequestedRun{row}, t.refused[:min(len(t.refused), maxRefused-1)]...)
	t.mu.Unlock()
	t.refuse(w, status, err)
}

// reasonOf returns an error on one line, cut to a length that can be shown.
func reasonOf(err error) string {
	return textutil.Cut(strings.ReplaceAll(err.Error(), "\n", "; "), 1500)
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
