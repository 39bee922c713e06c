package workers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline"
)

// WorkerConfig configures a worker. Open is required.
type WorkerConfig struct {
	Name        string // for people; recorded in outcomes
	Concurrency int    // units at once over all runs; at least 1
	Run         string // name or id of the only run to work for; empty means any
	Systems     []string
	// Open opens the system that a run measures; an error refuses the run. admit makes the
	// admission of a LimitGroup, which asks the coordinator of the run.
	Open func(ctx context.Context, run Run, admit func(group string) pipeline.Admission) (Opened, error)
	// Stop, when closed, ends Work after the units in hand are finished.
	Stop <-chan struct{}
	Log  *slog.Logger
}

// Opened is the system of a run, opened on a worker.
type Opened struct {
	Task  experiment.Task
	Close func() error
}

// worker works for all runs on the server.
type worker struct {
	cfg     WorkerConfig
	conn    *Conn
	slots   chan struct{}   // one for each unit in hand
	stopCtx context.Context // ends when the worker is told to stop
	blind   bool            // the runs could not be listed the last time

	mu      sync.Mutex
	jobs    map[string]*job // by run id
	refused map[string]string
	done    int64
	recent  []tally // of the presences of the last rateWindow
}

// rateWindow is the time over which Presence.PerSecond is the mean.
const rateWindow = 30 * time.Second

// tally is how many units a worker had done at a time.
type tally struct {
	at   time.Time
	done int64
}

// perSecond returns the units done a second since the oldest of recent, at least one second, and adds
// a tally. The mutex is held.
func (w *worker) perSecond(now time.Time) float64 {
	w.recent = append(w.recent, tally{now, w.done})
	for now.Sub(w.recent[0].at) > rateWindow {
		w.recent = w.recent[1:]
	}
	oldest := w.recent[0]
	return float64(w.done-oldest.done) / max(1, now.Sub(oldest.at).Seconds())
}

// Work works for the runs on the server until Stop is closed or ctx is done. If ctx is done,
// units in hand are given up, and Work returns the error of ctx; other workers get these units.
// Lost connections are restored.
func (c *Conn) Work(ctx context.Context, cfg WorkerConfig) error {
	cfg.Concurrency = max(1, cfg.Concurrency)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &worker{
		cfg: cfg, conn: c, slots: make(chan struct{}, cfg.Concurrency),
		jobs: map[string]*job{}, refused: map[string]string{},
	}
	var working, presence sync.WaitGroup
	tick := time.Tick(c.cfg.beatInterval)
	soft, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-cfg.Stop:
			stop()
		case <-soft.Done():
		}
	}()
	w.stopCtx = soft
	stopped, ended := soft.Done(), make(chan struct{})
	presence.Go(func() { // finding runs on a server that is far away may take longer than a heartbeat
		for beat := time.Tick(c.cfg.beatInterval); !limit.Closed(ended); {
			w.publishPresence()
			select {
			case <-beat:
			case <-ended:
			}
		}
	})
	for !limit.Closed(ended) {
		w.findRuns(ctx, &working)
		select {
		case <-tick:
		case <-stopped:
			stopped = nil
			go func() {
				working.Wait()
				close(ended)
			}()
		case <-ended:
		}
	}
	presence.Wait()
	w.publishPresence()
	return ctx.Err()
}

// findRuns finds the runs that have a coordinator. It starts a job for each new one, unless the worker
// is told to stop. If the coordinator of a job is gone, it interrupts what waits for its permits.
func (w *worker) findRuns(ctx context.Context, working *sync.WaitGroup) {
	beats, err := entries[beat](ctx, w.conn, beatPrefix)
	if err != nil && !w.blind && ctx.Err() == nil {
		w.cfg.Log.Warn("cannot list the runs on the server, and tries again", "reason", err.Error())
	}
	if w.blind = err != nil; w.blind {
		return
	}
	w.mu.Lock()
	maps.DeleteFunc(w.refused, func(id, _ string) bool { return beats[id] == beat{} })
	stopped, patience := w.stopCtx.Err() != nil, 12*w.conn.cfg.lostAfter()
	if stopped {
		patience = w.conn.cfg.lostAfter()
	}
	for id, j := range w.jobs {
		b, there := beats[id]
		if j.silence += w.conn.cfg.beatInterval; there && b.Count != j.beatCount {
			j.beatCount, j.silence = b.Count, 0
		}
		if !there {
			j.stopTaking()
		}
		if !there || j.silence > patience {
			for _, p := range j.permits {
				p.Interrupt()
			}
		}
	}
	maps.DeleteFunc(beats, func(id string, _ beat) bool { return stopped || w.jobs[id] != nil || w.refused[id] != "" })
	w.mu.Unlock()
	for id := range beats {
		var run Run
		entry, err := w.conn.runs.Get(ctx, announcementPrefix+id)
		if err != nil || decode(entry.Value(), &run) != nil || run.ID != id || run.Timeout <= 0 || run.Lease <= 0 ||
			w.cfg.Run != "" && w.cfg.Run != run.Name && w.cfg.Run != id {
			continue
		}
		j, err := w.join(ctx, run)
		w.mu.Lock()
		switch {
		case err != nil:
			w.refuse(run, err)
		case j != nil:
			w.jobs[id] = j
			working.Go(func() {
				w.publishPresence() // the coordinator waits for it
				w.runJob(ctx, j)
			})
		}
		w.mu.Unlock()
	}
}

// refuse records why the worker does not work for a run. The mutex is held.
func (w *worker) refuse(run Run, why error) {
	w.refused[run.ID] = why.Error()
	w.cfg.Log.Warn("does not work for a run", "run", run.Name, "reason", why.Error())
}

// join asks the coordinator whether this worker may work for the run. An error refuses the run.
// Both results are nil if the coordinator did not answer.
func (w *worker) join(ctx context.Context, run Run) (*job, error) {
	question, _ := json.Marshal(hello{w.cfg.Name, protocol, w.conn.cfg.Version, time.Now()}) // cannot fail
	once, cancel := context.WithTimeout(ctx, beatInterval)
	defer cancel()
	reply, err := w.conn.nats.RequestWithContext(once, helloSubject+run.ID, question)
	var answer welcome
	if err != nil || decode(reply.Data, &answer) != nil {
		return nil, nil
	}
	if answer.Refused != "" {
		return nil, errors.New(answer.Refused)
	}
	units, err := w.conn.js.Consumer(ctx, unitStream, run.ID)
	if err != nil {
		return nil, nil
	}
	j := &job{worker: w, run: run, units: units, inHand: map[string]jetstream.Msg{}}
	j.pullSlots, j.sharedPull = make(chan struct{}, maxPulls), make(chan struct{}, 1)
	j.takeCtx, j.stopTaking = context.WithCancel(w.stopCtx)
	return j, nil
}

// runJob works for a run until the run ends.
func (w *worker) runJob(ctx context.Context, j *job) {
	defer j.stopTaking()
	leave := func(refused error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.jobs, j.run.ID)
		if refused != nil {
			w.refuse(j.run, refused)
		}
	}
	opened, err := w.cfg.Open(ctx, j.run, func(group string) pipeline.Admission {
		p := NewPermits(j.exchange, group, w.cfg.Name)
		w.mu.Lock()
		defer w.mu.Unlock()
		j.permits = append(j.permits, p)
		return p
	})
	defer func() {
		for _, p := range j.permits {
			p.Close()
		}
	}()
	if err != nil {
		leave(err)
		return
	}
	w.cfg.Log.Info("works for a run", "run", j.run.Name, "dataset", j.run.Dataset)
	pool := experiment.Pool{Task: opened.Task, Concurrency: w.cfg.Concurrency, Timeout: j.run.Timeout, Now: time.Now}
	inner, done := context.WithCancel(ctx)
	var extending sync.WaitGroup
	extending.Go(func() { j.extendLeases(inner) })
	err = pool.Work(ctx, j)
	j.stopTaking()
	done()
	extending.Wait()
	if opened.Close != nil {
		err = errors.Join(err, opened.Close())
	}
	w.purgeLateResults(j.run.ID)
	w.cfg.Log.Info("has ended working for a run", "run", j.run.Name, "error", err)
	leave(nil)
}

// purgeLateResults removes results that arrived after the run was complete: duplicates of units
// that were handed out again.
func (w *worker) purgeLateResults(run string) {
	ctx, cancel := context.WithTimeout(context.Background(), w.conn.cfg.lostAfter())
	defer cancel()
	if _, err := w.conn.runs.Get(ctx, announcementPrefix+run); errors.Is(err, jetstream.ErrKeyNotFound) {
		_ = w.conn.purge(ctx, resultStream, resultSubject+run+".*") // on failure, they expire after two weeks
	}
}

// publishPresence publishes the worker's Presence.
func (w *worker) publishPresence() {
	host, _ := os.Hostname()
	w.mu.Lock()
	p := Presence{
		ID: w.conn.id, Name: w.cfg.Name, Host: host, PID: os.Getpid(), Protocol: protocol, Version: w.conn.cfg.Version,
		Concurrency: w.cfg.Concurrency, Systems: w.cfg.Systems, InHand: map[string]int{}, Refused: maps.Clone(w.refused),
		Done: w.done, PerSecond: w.perSecond(time.Now()), Clock: time.Now(),
	}
	for id, j := range w.jobs {
		p.InHand[id] = len(j.inHand)
	}
	w.mu.Unlock()
	message, _ := json.Marshal(p)                             // cannot fail
	_ = w.conn.nats.Publish(workerSubject+w.conn.id, message) // it is published again in a second
}
