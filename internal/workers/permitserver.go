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
	"extraction-experiment/outcome"
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
// A message takes time in proportion to what it holds, a permit to the number of
// workers. Memory is bounded by what workers wait for: 4,000 requests each.
type PermitServer struct {
	ctx     context.Context
	cancel  context.CancelFunc
	open    func(group string) (pipeline.Admission, error)
	running sync.WaitGroup

	mu     sync.Mutex
	groups map[string]*permitGroup
}

// NewPermitServer makes a server; open makes the admission of a LimitGroup that is
// asked for the first time, and its error is what the worker gets.
func NewPermitServer(ctx context.Context, open func(group string) (pipeline.Admission, error)) *PermitServer {
	s := &PermitServer{open: open, groups: map[string]*permitGroup{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Close gives all permits back as lost and leaves nothing behind.
func (s *PermitServer) Close() {
	s.cancel()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		for _, w := range slices.Clone(g.workers) {
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
	admission, err := s.open(name)
	if err != nil {
		return nil, err
	}
	g = &permitGroup{PermitServer: s, admission: admission}
	s.groups[name] = g
	return g, nil
}

// readPermitRequest refuses what no worker sends, and cuts numbers at what can be.
func readPermitRequest(raw []byte) (req permitRequest, err error) {
	if len(raw) > mostMessage {
		return req, cli.Usage("a request for permits has %d bytes, at most %d are read", len(raw), mostMessage)
	}
	if err := json.Unmarshal(raw, &req); err != nil {
		return req, cli.Usage("a request for permits cannot be read: %w", err)
	}
	if req.Worker == "" || len(req.Worker) > mostName || len(req.Group) > mostName || req.Seq < 1 ||
		len(req.Wants) > mostWants || len(req.Ended) > mostEnded {
		return req, cli.Usage("a request for permits needs a worker and a number, and has at most %d that wait and %d that ended", mostWants, mostEnded)
	}
	const most = 1 << 30 // tokens of one request
	bounded := func(n *int64, least int64) { *n = min(max(*n, least), most) }
	for i := range req.Wants {
		want := &req.Wants[i]
		if i > 0 && want.id() <= req.Wants[i-1].id() {
			return req, cli.Usage("a request for permits counts up what waits: %d follows %d", want.id(), req.Wants[i-1].id())
		}
		bounded(&want[1], 0)
		bounded(&want[2], 0)
		bounded(&want[3], -1)
	}
	for i := range req.Ended {
		e := &req.Ended[i].Ended
		bounded(&e.Tokens, 0)
		for _, u := range []*outcome.Usage{&e.Usage, &e.Assumed} {
			bounded(&u.Input, 0)
			bounded(&u.Output, 0)
			u.Cached, u.Reasoning = min(max(u.Cached, 0), u.Input), min(max(u.Reasoning, 0), u.Output)
		}
		if e.CostUSD != nil && !(*e.CostUSD >= 0 && *e.CostUSD <= 1e6) {
			e.CostUSD = nil
		}
		if e.RetryAfter = min(max(e.RetryAfter, 0), 24*time.Hour); e.Kind < limit.Answered || e.Kind > limit.Abandoned {
			e.Kind = limit.Abandoned
		}
		e.Reason = e.Reason[:min(len(e.Reason), 2*mostReason)]
	}
	return req, nil
}

// permitGroup hands out the permits of one admission.
type permitGroup struct {
	*PermitServer
	admission pipeline.Admission

	workers []*permitWorker // whose turn it is comes first
	// asked is the worker for whose first want the admission is asked; nil: none.
	asked    *permitWorker
	id       int64              // of that want
	withdraw context.CancelFunc // of that
	on       bool               // dispatch runs
	halted   bool               // the run was stopped, who waited then was told
	stop     *refusal
}

// permitWorker is a worker that was heard of lately.
type permitWorker struct {
	name    string
	seq     int64
	seen    time.Time
	waiting []permitWant
	leases  map[int64]pipeline.Admitted
	refused map[int64]*refusal // not yet told
	changed chan struct{}      // closed and replaced when there is something to tell
	timer   *time.Timer
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
	w.timer.Reset(leaseTime)
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
	if limit.Closed(limit.Stop(g.ctx)) && !g.halted {
		g.refuse(nil, 0, limit.ErrStopped)
	}
	for _, e := range req.Ended {
		if l := w.leases[e.ID]; l != nil {
			delete(w.leases, e.ID)
			g.end(l, e.Ended)
		}
	}
	w.waiting = w.waiting[:0]
	wanted := map[int64]bool{}
	for _, want := range req.Wants {
		wanted[want.id()] = true
		if w.refused[want.id()] == nil && w.leases[want.id()] == nil {
			w.waiting = append(w.waiting, want)
		}
	}
	maps.DeleteFunc(w.refused, func(id int64, _ *refusal) bool { return !wanted[id] })
	if g.asked == w && !wanted[g.id] {
		g.withdraw()
	}
	w.tell()
	if !g.on && len(w.waiting) > 0 && g.ctx.Err() == nil {
		g.on = true
		g.running.Go(g.dispatch)
	}
	return w, nil
}

// worker finds a worker or makes it. The mutex is held.
func (g *permitGroup) worker(name string) (*permitWorker, error) {
	if at := slices.IndexFunc(g.workers, func(w *permitWorker) bool { return w.name == name }); at >= 0 {
		return g.workers[at], nil
	}
	if len(g.workers) >= mostPermitWorkers || g.ctx.Err() != nil {
		return nil, cli.Usage("a run has at most %d workers", mostPermitWorkers)
	}
	w := &permitWorker{
		name: name, leases: map[int64]pipeline.Admitted{}, refused: map[int64]*refusal{}, changed: make(chan struct{}),
	}
	w.timer = time.AfterFunc(leaseTime, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if time.Since(w.seen) >= leaseTime { // else it was heard of while this waited
			g.drop(w)
		}
	})
	g.workers = append(g.workers, w)
	return w, nil
}

// drop forgets a worker; its permits are lost. The mutex is held.
func (g *permitGroup) drop(w *permitWorker) {
	w.timer.Stop()
	for id, l := range w.leases {
		delete(w.leases, id)
		g.end(l, pipeline.Ended{Result: limit.Result{Kind: limit.Abandoned}, Lost: true})
	}
	w.waiting = nil
	if g.asked == w {
		g.withdraw()
	}
	g.workers = slices.DeleteFunc(g.workers, func(other *permitWorker) bool { return other == w })
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

// dispatch asks for one permit after the other, as long as anybody waits: for the
// first want of each worker in turn. The admission sees them in that order.
func (g *permitGroup) dispatch() {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { g.on = false }()
	for g.ctx.Err() == nil {
		w := g.next()
		if w == nil {
			return
		}
		want := w.waiting[0]
		ctx, cancel := context.WithCancel(g.ctx)
		g.asked, g.id, g.withdraw = w, want.id(), cancel
		g.mu.Unlock()
		admitted, err := g.admission.Admit(ctx, want.estimate())
		g.mu.Lock()
		withdrawn := ctx.Err() != nil
		cancel()
		g.asked = nil
		switch {
		case err == nil && !g.grant(w, want.id(), admitted):
			g.end(admitted, pipeline.Ended{Result: limit.Result{Kind: limit.Abandoned}})
		case err == nil || withdrawn:
		case errors.Is(err, limit.ErrStopped):
			g.refuse(nil, 0, err)
		default:
			g.refuse(w, want.id(), err)
		}
	}
}

// next is the worker whose turn it is, of those that wait and are there; it goes to
// the end of the row. The mutex is held.
func (g *permitGroup) next() *permitWorker {
	for i, w := range g.workers {
		if len(w.waiting) > 0 && time.Since(w.seen) <= grace {
			g.workers = append(slices.Delete(g.workers, i, i+1), w)
			return w
		}
	}
	return nil
}

// grant gives a permit to a want if it still waits. The mutex is held.
func (g *permitGroup) grant(w *permitWorker, id int64, a pipeline.Admitted) bool {
	at := slices.IndexFunc(w.waiting, func(want permitWant) bool { return want.id() == id })
	if at < 0 || time.Since(w.seen) > grace {
		return false
	}
	w.waiting = slices.Delete(w.waiting, at, at+1)
	w.leases[id] = a
	w.tell()
	return true
}

// refuse tells a want that it will not be sent; with limit.ErrStopped all that wait,
// once: what comes later belongs to calls that were begun. The mutex is held.
func (g *permitGroup) refuse(to *permitWorker, id int64, err error) {
	if to == nil {
		g.halted = true
		if g.asked != nil {
			g.withdraw()
		}
	}
	for _, w := range g.workers {
		w.waiting = slices.DeleteFunc(w.waiting, func(want permitWant) bool {
			refused := to == nil || w == to && want.id() == id
			if refused {
				w.refused[want.id()] = newRefusal(err)
			}
			return refused
		})
		w.tell()
	}
}
