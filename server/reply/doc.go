// Package reply has the answers that are errors, with their codes, and how every answer is written: which
// type it has, and its JSON.
package reply
