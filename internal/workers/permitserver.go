package workers

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline"
)

const (
	// grantGrace is how long after its last request a worker is still granted permits. It is
	// shorter than leaseTime, so that a worker that dies holds few.
	grantGrace = 2 * time.Second

	maxGroups, maxPermitWorkers = 64, 4096
	maxName                     = 1000
)

// PermitServer grants the permits of pipeline.Admissions to workers that wait for them, to one
// worker after the other. A worker that is silent for 30 s loses its permits: they end with
// pipeline.RequestResult.Lost, because their calls may have been paid. When limit.Stop of its context is
// closed, requests that wait get limit.ErrStopped.
//
// The time for a message is proportional to its size. Memory is bounded by 4,000 waiting
// requests for each worker.
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
		for _, w := range g.workers {
			g.drop(w)
		}
	}
}

// Answer answers a request of Permits as soon as one of its permits is granted, after at most
// 0.9 s. A damaged or too large request gets an error as the answer. Nil means that the server
// was closed or ctx is done.
func (s *PermitServer) Answer(ctx context.Context, request []byte) []byte {
	var reply permitReply
	var g *permitGroup
	req, err := readPermitRequest(request)
	if err == nil {
		g, err = s.group(req.Group)
	}
	if err == nil {
		reply, err = g.answer(ctx, req)
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
func (s *PermitServer) group(name string) (*permitGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[name]
	switch {
	case g != nil:
		return g, nil
	case s.ctx.Err() != nil:
		return nil, s.ctx.Err()
	case len(s.groups) >= maxGroups:
		return nil, cli.Usage("a run has at most %d models, hosts and keys", maxGroups)
	}
	g = &permitGroup{PermitServer: s, admission: s.open(name), workers: map[string]*permitWorker{}}
	s.groups[name] = g
	return g, nil
}

// readPermitRequest decodes a request and checks its bounds.
func readPermitRequest(raw []byte) (req permitRequest, err error) {
	ok := len(raw) <= maxMessage && json.Unmarshal(raw, &req) == nil &&
		req.Worker != "" && len(req.Worker) <= maxName && len(req.Group) <= maxName && req.Seq > 0 &&
		len(req.Wants) <= maxWants && len(req.Ended) <= maxEnded
	for _, want := range req.Wants {
		ok = ok && !outOfRange(want[1], want[2], want[3]+1)
	}
	for _, e := range req.Ended {
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
	name        string
	seq         int64
	seen        time.Time
	waiting     []permitWant
	dispatching bool // dispatch is running
	// admitting is the id for which Admit is being called, and cancelAdmit cancels that call.
	admitting   int64
	cancelAdmit context.CancelFunc
	leases      map[int64]pipeline.Permit
	refused     map[int64]*refusal // not reported yet
	changed     chan struct{}      // closed and replaced when there is something to report
	timer       *time.Timer
}

// answer applies a request and waits until there is something to report.
func (g *permitGroup) answer(ctx context.Context, req permitRequest) (permitReply, error) {
	hold, cancel := context.WithTimeout(ctx, longPoll)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	g.mu.Lock()
	defer g.mu.Unlock()
	w, err := g.applyRequest(req)
	if err != nil || w.seq != req.Seq {
		return permitReply{}, err
	}
	for {
		reply := g.reply(w, req)
		answered := len(reply.Granted)+len(reply.Refused) > 0
		if answered || len(req.Wants) == 0 || w.seq != req.Seq || hold.Err() != nil {
			return reply, nil
		}
		changed := w.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-hold.Done():
		}
		g.mu.Lock()
		w.touch()
	}
}

// touch records a sign of life of the worker. The mutex is held.
func (w *permitWorker) touch() {
	w.seen = time.Now()
	w.timer.Reset(grantGrace)
}

// applyRequest records the permits that ended and those that the worker waits for. It ignores a
// request that a newer one overtook. The mutex is held.
func (g *permitGroup) applyRequest(req permitRequest) (*permitWorker, error) {
	w, err := g.worker(req.Worker)
	if err != nil || req.Seq <= w.seq {
		return w, err
	}
	w.seq = req.Seq
	w.touch()
	for _, e := range req.Ended {
		if l := w.leases[e.ID]; l != nil {
			delete(w.leases, e.ID)
			g.end(l, e.RequestResult)
		}
	}
	wanted := map[int64]bool{}
	var waiting []permitWant
	for _, want := range req.Wants {
		if !wanted[want.id()] && w.refused[want.id()] == nil && w.leases[want.id()] == nil {
			waiting = append(waiting, want)
		}
		wanted[want.id()] = true
	}
	w.setWaiting(waiting)
	maps.DeleteFunc(w.refused, func(id int64, _ *refusal) bool { return !wanted[id] })
	w.notify()
	if !w.dispatching && len(w.waiting) > 0 {
		w.dispatching = true
		g.running.Go(func() { g.dispatch(w) })
	}
	return w, nil
}

// worker returns the worker of a name, which it makes if necessary. The mutex is held.
func (g *permitGroup) worker(name string) (*permitWorker, error) {
	if err := g.ctx.Err(); err != nil {
		return nil, err
	}
	if w := g.workers[name]; w != nil {
		return w, nil
	}
	if len(g.workers) >= maxPermitWorkers {
		return nil, cli.Usage("a run has at most %d workers", maxPermitWorkers)
	}
	w := &permitWorker{
		name: name, leases: map[int64]pipeline.Permit{}, refused: map[int64]*refusal{}, changed: make(chan struct{}),
		cancelAdmit: func() {},
	}
	w.timer = time.AfterFunc(grantGrace, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch silent := time.Since(w.seen); { // a request may have arrived while this waited for the mutex
		case silent >= leaseTime:
			g.drop(w)
		case silent >= grantGrace:
			w.setWaiting(nil)
			w.timer.Reset(leaseTime - silent)
		}
	})
	g.workers[name] = w
	return w, nil
}

// setWaiting replaces the permits that the worker waits for. The mutex is held.
func (w *permitWorker) setWaiting(wants []permitWant) {
	w.waiting = wants
	if w.index(w.admitting) < 0 {
		w.cancelAdmit()
	}
}

// index returns the position of an id among the waiting, or -1. The mutex is held.
func (w *permitWorker) index(id int64) int {
	return slices.IndexFunc(w.waiting, func(want permitWant) bool { return want.id() == id })
}

// drop removes a worker and ends its permits as lost. The mutex is held.
func (g *permitGroup) drop(w *permitWorker) {
	if g.workers[w.name] == w { // otherwise it came back, and a request held from before set this timer again
		delete(g.workers, w.name)
	}
	w.timer.Stop()
	w.setWaiting(nil)
	for _, l := range w.leases {
		g.end(l, pipeline.RequestResult{Result: limit.Result{Kind: limit.Abandoned}, Lost: true})
	}
	clear(w.leases)
}

// dispatch requests one permit at a time while the worker waits. Each worker has one request at
// the Admission, so that workers are served in turn.
func (g *permitGroup) dispatch(w *permitWorker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isStopped := func() bool { return limit.Closed(limit.Stop(g.ctx)) }
	for stopped := isStopped(); len(w.waiting) > 0 && g.ctx.Err() == nil; {
		want := w.waiting[0]
		ctx, cancel := context.WithCancel(g.ctx)
		w.admitting, w.cancelAdmit = want.id(), cancel
		g.mu.Unlock()
		admitted, err := g.admission.Admit(ctx, want.estimate())
		g.mu.Lock()
		at, withdrawn := w.index(want.id()), ctx.Err() != nil
		cancel()
		switch {
		case err == nil && at < 0:
			g.end(admitted, pipeline.RequestResult{Result: limit.Result{Kind: limit.Abandoned}})
		case err != nil && withdrawn:
		case err == nil:
			w.leases[want.id()] = admitted
			w.waiting = slices.Delete(w.waiting, at, at+1)
		case !errors.Is(err, limit.ErrStopped):
			w.refused[want.id()] = newRefusal(err)
			w.waiting = slices.Delete(w.waiting, at, at+1)
		}
		before := stopped
		// Later waits belong to calls that had begun. The stop may arrive together with a
		// permit.
		if stopped = isStopped(); errors.Is(err, limit.ErrStopped) || stopped && !before {
			for _, want := range w.waiting {
				w.refused[want.id()] = newRefusal(limit.ErrStopped)
			}
			w.waiting = nil
		}
		w.notify()
	}
	w.dispatching = false
}

// end ends a permit. The mutex is held.
func (g *permitGroup) end(a pipeline.Permit, e pipeline.RequestResult) {
	if err := a.Done(g.ctx, e); err != nil {
		g.stop = newRefusal(err)
	}
}

// notify wakes the held requests of the worker. The mutex is held.
func (w *permitWorker) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// reply builds the reply from the current state. The mutex is held.
func (g *permitGroup) reply(w *permitWorker, req permitRequest) permitReply {
	state := g.admission.State()
	reply := permitReply{Answers: state.Answers, Paused: max(0, time.Until(state.PausedUntil)), Stop: g.stop}
	if !state.GivesUp.IsZero() {
		reply.GivesUp = max(1, time.Until(state.GivesUp))
	}
	if w.seq != req.Seq {
		return reply // the newer request gets the permits
	}
	for _, want := range req.Wants {
		if w.leases[want.id()] != nil {
			reply.Granted = append(reply.Granted, want.id())
		} else if r := w.refused[want.id()]; r != nil && len(reply.Refused) < maxEnded { // errors are long
			delete(w.refused, want.id())
			reply.Refused = append(reply.Refused, permitRefused{want.id(), *r})
		}
	}
	return reply
}
