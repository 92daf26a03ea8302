package zkreg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
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
	IP        string       `json:"ip"`
	Port      string       `json:"port"`
	Timestamp clock.Millis `json:"timestamp"`
	Ceiling   clock.Millis `json:"ceiling"`
	// Floor and Limit are the piece; no limit before there were pieces.
	Floor    clock.Millis      `json:"floor"`
	Limit    clock.Millis      `json:"limit,omitempty"`
	Instance string            `json:"instance,omitempty"`
	Owner    string            `json:"owner"`
	State    worker.EntryState `json:"state"`
}

// javaData is a Java Leaf's payload, all of it.
type javaData struct {
	IP        string       `json:"ip"`
	Port      string       `json:"port"`
	Timestamp clock.Millis `json:"timestamp"`
}

// javaReads tells that a Java Leaf can read an entry: it refuses fields that it doesn't know.
func javaReads(payload []byte) bool {
	reader := json.NewDecoder(bytes.NewReader(payload))
	reader.DisallowUnknownFields()
	return reader.Decode(&javaData{}) == nil
}

// temporaryData is the payload of an ephemeral node.
type temporaryData struct {
	Owner    string `json:"owner"`
	Instance string `json:"instance,omitempty"`
	Address  string `json:"address"` // ip:port
	Node     string `json:"node"`
	WorkerID int64  `json:"worker_id"` // -1 while it is claimed
	// SessionMS is the session timeout: how long the node can outlive its process.
	SessionMS int64 `json:"session_ms"`
}

// rootData names a cluster, what its IDs look like, and where its entries are. It is
// written when the cluster is made, and when its entries were lost.
type rootData struct {
	Cluster string       `json:"cluster"`
	Epoch   clock.Millis `json:"epoch"`
	Layout  string       `json:"layout"`
	// Forever is the parent of the entries; empty where a former release made the root.
	Forever string `json:"forever"`
	// ParentCzxid is the czxid of Forever: where that has another one, or is absent, the
	// entries were lost. 0 until somebody has recorded it, and in the root of a former
	// release; with Losses, what was lost is being made again.
	ParentCzxid int64 `json:"parent_czxid"`
	// LongestLease is in milliseconds.
	LongestLease int64        `json:"longest_lease"`
	Losses       int64        `json:"losses"` // how often a loss was noted
	Floor        clock.Millis `json:"floor"`

	// unknown are the fields of later releases: they stay when the root is rewritten.
	unknown map[string]json.RawMessage
}

// highData is a tag's high mark.
type highData struct {
	High int64  `json:"high"`
	By   string `json:"by"` // which fetch of which life wrote it
}

// highRoot is the data of the parent of all high marks.
type highRoot struct {
	// Settled: whoever knew high marks of before it was made has put them back.
	Settled bool `json:"settled"`
}

// leastLease is what LongestLease begins with, and never falls below.
const leastLease = 168 * time.Hour

// plainRoot is rootData without its methods.
type plainRoot rootData

// MarshalJSON implements json.Marshaler: the fields that we know, then the others.
func (d rootData) MarshalJSON() ([]byte, error) {
	known, err := json.Marshal(plainRoot(d))
	if err != nil || len(d.unknown) == 0 {
		return known, err
	}
	others, err := json.Marshal(d.unknown)
	if err != nil {
		return nil, err
	}
	return append(append(known[:len(known)-1], ','), others[1:]...), nil
}

// UnmarshalJSON implements json.Unmarshaler. Fields that data doesn't have keep their
// values.
func (d *rootData) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, (*plainRoot)(d)); err != nil {
		return err
	}
	var all, known map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &all), json.Unmarshal(encode(plainRoot{}), &known)); err != nil {
		return err
	}
	for name := range known {
		maps.DeleteFunc(all, func(field string, _ json.RawMessage) bool { return strings.EqualFold(field, name) })
	}
	d.unknown = all
	return nil
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
		panic(fmt.Sprintf("payload %T: %v", v, err))
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
	case d.Floor < 0 || d.Limit < d.Floor || d.Limit > latest:
		return entryData{}, damaged(p, data, fmt.Errorf("floor %d and limit %d: want ms since 1970, the limit not below the floor, before the year 10000", d.Floor, d.Limit))
	case d.Instance == "" && d.Limit > 0 && d.State != worker.StateReleased:
		return entryData{}, damaged(p, data, errors.New("a limit and no instance: nobody can tell whose it is"))
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

// decodeHigh reads the high mark of a tag at p. segment.ErrGuardDamaged.
func decodeHigh(p string, data []byte) (highData, error) {
	var wire struct {
		High *int64 `json:"high"`
		By   string `json:"by"`
	}
	err := decode(data, &wire)
	if err == nil && (wire.High == nil || *wire.High < 0) {
		err = errors.New("high is missing or negative")
	}
	if err != nil {
		return highData{}, fmt.Errorf(`%w: znode %s holds %.200q: %w; set it to {"high":N,"by":""}, with N not below max_id and the tag's highest "high" of all daemons' /api/segments`,
			segment.ErrGuardDamaged, p, data, err)
	}
	return highData{*wire.High, wire.By}, nil
}

// decodeHighRoot reads the data of the parent of all high marks at p. segment.ErrGuardDamaged.
func decodeHighRoot(p string, data []byte) (highRoot, error) {
	var d highRoot
	if err := decode(data, &d); err != nil {
		return highRoot{}, fmt.Errorf(`%w: znode %s holds %.200q: %w; set it to {"settled":false}`, segment.ErrGuardDamaged, p, data, err)
	}
	return d, nil
}

// decodeRoot reads the data of the root at p. worker.ErrDamaged.
func decodeRoot(p string, data []byte) (rootData, error) {
	d := rootData{LongestLease: leastLease.Milliseconds()}
	if err := decode(data, &d); err != nil {
		return rootData{}, damaged(p, data, err)
	}
	switch {
	case d.Cluster == "" || d.Layout == "":
		return rootData{}, damaged(p, data, errors.New("no cluster or no layout: want a root that leafd made, or a path of its own"))
	case d.Forever != "" && checkPath(d.Forever) != nil:
		return rootData{}, damaged(p, data, fmt.Errorf("forever: %w", checkPath(d.Forever)))
	case d.ParentCzxid < 0 || d.ParentCzxid > 0 && d.Forever == "":
		return rootData{}, damaged(p, data, fmt.Errorf("parent_czxid %d of forever %q: want one of a path, not negative", d.ParentCzxid, d.Forever))
	case d.LongestLease < leastLease.Milliseconds() || d.LongestLease > int64(latest):
		return rootData{}, damaged(p, data, fmt.Errorf("longest_lease %d: want ms, %d at least", d.LongestLease, leastLease.Milliseconds()))
	case d.Losses < 0:
		return rootData{}, damaged(p, data, fmt.Errorf("losses %d: want 0 or more", d.Losses))
	case d.Floor < 0 || d.Floor > latest:
		return rootData{}, damaged(p, data, fmt.Errorf("floor %d: want ms since 1970, before the year 10000", d.Floor))
	}
	return d, nil
}

// differs says in what d is for other daemons than those of p and layout; empty for
// nothing. IDs of two layouts can be equal whatever their times, and two parents of the
// entries give every worker ID twice.
func (d rootData) differs(p paths, layout snowflake.Layout) string {
	switch {
	case d.Layout != layout.String() || d.Epoch != layout.Epoch:
		return fmt.Sprintf("the ZooKeeper root %s is for layout %s with epoch %d, and the settings have %s with epoch %d", p.root, d.Layout, d.Epoch, layout, layout.Epoch)
	case d.Forever != "" && d.Forever != p.forever:
		return fmt.Sprintf("the ZooKeeper root %s has its entries under %s, and --zk-forever-path is %s", p.root, d.Forever, p.forever)
	default:
		return ""
	}
}

// check returns worker.ErrForeign for a root of other daemons than those of p and layout, or
// of another cluster than the one that the caller knows, if any.
func (d rootData) check(p paths, layout snowflake.Layout, cluster string) error {
	if cluster != "" && cluster != d.Cluster {
		return fmt.Errorf("%w: worker IDs of cluster %s are recorded here, and the ZooKeeper root %s is of another cluster, %s: have the root of the former, or start with another data directory",
			worker.ErrForeign, cluster, p.root, d.Cluster)
	}
	if differs := d.differs(p, layout); differs != "" {
		return fmt.Errorf("%w: %s: start with the root's, or take another root", worker.ErrForeign, differs)
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
