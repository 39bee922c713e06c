package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
)

// request is a requested run in the form of the queue's file.
type request struct {
	Run      string            `json:"run"` // name of the run
	Dataset  string            `json:"dataset"`
	Settings map[string]string `json:"settings"`
	Signed   time.Time         `json:"signed"` // time of the signature, by the clock of Langfuse
	Asked    time.Time         `json:"asked"`
	Starts   int               `json:"starts"` // 0 while the request waits
	Began    time.Time         `json:"began,omitzero"`
	Ended    time.Time         `json:"ended,omitzero"`
	Code     int               `json:"code"` // exit code of the run
	Reason   string            `json:"reason,omitempty"`
}

func (r request) state() string {
	switch {
	case !r.Ended.IsZero():
		return "ended"
	case r.Starts > 0:
		return "running"
	}
	return "waiting"
}

// repeatedBy reports whether a press repeats r: people press twice, and a recorded request may be
// sent again. A press with the same dataset and settings repeats r if it was signed within a minute
// after r or before the run ended.
func (r request) repeatedBy(press request) bool {
	at := press.Signed
	return r.Dataset == press.Dataset && maps.Equal(r.Settings, press.Settings) &&
		(r.Ended.IsZero() || at.Before(r.Signed.Add(time.Minute)) || at.Before(r.Ended.Truncate(time.Second)))
}

const (
	day          = 24 * time.Hour
	maxEnded     = 200      // ended requests, in addition to those of the last day
	maxStarts    = 10       // for a run whose process ended each time
	maxQueueFile = 16 << 20 // size of the queue's file in bytes
)

// queue holds the requested runs and hands them out in order. It writes every change to a small
// file, as a whole, before the change takes effect. It is safe for concurrent use. Only one process
// can have it open.
type queue struct {
	path     string
	lockFile *os.File
	now      func() time.Time
	limits   configs.Trigger
	wake     chan struct{} // has capacity 1; signals that a request waits

	mu       sync.Mutex
	requests []request // sorted by time of the request
	closed   bool
}

// openQueue opens the queue of this folder. The error has exit code 69 if another process has the
// queue open, and 74 if the file cannot be read.
func openQueue(limits configs.Trigger, now func() time.Time) (*queue, error) {
	q := &queue{now: now, limits: limits, wake: make(chan struct{}, 1)}
	q.path = filepath.Join(settings.Folder, "trigger.json")
	var err error
	if q.lockFile, err = os.OpenFile(q.path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, cli.WriteError(err)
	}
	held, err := files.TryLock(q.lockFile, true)
	if err == nil && !held {
		err = cli.Errorf(cli.ExitUnavailable, "another experiment serve --trigger runs in this folder: stop it first")
	}
	if err == nil {
		err = q.read()
	}
	if err != nil {
		return nil, errors.Join(cli.WriteError(err), q.lockFile.Close())
	}
	return q, nil
}

func (q *queue) read() error {
	raw, err := files.Read(context.Background(), q.path, maxQueueFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &q.requests)
	}
	if err != nil {
		return fmt.Errorf("%s, which holds the runs that were asked for, cannot be read: %w; "+
			"repair it, or move it away to begin without them", q.path, err)
	}
	return nil
}

// close lets another process open the queue. Later changes fail.
func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return q.lockFile.Close()
}

// replace writes the list to the file, then uses it. It drops the oldest ended requests beyond
// maxEnded that are older than a day.
func (q *queue) replace(list []request) error {
	since, remaining := q.now().Add(-day), len(list)
	list = slices.DeleteFunc(slices.Clone(list), func(r request) bool {
		remaining--
		return remaining >= maxEnded && !r.Ended.IsZero() && !r.Asked.After(since)
	})
	raw, err := json.MarshalIndent(list, "", "  ")
	if q.closed {
		err = errors.New("the server ends")
	}
	if err == nil {
		err = files.WriteSynced(q.path, raw)
	}
	if err != nil {
		return cli.Errorf(cli.ExitIO, "recording the request: %w", err)
	}
	q.requests = list
	return nil
}

// fullError reports that a limit of the trigger file is reached.
type fullError struct {
	reason     string
	retryAfter time.Duration // time until the next attempt makes sense
}

func (e fullError) Error() string { return e.reason }

// add records a request for a run and returns it, or returns the existing request that the press
// repeats. Before it records a new request it calls check and returns its error. The error is a
// *fullError if the trigger file allows no more runs at this time.
func (q *queue) add(press request, check func(request) error) (r request, repeated bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	waiting, oldest, today := 0, now, 0
	for _, r := range q.requests {
		if r.repeatedBy(press) {
			return r, true, nil
		}
		if r.state() == "waiting" {
			waiting++
		}
		if r.Asked.After(now.Add(-day)) {
			today++
			if r.Asked.Before(oldest) {
				oldest = r.Asked
			}
		}
	}
	switch {
	case today >= q.limits.RunsPerDay:
		reason := fmt.Sprintf("%d runs were asked for in 24 hours, no more are allowed (runs_per_day)", today)
		return r, false, &fullError{reason, oldest.Add(day).Sub(now)}
	case waiting >= q.limits.Queue:
		reason := fmt.Sprintf("%d runs wait already, no more are allowed (queue)", waiting)
		return r, false, &fullError{reason, time.Minute}
	}
	r = press
	r.Asked, r.Run = now, q.name(r.Dataset, now)
	if err = check(r); err == nil {
		err = q.replace(append(slices.Clip(q.requests), r))
	}
	select {
	case q.wake <- struct{}{}:
	default: // a signal is pending already
	}
	return r, false, err
}

// name returns a name for a run that no other request has.
func (q *queue) name(dataset string, now time.Time) string {
	name := runName(q.limits.Datasets[dataset].Name, dataset, now)
	for n, first := 2, name; slices.ContainsFunc(q.requests, func(r request) bool { return r.Run == name }); n++ {
		name = fmt.Sprintf("%s-%d", first, n)
	}
	return name
}

// runName fills in the template of a run's name. It replaces slashes and commas in the name of the
// dataset by dashes, because Langfuse cannot look up names with them.
func runName(template, dataset string, now time.Time) string {
	safe := strings.NewReplacer("/", "-", ",", "-").Replace(dataset)
	return strings.NewReplacer("{dataset}", safe, "{time}", now.UTC().Format("20060102-150405")).Replace(template)
}

// next waits for the first request that has not ended, counts a start, and returns it. ok is false
// if ctx is done. Only one goroutine may call next, and it must call end before the next call to
// get another request.
func (q *queue) next(ctx context.Context) (r request, ok bool, err error) {
	for ctx.Err() == nil {
		if r, ok, err = q.start(); ok || err != nil {
			return r, ok, err
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	return request{}, false, nil
}

func (q *queue) start() (r request, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.requests, func(r request) bool { return r.Ended.IsZero() })
	if i < 0 {
		return request{}, false, nil
	}
	list := slices.Clone(q.requests)
	r = list[i]
	if r.Starts++; r.Starts == 1 {
		r.Began = q.now()
	}
	list[i] = r
	return r, true, q.replace(list)
}

// end records how a run ended.
func (q *queue) end(run string, code int, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.requests)
	for i := range list {
		if list[i].Run == run {
			list[i].Ended, list[i].Code, list[i].Reason = q.now(), code, reason
		}
	}
	return q.replace(list)
}

// all returns the kept requests, newest first.
func (q *queue) all() []request {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.requests)
	slices.Reverse(list)
	return list
}
