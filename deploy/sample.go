// Package deploy has the sample of the settings, which the program prints and explains its flags by.
package deploy

import _ "embed"

// Sample is leafd.yaml: every setting at its default, under a comment, of which the help has the first line.
//
//go:embed leafd.yaml
var Sample string
