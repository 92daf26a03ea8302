package daemon

import (
	"context"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/server/views"
)

// pageParallel is how many peers are asked at once for the page.
const pageParallel = 32

// askPeers asks the live peers for what they say of themselves, as they are asked for their clocks.
func (l *life) askPeers(ctx context.Context, path string, size, most int) (answers []views.PeerAnswer, leftOut int, err error) {
	peers, err := l.registry.Peers(ctx)
	if err != nil {
		return nil, 0, err
	}
	asked := peers[:min(len(peers), most)]
	addresses := make([]string, len(asked))
	for i, p := range asked {
		addresses[i] = p.Address
	}
	for i, a := range l.pages.Fetch(ctx, addresses, path, size) {
		if a.Err != nil {
			a.Err = peerclock.Class(a.Err)
		}
		answers = append(answers, views.PeerAnswer{Address: asked[i].Address, Instance: asked[i].Instance, Body: a.Body, Err: a.Err})
	}
	return answers, len(peers) - len(asked), nil
}

// workers lists the entries of the registry, each with what the last comparison with the peers
// found for the live ones' clocks.
func (l *life) workers(ctx context.Context) ([]views.WorkerInfo, error) {
	entries, err := l.registry.Entries(ctx)
	if err != nil {
		return nil, err
	}
	asked := map[string]clock.Sample{}
	for _, s := range l.clock().Samples {
		asked[s.Address] = s
	}
	self, now := l.worker.Record(), l.d.Clock.Read().Wall()
	list := make([]views.WorkerInfo, 0, len(entries))
	for _, e := range entries {
		info := views.InfoOf(e, now)
		if sample, known := asked[e.Address()]; known && e.Live && !self.Holds(e) {
			info.SetOffset(sample)
		}
		list = append(list, info)
	}
	return list, nil
}

// clock returns the last comparison of our clock with the peers'.
func (l *life) clock() views.ClockInfo {
	samples, verdict, checked := l.worker.Peers()
	for i := range samples {
		if s := &samples[i]; s.Err != nil {
			s.Err = peerclock.Class(s.Err)
		}
	}
	return views.ClockInfo{Checked: checked, Verdict: verdict, Threshold: l.worker.Threshold(), Samples: samples}
}
