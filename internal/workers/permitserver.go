package workers

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline"
)

const (
	// grantGrace is how long a worker may fail to ask for a permit again before the server stops
	// waiting for it. It is shorter than leaseTime, so that a worker that dies holds few.
	grantGrace = 2 * time.Second

	maxName, maxMessage = 1000, 64 << 10
)

// PermitServer grants the permits of pipeline.Admissions to workers that wait for them, to one
// worker after the other. A worker that is silent for 30 s loses its permits: they end with
// pipeline.RequestResult.Lost, because their calls may have been paid. When limit.Stop of its context is
// closed, requests that wait get limit.ErrStopped.
//
// Memory is proportional to the permits that workers wait for, hold, or gave back in the last 30 s.
type PermitServer struct {
	ctx     context.Context
	cancel  context.CancelFunc
	open    func(group string) pipeline.Admission
	running sync.WaitGroup

	mu     sync.Mutex
	groups map[string]*permitGroup
}

// NewPermitServer makes a server. It calls open for the Admission of each LimitGroup at its
// first request.
func NewPermitServer(ctx context.Context, open func(group string) pipeline.Admission) *PermitServer {
	s := &PermitServer{open: open, groups: map[string]*permitGroup{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Close ends all permits as lost.
func (s *PermitServer) Close() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		for name := range g.workers {
			g.drop(name)
		}
	}
}

// Answer answers a request of Permits as soon as its permit is granted, after at most 1.5 s. A
// damaged or too large request gets an error as the answer. Nil means that the server was closed
// or ctx is done.
func (s *PermitServer) Answer(ctx context.Context, request []byte) []byte {
	var reply permitReply
	req, err := readPermitRequest(request)
	if err == nil {
		reply, err = s.group(req.Group).answer(ctx, req)
	}
	if s.ctx.Err() != nil || ctx.Err() != nil {
		return nil
	}
	if err != nil {
		reply = permitReply{Error: newRefusal(err)}
	}
	answer, err := json.Marshal(reply)
	if err != nil { // the admission's error cannot be encoded; the worker asks again
		return nil
	}
	return answer
}

// group returns the group of a name, which it makes if necessary.
func (s *PermitServer) group(name string) *permitGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[name] == nil {
		s.groups[name] = &permitGroup{PermitServer: s, admission: s.open(name), workers: map[string]*permitWorker{}}
	}
	return s.groups[name]
}

// readPermitRequest decodes a request and checks its bounds.
func readPermitRequest(raw []byte) (req permitRequest, err error) {
	ok := len(raw) <= maxMessage && json.Unmarshal(raw, &req) == nil &&
		req.Worker != "" && len(req.Worker) <= maxName && len(req.Group) <= maxName
	if e := req.Estimate; e != nil {
		ok = ok && !outOfRange(e.Input, e.Output, e.MaxOutput+1)
	}
	if e := req.Ended; e != nil {
		u, a := e.Usage, e.Assumed
		ok = ok && !outOfRange(e.Tokens, u.Input, u.Output, u.Cached, u.Reasoning) &&
			!outOfRange(a.Input, a.Output, a.Cached, a.Reasoning) && (e.CostUSD == nil || *e.CostUSD >= 0 && *e.CostUSD <= 1e9) &&
			e.RetryAfter >= 0 && e.RetryAfter <= 24*time.Hour &&
			e.Kind >= limit.Answered && e.Kind <= limit.Abandoned && len(e.Reason) <= 2*maxReason
	}
	if !ok {
		return req, errDamaged
	}
	return req, nil
}

// outOfRange reports whether one of the counts cannot be a number of tokens.
func outOfRange(counts ...int64) bool {
	return slices.ContainsFunc(counts, func(n int64) bool { return n < 0 || n > 1<<40 })
}

// permitGroup grants the permits of one Admission.
type permitGroup struct {
	*PermitServer
	admission pipeline.Admission
	workers   map[string]*permitWorker
	stop      *refusal
}

// permitWorker is a worker that sent a request recently.
type permitWorker struct {
	permits map[int64]*workerPermit // by id
	turn    chan struct{}           // holds whoever is asking the Admission, so that workers are served in turn
	heard   time.Time               // when its last request arrived
	timer   *time.Timer             // drops the worker
	newest  time.Duration           // the latest permitRequest.Sent
}

// workerPermit is a permit that a worker waits for, was granted or refused, or that ended not long
// ago: late messages and repeated ones must not begin it anew.
type workerPermit struct {
	cancel  context.CancelFunc // ends the wait
	timer   *time.Timer        // ends the wait unless the worker asks again
	decided chan struct{}      // closed at the end of the wait
	granted pipeline.Permit    // nil after its end
	refused error
	ended   bool // or refused
}

// answer applies a request. If it asks for a permit, answer waits for the decision.
func (g *permitGroup) answer(ctx context.Context, req permitRequest) (reply permitReply, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ctx.Err(); err != nil {
		return reply, err
	}
	w := g.worker(req.Worker)
	if w.newest-req.Sent > exchangeTime { // nobody waits for the reply: the worker has asked again since
		return reply, nil
	}
	w.newest = max(w.newest, req.Sent)
	w.heard = time.Now()
	w.timer.Reset(leaseTime)
	switch {
	case req.Ended != nil:
		g.permit(w, req)
		g.end(w, req.ID, *req.Ended)
	case req.Estimate != nil:
		p := g.permit(w, req)
		if !p.ended {
			p.timer.Reset(longPoll + grantGrace)
		}
		g.mu.Unlock()
		select {
		case <-p.decided:
		case <-time.After(longPoll):
		case <-ctx.Done():
		}
		g.mu.Lock()
		reply.Granted, err = p.granted != nil, p.refused
	}
	state := g.admission.State()
	reply.Answers, reply.Paused, reply.Stop = state.Answers, max(0, time.Until(state.PausedUntil)), g.stop
	if !state.GivesUp.IsZero() {
		reply.GivesUp = max(1, time.Until(state.GivesUp))
	}
	return reply, err
}

// worker returns the worker of a name, which it makes if necessary. The mutex is held.
func (g *permitGroup) worker(name string) *permitWorker {
	if w := g.workers[name]; w != nil {
		return w
	}
	w := &permitWorker{permits: map[int64]*workerPermit{}, turn: make(chan struct{}, 1)}
	w.timer = time.AfterFunc(leaseTime, func() { g.dropSilent(name, w) })
	g.workers[name] = w
	return w
}

// dropSilent drops a worker whose timer has run out. If that is late, it was this process that was
// away, such as while its machine slept: the worker then gets the time again.
func (g *permitGroup) dropSilent(name string, w *permitWorker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.workers[name] != w: // Close dropped it just before
	case time.Since(w.heard) > leaseTime+time.Second:
		w.heard = time.Now()
		w.timer.Reset(leaseTime)
	default:
		g.drop(name)
	}
}

// drop removes a worker and ends its permits as lost. The mutex is held.
func (g *permitGroup) drop(name string) {
	w := g.workers[name]
	delete(g.workers, name)
	w.timer.Stop() // a request may have set it again meanwhile
	for id := range w.permits {
		g.end(w, id, pipeline.RequestResult{Result: limit.Result{Kind: limit.Abandoned}, Lost: true})
	}
}

// permit returns the permit of a request, for which it begins to wait if it is new. The mutex is held.
func (g *permitGroup) permit(w *permitWorker, req permitRequest) *workerPermit {
	p := w.permits[req.ID]
	if p != nil {
		return p
	}
	ctx, cancel := context.WithCancel(g.ctx)
	p = &workerPermit{cancel: cancel, decided: make(chan struct{})}
	w.permits[req.ID] = p
	p.timer = time.AfterFunc(longPoll+grantGrace, cancel)
	if req.Ended == nil {
		g.running.Go(func() { g.admit(ctx, w, req.ID, p, *req.Estimate) })
	}
	return p
}

// admit waits for a permit, until the worker gives up or says nothing more.
func (g *permitGroup) admit(ctx context.Context, w *permitWorker, id int64, p *workerPermit, e pipeline.Estimate) {
	permit, err := g.admitInTurn(ctx, w, e)
	g.mu.Lock()
	defer g.mu.Unlock()
	defer close(p.decided)
	defer p.cancel()
	switch {
	case err == nil:
		if p.granted = permit; p.ended {
			g.done(p, pipeline.RequestResult{Result: limit.Result{Kind: limit.Abandoned}})
		}
	case ctx.Err() == nil:
		p.refused = err
		g.end(w, id, pipeline.RequestResult{})
	case !p.ended: // the worker may ask again
		delete(w.permits, id)
	}
}

// admitInTurn calls Admit when it is the worker's turn, unless the run is stopped meanwhile. Waits
// that begin after the stop belong to calls that had begun.
func (g *permitGroup) admitInTurn(ctx context.Context, w *permitWorker, e pipeline.Estimate) (pipeline.Permit, error) {
	stop := limit.Stop(ctx)
	if limit.Closed(stop) {
		stop = nil
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-stop:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if limit.Closed(stop) { // perhaps together with the turn
		return nil, limit.ErrStopped
	}
	return g.admission.Admit(ctx, e)
}

// end ends a permit or the wait for it, and forgets it after leaseTime. Only the first call counts.
// The mutex is held.
func (g *permitGroup) end(w *permitWorker, id int64, e pipeline.RequestResult) {
	p := w.permits[id]
	if p.ended {
		return
	}
	p.ended = true
	p.cancel()
	p.timer.Stop()
	time.AfterFunc(leaseTime, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(w.permits, id)
	})
	if p.granted != nil {
		g.done(p, e)
	}
}

// done returns a permit to the Admission. The mutex is held.
func (g *permitGroup) done(p *workerPermit, e pipeline.RequestResult) {
	if err := p.granted.Done(g.ctx, e); err != nil {
		g.stop = newRefusal(err)
	}
	p.granted = nil
}
