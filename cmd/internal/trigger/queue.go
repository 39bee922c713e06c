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

// request is a run that was asked for, as the queue's file has it.
type request struct {
	Run      string            `json:"run"` // its name
	Dataset  string            `json:"dataset"`
	Settings map[string]string `json:"settings"`
	Signed   time.Time         `json:"signed"` // by the clock of Langfuse
	Asked    time.Time         `json:"asked"`
	Starts   int               `json:"starts"` // 0 while it waits
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

// same reports whether a press is r once more: people press twice, and a request that was
// recorded may be sent again. The same dataset and settings, signed within a minute of the
// first, or before the run ended, are one.
func (r request) same(press request) bool {
	at := press.Signed
	return r.Dataset == press.Dataset && maps.Equal(r.Settings, press.Settings) &&
		(r.Ended.IsZero() || at.Before(r.Signed.Add(time.Minute)) || at.Before(r.Ended.Truncate(time.Second)))
}

const (
	day        = 24 * time.Hour
	mostKept   = 200      // requests that have ended, besides those of the last day
	mostStarts = 10       // of one run whose process ended each time
	mostState  = 16 << 20 // bytes of the queue's file
)

// queue is what was asked for: written to a file before anything follows from it, handed
// out in order. The file is small, and written as a whole. It is safe for concurrent use;
// one process has it open.
type queue struct {
	path   string
	lock   *os.File
	now    func() time.Time
	bounds configs.Trigger
	news   chan struct{} // room for one: something waits

	mu     sync.Mutex
	list   []request // in the order of asking
	closed bool
}

// openQueue reads the queue of this folder. It fails with 69 while another process has it
// open, and with 74 where it cannot be read.
func openQueue(bounds configs.Trigger, now func() time.Time) (*queue, error) {
	q := &queue{now: now, bounds: bounds, news: make(chan struct{}, 1)}
	q.path = filepath.Join(settings.Folder, "trigger.json")
	var err error
	if q.lock, err = os.OpenFile(q.path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, cli.Written(err)
	}
	held, err := files.TryLock(q.lock, true)
	if err == nil && !held {
		err = cli.Errorf(cli.ExitUnavailable, "another experiment serve --trigger runs in this folder: stop it first")
	}
	if err == nil {
		err = q.read()
	}
	if err != nil {
		return nil, errors.Join(cli.Written(err), q.lock.Close())
	}
	return q, nil
}

func (q *queue) read() error {
	raw, err := files.Read(context.Background(), q.path, mostState)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &q.list)
	}
	if err != nil {
		return fmt.Errorf("%s, which holds the runs that were asked for, cannot be read: %w; "+
			"repair it, or move it away to begin without them", q.path, err)
	}
	return nil
}

// close lets another process have the file: nothing is written from then on.
func (q *queue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return q.lock.Close()
}

// replace writes the list, then continues with it. Of what has ended the oldest go.
func (q *queue) replace(list []request) error {
	since, left := q.now().Add(-day), len(list)
	list = slices.DeleteFunc(slices.Clone(list), func(r request) bool {
		left--
		return left >= mostKept && !r.Ended.IsZero() && !r.Asked.After(since)
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
	q.list = list
	return nil
}

// fullError says that no more runs are taken now.
type fullError struct {
	why   string
	after time.Duration // when it may be tried again
}

func (e fullError) Error() string { return e.why }

// add writes down that a run is to be made of a press, unless it was asked for already, and
// returns it. check looks at the run before, and its error is returned. A *fullError says
// that the file allows no more runs now.
func (q *queue) add(press request, check func(request) error) (r request, again bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	waiting, oldest, today := 0, now, 0
	for _, r := range q.list {
		if r.same(press) {
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
	case today >= q.bounds.RunsPerDay:
		why := fmt.Sprintf("%d runs were asked for in 24 hours, no more are allowed (runs_per_day)", today)
		return r, false, &fullError{why, oldest.Add(day).Sub(now)}
	case waiting >= q.bounds.Queue:
		why := fmt.Sprintf("%d runs wait already, no more are allowed (queue)", waiting)
		return r, false, &fullError{why, time.Minute}
	}
	r = press
	r.Asked, r.Run = now, q.name(r.Dataset, now)
	if err = check(r); err == nil {
		err = q.replace(append(slices.Clip(q.list), r))
	}
	select {
	case q.news <- struct{}{}:
	default: // it is known
	}
	return r, false, err
}

// name is that of a run which no other request has.
func (q *queue) name(dataset string, now time.Time) string {
	name := runName(q.bounds.Datasets[dataset].Name, dataset, now)
	for n, first := 2, name; slices.ContainsFunc(q.list, func(r request) bool { return r.Run == name }); n++ {
		name = fmt.Sprintf("%s-%d", first, n)
	}
	return name
}

// runName fills in the template of a run's name. A slash or comma in the name of the
// dataset becomes a dash: Langfuse could not look the run up.
func runName(template, dataset string, now time.Time) string {
	plain := strings.NewReplacer("/", "-", ",", "-").Replace(dataset)
	return strings.NewReplacer("{dataset}", plain, "{time}", now.UTC().Format("20060102-150405")).Replace(template)
}

// next waits for the first run that has not ended, counts a start of it, and returns it;
// ok is false when ctx is done. Only one caller may wait, who says when the run ends.
func (q *queue) next(ctx context.Context) (r request, ok bool, err error) {
	for ctx.Err() == nil {
		if r, ok, err = q.start(); ok || err != nil {
			return r, ok, err
		}
		select {
		case <-q.news:
		case <-ctx.Done():
		}
	}
	return request{}, false, nil
}

func (q *queue) start() (r request, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.list, func(r request) bool { return r.Ended.IsZero() })
	if at < 0 {
		return request{}, false, nil
	}
	list := slices.Clone(q.list)
	r = list[at]
	if r.Starts++; r.Starts == 1 {
		r.Began = q.now()
	}
	list[at] = r
	return r, true, q.replace(list)
}

// end writes down how a run ended.
func (q *queue) end(run string, code int, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.list)
	for i := range list {
		if list[i].Run == run {
			list[i].Ended, list[i].Code, list[i].Reason = q.now(), code, reason
		}
	}
	return q.replace(list)
}

// all returns every request that is kept, the newest first.
func (q *queue) all() []request {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.list)
	slices.Reverse(list)
	return list
}
