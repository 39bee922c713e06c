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
	// gather is the least time between two requests of a worker: what comes up
	// meanwhile shares one.
	gather = 20 * time.Millisecond
	// longPoll is how long the server holds a request until a permit is granted.
	longPoll = 900 * time.Millisecond
	// exchangeTime is what a request may take, longPoll included.
	exchangeTime = 2 * time.Second
	// longestBackoff is the longest time until a server that did not answer is asked again.
	longestBackoff = time.Second
	// heartbeat is the longest silence of a worker with requests under way.
	heartbeat = 8 * time.Second
	// leaseTime is the silence after which a worker is taken to be dead.
	leaseTime = 30 * time.Second

	// Together, what a message holds stays below a megabyte.
	mostWants, mostEnded, mostReason, mostMessage = 4000, 200, 500, 1 << 20
)

// Exchange sends a request to PermitServer.Answer and returns its answer. Either may be
// lost, and then the error comes with the end of ctx at the latest. Safe for concurrent use.
type Exchange func(ctx context.Context, request []byte) ([]byte, error)

// LimitGroup names the calls that have limits in common: those to a model at a host
// with one key, of which only a hash is in the name.
func LimitGroup(model, host, key string) string {
	sum := sha256.Sum256([]byte("limit group\x00" + host + "\x00" + key))
	return fmt.Sprintf("%s %s %x", model, host, sum[:8])
}

// permitRequest says all that a worker waits for, and what ended since the last
// request that was answered; so a lost message costs time only. A request takes the
// place of those with lower Seq.
type permitRequest struct {
	Group  string
	Worker string
	Seq    int64
	Wants  []permitWant  `json:",omitempty"`
	Ended  []permitEnded `json:",omitempty"`
}

// permitWant is a request to a model that waits to be sent: its id, which the worker
// counts up and which is that of the permit, and its pipeline.Estimate. It is told
// often, and so is short.
type permitWant [4]int64

func (w permitWant) id() int64 { return w[0] }

func (w permitWant) estimate() pipeline.Estimate {
	return pipeline.Estimate{Input: w[1], Output: w[2], MaxOutput: w[3]}
}

type permitEnded struct {
	ID int64
	pipeline.Ended
}

// permitReply tells which of the wants may be sent, and which will never be.
type permitReply struct {
	Granted []int64         `json:",omitempty"`
	Refused []permitRefused `json:",omitempty"`
	Answers int64
	// Paused and GivesUp count from now; 0: none.
	Paused, GivesUp time.Duration
	// Stop is why nothing more is sent, Error why the request was not taken.
	Stop, Error *refusal `json:",omitempty"`
}

type permitRefused struct {
	ID int64
	refusal
}

// Permits admits the requests of a worker as a PermitServer elsewhere allows. While
// the server does not answer, callers wait, and what ended is told when it is back.
// It implements pipeline.Admission and is safe for concurrent use.
//
// All callers share a request: 50 cost two messages for every block of permits, at
// most one block in 20 ms, one message of some 20 bytes a caller every 0.9 s while
// none is granted.
type Permits struct {
	exchange      Exchange
	group, worker string
	ctx           context.Context
	cancel        context.CancelFunc
	running       sync.WaitGroup

	mu      sync.Mutex
	timer   *time.Timer // calls next
	lastID  int64
	waiting []*permit // in order of arrival
	held    int       // granted and not ended
	ended   []*permit // and not acknowledged
	state   limit.State
	stop    error // nothing more is sent

	seq      int64
	news     bool // since the last request
	underWay int
	sent     time.Time
	failures int // in a row
}

// permit is a caller of Admit, and what it got.
type permit struct {
	permits *Permits
	want    permitWant
	ready   chan struct{} // closed when granted or err is set
	granted bool
	err     error
	over    bool
	result  pipeline.Ended
	taken   chan struct{} // closed when the server has the result
}

// NewPermits begins to ask for the permits of a LimitGroup. The worker's name is for
// people; another one of the same name is told apart. Close ends it.
func NewPermits(exchange Exchange, group, worker string) *Permits {
	p := &Permits{exchange: exchange, group: group, worker: worker + " " + rand.Text()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.timer = time.AfterFunc(time.Hour, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.next()
	})
	return p
}

// Close tells the server what ended, for up to two seconds, and leaves nothing behind.
// Callers that still wait get limit.ErrStopped.
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
		req := p.compose()
		p.mu.Unlock()
		if len(req.Ended) == 0 {
			return
		}
		req.Wants = nil
		if _, err := p.ask(ctx, req); err != nil {
			return // it takes this worker to be dead soon
		}
		p.mu.Lock()
		p.acknowledge(req)
		p.mu.Unlock()
	}
}

// State is what the server told last, half a second ago on average.
func (p *Permits) State() limit.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// Admit waits until the server grants a permit. The errors are as for one process.
func (p *Permits) Admit(ctx context.Context, e pipeline.Estimate) (pipeline.Admitted, error) {
	defer limit.Waiting(ctx)()
	c := &permit{permits: p, ready: make(chan struct{}), taken: make(chan struct{})}
	p.mu.Lock()
	p.lastID++
	c.want = permitWant{p.lastID, e.Input, e.Output, e.MaxOutput}
	p.waiting = append(p.waiting, c)
	p.changed()
	p.mu.Unlock()
	var err error
	select {
	case <-c.ready:
		return c, c.err
	case <-ctx.Done():
		err = fmt.Errorf("waiting for a call to be allowed: %w", ctx.Err())
	case <-p.ctx.Done():
		err = limit.ErrStopped
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(other *permit) bool { return other == c })
	if c.err == nil { // the server hears of it as of any end: it may have granted the permit already
		p.end(c, pipeline.Ended{Result: limit.Result{Kind: limit.Abandoned}})
	}
	return nil, err
}

// changed has a request sent soon. The mutex is held.
func (p *Permits) changed() {
	p.news = true
	p.next()
}

// Done tells the server. Where a request failed for good it waits for what the server
// says, as that may be no failure of the item: it stops the run.
func (c *permit) Done(ctx context.Context, e pipeline.Ended) error {
	p := c.permits
	p.mu.Lock()
	p.end(c, e)
	stop := p.stop
	p.mu.Unlock()
	if stop != nil || !e.Final || e.Kind == limit.Answered || e.Kind == limit.Abandoned {
		return stop
	}
	defer limit.Waiting(ctx)()
	select {
	case <-c.taken:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.stop
	case <-p.ctx.Done():
		return limit.ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("waiting for the coordinator: %w", ctx.Err())
	}
}

// end notes how a permit ended. The mutex is held.
func (p *Permits) end(c *permit, e pipeline.Ended) {
	if c.over {
		return
	}
	c.over = true
	if c.granted {
		p.held--
	}
	if len(e.Reason) > mostReason {
		e.Reason = strings.ToValidUTF8(e.Reason[:mostReason], "") + "…"
	}
	c.result = e
	p.ended = append(p.ended, c)
	p.changed()
}

// next sends the next request when it is due: in a goroutine of its own, which ends within
// exchangeTime; a newer one has the server answer the one before at once. The mutex is held.
func (p *Permits) next() {
	at, any := p.due()
	if any && !at.After(time.Now()) {
		req := p.compose()
		p.underWay++
		p.running.Go(func() { p.send(req) })
		at, any = p.due()
	}
	if any {
		p.timer.Reset(time.Until(at))
	}
}

// due is when the next request is to be sent, if any. The mutex is held.
func (p *Permits) due() (at time.Time, any bool) {
	pause := gather
	switch {
	case p.ctx.Err() != nil || p.underWay > 1 || p.underWay > 0 && (!p.news || p.failures > 0):
		return at, false
	case p.news || len(p.waiting)+len(p.ended) > 0:
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

// compose is the next request. The mutex is held.
func (p *Permits) compose() permitRequest {
	p.seq++
	p.news, p.sent = len(p.ended) > mostEnded, time.Now()
	waiting, ended := p.waiting[:min(len(p.waiting), mostWants)], p.ended[:min(len(p.ended), mostEnded)]
	return permitRequest{
		Group: p.group, Worker: p.worker, Seq: p.seq,
		Wants: cli.Each(waiting, func(c *permit) permitWant { return c.want }),
		Ended: cli.Each(ended, func(c *permit) permitEnded { return permitEnded{c.want.id(), c.result} }),
	}
}

// ask exchanges one request.
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

// send sends a request and takes what is answered.
func (p *Permits) send(req permitRequest) {
	ctx, cancel := context.WithTimeout(p.ctx, exchangeTime)
	defer cancel()
	reply, err := p.ask(ctx, req)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay--
	if err == nil && reply.Error == nil {
		p.failures = 0
	} else {
		p.failures++
	}
	if err == nil {
		p.take(req, reply)
	}
	p.next()
}

// take tells callers what the server answered. The mutex is held.
func (p *Permits) take(req permitRequest, reply permitReply) {
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

// acknowledge forgets what the server has. The mutex is held.
func (p *Permits) acknowledge(req permitRequest) {
	told := map[int64]bool{}
	for _, e := range req.Ended {
		told[e.ID] = true
	}
	p.ended = slices.DeleteFunc(p.ended, func(c *permit) bool {
		if told[c.want.id()] {
			close(c.taken)
		}
		return told[c.want.id()]
	})
}
