// Package workers spreads the units of a run over machines, on NATS JetStream.
//
//	conn, err := workers.Connect(ctx, workers.Config{Address: "nats://127.0.0.1:4222"})
//	coordinator, err := conn.Coordinate(ctx, run)  // is experiment.Workers
//	err := conn.Work(ctx, workers.WorkerConfig{…}) // on any machine
//
// The coordinator publishes each unit once, under a subject of its own; a worker takes
// it, extends its lease while it works, stores the result under the same key, and
// acknowledges the unit. The coordinator has the engine judge and commit the result, and
// only then acknowledges that. The stream is the wire and never the truth: what it loses
// is asked again, and the run file of the coordinator is the only journal.
package workers

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// protocol is the number of the protocol; both sides must have the same.
const protocol = 1

// Names on the server: all begin alike, so that others can share it.
const (
	unitStream   = "EXPERIMENT_UNITS"
	resultStream = "EXPERIMENT_RESULTS"
	runBucket    = "EXPERIMENT_RUNS"
	runStream    = "KV_" + runBucket
	largeBucket  = "EXPERIMENT_LARGE"

	unitSubject    = "experiment.unit."
	resultSubject  = "experiment.result."
	runSubject     = "$KV." + runBucket + "."
	helloSubject   = "experiment.hello."
	permitSubject  = "experiment.permit."
	workerSubject  = "experiment.worker."
	largeHeader    = "Experiment-Large" // the name of the object with the payload
	announcementOf = "run."             // a run, by its id
	beatOf         = "beat."            // a sign of life of its coordinator
)

// Times of the protocol.
const (
	// beatEvery is the time between two signs of life.
	beatEvery = time.Second
	// mostSkew is by how much clocks may differ.
	mostSkew = 30 * time.Second
	// DefaultLease is how long a worker may say nothing of a unit until another gets it.
	DefaultLease = 30 * time.Second
	// mostDeliveries is how often a unit is handed to workers.
	mostDeliveries = 3
)

// maxPayload bounds a unit or a result, also one that goes through the object store.
const maxPayload = 64 << 20

// Run is what workers are told of a run.
type Run struct {
	ID      string `json:"id"` // Header.RunUID
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	// Definition says what is measured; Connect does not look at it.
	Definition json.RawMessage `json:"definition"`
	Timeout    time.Duration   `json:"timeout_ns"` // of an item
	Lease      time.Duration   `json:"lease_ns"`
	Protocol   int             `json:"protocol"`
	Version    string          `json:"version"` // of the program
}

// beat is a coordinator's sign of life.
type beat struct {
	Coordinator string `json:"coordinator"` // host, process and a random number
	Count       int    `json:"count"`
}

// unit is an experiment.Unit on its way: no gold is in it.
type unit struct {
	ID       string          `json:"id"`
	Trial    int             `json:"trial"`
	Attempt  int             `json:"attempt"`
	Input    json.RawMessage `json:"input"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// result is an experiment.Done on its way.
type result struct {
	Worker     string           `json:"worker"`
	Deliveries int              `json:"deliveries"` // of the unit
	Started    time.Time        `json:"started"`
	Took       time.Duration    `json:"took_ns"`
	Output     json.RawMessage  `json:"output,omitempty"`
	Calls      []outcome.Call   `json:"calls,omitempty"`
	Warnings   []string         `json:"warnings,omitempty"`
	Failure    *outcome.Failure `json:"failure,omitempty"`
	Stop       *refusal         `json:"stop,omitempty"` // the unit was not tried
}

// refusal is an error that stops the run, on its way to a worker or from one.
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

// err is the error as it was; another one stops the run with the same exit code.
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

// refusedError is an error of the other side that is not known better.
type refusedError struct{ refusal }

// Error says what the other side said.
func (e *refusedError) Error() string { return e.Text }

// ExitCode is that of the other side.
func (e *refusedError) ExitCode() int { return cmp.Or(e.Code, 1) }

// StopsRun marks errors that are not a failure of the item; see limit.TrippedError.
func (*refusedError) StopsRun() {}

// resultOf packs what came of a unit.
func resultOf(d experiment.Done) result {
	r := result{Worker: d.Worker, Started: d.Started.UTC(), Took: d.Took, Output: d.Output, Calls: d.Calls, Warnings: d.Warnings}
	switch {
	case limit.StopsRun(d.Err):
		r.Stop = newRefusal(d.Err)
	case d.Err != nil:
		r.Failure = new(outcome.FailureOf(d.Err, outcome.Provider))
	}
	return r
}

// done is what came of a unit, for the engine.
func (r result) done() experiment.Done {
	d := experiment.Done{
		TaskResult: experiment.TaskResult{Output: r.Output, Calls: r.Calls, Warnings: r.Warnings},
		Started:    r.Started, Took: max(0, r.Took), Worker: r.Worker,
	}
	if r.Failure != nil {
		if !slices.Contains(outcome.Classes(), r.Failure.Class) {
			r.Failure = &outcome.Failure{Class: outcome.Provider, Message: r.Failure.Message}
		}
		d.Err = r.Failure
	}
	return d
}

// Presence is what a worker says of itself.
type Presence struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Host        string            `json:"host"`
	PID         int               `json:"pid"`
	Protocol    int               `json:"protocol"`
	Version     string            `json:"version"`
	Concurrency int               `json:"concurrency"`
	Systems     []string          `json:"systems"` // what it runs
	InHand      map[string]int    `json:"in_hand"` // units, by the id of a run that it works for
	Refused     map[string]string `json:"refused"` // why it does not work for a run
	Done        int64             `json:"done"`    // units since it began
	PerSecond   float64           `json:"per_second"`
	Clock       time.Time         `json:"clock"`
}

// hello asks to work for a run, and welcome answers.
type hello struct {
	Worker   string    `json:"worker"`
	Protocol int       `json:"protocol"`
	Version  string    `json:"version"`
	Clock    time.Time `json:"clock"`
}

type welcome struct {
	Refused string `json:"refused,omitempty"`
}

// answer says whether a worker may work for a run whose coordinator has that version
// and clock.
func (h hello) answer(version string, now time.Time) welcome {
	skew := h.Clock.Sub(now)
	switch {
	case h.Protocol != protocol:
		return welcome{fmt.Sprintf("worker %s speaks protocol %d and the run's coordinator protocol %d: start the same program on both", h.Worker, h.Protocol, protocol)}
	case h.Version != version:
		return welcome{fmt.Sprintf("worker %s is version %q and the run's coordinator version %q: start the same program on both", h.Worker, h.Version, version)}
	case skew.Abs() > mostSkew:
		return welcome{fmt.Sprintf("the clock of worker %s is off by %s, more than %s: set it, or times and limits are wrong", h.Worker, skew.Round(time.Second), mostSkew)}
	}
	return welcome{}
}

// key names a unit on the server.
func key(trial int, item string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%d\n%s", trial, attempt, item))
	return fmt.Sprintf("%x", sum[:16])
}

// errDamaged says that a message is not of this protocol.
var errDamaged = errors.New("a message that is not of this protocol")

// decode reads a message of a stranger: of the wrong form, it is an errDamaged.
func decode[T any](raw []byte, into *T) error {
	if len(raw) > maxPayload {
		return fmt.Errorf("%w: it has %d bytes, more than %d", errDamaged, len(raw), maxPayload)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

// valid reports whether an id can be in a subject.
func valid(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	})
}
