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
	// grace is how long after its last word a worker is still granted permits: less
	// than leaseTime, so that one that dies takes few with it.
	grace = 2 * time.Second

	mostGroups, mostPermitWorkers = 64, 4096
	mostName                      = 1000
)

// PermitServer hands the permits of admissions to workers: only to requests that wait,
// to the workers in turn. A worker that is silent for 30 s loses its permits: they end
// as pipeline.Ended with Lost, since their requests may have been paid.
// Requests that waited when limit.Stop of its context was closed get limit.ErrStopped.
//
// A message takes time in proportion to what it holds. Memory is bounded by what
// workers wait for: 4,000 requests each.
type PermitServer struct {
	ctx     context.Context
	cancel  context.CancelFunc
	open    func(group string) pipeline.Admission
	running sync.WaitGroup

	mu     sync.Mutex
	groups map[string]*permitGroup
}

// NewPermitServer makes a server; open makes the admission of a LimitGroup that is
// asked for the first time.
func NewPermitServer(ctx context.Context, open func(group string) pipeline.Admission) *PermitServer {
	s := &PermitServer{open: open, groups: map[string]*permitGroup{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Close gives all permits back as lost and leaves nothing behind.
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

// Answer answers a request of Permits as soon as one of the requests that
// wait may be sent, at most 0.9 s later. What cannot be read or is too much is answered
// with the reason. Nil says that the server was closed, or ctx ended.
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
	if err != nil { // an exotic error of the admission; the worker asks again
		return nil
	}
	return answer
}

// group is that of a name.
func (s *PermitServer) group(name string) (*permitGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[name]
	switch {
	case g != nil:
		return g, nil
	case s.ctx.Err() != nil:
		return nil, s.ctx.Err()
	case len(s.groups) >= mostGroups:
		return nil, cli.Usage("a run has at most %d models, hosts and keys", mostGroups)
	}
	g = &permitGroup{PermitServer: s, admission: s.open(name), workers: map[string]*permitWorker{}}
	s.groups[name] = g
	return g, nil
}

// readPermitRequest refuses what no worker sends.
func readPermitRequest(raw []byte) (req permitRequest, err error) {
	well := len(raw) <= mostMessage && json.Unmarshal(raw, &req) == nil &&
		req.Worker != "" && len(req.Worker) <= mostName && len(req.Group) <= mostName && req.Seq > 0 &&
		len(req.Wants) <= mostWants && len(req.Ended) <= mostEnded
	for _, want := range req.Wants {
		well = well && !odd(want[1], want[2], want[3]+1)
	}
	for _, e := range req.Ended {
		u, a := e.Usage, e.Assumed
		well = well && !odd(e.Tokens, u.Input, u.Output, u.Cached, u.Reasoning) &&
			!odd(a.Input, a.Output, a.Cached, a.Reasoning) && (e.CostUSD == nil || *e.CostUSD >= 0 && *e.CostUSD <= 1e9) &&
			e.RetryAfter >= 0 && e.RetryAfter <= 24*time.Hour &&
			e.Kind >= limit.Answered && e.Kind <= limit.Abandoned && len(e.Reason) <= 2*mostReason
	}
	if !well {
		return req, errDamaged
	}
	return req, nil
}

// odd reports whether one of the counts is not one of tokens of a request.
func odd(counts ...int64) bool {
	return slices.ContainsFunc(counts, func(n int64) bool { return n < 0 || n > 1<<40 })
}

// permitGroup hands out the permits of one admission.
type permitGroup struct {
	*PermitServer
	admission pipeline.Admission
	workers   map[string]*permitWorker
	stop      *refusal
}

// permitWorker is a worker that was heard of lately.
type permitWorker struct {
	name    string
	seq     int64
	seen    time.Time
	waiting []permitWant
	on      bool // dispatch runs
	// asked is the want for which the admission is asked, and withdraw ends that.
	asked    int64
	withdraw context.CancelFunc
	leases   map[int64]pipeline.Admitted
	refused  map[int64]*refusal // not yet told
	changed  chan struct{}      // closed and replaced when there is something to tell
	timer    *time.Timer
}

// answer takes a request, and waits until there is something to answer.
func (g *permitGroup) answer(ctx context.Context, req permitRequest) (permitReply, error) {
	hold, cancel := context.WithTimeout(ctx, longPoll)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	g.mu.Lock()
	defer g.mu.Unlock()
	w, err := g.take(req)
	if err != nil || w.seq != req.Seq {
		return permitReply{}, err
	}
	for {
		reply := g.reply(w, req)
		told := len(reply.Granted)+len(reply.Refused) > 0
		if told || len(req.Wants) == 0 || w.seq != req.Seq || hold.Err() != nil {
			return reply, nil
		}
		changed := w.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-hold.Done():
		}
		g.mu.Lock()
		w.heard()
	}
}

// heard notes that the worker is there. The mutex is held.
func (w *permitWorker) heard() {
	w.seen = time.Now()
	w.timer.Reset(grace)
}

// take notes what ended and who waits now. A request that a newer one overtook is
// left out: the newer one says all that it says. The mutex is held.
func (g *permitGroup) take(req permitRequest) (*permitWorker, error) {
	w, err := g.worker(req.Worker)
	if err != nil || req.Seq <= w.seq {
		return w, err
	}
	w.seq = req.Seq
	w.heard()
	for _, e := range req.Ended {
		if l := w.leases[e.ID]; l != nil {
			delete(w.leases, e.ID)
			g.end(l, e.Ended)
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
	w.wait(waiting)
	maps.DeleteFunc(w.refused, func(id int64, _ *refusal) bool { return !wanted[id] })
	w.tell()
	if !w.on && len(w.waiting) > 0 {
		w.on = true
		g.running.Go(func() { g.dispatch(w) })
	}
	return w, nil
}

// worker finds a worker or makes it. The mutex is held.
func (g *permitGroup) worker(name string) (*permitWorker, error) {
	if err := g.ctx.Err(); err != nil {
		return nil, err
	}
	if w := g.workers[name]; w != nil {
		return w, nil
	}
	if len(g.workers) >= mostPermitWorkers {
		return nil, cli.Usage("a run has at most %d workers", mostPermitWorkers)
	}
	w := &permitWorker{
		name: name, leases: map[int64]pipeline.Admitted{}, refused: map[int64]*refusal{}, changed: make(chan struct{}),
		withdraw: func() {},
	}
	w.timer = time.AfterFunc(grace, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch silent := time.Since(w.seen); { // it may have been heard of while this waited
		case silent >= leaseTime:
			g.drop(w)
		case silent >= grace:
			w.wait(nil)
			w.timer.Reset(leaseTime - silent)
		}
	})
	g.workers[name] = w
	return w, nil
}

// wait replaces what the worker waits for. The mutex is held.
func (w *permitWorker) wait(wants []permitWant) {
	w.waiting = wants
	if w.index(w.asked) < 0 {
		w.withdraw()
	}
}

// index is where a want stands among those that wait, or -1. The mutex is held.
func (w *permitWorker) index(id int64) int {
	return slices.IndexFunc(w.waiting, func(want permitWant) bool { return want.id() == id })
}

// drop forgets a worker; its permits are lost. The mutex is held.
func (g *permitGroup) drop(w *permitWorker) {
	if g.workers[w.name] == w { // else it came back, and the timer was set once more by a request held before
		delete(g.workers, w.name)
	}
	w.timer.Stop()
	w.wait(nil)
	for _, l := range w.leases {
		g.end(l, pipeline.Ended{Result: limit.Result{Kind: limit.Abandoned}, Lost: true})
	}
	clear(w.leases)
}

// dispatch asks for one permit after the other, as long as the worker waits. The admission
// has one want of each worker, and so grants to the workers in turn.
func (g *permitGroup) dispatch(w *permitWorker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	isStopped := func() bool { return limit.Closed(limit.Stop(g.ctx)) }
	for stopped := isStopped(); len(w.waiting) > 0 && g.ctx.Err() == nil; {
		want := w.waiting[0]
		ctx, cancel := context.WithCancel(g.ctx)
		w.asked, w.withdraw = want.id(), cancel
		g.mu.Unlock()
		admitted, err := g.admission.Admit(ctx, want.estimate())
		g.mu.Lock()
		at, withdrawn := w.index(want.id()), ctx.Err() != nil
		cancel()
		switch {
		case err == nil && at < 0:
			g.end(admitted, pipeline.Ended{Result: limit.Result{Kind: limit.Abandoned}})
		case err != nil && withdrawn:
		case err == nil:
			w.leases[want.id()] = admitted
			w.waiting = slices.Delete(w.waiting, at, at+1)
		case !errors.Is(err, limit.ErrStopped):
			w.refused[want.id()] = newRefusal(err)
			w.waiting = slices.Delete(w.waiting, at, at+1)
		}
		before := stopped
		// What comes later belongs to calls that were begun. The stop may come beside a grant.
		if stopped = isStopped(); errors.Is(err, limit.ErrStopped) || stopped && !before {
			for _, want := range w.waiting {
				w.refused[want.id()] = newRefusal(limit.ErrStopped)
			}
			w.waiting = nil
		}
		w.tell()
	}
	w.on = false
}

// end gives a permit back. The mutex is held.
func (g *permitGroup) end(a pipeline.Admitted, e pipeline.Ended) {
	if err := a.Done(g.ctx, e); err != nil {
		g.stop = newRefusal(err)
	}
}

// tell wakes the requests of the worker that are held. The mutex is held.
func (w *permitWorker) tell() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// reply is the answer at this moment. The mutex is held.
func (g *permitGroup) reply(w *permitWorker, req permitRequest) permitReply {
	state := g.admission.State()
	reply := permitReply{Answers: state.Answers, Paused: max(0, time.Until(state.PausedUntil)), Stop: g.stop}
	if !state.GivesUp.IsZero() {
		reply.GivesUp = max(1, time.Until(state.GivesUp))
	}
	if w.seq != req.Seq {
		return reply // a newer request is told
	}
	for _, want := range req.Wants {
		if w.leases[want.id()] != nil {
			reply.Granted = append(reply.Granted, want.id())
		} else if r := w.refused[want.id()]; r != nil && len(reply.Refused) < mostEnded { // errors are long
			delete(w.refused, want.id())
			reply.Refused = append(reply.Refused, permitRefused{want.id(), *r})
		}
	}
	return reply
}
