// Package views serves all but IDs: the dashboard and what it shows, lists, health, metrics, changes of tags,
// and what daemons ask each other.
package views
