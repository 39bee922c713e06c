package workers

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline"
)

const (
	// minInterval is the shortest time between two requests of a worker.
	minInterval = 20 * time.Millisecond
	// longPoll is how long the server holds a request while no permit is granted.
	longPoll = 900 * time.Millisecond
	// exchangeTime is the timeout of a request, longPoll included.
	exchangeTime = 2 * time.Second
	// longestBackoff bounds the wait after requests that failed.
	longestBackoff = time.Second
	// heartbeat is the longest time between two requests while the worker holds permits.
	heartbeat = 8 * time.Second
	// leaseTime is how long a worker may be silent before it counts as dead.
	leaseTime = 30 * time.Second

	// Together they keep a message below a megabyte.
	maxWants, maxEnded, maxReason, maxMessage = 4000, 200, 500, 1 << 20
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

// permitRequest lists all permits that a worker waits for, and those that ended since the last
// acknowledged request. A lost message therefore only costs time. A request replaces those with
// a lower Seq.
type permitRequest struct {
	Group  string
	Worker string
	Seq    int64
	Wants  []permitWant  `json:",omitempty"`
	Ended  []permitEnded `json:",omitempty"`
}

// permitWant is one wait for a permit: the id that the worker gave it, which is also the id of
// the permit, and the fields of its pipeline.Estimate. It is an array to keep messages short.
type permitWant [4]int64

func (w permitWant) id() int64 { return w[0] }

func (w permitWant) estimate() pipeline.Estimate {
	return pipeline.Estimate{Input: w[1], Output: w[2], MaxOutput: w[3]}
}

type permitEnded struct {
	ID int64
	pipeline.RequestResult
}

// permitReply lists the granted and the refused permits.
type permitReply struct {
	Granted []int64         `json:",omitempty"`
	Refused []permitRefused `json:",omitempty"`
	Answers int64
	// Paused and GivesUp count from the time of the reply; 0 means not.
	Paused, GivesUp time.Duration
	// Stop, if set, says why nothing more is sent; Error why the request was refused.
	Stop, Error *refusal `json:",omitempty"`
}

type permitRefused struct {
	ID int64
	refusal
}

// Permits implements pipeline.Admission on a worker: a PermitServer elsewhere grants the
// permits. While the server does not answer, callers wait, until Interrupt; permits that end are
// reported when it is back. Permits is safe for concurrent use.
//
// All callers share one request: 50 callers cost two messages for each block of permits, at most
// one block in 20 ms, and one message of some 20 bytes a caller every 0.9 s while none is
// granted.
type Permits struct {
	exchange      Exchange
	group, worker string
	ctx           context.Context
	cancel        context.CancelFunc
	running       sync.WaitGroup

	mu       sync.Mutex
	waits    context.Context // of the callers that wait now
	endWaits context.CancelFunc
	timer    *time.Timer // calls sendIfDue
	lastID   int64
	waiting  []*permit // in order of arrival
	held     int       // granted and not ended
	ended    []*permit // not acknowledged yet
	state    limit.State
	stop     error // why nothing more is sent

	seq      int64
	dirty    bool // something changed since the last request
	inFlight int
	sent     time.Time
	failures int // in a row
}

// permit is a call of Admit and the permit that it got.
type permit struct {
	permits      *Permits
	want         permitWant
	ready        chan struct{} // closed when granted or err is set
	granted      bool
	err          error
	finished     bool
	result       pipeline.RequestResult
	acknowledged chan struct{} // closed when the server has the result
}

// NewPermits starts to request the permits of a LimitGroup. The worker's name is for people and
// need not be unique. Call Close at the end.
func NewPermits(exchange Exchange, group, worker string) *Permits {
	p := &Permits{exchange: exchange, group: group, worker: worker + " " + rand.Text()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.waits, p.endWaits = context.WithCancel(p.ctx)
	p.timer = time.AfterFunc(time.Hour, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sendIfDue()
	})
	return p
}

// Close reports ended permits to the server for up to two seconds. Callers that still wait get
// limit.ErrStopped.
func (p *Permits) Close() {
	p.mu.Lock()
	p.cancel()
	p.timer.Stop()
	p.mu.Unlock()
	p.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), exchangeTime)
	defer cancel()
	for {
		p.mu.Lock()
		req := p.nextRequest()
		p.mu.Unlock()
		if len(req.Ended) == 0 {
			return
		}
		req.Wants = nil
		if _, err := p.ask(ctx, req); err != nil {
			return // the server will soon take this worker for dead
		}
		p.mu.Lock()
		p.acknowledge(req)
		p.mu.Unlock()
	}
}

// Interrupt gives limit.ErrStopped to the callers that wait now.
func (p *Permits) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endWaits()
	p.waits, p.endWaits = context.WithCancel(p.ctx)
}

// State is the state in the server's last reply, half a second old on average.
func (p *Permits) State() limit.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Admit waits until the server grants a permit. Its errors are those of pipeline.NewAdmission.
func (p *Permits) Admit(ctx context.Context, e pipeline.Estimate) (pipeline.Permit, error) {
	defer limit.PauseTimeout(ctx)()
	c := &permit{permits: p, ready: make(chan struct{}), acknowledged: make(chan struct{})}
	p.mu.Lock()
	p.lastID++
	c.want = permitWant{p.lastID, e.Input, e.Output, e.MaxOutput}
	p.waiting, p.dirty = append(p.waiting, c), true
	p.sendIfDue()
	waits := p.waits
	p.mu.Unlock()
	var err error
	select {
	case <-c.ready:
		return c, c.err
	case <-ctx.Done():
		err = fmt.Errorf("waiting for a call to be allowed: %w", ctx.Err())
	case <-waits.Done():
		err = limit.ErrStopped
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(other *permit) bool { return other == c })
	if c.err == nil { // report the end, because the server may have granted the permit
		p.finish(c, pipeline.RequestResult{Result: limit.Result{Kind: limit.Abandoned}})
	}
	return nil, err
}

// Done reports the end of a permit to the server. After a final failure it waits for the
// acknowledgement, because the server may stop the run instead of failing the item.
func (c *permit) Done(ctx context.Context, e pipeline.RequestResult) error {
	p := c.permits
	p.mu.Lock()
	p.finish(c, e)
	stop, waits := p.stop, p.waits
	p.mu.Unlock()
	if stop != nil || !e.Final || e.Kind == limit.Answered && e.Reason == "" || e.Kind == limit.Abandoned {
		return stop
	}
	defer limit.PauseTimeout(ctx)()
	select {
	case <-c.acknowledged:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.stop
	case <-waits.Done():
		return limit.ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("waiting for the coordinator: %w", ctx.Err())
	}
}

// finish records the end of a permit. The mutex is held.
func (p *Permits) finish(c *permit, e pipeline.RequestResult) {
	if c.finished {
		return
	}
	c.finished = true
	if c.granted {
		p.held--
	}
	if len(e.Reason) > maxReason {
		e.Reason = strings.ToValidUTF8(e.Reason[:maxReason], "") + "…"
	}
	c.result = e
	p.ended, p.dirty = append(p.ended, c), true
	p.sendIfDue()
}

// sendIfDue sends the next request if it is due, in a goroutine that ends within exchangeTime,
// and sets the timer for the one after it. The server answers a held request as soon as a newer
// one arrives. The mutex is held.
func (p *Permits) sendIfDue() {
	at, due := p.due()
	if due && !at.After(time.Now()) {
		req := p.nextRequest()
		p.inFlight++
		p.running.Go(func() { p.send(req) })
		at, due = p.due()
	}
	if due {
		p.timer.Reset(time.Until(at))
	}
}

// due returns when the next request must be sent, if any. The mutex is held.
func (p *Permits) due() (at time.Time, ok bool) {
	pause := minInterval
	switch {
	case p.ctx.Err() != nil || p.inFlight > 1 || p.inFlight > 0 && (!p.dirty || p.failures > 0):
		return at, false
	case p.dirty || len(p.waiting)+len(p.ended) > 0:
	case p.held > 0:
		pause = heartbeat
	default:
		return at, false
	}
	if p.failures > 0 {
		pause = max(pause, min(longestBackoff, 100*time.Millisecond<<min(p.failures-1, 10)))
	}
	return p.sent.Add(pause), true
}

// nextRequest builds the next request. The mutex is held.
func (p *Permits) nextRequest() permitRequest {
	p.seq++
	p.dirty, p.sent = len(p.ended) > maxEnded, time.Now()
	waiting, ended := p.waiting[:min(len(p.waiting), maxWants)], p.ended[:min(len(p.ended), maxEnded)]
	return permitRequest{
		Group: p.group, Worker: p.worker, Seq: p.seq,
		Wants: cli.Each(waiting, func(c *permit) permitWant { return c.want }),
		Ended: cli.Each(ended, func(c *permit) permitEnded { return permitEnded{c.want.id(), c.result} }),
	}
}

// ask sends one request and decodes the reply.
func (p *Permits) ask(ctx context.Context, req permitRequest) (reply permitReply, err error) {
	raw, err := json.Marshal(req)
	if err != nil {
		return reply, err
	}
	if raw, err = p.exchange(ctx, raw); err != nil {
		return reply, err
	}
	return reply, json.Unmarshal(raw, &reply)
}

// send sends a request and applies the reply.
func (p *Permits) send(req permitRequest) {
	ctx, cancel := context.WithTimeout(p.ctx, exchangeTime)
	defer cancel()
	reply, err := p.ask(ctx, req)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inFlight--
	if err == nil && reply.Error == nil {
		p.failures = 0
	} else {
		p.failures++
	}
	if err == nil {
		p.applyReply(req, reply)
	}
	p.sendIfDue()
}

// applyReply passes the server's reply on to the callers. The mutex is held.
func (p *Permits) applyReply(req permitRequest, reply permitReply) {
	p.acknowledge(req)
	errs := map[int64]error{}
	for _, refused := range reply.Refused {
		errs[refused.ID] = refused.err()
	}
	if reply.Error != nil {
		for _, want := range req.Wants {
			errs[want.id()] = reply.Error.err()
		}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(c *permit) bool {
		if c.granted = slices.Contains(reply.Granted, c.want.id()); c.granted {
			p.held++
		} else {
			c.err = errs[c.want.id()]
		}
		done := c.granted || c.err != nil
		if done {
			close(c.ready)
		}
		return done
	})
	if reply.Error != nil {
		return
	}
	if reply.Stop != nil {
		p.stop = reply.Stop.err()
	}
	now := time.Now()
	p.state = limit.State{Answers: reply.Answers, PausedUntil: now.Add(reply.Paused)}
	if reply.GivesUp > 0 {
		p.state.GivesUp = now.Add(reply.GivesUp)
	}
}

// acknowledge drops the ended permits that the server has received. The mutex is held.
func (p *Permits) acknowledge(req permitRequest) {
	acked := map[int64]bool{}
	for _, e := range req.Ended {
		acked[e.ID] = true
	}
	p.ended = slices.DeleteFunc(p.ended, func(c *permit) bool {
		if acked[c.want.id()] {
			close(c.acknowledged)
		}
		return acked[c.want.id()]
	})
}
