package alarm

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// longest is how much of a text goes into an alarm, in bytes: an environment
// variable has a limit, and nobody reads more.
const longest = 4 << 10

// Field is something that differs from alarm to alarm.
type Field struct {
	Key     string
	Value   any // nil is left out
	private bool
}

// F returns a Field: numbers and truth values as such, all else as text.
func F(key string, value any) Field { return Field{Key: key, Value: value} }

// Err returns the Field of an error; nil is left out.
func Err(err error) Field { return Field{Key: "error", Value: err} }

// Private is Err of an error that Recent doesn't show, in whatever words.
func Private(err error) Field { return Field{Key: "error", Value: err, private: true} }

// settle makes the value one that doesn't change any more: it is written later,
// by another goroutine.
func (f Field) settle() Field {
	switch v := f.Value.(type) {
	case nil:
	case bool, float64:
	case string:
		f.Value = clip(v)
	case int:
		f.Value = int64(v)
	case int32:
		f.Value = int64(v)
	case uint32:
		f.Value = int64(v)
	case int64, uint64:
	case time.Duration:
		f.Value = v.String()
	case error:
		f.Value = clip(v.Error())
	default:
		f.Value = clip(fmt.Sprint(v))
	}
	return f
}

// log adds the field to a log line.
func (f Field) log(e *zerolog.Event) { e.Interface(f.Key, f.Value) }

// clip returns the beginning of a text that is too long.
func clip(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// notice is an alarm as it is delivered.
type notice struct {
	Code    Code
	Message string
	Node    string
	Time    string // RFC 3339, UTC, with milliseconds
	Version string
	Folded  int // alarms of this code since the last one told, this one included; 0: none was folded

	fields []Field // settled, none nil
	body   []byte  // its JSON, with a line break
}

func newNotice(cfg Config, code Code, msg string, fields []Field) notice {
	n := notice{Code: code, Message: clip(msg), Node: cfg.Node, Time: cfg.Clock.Read().Wall().String(), Version: cfg.Version}
	n.fields = make([]Field, 0, len(fields))
	for _, f := range fields {
		if f = f.settle(); f.Value != nil {
			n.fields = append(n.fields, f)
		}
	}
	return n
}

// encode writes the notice as JSON, once for all outlets.
func (n *notice) encode() {
	fields := make(map[string]any, len(n.fields))
	for _, f := range n.fields {
		fields[f.Key] = exact(f.Value)
	}
	body, err := json.Marshal(struct {
		Code    Code           `json:"code"`
		Message string         `json:"message"`
		Node    string         `json:"node"`
		Time    string         `json:"time"`
		Version string         `json:"version"`
		Fields  map[string]any `json:"fields"`
		Folded  int            `json:"folded"`
	}{n.Code, n.Message, n.Node, n.Time, n.Version, fields, n.Folded})
	if err != nil { // a number that JSON doesn't have (NaN) is all that can be
		body = []byte(`{"code":` + strconv.Quote(string(n.Code)) + `,"message":"the alarm could not be encoded; see the log","fields":{},"folded":` + strconv.Itoa(n.Folded) + `}`)
	}
	n.body = append(body, '\n')
}

// exact returns integers beyond 2^53, where JavaScript's numbers end, as text.
func exact(v any) any {
	const end = 1 << 53
	switch n := v.(type) {
	case int64:
		if n > end || n < -end {
			return strconv.FormatInt(n, 10)
		}
	case uint64:
		if n > end {
			return strconv.FormatUint(n, 10)
		}
	}
	return v
}
