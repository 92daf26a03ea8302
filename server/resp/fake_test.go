package resp

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a source that counts up, and a connection with a client that sends what it was made
// with.
type fake struct {
	turns int
	io.Reader
	written bytes.Buffer
	writes  int
	last    int64
	errors  map[string]int
	held    bool // a batch was not released
}

var errFake = errors.New("no such tag")

func newFake(in io.Reader) *fake { return &fake{Reader: in, errors: map[string]int{}} }

func (f *fake) Write(p []byte) (int, error) {
	f.writes++
	return f.written.Write(p)
}

func (f *fake) Next(_ Mode, key []byte, most int) (first int64, n int, err error) {
	if string(key) == "none" {
		return 0, 0, errFake
	}
	n = min(most, 5)
	first = f.last + 1
	f.last += int64(n)
	return first, n, nil
}

func (f *fake) Batch(_ Mode, as Form, _, count, pending []byte) ([]byte, bool, error) {
	n, used := parseLength(append(bytes.Clone(count), "\r\n"...))
	if used <= 0 || n < 1 || n > 10_000 {
		return nil, false, errFake
	}
	if as == Ranges {
		f.last += int64(n)
		pending = AppendArray(AppendArray(pending, 1), 2)
		return AppendIntText(AppendIntText(pending, f.last-int64(n)+1), f.last), false, nil
	}
	pending = AppendArray(pending, n)
	for range n {
		f.last++
		pending = AppendInt(pending, f.last)
	}
	f.held = n > 100
	return pending, f.held, nil
}

func (f *fake) Turn() { f.turns++ }

func (f *fake) Release() { f.held = false }

func (f *fake) Decode(id []byte) ([]Field, error) {
	if len(id) == 0 || id[0] < '0' || id[0] > '9' {
		return nil, errFake
	}
	return []Field{{"id", 5, ""}, {"timestamp", 1, ""}, {"time", 0, "t"}, {"worker", 2, ""}, {"sequence", 3, ""}, {"layout", 0, "41+10+12"}}, nil
}

func (f *fake) Authorize(_, _ []byte) (ok, open bool) { return false, true }

func (f *fake) Forget() {}

func (f *fake) Info() []byte { return []byte("public") }

func (f *fake) Answer(err error) (code, message string) { return "UNKNOWN_KEY", err.Error() }

func (f *fake) Refused(code string) { f.errors[code]++ }

// answers returns what in is answered with.
func answers(in io.Reader) *fake {
	f := newFake(in)
	_ = New(f, f).Serve() // io.EOF
	return f
}
