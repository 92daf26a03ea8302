package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lines is our output: several goroutines print whole lines to it.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) write(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text) // a closed terminal is no reason to leave processes behind
}

func (l *lines) say(format string, args ...any) {
	l.write("cluster: " + fmt.Sprintf(format, args...) + "\n")
}

// named prints the lines that are written to it with a name before them.
type named struct {
	name string
	out  *lines
	rest []byte // of a line that has not ended yet
}

// Write implements io.Writer.
func (n *named) Write(p []byte) (int, error) {
	n.rest = append(n.rest, p...)
	for {
		line, after, ended := bytes.Cut(n.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		n.out.write(n.name + " | " + string(line) + "\n")
		n.rest = after
	}
}
