package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// MarshalJSON implements json.Marshaler.
func (r Run) MarshalJSON() ([]byte, error) {
	if r.N == 1 {
		return strconv.AppendInt(nil, r.Lo, 10), nil
	}
	b := strconv.AppendInt([]byte{'['}, r.Lo, 10)
	b = strconv.AppendInt(append(b, ','), r.N, 10)
	return append(b, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Run) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '[' {
		r.N = 1
		return json.Unmarshal(b, &r.Lo)
	}
	var pair [2]int64
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	if pair[1] < 1 {
		return fmt.Errorf("history: a run of %d IDs", pair[1])
	}
	r.Lo, r.N = pair[0], pair[1]
	return nil
}

// Writer writes a history. It is for one goroutine at a time.
type Writer struct {
	file *os.File
	zip  *gzip.Writer
	buf  *bufio.Writer
	enc  *json.Encoder
}

// Create makes the file at path, empty.
func Create(path string) (*Writer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	zip, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("history: %w", err), file.Close())
	}
	w := &Writer{file: file, zip: zip, buf: bufio.NewWriterSize(zip, 1<<16)}
	w.enc = json.NewEncoder(w.buf)
	return w, nil
}

// Write appends r.
func (w *Writer) Write(r *Record) error {
	if err := w.enc.Encode(r); err != nil {
		return fmt.Errorf("history: write %s: %w", w.file.Name(), err)
	}
	return nil
}

// Close completes the file.
func (w *Writer) Close() error {
	if err := errors.Join(w.buf.Flush(), w.zip.Close(), w.file.Close()); err != nil {
		return fmt.Errorf("history: close %s: %w", w.file.Name(), err)
	}
	return nil
}

// Read calls fn with each record of the file at path; what fn keeps is its own. A
// file that ends in the middle, as that of a run which was killed, is an error
// after its last whole record. fn's error ends the reading.
func Read(path string, fn func(r *Record) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	zip, err := gzip.NewReader(bufio.NewReaderSize(file, 1<<16))
	if err != nil {
		return fmt.Errorf("history: %s is no history: %w", path, err)
	}
	dec := json.NewDecoder(bufio.NewReaderSize(zip, 1<<16))
	for line := 1; ; line++ {
		r := new(Record)
		err := dec.Decode(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("history: %s, record %d: %w", path, line, err)
		}
		if err := fn(r); err != nil {
			return err
		}
	}
}
