package alarm

import (
	"context"
	"errors"
	"sync"
	"time"
)

// line is an alarm that is to be logged, once nothing is locked any more.
type line struct {
	notice  notice
	dropped []*outlet
}

// unfoldLocked takes what was folded of a code; ok is false for nothing.
func (a *Alarms) unfoldLocked(s *state, now time.Duration) (l line, ok bool) {
	if s.folded == 0 {
		return line{}, false
	}
	n := s.latest
	n.Folded = s.folded
	s.folded, s.latest = 0, notice{}
	return line{n, a.tellLocked(s, n, now)}, true
}

// unfold tells what was folded of a code, once its window is over: a Raise may
// have told it meanwhile, and begun another one.
func (a *Alarms) unfold(code Code) {
	a.mu.Lock()
	s, now := a.codes[code], a.cfg.Clock.Mono()
	if now-s.last < FoldWindow {
		a.mu.Unlock()
		return
	}
	l, ok := a.unfoldLocked(s, now)
	a.mu.Unlock()
	if ok {
		a.log(l.notice, l.dropped)
	}
}

// Run tells what was folded and delivers, until ctx is done; then it tells what
// is left, and delivers for two more seconds. It is to be called once. Alarms
// that are raised after it are logged, each of them, and not delivered.
func (a *Alarms) Run(ctx context.Context) error {
	a.mu.Lock()
	again := a.began
	a.began = true
	a.mu.Unlock()
	if again {
		return errors.New("Run was called before")
	}
	// A try that is under way when ctx ends has until work does; nothing new is
	// waited for once life ends.
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	life, end := context.WithCancel(work)
	defer end()
	var senders sync.WaitGroup
	for _, o := range a.outlets {
		senders.Go(func() { o.run(work, life) })
	}
	a.watch(ctx)
	a.end()
	defer time.AfterFunc(a.limits.grace, giveUp).Stop()
	end()
	senders.Wait()
	return nil
}

// watch tells what was folded at the end of each window, until ctx is done.
func (a *Alarms) watch(ctx context.Context) {
	var windows sync.WaitGroup
	defer windows.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		a.mu.Lock()
		due := a.due
		a.due = nil
		now := a.cfg.Clock.Mono()
		for _, code := range due {
			left := a.codes[code].last + FoldWindow - now
			windows.Go(func() {
				if a.cfg.Clock.Sleep(ctx, left) == nil {
					a.unfold(code)
				}
			})
		}
		a.mu.Unlock()
	}
}

// end tells what is folded still, and ends folding and delivering. It does so in
// one step: what was folded in between would be told by nobody (alarm.R2).
func (a *Alarms) end() {
	var left []line
	a.mu.Lock()
	now := a.cfg.Clock.Mono()
	for _, s := range a.codes {
		if l, ok := a.unfoldLocked(s, now); ok {
			left = append(left, l)
		}
	}
	a.ended = true
	a.mu.Unlock()
	for _, l := range left {
		a.log(l.notice, l.dropped)
	}
}
