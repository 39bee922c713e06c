package trigger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
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

// signatureHeader is the header with the signature of Langfuse: t=<unix seconds>,v1=<hex>, where v1
// is the HMAC-SHA256 of "<t>.<raw body>".
const signatureHeader = "X-Langfuse-Signature"

// maxAge is the maximal difference between the time of a signature and the local clock.
const maxAge = 5 * time.Minute

// signature is a parsed header. It is not verified yet.
type signature struct {
	timestamp string // t as sent
	time      time.Time
	sums      []string // v1 in hex
}

// readSignature parses the signature in the headers of a request and checks its time. It ignores
// schemes other than v1.
func readSignature(headers []string, now time.Time) (s signature, err error) {
	if len(headers) != 1 {
		return s, fmt.Errorf("one header %s is expected, there are %d: turn signing on in Langfuse",
			signatureHeader, len(headers))
	}
	for part := range strings.SplitSeq(headers[0], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			seconds, err := strconv.ParseUint(value, 10, 40)
			if err != nil || s.timestamp != "" {
				return s, errors.New("the signature has no readable t")
			}
			s.timestamp, s.time = value, time.Unix(int64(seconds), 0)
		case "v1":
			s.sums = append(s.sums, strings.ToLower(value))
		}
	}
	if s.timestamp == "" || len(s.sums) == 0 {
		return s, errors.New("the signature is not of the form t=…,v1=…")
	}
	if age := now.Sub(s.time); age > maxAge || age < -maxAge {
		return s, fmt.Errorf("the signature is %s off, more than %s: is a clock wrong, or was the request sent again?",
			age.Round(time.Second), maxAge)
	}
	return s, nil
}

// verify reports whether the signature matches the body and one of the secrets. Its running time
// does not depend on where sums differ.
func (s signature) verify(body []byte, secrets []secret.Secret) bool {
	valid := false
	for _, key := range secrets {
		mac := hmac.New(sha256.New, []byte(key.Reveal()))
		mac.Write([]byte(s.timestamp + "."))
		mac.Write(body)
		want := hex.AppendEncode(nil, mac.Sum(nil))
		for _, sum := range s.sums {
			valid = hmac.Equal(want, []byte(sum)) || valid
		}
	}
	return valid
}

// readBody parses the body that Langfuse sends and returns dataset and settings as written. It
// ignores unknown keys.
func readBody(body []byte) (r request, err error) {
	var sent struct {
		DatasetName string          `json:"datasetName"`
		Payload     json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return r, fmt.Errorf("the body is not a JSON object as Langfuse sends it: %w", err)
	}
	if sent.DatasetName == "" {
		return r, errors.New("the body names no dataset (datasetName): only the Run button of a dataset is served here")
	}
	r.Dataset = sent.DatasetName
	r.Settings, err = readPayload(sent.Payload)
	return r, err
}

// maxEncodings is how many times a payload may be encoded as a JSON string. Langfuse encodes it
// once or twice.
const maxEncodings = 3

// readPayload returns the settings of a payload: an object, or a text that holds one. An absent,
// null or blank payload has no settings.
func readPayload(raw json.RawMessage) (map[string]string, error) {
	for range maxEncodings {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			break
		}
		raw = json.RawMessage(text)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return map[string]string{}, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf(`the payload is not a JSON object of settings, such as {"temperature": 0}: %w`, err)
	}
	settings := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		var text string
		switch value := object[key]; {
		case bytes.ContainsAny(value[:1], "{[n"): // an object, a list, null
			return nil, fmt.Errorf("the payload: %s is neither a text nor a number, true or false",
				textutil.Brief(key, 100))
		case json.Unmarshal(value, &text) == nil:
			settings[key] = text
		default:
			settings[key] = string(value)
		}
	}
	return settings, nil
}

// checkSettings returns the settings in canonical form if the trigger file allows all of them, else
// as they are, with an error that has every problem.
func checkSettings(file configs.Trigger, r request) (map[string]string, error) {
	run, ok := file.Datasets[r.Dataset]
	if !ok {
		return r.Settings, fmt.Errorf("the dataset %s may not be run from here; the trigger file names those that may",
			textutil.Brief(r.Dataset, 100))
	}
	var problems []error
	settings := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		rule, ok := run.Allow[key]
		value, err := rule.Canonical(key, r.Settings[key])
		if !ok {
			names := strings.Join(slices.Sorted(maps.Keys(run.Allow)), ", ")
			err = fmt.Errorf("the payload may not set %s; it may set: %s", textutil.Brief(key, 100), cmp.Or(names, "nothing"))
		}
		problems = append(problems, err)
		settings[key] = value
	}
	if err := errors.Join(problems...); err != nil {
		return r.Settings, err
	}
	return settings, nil
}
