package workers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline"
)

const (
	// longPoll is how long the server holds a request while its permit is not granted.
	longPoll = 1500 * time.Millisecond
	// exchangeTime is the timeout of a request, longPoll included.
	exchangeTime = 2 * time.Second
	// longestBackoff bounds the wait after requests that failed.
	longestBackoff = time.Second
	// heartbeat is the time between two signs of life of a worker.
	heartbeat = 8 * time.Second
	// leaseTime is how long a worker may be silent before it counts as dead.
	leaseTime = 30 * time.Second
	// maxReason bounds the reason of a failure in bytes.
	maxReason = 500
)

// Exchange sends a request to PermitServer.Answer and returns the reply. Request and reply may
// be lost; then Exchange returns an error when ctx is done. It is safe for concurrent use.
type Exchange func(ctx context.Context, request []byte) ([]byte, error)

// LimitGroup names the calls that share limits: those of one model, host and key. The name holds
// only a hash of the key.
func LimitGroup(model, host, key string) string {
	sum := sha256.Sum256([]byte("limit group\x00" + host + "\x00" + key))
	return fmt.Sprintf("%s %s %x", model, host, sum[:8])
}

// permitRequest asks for a permit, reports its end, or, without an ID, is only a sign of life. It
// is safe to repeat: an ID names one permit, which is granted and ended once. The server ignores a request
// that one sent exchangeTime later overtook.
type permitRequest struct {
	Group    string
	Worker   string
	Sent     time.Duration           // by the worker's clock, since NewPermits
	ID       int64                   `json:",omitempty"`
	Estimate *pipeline.Estimate      `json:",omitempty"` // of a request that waits for its permit
	Ended    *pipeline.RequestResult `json:",omitempty"`
}

// permitReply says whether the permit is granted. If it is neither granted nor refused, the worker
// asks again.
type permitReply struct {
	Granted bool `json:",omitempty"`
	Answers int64
	// Paused and GivesUp count from the time of the reply; 0 means not.
	Paused, GivesUp time.Duration
	// Stop, if set, says why nothing more is sent; Error why the request was refused.
	Stop, Error *refusal `json:",omitempty"`
}

// Permits implements pipeline.Admission on a worker: a PermitServer elsewhere grants the
// permits. While the server does not answer, callers wait, until Interrupt; permits that end are
// reported when it is back. Permits is safe for concurrent use.
//
// A permit costs two requests of some 200 bytes, and one every 1.5 s while it is not granted.
type Permits struct {
	exchange      Exchange
	group, worker string
	began         time.Time
	ctx           context.Context
	cancel        context.CancelFunc
	reporting     context.Context // of the reports of ended permits, which outlive ctx in Close
	stopReporting context.CancelFunc
	running       sync.WaitGroup // of calls of Admit, reports and heartbeats

	mu       sync.Mutex
	waits    context.Context // of the callers that wait now
	endWaits context.CancelFunc
	lastID   int64
	state    limit.State
}

// permit is a call of Admit and the permit that it got.
type permit struct {
	permits      *Permits
	id           int64
	finished     bool
	acknowledged chan struct{} // closed when the server has the result
	stop         error         // why nothing more is sent; set before acknowledged is closed
}

// NewPermits starts to send heartbeats for the permits of a LimitGroup. The worker's name is for
// people and need not be unique. Call Close at the end.
func NewPermits(exchange Exchange, group, worker string) *Permits {
	p := &Permits{exchange: exchange, group: group, worker: worker + " " + rand.Text(), began: time.Now()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.waits, p.endWaits = context.WithCancel(p.ctx)
	p.reporting, p.stopReporting = context.WithCancel(context.Background())
	p.running.Go(func() {
		for sleep(p.ctx, heartbeat); p.ctx.Err() == nil; sleep(p.ctx, heartbeat) {
			_, _ = p.ask(p.ctx, permitRequest{}) // fails only at the end of ctx
		}
	})
	return p
}

// Close reports ended permits to the server for up to two seconds. Callers that still wait get
// limit.ErrStopped.
func (p *Permits) Close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	defer p.stopReporting()
	defer time.AfterFunc(exchangeTime, p.stopReporting).Stop() // then the server soon takes this worker for dead
	p.running.Wait()
}

// Interrupt gives limit.ErrStopped to the callers that wait now.
func (p *Permits) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endWaits()
	p.waits, p.endWaits = context.WithCancel(p.ctx)
}

// State is the state in the server's last reply, half a second old on average while callers wait.
func (p *Permits) State() limit.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Admit waits until the server grants a permit. Its errors are those of pipeline.NewAdmission.
func (p *Permits) Admit(ctx context.Context, e pipeline.Estimate) (pipeline.Permit, error) {
	defer limit.PauseTimeout(ctx)()
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return nil, limit.ErrStopped
	}
	p.running.Add(1)
	defer p.running.Done()
	p.lastID++
	c := &permit{permits: p, id: p.lastID, acknowledged: make(chan struct{})}
	waits := p.waits
	p.mu.Unlock()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(waits, cancel)()
	reply, err := p.ask(waiting, permitRequest{ID: c.id, Estimate: &e})
	if reply.Granted {
		return c, nil
	}
	if err == nil {
		return nil, reply.Error.err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish(c, pipeline.RequestResult{Result: limit.Result{Kind: limit.Abandoned}}) // it may have been granted
	if ctx.Err() != nil {
		return nil, fmt.Errorf("waiting for a call to be allowed: %w", ctx.Err())
	}
	return nil, limit.ErrStopped
}

// Done reports the end of a permit to the server. After a failure it waits for the
// acknowledgement: the server may stop the run instead of failing the item, and a request for the
// next permit must not overtake a rejection.
func (c *permit) Done(ctx context.Context, e pipeline.RequestResult) error {
	p := c.permits
	p.mu.Lock()
	if p.ctx.Err() == nil { // otherwise the server soon takes this worker for dead
		p.finish(c, e)
	}
	waits := p.waits
	p.mu.Unlock()
	if e.Kind == limit.Answered && e.Reason == "" || e.Kind == limit.Abandoned {
		return nil
	}
	defer limit.PauseTimeout(ctx)()
	select {
	case <-c.acknowledged:
		return c.stop
	case <-waits.Done():
		return limit.ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("waiting for the coordinator: %w", ctx.Err())
	}
}

// finish reports the end of a permit until the server acknowledges it. The mutex is held.
func (p *Permits) finish(c *permit, e pipeline.RequestResult) {
	if c.finished {
		return
	}
	c.finished = true
	if len(e.Reason) > maxReason {
		e.Reason = strings.ToValidUTF8(e.Reason[:maxReason], "") + "…"
	}
	p.running.Go(func() {
		if reply, err := p.ask(p.reporting, permitRequest{ID: c.id, Ended: &e}); err == nil { // else Close has given up
			c.stop = reply.Stop.err()
			close(c.acknowledged)
		}
	})
}

// ask sends a request until the server has decided on it, or ctx is done.
func (p *Permits) ask(ctx context.Context, req permitRequest) (permitReply, error) {
	for failures := 0; ; {
		reply, err := p.send(ctx, req)
		switch {
		case err == nil && (req.Estimate == nil || reply.Granted || reply.Error != nil):
			return reply, nil
		case ctx.Err() != nil:
			return permitReply{}, ctx.Err()
		case err == nil:
			failures = 0
		default:
			sleep(ctx, min(longestBackoff, 100*time.Millisecond<<min(failures, 10)))
			failures++
		}
	}
}

// send sends a request once, and takes the state from the reply.
func (p *Permits) send(ctx context.Context, req permitRequest) (reply permitReply, err error) {
	req.Group, req.Worker, req.Sent = p.group, p.worker, time.Since(p.began)
	raw, err := json.Marshal(req)
	if err != nil {
		return reply, err
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	if raw, err = p.exchange(ctx, raw); err == nil {
		err = json.Unmarshal(raw, &reply)
	}
	if err != nil || reply.Error != nil {
		return reply, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.state = limit.State{Answers: reply.Answers, PausedUntil: now.Add(reply.Paused)}
	if reply.GivesUp > 0 {
		p.state.GivesUp = now.Add(reply.GivesUp)
	}
	return reply, nil
}
