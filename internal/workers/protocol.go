// Package workers distributes the units of a run over machines, with NATS JetStream.
//
//	conn, err := workers.Connect(ctx, workers.Config{Address: "nats://127.0.0.1:4222"})
//	coordinator, err := conn.Coordinate(ctx, run)  // an experiment.Workers
//	err := conn.Work(ctx, workers.WorkerConfig{…}) // on any machine
//
// The coordinator publishes each unit once, under its own subject. A worker takes the unit,
// extends its lease while it works, stores the result under the same key and acknowledges the
// unit. The coordinator hands the result to the engine, which scores and commits it, and then
// acknowledges the result. The run file of the coordinator is the only journal: what the server
// loses is published again.
package workers

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// protocol is the version of the protocol; both sides must have the same.
const protocol = 2

// Names on the server. They share a prefix, so that others can use the same server.
const (
	unitStream   = "EXPERIMENT_UNITS"
	resultStream = "EXPERIMENT_RESULTS"
	runBucket    = "EXPERIMENT_RUNS"
	runStream    = "KV_" + runBucket
	largeBucket  = "EXPERIMENT_LARGE"

	unitSubject        = "experiment.unit."
	resultSubject      = "experiment.result."
	runSubject         = "$KV." + runBucket + "."
	helloSubject       = "experiment.hello."
	permitSubject      = "experiment.permit."
	workerSubject      = "experiment.worker."
	largeHeader        = "Experiment-Large" // the object that holds the payload
	announcementPrefix = "run."             // the announcement of a run, by run id
	beatPrefix         = "beat."            // the heartbeat of its coordinator, by run id
)

// Times of the protocol.
const (
	// beatInterval is the time between two heartbeats.
	beatInterval = time.Second
	// maxClockSkew is the largest allowed difference of clocks.
	maxClockSkew = 30 * time.Second
	// DefaultLease is how long a worker may hold a unit without extending it before another
	// worker gets the unit.
	DefaultLease = 30 * time.Second
	// maxDeliveries is how often a unit is handed out at most.
	maxDeliveries = 3
)

// maxPayload bounds a unit or a result in bytes, with or without the object store.
const maxPayload = 64 << 20

// Run announces a run to workers.
type Run struct {
	ID      string `json:"id"` // Header.RunUID
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	// Definition describes the system; this package does not read it.
	Definition json.RawMessage `json:"definition"`
	Timeout    time.Duration   `json:"timeout_ns"` // of an item
	Lease      time.Duration   `json:"lease_ns"`
	Protocol   int             `json:"protocol"`
	Version    string          `json:"version"` // of the coordinator's program
}

// beat is a heartbeat of a coordinator.
type beat struct {
	Coordinator string `json:"coordinator"` // host, process and a random number
	Count       int    `json:"count"`
}

// result is an experiment.Done as it is sent.
type result struct {
	experiment.Done
	Deliveries int              `json:"deliveries"` // of the unit
	Failure    *outcome.Failure `json:"failure,omitempty"`
	Stop       *refusal         `json:"stop,omitempty"` // why no unit can be tried
}

// refusal is an error that stops the run, as it is sent.
type refusal struct {
	Text    string
	Code    int
	Stopped bool                  `json:",omitempty"`
	Tripped *limit.TrippedError   `json:",omitempty"`
	Budget  *pipeline.BudgetError `json:",omitempty"`
}

func newRefusal(err error) *refusal {
	r := &refusal{Text: err.Error(), Code: cli.ExitCode(err), Stopped: errors.Is(err, limit.ErrStopped)}
	errors.As(err, &r.Tripped)
	errors.As(err, &r.Budget)
	return r
}

// err returns the error that newRefusal was given, or one with the same text and exit code.
func (r *refusal) err() error {
	switch {
	case r == nil:
		return nil
	case r.Stopped:
		return limit.ErrStopped
	case r.Tripped != nil:
		return r.Tripped
	case r.Budget != nil:
		return r.Budget
	}
	return &refusedError{*r}
}

// stopCause returns why no unit can be tried, with the name of the worker. An interruption and a
// budget are of the whole run.
func (r result) stopCause() error {
	err := r.Stop.err()
	if r.Stop.Stopped || r.Stop.Budget != nil {
		return err
	}
	return fmt.Errorf("worker %s: %w", r.Worker, err)
}

// refusedError is an error of the other side whose type is unknown here.
type refusedError struct{ refusal }

// Error returns the text of the error.
func (e *refusedError) Error() string { return e.Text }

// ExitCode returns the exit code of the error.
func (e *refusedError) ExitCode() int { return cmp.Or(e.Code, 1) }

// StopsRun marks errors that are not a failure of the item; see limit.TrippedError.
func (*refusedError) StopsRun() {}

// resultOf encodes the result of a unit that was tried.
func resultOf(d experiment.Done) result {
	d.Started = d.Started.UTC()
	r := result{Done: d}
	if d.Err != nil {
		r.Failure = new(outcome.FailureOf(d.Err, outcome.Provider))
	}
	return r
}

// toDone decodes the result of a unit for the engine.
func (r result) toDone() experiment.Done {
	d := r.Done
	d.Took = max(0, d.Took)
	if r.Failure != nil {
		if !slices.Contains(outcome.Classes(), r.Failure.Class) {
			r.Failure = &outcome.Failure{Class: outcome.Provider, Message: r.Failure.Message}
		}
		d.Err = r.Failure
	}
	return d
}

// Presence describes a worker. Each worker publishes its own once a second.
type Presence struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Host        string            `json:"host"`
	PID         int               `json:"pid"`
	Protocol    int               `json:"protocol"`
	Version     string            `json:"version"`
	Concurrency int               `json:"concurrency"`
	Systems     []string          `json:"systems"`    // that it can run
	InHand      map[string]int    `json:"in_hand"`    // units by run id, for the runs that it works for
	Refused     map[string]string `json:"refused"`    // why it does not work for a run, by run id
	Done        int64             `json:"done"`       // units since the worker began, with those that it gave back
	PerSecond   float64           `json:"per_second"` // over the last half minute
	Clock       time.Time         `json:"clock"`
}

// hello asks a coordinator whether the worker may work for its run; welcome is the answer.
type hello struct {
	Worker   string    `json:"worker"`
	Protocol int       `json:"protocol"`
	Version  string    `json:"version"`
	Clock    time.Time `json:"clock"`
}

type welcome struct {
	Refused string `json:"refused,omitempty"`
}

// answer reports whether a worker may work for a run with this version and clock.
func (h hello) answer(version string, now time.Time) welcome {
	skew := h.Clock.Sub(now)
	switch {
	case h.Protocol != protocol:
		return welcome{fmt.Sprintf("worker %s speaks protocol %d and the run's coordinator protocol %d: start the same program on both", h.Worker, h.Protocol, protocol)}
	case h.Version != version:
		return welcome{fmt.Sprintf("worker %s is version %q and the run's coordinator version %q: start the same program on both", h.Worker, h.Version, version)}
	case skew.Abs() > maxClockSkew:
		return welcome{fmt.Sprintf("the clock of worker %s is off by %s, more than %s: set it, or times and limits are wrong", h.Worker, skew.Round(time.Second), maxClockSkew)}
	}
	return welcome{}
}

// key names a unit on the server.
func key(trial int, item string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%d\n%s", trial, attempt, item))
	return fmt.Sprintf("%x", sum[:16])
}

// errDamaged is the error for a message that does not follow the protocol.
var errDamaged = errors.New("a message that is not of this protocol")

// decode decodes an untrusted message. If it is malformed, the error wraps errDamaged.
func decode[T any](raw []byte, into *T) error {
	if len(raw) > maxPayload {
		return fmt.Errorf("%w: it has %d bytes, more than %d", errDamaged, len(raw), maxPayload)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

// validID matches an id that may be part of a subject.
var validID = textutil.Pattern(`^[0-9A-Za-z_-]{1,64}$`)
