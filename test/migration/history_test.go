//go:build migration

package migration_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a session did to the tree, as ZooKeeper's transaction log has it.
type (
	transaction struct {
		session, zxid int64
		at            time.Time // by ZooKeeper's clock
		steps         []step    // more than one: of one transaction; none: what is of no interest
	}
	step struct {
		operation int32
		path      string
		data      string
		timeout   time.Duration // of opSession
	}
)

// The log's numbers for operations (org.apache.zookeeper.ZooDefs.OpCode).
const (
	opCreate, opDelete, opSet, opMulti, opCreate2, opSession int32 = 1, 2, 5, 14, 15, -10
)

// history reads the transaction logs below a server's dataLogDir, after the server's end.
func history(dir string) ([]transaction, error) {
	logs, err := filepath.Glob(dir + "/version-2/log.*")
	if err != nil {
		return nil, err
	}
	var all []transaction
	for _, path := range logs {
		file, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := reader{rest: file}
		if magic := r.take(16); string(magic[:4]) != "ZKLG" {
			return nil, fmt.Errorf("%s is no transaction log", path)
		}
		for r.err == nil && len(r.rest) > 0 {
			r.take(8) // checksum
			record := r.bytes()
			if len(record) == 0 { // preallocated
				break
			}
			if end := r.take(1); end[0] != 'B' {
				return nil, fmt.Errorf("%s: a record that does not end", path)
			}
			body := reader{rest: record}
			tx := transaction{session: body.long()}
			body.int() // the session's number of the request
			tx.zxid, tx.at = body.long(), time.UnixMilli(body.long())
			tx.steps = body.steps(body.int())
			if body.err != nil {
				return nil, fmt.Errorf("%s, zxid %x: %w", path, tx.zxid, body.err)
			}
			all = append(all, tx)
		}
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", path, r.err)
		}
	}
	slices.SortFunc(all, func(a, b transaction) int { return int(a.zxid - b.zxid) })
	return all, nil
}

// reader reads ZooKeeper's encoding (jute); after an error it reads zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.err = errors.Join(r.err, io.ErrUnexpectedEOF)
		return make([]byte, max(0, min(n, 16)))
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) int() int32    { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) long() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) bytes() []byte { return r.take(max(0, int(r.int()))) } // -1: none

func (r *reader) steps(operation int32) []step {
	s := step{operation: operation}
	switch operation {
	case opCreate, opCreate2, opSet:
		s.path, s.data = string(r.bytes()), string(r.bytes())
		if operation == opCreate2 {
			s.operation = opCreate
		}
	case opDelete:
		s.path = string(r.bytes())
	case opSession:
		s.timeout = time.Duration(r.int()) * time.Millisecond
	case opMulti:
		var all []step
		for range r.int() {
			operation := r.int()
			one := reader{rest: r.bytes()}
			all = append(all, one.steps(operation)...)
			r.err = errors.Join(r.err, one.err)
		}
		return all
	default: // an error, a check, the end of a session
		return nil
	}
	return []step{s}
}

// entry is what the tests look at of leafd's entries, and a Java Leaf's.
type entry struct {
	IP        string `json:"ip"`
	Port      string `json:"port"`
	Timestamp int64  `json:"timestamp"`
	Floor     int64  `json:"floor"`
	Limit     int64  `json:"limit"`
	Instance  string `json:"instance"`
	State     string `json:"state"`
}

// Sessions of a Java Leaf and of leafd are told apart by the time-out that they ask for.
const (
	javaSession  = 6 * time.Second
	leafdSession = 7 * time.Second
)

// auditor goes through the history of a shared tree. It holds that
//
//	A1  a Java Leaf's entry is written by its own sessions, which write nothing else, and in its own three fields;
//	A2  it goes only where the operator had it released: with the create of worker-N, released, in the same transaction,
//	    with a limit beyond its last report and the present, by twice the clock threshold;
//	A3  no worker ID has two paths at a time;
//	A4  leafd takes sequential worker IDs, released ones and claims, under which nothing was issued, and 0 never;
//	A5  a new holder of a worker ID begins where the one before ended, or later; no entry of leafd's goes but a claim of a number that is
//	    none of leafd's, as 0.
type auditor struct {
	forever   string
	threshold time.Duration
	released  map[int64]bool // Java Leafs' worker IDs that the operator had released

	timeouts map[int64]time.Duration // of sessions
	writes   map[int64]string        // the one entry that a session of a Java Leaf's writes
	entries  map[string]string       // that stand, by name
	creates  int64                   // in the tree so far: the next sequential number
	wrong    []error

	javaWrites, leafdWrites, takes int // what it saw
}

func (a *auditor) audit(all []transaction) error {
	a.timeouts, a.writes, a.entries = map[int64]time.Duration{}, map[int64]string{}, map[string]string{}
	for _, tx := range all {
		before := len(a.wrong)
		a.transaction(tx)
		for i, err := range a.wrong[before:] {
			a.wrong[before+i] = fmt.Errorf("zxid %x at %s, %d steps of a session of %s: %w", tx.zxid, tx.at.Format(time.StampMilli), len(tx.steps), a.timeouts[tx.session], err)
		}
	}
	return errors.Join(a.wrong...)
}

func (a *auditor) fail(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Errorf(format, args...))
}

func (a *auditor) transaction(tx transaction) {
	for _, s := range tx.steps {
		if moves := func(each step) bool { return each.path == s.path && each.operation != s.operation }; len(tx.steps) > 1 && slices.ContainsFunc(tx.steps, moves) {
			if s.operation == opCreate { // made and deleted at once, for the counter
				a.creates++
			}
			continue
		}
		if s.operation == opSession {
			a.timeouts[tx.session] = s.timeout
			continue
		}
		name, inside := strings.CutPrefix(s.path, a.forever+"/")
		own := a.timeouts[tx.session] == javaSession
		if own && (!inside || strings.HasPrefix(name, "worker-")) {
			a.fail("A1: a Java Leaf writes %s", s.path)
		}
		if !inside {
			continue
		}
		if s.operation == opCreate && a.sameID(name) != "" {
			a.fail("A3: %s is made beside %s", name, a.sameID(name))
		}
		if strings.HasPrefix(name, "worker-") {
			a.leafds(tx, s, name)
		} else {
			a.javas(tx, s, name, own)
		}
		switch s.operation {
		case opCreate:
			a.creates++
			a.entries[name] = s.data
		case opSet:
			a.entries[name] = s.data
		case opDelete:
			delete(a.entries, name)
		}
	}
}

// number is the worker ID of an entry's name.
func number(name string) int64 {
	_, digits, _ := strings.Cut(name, "-")
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return id
}

// sameID is the name of an entry that stands for the same worker ID.
func (a *auditor) sameID(name string) string {
	for each := range a.entries {
		if number(each) == number(name) {
			return each
		}
	}
	return ""
}

func (a *auditor) javas(tx transaction, s step, name string, own bool) {
	address, _, _ := strings.Cut(name, "-")
	switch {
	case s.operation == opDelete:
		id := number(name)
		with := slices.IndexFunc(tx.steps, func(s step) bool {
			return s.operation == opCreate && s.path == fmt.Sprintf("%s/worker-%010d", a.forever, id)
		})
		if !a.released[id] || with < 0 {
			a.fail("A2: the entry %s is gone, for nothing", name)
			return
		}
		var was, is entry
		if err := errors.Join(json.Unmarshal([]byte(a.entries[name]), &was), json.Unmarshal([]byte(tx.steps[with].data), &is)); err != nil {
			a.fail("A2: %w", err)
		}
		// The transaction is later than ZooKeeper's now that it was made with.
		least := max(was.Timestamp, tx.at.Add(-time.Second).UnixMilli()) + 2*a.threshold.Milliseconds()
		if is.State != "released" || is.Limit < least {
			a.fail("A2: %s becomes %s, limit below %d", name, tx.steps[with].data, least)
		}
	case !own:
		a.fail("A1: %s is written by a stranger: %s", name, s.data)
	default:
		a.javaWrites++
		if a.writes[tx.session] == "" {
			a.writes[tx.session] = name
		}
		var e entry
		err := json.Unmarshal([]byte(s.data), &e)
		if err != nil || a.writes[tx.session] != name || s.data != fmt.Sprintf(`{"ip":%q,"port":%q,"timestamp":%d}`, e.IP, e.Port, e.Timestamp) || e.IP+":"+e.Port != address {
			a.fail("A1: %s is written by the session of %s: %s", name, a.writes[tx.session], s.data)
		}
	}
}

func (a *auditor) leafds(tx transaction, s step, name string) {
	a.leafdWrites++
	id := number(name)
	if s.operation == opDelete {
		var was entry
		if err := json.Unmarshal([]byte(a.entries[name]), &was); err != nil || id != 0 && id <= 1023 || was.State != "claiming" || was.Floor != was.Limit {
			a.fail("A5: %s is gone, and was %s", name, a.entries[name])
		}
		return
	}
	var is entry
	if err := json.Unmarshal([]byte(s.data), &is); err != nil {
		a.fail("%s: %w", name, err)
	}
	if id == 0 && is.State == "active" {
		a.fail("A4: 0 is in use: %s", s.data)
	}
	if s.operation == opCreate {
		forced := a.released[id] && slices.ContainsFunc(tx.steps, func(s step) bool {
			return s.operation == opDelete && number(strings.TrimPrefix(s.path, a.forever+"/")) == id
		})
		if !forced && id != a.creates {
			a.fail("A4: %s is taken, and %d is next", name, a.creates)
		}
		a.takes++
		return
	}
	var was entry
	if err := json.Unmarshal([]byte(a.entries[name]), &was); err != nil {
		a.fail("%s: %w", name, err)
	}
	if was.Instance != is.Instance {
		a.takes++
		if was.State != "released" && was.State != "claiming" {
			a.fail("A4: %s is taken, and was %s", name, a.entries[name])
		}
		if is.Floor < was.Limit {
			a.fail("A5: %s is %s after %s", name, s.data, a.entries[name])
		}
	}
}
