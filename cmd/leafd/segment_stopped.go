package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
)

// urlsFlag adds --url, which may be given for several daemons.
func urlsFlag(fs *pflag.FlagSet, to *[]string) {
	fs.StringArrayVar(to, "url", nil, "a running daemon, http://host:port, https://host:port or unix:/path; may be given several times")
}

// jsonStop is a stop of a tag on one daemon, for programs.
type jsonStop struct {
	Daemon string `json:"daemon"`
	Reason string `json:"reason,omitempty"`
	Since  string `json:"since"` // RFC 3339, UTC
}

// stoppedAt asks daemons which tags are stopped there. What the others say is
// returned with the errors of those that did not answer.
func stoppedAt(ctx context.Context, daemons []*remoteDaemon) (map[string][]jsonStop, error) {
	all := make(map[string][]jsonStop)
	var failed []error
	for _, d := range daemons {
		// Of the tags themselves one is enough: the stopped are beside them.
		text, err := d.ask(ctx, http.MethodGet, "/api/segments?limit=1", nil)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: which tags are stopped is not known: %w", d.named, err))
			continue
		}
		var answer struct {
			Stopped []struct {
				Tag    string       `json:"tag"`
				Reason string       `json:"reason"`
				Since  clock.Millis `json:"since"`
			} `json:"stopped"`
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			failed = append(failed, fmt.Errorf("%s: the answer is not leafd's, check --url: %w", d.named, err))
			continue
		}
		for _, s := range answer.Stopped {
			all[s.Tag] = append(all[s.Tag], jsonStop{Daemon: d.named, Reason: s.Reason, Since: s.Since.String()})
		}
	}
	return all, errors.Join(failed...)
}

// stopWords is where a tag is stopped, for people.
func stopWords(list []jsonStop) string {
	var words []string
	for _, s := range list {
		word := s.Daemon
		if s.Reason != "" {
			word += " (" + s.Reason + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
