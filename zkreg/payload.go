package zkreg

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// StateDamaged is the state that Directory.Entries gives an entry whose payload
// can't be read. It is never written.
const StateDamaged worker.EntryState = "damaged"

// javaLead is how far IDs may have been issued past the timestamp of an entry
// that records no ceiling. The Java Leaf reports every 3 s and may miss one.
const javaLead = 6 * time.Second

// latest is the end of the year 9999: what lies beyond is no time, but damage.
const latest clock.Millis = 253402300799999

// entryData is the payload of an entry: the Java Leaf's three fields in its
// spelling and types (port is a string there), and ours.
type entryData struct {
	IP        string            `json:"ip"`
	Port      string            `json:"port"`
	Timestamp clock.Millis      `json:"timestamp"`
	Ceiling   clock.Millis      `json:"ceiling"`
	Owner     string            `json:"owner"`
	State     worker.EntryState `json:"state"`
	// ReclaimAfter is in milliseconds; 0: never reclaimed.
	ReclaimAfter int64 `json:"reclaim_after,omitempty"`
	// Gap tells of a claim whose worker ID is none of ZooKeeper's counter.
	Gap bool `json:"gap,omitempty"`
}

// temporaryData is the payload of an ephemeral node.
type temporaryData struct {
	Owner    string `json:"owner"`
	Address  string `json:"address"` // ip:port
	Node     string `json:"node"`
	WorkerID int64  `json:"worker_id"` // -1 while it is claimed
	// SessionMS is the session timeout: how long the node can outlive its process.
	SessionMS int64 `json:"session_ms"`
}

// rootData names a cluster and what its IDs look like. It is written once.
type rootData struct {
	Cluster string       `json:"cluster"`
	Epoch   clock.Millis `json:"epoch"`
	Layout  string       `json:"layout"`
}

// address returns ip:port, or "" when there is none.
func (d entryData) address() string {
	if d.IP == "" && d.Port == "" {
		return ""
	}
	return net.JoinHostPort(d.IP, d.Port)
}

// encode can't fail: none of the payloads holds anything that JSON can't.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("zkreg: payload %T: %v", v, err))
	}
	return data
}

// damaged says that the data of p can't be trusted. It is never taken for
// "nothing recorded": that would be to issue again what was issued before.
func damaged(p string, data []byte, why error) error {
	return fmt.Errorf("%w: znode %s holds %.200q: %w; fix it, or have its worker ID given up with all that was issued under it", worker.ErrDamaged, p, data, why)
}

// decodeEntry reads the payload of the entry at p, ours or a Java Leaf's.
// Fields it doesn't know are left to those who do. worker.ErrDamaged.
func decodeEntry(p string, data []byte) (entryData, error) {
	var wire struct {
		entryData

		Timestamp *clock.Millis `json:"timestamp"`
		Ceiling   *clock.Millis `json:"ceiling"`
	}
	if err := decode(data, &wire); err != nil {
		return entryData{}, damaged(p, data, err)
	}
	d := wire.entryData
	if wire.Timestamp == nil {
		return entryData{}, damaged(p, data, errors.New("no timestamp"))
	}
	d.Timestamp = *wire.Timestamp
	d.Ceiling = d.Timestamp.Add(javaLead)
	if wire.Ceiling != nil {
		d.Ceiling = *wire.Ceiling
	}
	if d.State == "" {
		d.State = worker.StateActive
	}
	switch {
	case d.Timestamp < 0 || d.Timestamp > latest:
		return entryData{}, damaged(p, data, fmt.Errorf("timestamp %d: want ms since 1970, before the year 10000", d.Timestamp))
	case wire.Ceiling != nil && (d.Ceiling < 0 || d.Ceiling > latest):
		return entryData{}, damaged(p, data, fmt.Errorf("ceiling %d: want ms since 1970, before the year 10000", d.Ceiling))
	case d.State != worker.StateActive && d.State != worker.StateReleased && d.State != worker.StateClaiming:
		return entryData{}, damaged(p, data, fmt.Errorf("state %q: want active, released or claiming", d.State))
	case d.ReclaimAfter < 0 || d.ReclaimAfter > int64(latest):
		return entryData{}, damaged(p, data, fmt.Errorf("reclaim_after %d: want ms, not negative", d.ReclaimAfter))
	}
	return d, nil
}

// decodeTemporary reads the payload of the ephemeral node at p. worker.ErrDamaged.
func decodeTemporary(p string, data []byte) (temporaryData, error) {
	var d temporaryData
	if err := decode(data, &d); err != nil {
		return temporaryData{}, damaged(p, data, err)
	}
	if d.SessionMS < 0 || d.SessionMS > int64(time.Hour/time.Millisecond) {
		return temporaryData{}, damaged(p, data, fmt.Errorf("session_ms %d: want 0 to an hour", d.SessionMS))
	}
	return d, nil
}

// decodeRoot reads the data of the root at p. worker.ErrDamaged.
func decodeRoot(p string, data []byte) (rootData, error) {
	var d rootData
	if err := decode(data, &d); err != nil {
		return rootData{}, damaged(p, data, err)
	}
	if d.Cluster == "" || d.Layout == "" {
		return rootData{}, damaged(p, data, errors.New("no cluster or no layout: want a root that leafd made, or a path of its own"))
	}
	return d, nil
}

// check returns worker.ErrForeign for a root of other IDs than layout's: IDs of
// two layouts can be equal whatever their times.
func (d rootData) check(p string, layout snowflake.Layout) error {
	if d.Layout != layout.String() || d.Epoch != layout.Epoch {
		return fmt.Errorf("%w: the ZooKeeper root %s is for layout %s with epoch %d, and this start has %s with epoch %d: start with the root's, or take another root",
			worker.ErrForeign, p, d.Layout, d.Epoch, layout, layout.Epoch)
	}
	return nil
}

// decode is json.Unmarshal for what must be an object.
func decode(data []byte, v any) error {
	if len(data) == 0 {
		return errors.New("it is empty")
	}
	if string(data) == "null" {
		return errors.New("it is null")
	}
	return json.Unmarshal(data, v)
}
