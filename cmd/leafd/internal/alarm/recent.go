package alarm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Remembered is how long Recent returns an alarm after it is over.
const Remembered = time.Hour

// Recent is an alarm as it may be shown to everybody.
type Recent struct {
	Info
	Message string
	Cause   string        // what of its fields may be shown, in words; empty: nothing
	Count   int           // how many times it was raised since it began
	Age     time.Duration // since it was first raised
	Lasts   bool
	Over    time.Duration // since it ended; 0 while it lasts
}

// occurrence is what was raised of one code since it began, in monotonic times.
type occurrence struct {
	count          int // 0: never raised
	first, ended   time.Duration
	over           bool
	message, cause string // of the last time, and of the last that had one
}

// happens notes that n was raised. An alarm that is over begins again.
func (o *occurrence) happens(n notice, cause string, now time.Duration) {
	if o.count == 0 || o.over {
		*o = occurrence{first: now}
	}
	o.count++
	o.message, o.cause = n.Message, cmp.Or(cause, o.cause)
	if isMoment(n.Code) {
		o.over, o.ended = true, now
	}
}

// isMoment tells that an alarm of the code has no end that anybody could tell of.
func isMoment(code Code) bool {
	switch code { //nolint:exhaustive // the others end by Over
	case RecordSetAside, WorkerIDLost, RegistryDataLost:
		return true
	}
	return false
}

// Over tells that what raised the alarms of codes is over. It changes only what Recent
// returns.
func (a *Alarms) Over(codes ...Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, code := range codes {
		if s := a.codes[code]; s != nil && !s.over {
			s.over, s.ended = true, a.cfg.Clock.Mono()
		}
	}
}

// Recent returns the last alarm of each code that lasts, or is over for less than
// Remembered: those that last first, each kind with the newest first.
func (a *Alarms) Recent() []Recent {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Clock.Mono()
	var all []Recent
	for _, info := range Codes() {
		s := a.codes[info.Code]
		if s == nil || s.over && now-s.ended >= Remembered {
			continue
		}
		r := Recent{Info: info, Message: s.message, Cause: s.cause, Count: s.count, Age: now - s.first, Lasts: !s.over}
		if s.over {
			r.Over = now - s.ended
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Recent) int {
		if a.Lasts != b.Lasts {
			if a.Lasts {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Over, b.Over), cmp.Compare(a.Age, b.Age))
	})
	return all
}

// causeIn puts the fields into words for everybody: errors as Config.Cause has them.
func (a *Alarms) causeIn(fields []Field) string {
	var parts []string
	why := ""
	for _, f := range fields {
		switch v := f.Value.(type) {
		case nil:
		case error:
			if a.cfg.Cause != nil && !f.private {
				why = a.cfg.Cause(v)
			}
		default:
			parts = append(parts, strings.ReplaceAll(f.Key, "_", " ")+" "+fmt.Sprint(settle(f.Value)))
		}
	}
	text := strings.Join(parts, ", ")
	if text != "" && why != "" {
		text += ": "
	}
	return text + why
}
