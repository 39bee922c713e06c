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

// The bounds of the listener.
const (
	mostBody        = 1 << 20 // bytes
	mostHeader      = 16 << 10
	mostConnections = 32 // more wait
	mostRefused     = 20 // that the page shows
)

// receive answers requests until ctx is done. A sender that is slow is left after 15 s.
func (t *server) receive(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /trigger", t.press)
	room := make(chan struct{}, mostConnections-1) // one more is open, which waits for it
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, MaxHeaderBytes: mostHeader,
		ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				room <- struct{}{} // nothing more is accepted meanwhile
			case http.StateClosed:
				<-room
			}
		}}
	s.SetKeepAlivesEnabled(false) // presses are rare, and connections few
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
		_ = s.Close() // who has not sent it all by now sends it to the next process
	}
	<-ended
	return nil
}

// press answers POST /trigger: 202 with the name of the run once it is written down, and for
// a press that asks for the same again; 400 for what is not allowed, 401 for a signature
// that is wrong or old, 413 for a large body, 429 where the file allows no more runs now.
func (t *server) press(w http.ResponseWriter, r *http.Request) {
	sig, err := readSignature(r.Header.Values(signatureHeader), t.cfg.Now())
	if err != nil {
		t.refuse(w, http.StatusUnauthorized, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		t.refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", mostBody))
		return
	case err != nil:
		t.refuse(w, http.StatusBadRequest, fmt.Errorf("the body did not come whole: %w", err))
		return
	case !sig.of(body, t.secrets):
		t.refuse(w, http.StatusUnauthorized, fmt.Errorf("the signature is not that of a secret of %s", EnvSecret))
		return
	}
	press, err := readBody(body)
	var settings map[string]string
	if err == nil {
		settings, err = allowed(t.file, press)
	}
	if err != nil {
		t.refuseSigned(w, http.StatusBadRequest, press, err)
		return
	}
	press.Settings, press.Signed = settings, sig.at
	status := http.StatusInternalServerError
	made, again, err := t.queue.add(press, func(made request) error {
		_, err := t.line(r.Context(), made)
		if err != nil {
			status = http.StatusBadRequest
		}
		return err
	})
	if full, is := errors.AsType[*fullError](err); is {
		status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(full.after.Seconds()))))
	}
	if err != nil {
		t.refuseSigned(w, status, press, err)
		return
	}
	t.log.Info("asked", "run", made.Run, "dataset", made.Dataset, "settings", settingsText(made.Settings), "again", again)
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, "run %s: %s\n", made.Run, made.state())
}

// refuse says and logs why there is no run.
func (t *server) refuse(w http.ResponseWriter, status int, err error) {
	reason := textutil.Line(reasonOf(err))
	t.log.Warn("refused", "status", status, "reason", reason)
	http.Error(w, reason, status)
}

// refuseSigned is refuse for a request of somebody who has the secret: the page shows it.
func (t *server) refuseSigned(w http.ResponseWriter, status int, press request, err error) {
	t.mu.Lock()
	row := html.AskedRun{Time: t.cfg.Now(), Dataset: textutil.Cut(press.Dataset, 200),
		State: fmt.Sprintf("refused (%d)", status), Settings: textutil.Cut(settingsText(press.Settings), 300),
		Reason: reasonOf(err)}
	t.refused = append([]html.AskedRun{row}, t.refused[:min(len(t.refused), mostRefused-1)]...)
	t.mu.Unlock()
	t.refuse(w, status, err)
}

// reasonOf is an error in one piece, of a length that can be shown.
func reasonOf(err error) string {
	return textutil.Cut(strings.ReplaceAll(err.Error(), "\n", "; "), 1500)
}

// asked returns what was asked for and what became of it, the newest first.
func (t *server) asked() []html.AskedRun {
	t.mu.Lock()
	rows := slices.Clone(t.refused)
	t.mu.Unlock()
	for _, r := range t.queue.all() {
		row := html.AskedRun{Time: r.Asked, Dataset: r.Dataset, Settings: settingsText(r.Settings), Run: r.Run,
			State: r.state(), Reason: r.Reason}
		if !r.Ended.IsZero() {
			row.State = fmt.Sprintf("exit code %d", r.Code)
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b html.AskedRun) int { return b.Time.Compare(a.Time) })
	return rows
}

// settingsText writes settings on one line.
func settingsText(settings map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		words = append(words, key+"="+settings[key])
	}
	return strings.Join(words, " ")
}
